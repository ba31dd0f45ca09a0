#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples whose loop is a kernel of their own, on one GPU (its own neighbour) and on two.
set -euo pipefail

examples=$(cd "$(dirname "$LEAT_BIN")/../examples" && pwd)
if [ ! -x "$examples/resident_jacobi_cuda" ]; then
    echo "skipped: this build has no CUDA device"
    exit 77
fi
export LEAT_DEVICE=cuda
if ! said=$("$examples/resident_jacobi_cuda" 2>&1); then
    case $said in *"no GPU to use"*) echo "skipped: $said" && exit 77 ;; esac
    echo "$said"
    exit 1
fi
echo "$said"
gpus=1
if LEAT_DEVICE=cuda:1 "$examples/resident_jacobi_cuda" >/dev/null 2>&1; then
    gpus=2
    "$examples/resident_jacobi_cuda" 2
fi
"$examples/resident_particles_cuda" $gpus | awk -v ranks=$gpus '
    { first += $4; last += $7; lines++; print }
    END { if (lines != ranks || first < 400 * lines || (last - first) ^ 2 > (1e-5 * first) ^ 2) exit 1 }'

# Ranks that share a GPU are refused, with the reason.
if LEAT_DEVICE=cuda:0 "$examples/resident_jacobi_cuda" 2 >shared.out 2>&1; then
    echo "two ranks of one GPU were not refused"
    exit 1
fi
grep -q "give each rank a GPU of its own" shared.out
