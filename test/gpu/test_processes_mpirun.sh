#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The exchanges of gpu.processes where mpirun has started the ranks.
set -u

if ! command -v mpirun >/dev/null; then
    echo "skipped: there is no mpirun"
    exit 77
fi
LEAT_DEVICE=cuda "$LEAT_BIN" path -n 1 >/dev/null 2>&1 || {
    echo "skipped: there is no GPU to use"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 100 mpirun --oversubscribe -n 2 ./gpu_test_processes modes
