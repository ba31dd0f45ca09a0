#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark of a build: `leat bench halo`, programs build/.../bench/bench_* and scripts
# bench/bench_*.
# usage: bench.sh BUILD_DIR
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
export LEAT_BIN=$build/bin/leat LEAT_SOURCE_DIR=$root

echo "== leat bench halo"
"$LEAT_BIN" bench halo </dev/null

shopt -s nullglob
for benchmark in "$build"/bench/bench_* "$root"/bench/bench_*.sh "$root"/bench/bench_*.py; do
    [ -f "$benchmark" ] && [ -x "$benchmark" ] || continue
    echo "== $(basename "$benchmark")"
    "$benchmark" </dev/null
done
