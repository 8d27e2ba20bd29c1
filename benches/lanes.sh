#!/usr/bin/env bash
# What making lanes costs: a run with LANES lanes at width WIDTH, against the same git commands one after
# the other, `git worktree add` for each lane; and against a floor, git alone at that width, which says
# what the machine's cores allow at that moment.
#
#   benches/lanes.sh [LANES] [FILES] [WIDTH] [ROUNDS]      default: 12 lanes, 3000 files, 4 at a time, 5
#
# Works in memory ($OMG_BENCH_DIR, /dev/shm): on a disk mostly that disk's way with new files is measured.
# OMG_BIN is the program, built with --release; where it is not set, this builds it. Rounds are
# interleaved and turn their order round; medians are compared. Of omg the wall time is that from the
# first request for a lane to the last receipt, as its journal has it, and that of the whole run. Ratios
# hold from machine to machine, seconds do not.
set -euo pipefail
lanes=${1:-12} files=${2:-3000} width=${3:-4} rounds=${4:-5}
cd "$(dirname "$0")/.."
if [ -z "${OMG_BIN:-}" ]; then
    cargo build --release --quiet
    OMG_BIN=$PWD/target/release/omg
fi
omg=$(realpath "$OMG_BIN")
work=$(mktemp -d "${OMG_BENCH_DIR:-/dev/shm}/omg-lanes-XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME=$work OMG_HOME=$work/home GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1
printf '[user]\n name = t\n email = t@example.invalid\n' >"$GIT_CONFIG_GLOBAL"

# FILES files, 4 kB of text in the mean, 40 in a folder; one commit, packed.
python3 - "$work/repo" "$files" <<'PY'
import os, random, sys
root, count = sys.argv[1], int(sys.argv[2])
dice = random.Random(1)
words = ["lane", "base", "commit", "leg", "run", "node", "fault", "receipt", "graph", "edge"]
for number in range(count):
    folder = os.path.join(root, f"d{number // 400}", f"e{number // 40}")
    os.makedirs(folder, exist_ok=True)
    size = dice.randint(500, 7500)
    text = []
    while size > 0:
        line = " ".join(dice.choice(words) + str(dice.randint(0, 9999)) for _ in range(8))
        size -= len(line) + 1
        text.append(line)
    with open(os.path.join(folder, f"f{number}.txt"), "w") as file:
        file.write("\n".join(text) + "\n")
PY
git -C "$work/repo" init -q -b main
git -C "$work/repo" add -A
git -C "$work/repo" commit -q -m base
git -C "$work/repo" gc -q
{
    printf 'name: lanes\nprovision: none\nnodes:\n'
    for ((i = 0; i < lanes; i++)); do printf "  - {id: n%d, worktree: l%d, run: 'true'}\n" "$i" "$i"; done
} >"$work/lanes.yaml"

python3 - "$omg" "$work" "$lanes" "$width" "$rounds" "$files" <<'PY'
import datetime, json, os, resource, shutil, statistics, subprocess, sys, time
omg, work, lanes, width, rounds, files = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
repo = os.path.join(work, "repo")

def git(*words):
    subprocess.run(["git", "-C", repo, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

def in_sequence(number):
    root = os.path.join(work, f"seq{number}")
    os.mkdir(root)
    before, start = cpu(), time.monotonic()
    for lane in range(lanes):
        git("worktree", "add", "-b", f"seq/{number}/l{lane}", os.path.join(root, f"l{lane}"), "HEAD")
    wall, used = time.monotonic() - start, cpu() - before
    for lane in range(lanes):
        git("worktree", "remove", "--force", os.path.join(root, f"l{lane}"))
        git("branch", "-D", f"seq/{number}/l{lane}")
    return {"wall": wall, "cpu": used}

def side_by_side(number):
    root = os.path.join(work, f"floor{number}")
    os.mkdir(root)
    branch = f"floor/{number}/l$0"
    lane = (f'flock "{work}/floor.lock" git -C "{repo}" worktree add -q --no-checkout -b {branch} "{root}/l$0" HEAD'
            f' && git -C "{root}/l$0" read-tree -m -u HEAD')
    names = "\n".join(map(str, range(lanes)))
    start = time.monotonic()
    subprocess.run(["xargs", f"-P{width}", "-n1", "sh", "-c", lane], input=names, text=True, check=True,
                   stderr=subprocess.DEVNULL)
    wall = time.monotonic() - start
    for lane in range(lanes):
        git("worktree", "remove", "--force", os.path.join(root, f"l{lane}"))
        git("branch", "-D", f"floor/{number}/l{lane}")
    return {"wall": wall}

def by_omg(number):
    run = f"r{number}"
    before, start = cpu(), time.monotonic()
    done = subprocess.run([omg, "run", os.path.join(work, "lanes.yaml"), "--run-id", run, "-j", str(width)],
                          cwd=repo, capture_output=True, text=True)
    whole, used = time.monotonic() - start, cpu() - before
    if done.returncode != 0:
        sys.exit(f"omg ended with {done.returncode}: {done.stdout}{done.stderr}")
    at = lambda event: datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00"))
    folder = os.path.join(work, "home/runs", run)
    with open(os.path.join(folder, "events.jsonl")) as lines:
        events = [json.loads(line) for line in lines]
    asked = min(at(event) for event in events if event["event"] == "lane.acquire.requested")
    made = max(at(event) for event in events if event["event"] == "lane.acquire.performed")
    shutil.rmtree(folder)
    return {"wall": (made - asked).total_seconds(), "whole": whole, "cpu": used}

in_sequence("warm"), by_omg("warm")
ours, theirs, floors = [], [], []
for number in range(rounds):
    steps = [lambda: theirs.append(in_sequence(number)), lambda: floors.append(side_by_side(number)),
             lambda: ours.append(by_omg(number))]
    for step in steps if number % 2 == 0 else steps[::-1]:
        step()
middle = lambda results, key: statistics.median(result[key] for result in results)
base = middle(theirs, "wall")
print(f"{lanes} lanes of {files} files, width {width}, {rounds} rounds, {os.cpu_count()} cores")
print(f"git worktree add, in sequence:  {base:.3f} s wall, {middle(theirs, 'cpu'):.3f} s cpu")
print(f"git alone, {width} at a time:         {middle(floors, 'wall'):.3f} s wall")
print(f"omg, its lanes made:            {middle(ours, 'wall'):.3f} s wall")
print(f"omg, the whole run:             {middle(ours, 'whole'):.3f} s wall, {middle(ours, 'cpu'):.3f} s cpu (lanes also judged and deleted)")
pairs = [our["wall"] / their["wall"] for our, their in zip(ours, theirs)]
print(f"ratio, lanes made / sequence:   {middle(ours, 'wall') / base:.2f}  (rounds: {', '.join(f'{pair:.2f}' for pair in pairs)})")
print(f"ratio, floor / sequence:        {middle(floors, 'wall') / base:.2f}")
print(f"ratio, whole run / sequence:    {middle(ours, 'whole') / base:.2f}")
PY
