#!/usr/bin/env python3
"""What a node costs: omg against a floor in C, make and ninja, in one interleaved run.

    benches/compare.py [--rounds 5] [--sizes 1000,10000] [--parallel 2,8] [--only nodes,chain,dense] [--folder DIR]

Prints ratios of wall and of CPU time (user and system, of everything that was started) to the floor `journal`
of the same round: `sh -c`, a process group of its own, output captured to a file a node, two journal lines a
node, one fdatasync for each wake-up (benches/floor/floor.c). Contenders take turns, rounds turn the order
round, and medians are compared: ratios hold from machine to machine, seconds do not.

Works in memory (/dev/shm), where a sync costs nothing and only CPU is compared; `--folder` names a place on a disk,
where mostly that disk's way with syncs and new files is measured.

OMG_BIN is the program, built with --release; where it is not set, this builds it. make and ninja take part where
they are installed. Needs a C compiler and Linux.
"""

import argparse
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_CHILD_SUBREAPER = 36


def measure(argv, environment):
    """Runs a command to the end of everything it started. Returns wall and CPU seconds, and most memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall, memory = time.monotonic() - start, usage.ru_maxrss
    process.returncode = os.waitstatus_to_exitcode(status)
    while True:
        try:
            # What outlived it, a supervisor for one, comes to us.
            memory = max(memory, os.wait4(-1, 0)[2].ru_maxrss)
        except ChildProcessError:
            break
    if process.returncode != 0:
        sys.exit(f"{argv[0]} ended with {process.returncode}:\n{complaint[-2000:].decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, memory / 1024


def independent(count, _):
    return [[] for _ in range(count)]


def chain(count, _):
    return [[number - 1] if number else [] for number in range(count)]


def layers(count, width):
    """Layers of `width` nodes with all edges between one and the next."""
    def before(number):
        first = (number // width - 1) * width
        return list(range(first, first + width)) if first >= 0 else []
    return [before(number) for number in range(count)]


def graph_file(path, edges, command):
    with open(path, "w") as file:
        file.write("name: bench\nnodes:\n")
        for number, before in enumerate(edges):
            needs = f", depends_on: [{', '.join(f'n{other}' for other in before)}]" if before else ""
            file.write(f"  - {{id: n{number}, run: '{command}'{needs}}}\n")


def make_file(path, edges, command):
    with open(path, "w") as file:
        names = " ".join(f"n{number}" for number in range(len(edges)))
        file.write(f".PHONY: all {names}\nall: {names}\n")
        for number, before in enumerate(edges):
            file.write(f"n{number}: {' '.join(f'n{other}' for other in before)}\n\t@{command}\n")


def ninja_file(path, edges, command):
    with open(path, "w") as file:
        file.write(f"rule r\n  command = {command}\n  description = $out\n")
        for number, before in enumerate(edges):
            needs = f" {' '.join(f'n{other}' for other in before)}" if before else ""
            file.write(f"build n{number}: r{needs}\n")


class Bench:
    def __init__(self, folder, omg):
        self.folder, self.omg, self.turn = folder, omg, 0
        for name in ("floor", "noop"):
            source = os.path.join(HERE, "floor", f"{name}.c")
            subprocess.run(["cc", "-O2", "-o", os.path.join(folder, name), source], check=True)
        self.environment = dict(os.environ, OMG_HOME=os.path.join(folder, "home"),
                                PATH=f"{folder}:{os.environ['PATH']}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def contenders(self, edges, parallel, is_chain):
        """Returns what is measured by name: commands that all do the same work."""
        count, jobs = str(len(edges)), str(parallel)
        graph_file(self.path("graph.yaml"), edges, "noop")
        graph_file(self.path("shell.yaml"), edges, "noop;")
        make_file(self.path("Makefile"), edges, "noop")
        ninja_file(self.path("build.ninja"), edges, "noop")

        def floor(level):
            tail = ["chain"] if is_chain else []
            return [self.path("floor"), level, count, jobs, "LOGS", "noop", *tail]

        def omg(graph):
            return [self.omg, "run", self.path(graph), "-j", jobs, "--output", "plain"]

        found = {
            "floor journal": floor("journal"),
            "floor direct": floor("direct"),
            "omg, through sh": omg("shell.yaml"),
            "omg": omg("graph.yaml"),
        }
        if shutil.which("make"):
            found["make"] = ["make", "-s", "-j", jobs, "-f", self.path("Makefile"), "all"]
        if shutil.which("ninja"):
            found["ninja"] = ["ninja", "-C", "BUILD", "-j", jobs, "-f", self.path("build.ninja")]
        return found

    def fresh(self):
        """Gives the next measurement folders of its own. Nothing is deleted in between: on some file systems (ext4
        without a journal) whoever makes files after a deletion pays for it."""
        self.turn += 1
        self.environment["OMG_HOME"] = self.path(f"home-{self.turn}")
        return self.path(f"logs-{self.turn}"), self.path(f"build-{self.turn}")

    def compare(self, title, edges, parallel, rounds, is_chain=False):
        """Measures every contender, prints a table, and returns the medians by name."""
        contenders = self.contenders(edges, parallel, is_chain)
        seen = {name: [] for name in contenders}
        for turn in range(rounds):
            order = list(contenders) if turn % 2 == 0 else list(reversed(contenders))
            for name in order:
                logs, build = self.fresh()
                os.mkdir(build)
                words = [{"LOGS": logs, "BUILD": build}.get(word, word) for word in contenders[name]]
                seen[name].append(measure(words, self.environment))
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in seen.items()}
        # Ratios are taken within a round, where the machine was as busy for one as for the other.
        def ratio(name, column, to):
            pairs = zip(seen[name], seen[to])
            return statistics.median(one[column] / max(other[column], 1e-9) for one, other in pairs)
        others = [name for name in ("make", "ninja") if name in contenders]
        print(f"\n## {title}, {parallel} at a time, median of {rounds}\n")
        heads = ["", "wall s", "CPU s", "MiB", "wall / floor", "CPU / floor"]
        heads += [f"{what} / {name}" for name in others for what in ("wall", "CPU")]
        print("| " + " | ".join(heads) + " |")
        print("|---" + "|--:" * (len(heads) - 1) + "|")
        for name, (wall, cpu, memory) in medians.items():
            row = [name, f"{wall:.2f}", f"{cpu:.2f}", f"{memory:.0f}"]
            for to in ["floor journal", *others]:
                row += [f"{ratio(name, 0, to):.2f}", f"{ratio(name, 1, to):.2f}"]
            print("| " + " | ".join(row) + " |", flush=True)
        return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--parallel", default="2,8")
    parser.add_argument("--only", default="nodes,chain,dense")
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    omg = os.environ.get("OMG_BIN")
    if not omg:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.dirname(HERE), check=True)
        omg = os.path.join(os.path.dirname(HERE), "target", "release", "omg")
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="omg-bench-", dir=options.folder) as folder:
        bench = Bench(folder, os.path.abspath(omg))
        wanted = options.only.split(",")
        load = os.getloadavg()[0]
        print(f"{os.cpu_count()} cores, load {load:.1f} at the start")
        if "nodes" in wanted:
            for parallel in (int(jobs) for jobs in options.parallel.split(",")):
                by_size = {}
                for size in sizes:
                    title = f"{size} independent nodes"
                    by_size[size] = bench.compare(title, independent(size, 0), parallel, options.rounds)
                for small, large in zip(sizes, sizes[1:]):
                    for name in ("omg", "omg, through sh", "floor journal"):
                        each = [by_size[size][name][1] / size for size in (small, large)]
                        print(f"\nCPU of a node, {name}: {each[1] / each[0]:.2f} times at {large} what it is at {small}")
        if "chain" in wanted:
            bench.compare(f"a chain of {sizes[0]}", chain(sizes[0], 0), 1, options.rounds, is_chain=True)
        if "dense" in wanted:
            width = max(2, round(sizes[-1] ** 0.5))
            edges = layers(width * width, width)
            count = sum(len(before) for before in edges)
            bench.compare(f"{width} layers of {width}, {count} edges", edges, 8, max(1, options.rounds // 2))


if __name__ == "__main__":
    main()
