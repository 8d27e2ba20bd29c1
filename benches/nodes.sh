#!/usr/bin/env bash
# What a node costs: N nodes of `true` through omg, against the same N through xargs in the same minute.
#
#   benches/nodes.sh [N] [P]        default: 500 nodes, 2 at a time
#
# Prints ratios of wall and CPU time. Ratios hold from machine to machine, the seconds do not.
set -euo pipefail
n=${1:-500} p=${2:-2}
cd "$(dirname "$0")/.."
cargo build --release --quiet
omg=$PWD/target/release/omg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMG_HOME=$work/home TIMEFORMAT='%R %U %S'
{
    printf 'name: nodes\nnodes:\n'
    for ((i = 0; i < n; i++)); do printf "  - {id: n%d, run: 'true'}\n" "$i"; done
} >"$work/nodes.yaml"
floor() { seq "$n" | xargs -P "$p" -I{} sh -c true; }
ours() { "$omg" run "$work/nodes.yaml" -j "$p" >/dev/null 2>&1; }
measure() { # prints wall and CPU seconds
    local times
    times=$({ time "$1"; } 2>&1 | tail -n 1)
    awk '{ print $1, $2 + $3 }' <<<"$times"
}
measure floor >/dev/null
read -r floor_wall floor_cpu < <(measure floor)
read -r our_wall our_cpu < <(measure ours)
awk -v n="$n" -v p="$p" -v fw="$floor_wall" -v fc="$floor_cpu" -v ow="$our_wall" -v oc="$our_cpu" 'BEGIN {
    printf "%d nodes, %d at a time\n", n, p
    printf "floor (xargs sh -c): %.2f s wall, %.2f s cpu\n", fw, fc
    printf "omg run:             %.2f s wall, %.2f s cpu\n", ow, oc
    printf "ratio:               %.1f wall, %.1f cpu\n", ow / fw, oc / fc
}'
