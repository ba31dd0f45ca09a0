#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark of a build, briefly: those of `leat bench`, programs build/.../bench/bench_*
# and scripts bench/bench_*.
# usage: bench.sh BUILD_DIR
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
export LEAT_BIN=$build/bin/leat LEAT_SOURCE_DIR=$root

while read -r -a arguments; do
    echo "== leat bench ${arguments[*]}"
    "$LEAT_BIN" bench "${arguments[@]}" </dev/null
done <<'EOF'
halo
p2p
p2p --rate
coll
memory -n 8
flood --count 200000
file --rounds 5
EOF

shopt -s nullglob
for benchmark in "$build"/bench/bench_* "$root"/bench/bench_*.sh "$root"/bench/bench_*.py; do
    [ -f "$benchmark" ] && [ -x "$benchmark" ] || continue
    echo "== $(basename "$benchmark")"
    "$benchmark" </dev/null
done
