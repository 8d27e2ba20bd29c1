#!/usr/bin/env python3
"""What a durable journal costs: omg with its syncs against omg without them, and the same of the floor in C.

    benches/journal.py [--nodes 10000] [--rounds 5] [--folder DIR] [--report]

Prints the ratios of wall time, medians over interleaved rounds, and of omg's the bounds that it is held to
(docs/benchmarks.md): 1.15 at -j 8, and 1.15 times the floor's own at -j 2. Exits with 1 where one is missed. The disk decides: run it
on a quiet one. OMG_BIN names another program.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND = 1.15


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--report", action="store_true", help="print the ratios; miss nothing")
    args = parser.parse_args()
    omg = os.environ.get("OMG_BIN", os.path.join(HERE, "..", "target", "release", "omg"))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        missed = measure(os.path.abspath(omg), folder, args)
    sys.exit(1 if missed and not args.report else 0)


def measure(omg, folder, args):
    path = lambda name: os.path.join(folder, name)
    for name in ("floor", "noop"):
        subprocess.run(["cc", "-O2", "-o", path(name), os.path.join(HERE, "floor", f"{name}.c")], check=True)
    nosync = path("nosync.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", nosync, os.path.join(HERE, "floor", "nosync.c")], check=True)
    with open(path("graph.yaml"), "w") as file:
        file.write("name: bench\nnodes:\n")
        file.writelines(f"  - {{id: n{number}, run: noop}}\n" for number in range(args.nodes))
    plain = dict(os.environ, OMG_HOME=path("home"), PATH=f"{folder}:{os.environ['PATH']}")
    # It reaches the runner and its supervisor; nodes that do nothing sync nothing.
    without = dict(plain, LD_PRELOAD=nosync)
    missed = False
    for jobs in (8, 2):
        def floor(level):
            return [path("floor"), level, str(args.nodes), str(jobs), path("logs"), "noop"]

        run = [omg, "run", path("graph.yaml"), "-j", str(jobs), "--output", "plain"]
        contenders = {"omg": (run, plain), "omg without syncs": (run, without),
                      "floor journal": (floor("journal"), plain), "floor capture": (floor("capture"), plain)}
        took = {name: [] for name in contenders}
        for _ in range(args.rounds):
            for name, (command, environment) in contenders.items():
                for left in ("home", "logs"):
                    shutil.rmtree(path(left), ignore_errors=True)
                start = time.monotonic()
                subprocess.run(command, env=environment, cwd=folder, check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                took[name].append(time.monotonic() - start)
        ratio = lambda one, other: statistics.median(a / b for a, b in zip(took[one], took[other]))
        ours, floors = ratio("omg", "omg without syncs"), ratio("floor journal", "floor capture")
        bound = BOUND if jobs == 8 else BOUND * floors
        word = "holds" if ours <= bound else "MISSED"
        missed |= ours > bound
        print(f"-j {jobs}, {args.nodes} nodes: omg {ours:.3f}, floor {floors:.3f}; at most {bound:.3f}: {word}   "
              f"({', '.join(f'{name} {statistics.median(times):.2f} s' for name, times in took.items())})")
    return missed


if __name__ == "__main__":
    main()
