#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, checks and measures leat's GPU parts on a bare machine with one GPU or more, in one call.
# usage: device.sh [SECONDS]
#
# Algorithm: steps with a time limit each, all of them together in SECONDS (540); a step that fails
# is noted and the next one runs. Advantage: whatever the machine lacks, the rest is measured.
# Disadvantage: a later step that needs an earlier one says so only by failing too.
#
# Needs nvcc, cmake, ninja, a host compiler, pkg-config, libjansson, and for the tests libcmocka.
# Debian packages for what is missing may lie in the folder DEVICE_DEBS (.debs in the source tree);
# as root they are unpacked into the system. An MPI, NCCL and NVSHMEM are taken where they are
# found, also inside the packages of the Python on the PATH; what is not there is not compared.
# Results go to the folder OUT (bench/results/device): halo-gpu.json, halo-gpu.md, device.log and
# of leat md on 1, 2, 4 and 8 GPUs md-scaling.json, .md and .svg.
# DEVICE_STEPS chooses among: facts build tests sanitizer pulse more plans scaling (all).
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=${OUT:-$root/bench/results/device}
work=$(mktemp -d)
build=${DEVICE_BUILD:-$work/build}
end=$((SECONDS + ${1:-540}))
chosen=" ${DEVICE_STEPS:-facts build tests sanitizer pulse more plans scaling} "
summary=()
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
cd "$root" || exit 1

# Multicast can take the GPUs of a host out of service where others share its switch.
export NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1 TORCH_SYMM_MEM_DISABLE_MULTICAST=1

# step GROUP NAME SECONDS COMMAND...: 0 also when the group was not asked for.
step() {
    local group=$1 name=$2 limit=$3 begin=$SECONDS left=$((end - SECONDS)) status
    shift 3
    case "$chosen" in *" $group "*) ;; *) return 0 ;; esac
    if [ "$left" -lt 5 ]; then
        summary+=("$name: no time left")
        return 1
    fi
    [ "$limit" -lt "$left" ] || limit=$left
    echo "== $name"
    timeout -k 10 "$limit" "$@"
    status=$?
    case $status in
    0) summary+=("$name: done, $((SECONDS - begin)) s") ;;
    124 | 137) summary+=("$name: OUT OF TIME after $limit s") ;;
    *) summary+=("$name: FAILED with status $status, $((SECONDS - begin)) s") ;;
    esac
    return $status
}

facts() {
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.sm,clocks.max.sm \
        --format=csv
    nvidia-smi topo -m
    nvcc --version | tail -n 2
    mpirun --version | head -n 1
    python3 -c 'import importlib.metadata as m
for d in m.distributions():
    n = d.metadata["Name"] or ""
    if "nccl" in n or "nvshmem" in n: print(n, d.version)'
    cc --version | head -n 1
    lscpu | grep -E '^(Model name|CPU\(s\))'
    free -g | sed -n 2p
    git -C "$root" log -1 --format='commit %h' 2>/dev/null
    true
}

packages() {
    local deb
    pkg-config --exists jansson cmocka && return
    for deb in "${DEVICE_DEBS:-$root/.debs}"/*.deb; do
        if [ -f "$deb" ] && [ "$(id -u)" = 0 ]; then
            dpkg -x "$deb" / || echo "cannot unpack $deb"
        fi
    done
    ldconfig
    pkg-config --exists jansson && return
    echo "no jansson: put libjansson4 and libjansson-dev (and pkgconf, libcmocka0, libcmocka-dev)"
    echo "as .deb files into ${DEVICE_DEBS:-$root/.debs}"
    false
}

configure() {
    local nvcc
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLEAT_CUDA=ON \
        -DCMAKE_CUDA_ARCHITECTURES=90 -DCMAKE_CUDA_COMPILER="$nvcc"
}

# What there is of these; one that cannot be built keeps none of the others from being built.
compile() {
    local targets
    targets=$(ninja -C "$build" -t targets all |
        sed -nE 's/^(leat_cli|leat_side|leat_peer_cuda_[a-z]+|gpu_test_[A-Za-z0-9_]+): phony$/\1/p')
    # shellcheck disable=SC2086 # one word a target
    ninja -C "$build" -k 0 $targets
}

gpu_tests() {
    ctest --test-dir "$build" -L gpu --no-tests=error --output-on-failure --timeout 100
}

memory_check() {
    local tool=compute-sanitizer
    command -v $tool >/dev/null || tool=/usr/local/cuda/bin/compute-sanitizer
    [ -x "$(command -v $tool)" ] || { echo "no compute-sanitizer" && return 77; }
    # Threads run slowly under it; the side's own program is what it looks at.
    LEAT_TIMEOUT=30 $tool --tool "$1" --target-processes all --error-exitcode 9 \
        --report-api-errors no \
        "$build/bin/leat" bench halo --device cuda --mode "$2" --atoms 2000 --rounds 1 --slice 1 \
        --against none
}

# bench NAME OPTIONS...: one JSON report; in place of the shell, so that a step out of time gives
# the command its chance to print what it has.
bench() {
    local name=$1
    shift
    exec "$build/bin/leat" bench halo --device cuda --json "$@" >"$work/$name.json"
}

export -f facts packages configure compile gpu_tests memory_check bench
export root build work

measure() {
    local plan sizes=1000,4000,16000,64000,256000,1000000
    step pulse "pulse, float3, forward" 170 bash -c \
        "bench pulse --atoms $sizes --graph --consumer --rounds 9 --slice 20"
    for plan in 3d 2d 1d; do
        step plans "plan $plan, forwarded and onehop" 40 bash -c \
            "bench kinds_$plan --plan $plan --kind forwarded,onehop --mode fused,host,pulse \
                --atoms 4000,32000,256000 --rounds 5 --slice 10"
    done
    step plans "plan 3d, the other modes" 40 bash -c \
        "bench modes_3d --plan 3d --mode host,stream,resident --atoms 4000,32000,256000 \
            --rounds 5 --slice 10 --direction forward,reverse"
    step more "pulse, reverse" 40 bash -c \
        "bench reverse --elements float3,float4 --direction reverse --atoms 4000,64000,256000 \
            --rounds 5 --slice 10"
    step scaling "leat md on all grids" 150 python3 "$root/bench/md_scaling.py" \
        --leat "$build/bin/leat" --out "$out"
    step more "pulse, float4" 40 bash -c \
        "bench float4 --elements float4 --atoms 4000,64000,256000,1000000 --rounds 5 --slice 10"
}

conclude() {
    local reports
    echo "== report"
    shopt -s nullglob
    reports=("$work"/*.json)
    if [ ${#reports[@]} -gt 0 ]; then
        python3 "$root/bench/device_report.py" "$out/halo-gpu.json" "$out/halo-gpu.md" \
            "${reports[@]}" || summary+=("report: FAILED")
    fi
    echo "== summary"
    printf '%s\n' "${summary[@]}"
    case "${summary[*]}" in *FAILED* | *"OUT OF TIME"* | *"no time left"*) return 1 ;; esac
}

everything() {
    step facts facts 30 bash -c facts
    step build packages 60 bash -c packages
    step build configure 60 bash -c configure
    step build compile 240 bash -c compile
    step tests "tests" 120 bash -c gpu_tests
    measure
    step sanitizer "memcheck" 50 bash -c "memory_check memcheck fused,resident"
    step sanitizer "synccheck" 50 bash -c "memory_check synccheck fused,resident"
    conclude
}

everything 2>&1 | tee "$out/device.log"
exit "${PIPESTATUS[0]}"
