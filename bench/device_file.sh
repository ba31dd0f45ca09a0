#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, checks and measures leat's files into memory of a GPU on a bare machine, in one call.
# usage: device_file.sh [SECONDS]
#
# Algorithm: steps with a time limit each, all of them together in SECONDS (540); a step that fails
# is noted and the next one runs. Advantage: whatever the machine lacks, the rest is measured.
# Disadvantage: a later step that needs an earlier one says so only by failing too.
#
# Needs nvcc, cmake, ninja, a host compiler, pkg-config, libjansson, and for the tests libcmocka.
# Debian packages for what is missing may lie in the folder DEVICE_DEBS (.debs in the source tree),
# Python wheels of peers (KvikIO, libkvikio, cuFile) in DEVICE_WHEELS (.wheels); what is not there
# is not compared. Files of up to 4 GiB are made in the folder FILES (a new one in /tmp), on tmpfs in
# /dev/shm. Results go to the folder OUT (bench/results/device): file-*.json, device_file.log.
# DEVICE_STEPS chooses among: facts build tests check tune cached tmpfs direct ranges copy (all).
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=${OUT:-$root/bench/results/device}
work=$(mktemp -d)
build=${DEVICE_BUILD:-$work/build}
files=${FILES:-$work}
device=${DEVICE:-cuda:0}
end=$((SECONDS + ${1:-540}))
chosen=" ${DEVICE_STEPS:-facts build tests check tune cached tmpfs direct ranges copy} "
summary=()
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
cd "$root" || exit 1

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
    77) summary+=("$name: not supported here") ;;
    124 | 137) summary+=("$name: OUT OF TIME after $limit s") ;;
    *) summary+=("$name: FAILED with status $status, $((SECONDS - begin)) s") ;;
    esac
    return $status
}

facts() {
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,pcie.link.gen.current \
        --format=csv
    nvcc --version | tail -n 2
    uname -r
    lscpu | grep -E '^(Model name|CPU\(s\)|NUMA)'
    free -g | sed -n 2p
    df -hT "$files" /dev/shm
    cat /sys/kernel/mm/transparent_hugepage/shmem_enabled 2>/dev/null
    ls /run/udev /proc/driver/nvidia-fs 2>&1 | head -n 5
    ldconfig -p | grep -i cufile
    python3 -c 'import importlib.metadata as m
for d in m.distributions():
    n = (d.metadata["Name"] or "").lower()
    if any(w in n for w in ("kvikio", "cufile", "cupy", "torch", "numpy")): print(n, d.version)'
    command -v fio
    git -C "$root" log -1 --format='commit %h' 2>/dev/null
    true
}

packages() {
    local deb wheels
    for deb in "${DEVICE_DEBS:-$root/.debs}"/*.deb; do
        if [ -f "$deb" ] && [ "$(id -u)" = 0 ]; then
            dpkg -x "$deb" / || echo "cannot unpack $deb"
        fi
    done
    ldconfig
    wheels=$(find "${DEVICE_WHEELS:-$root/.wheels}" -name '*.whl' 2>/dev/null)
    if [ -n "$wheels" ]; then
        # shellcheck disable=SC2086 # one word a wheel
        python3 -m pip install -q --no-index --no-deps --target "$work/python" $wheels
    fi
    pkg-config --exists jansson
}

# Wheels bring libraries where no loader looks.
libraries() {
    local folders
    folders=$(find "$work/python" "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
        2>/dev/null)" -name 'libcufile.so.0' -printf '%h\n' 2>/dev/null | head -n 1)
    export PYTHONPATH=$work/python${PYTHONPATH:+:$PYTHONPATH}
    [ -z "$folders" ] || export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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
        sed -nE 's/^(leat_cli|leat_peer_file_cuda|gpu_test_(file|cufile)[A-Za-z0-9_]*): phony$/\1/p')
    # shellcheck disable=SC2086 # one word a target
    ninja -C "$build" -k 0 $targets
}

gpu_tests() {
    ctest --test-dir "$build" -R '^gpu\.(file|cufile)' --no-tests=error --output-on-failure \
        --timeout 100
}

# Every path that can be had, by its checksum.
check() {
    local way file=$files/check status=0 crc="" got
    "$build/bin/leat" file write "$file" --pattern stamps --bytes 512M --device "$device" || return
    "$build/bin/leat" file check "$file" --device "$device" --bytes 1G
    "$build/bin/leat" file check "$file" --device "$device" --json >"$out/file-check.json"
    for way in buffered odirect mapped cufile; do
        got=$("$build/bin/leat" file read "$file" --device "$device" --require $way --checksum |
            sed -n 's/^crc32c //p')
        crc=${crc:-$got}
        echo "$way: crc32c ${got:-none}"
        [ -z "$got" ] || [ "$got" = "$crc" ] || status=1
    done
    rm -f "$file"
    return $status
}

tune() {
    LEAT_CONFIG=$out/leat.conf "$build/bin/leat" file tune "$files" --device "$device" \
        --bytes 2G --rounds 5
}

# bench NAME OPTIONS...: text is what people read here, JSON what is kept.
bench() {
    local name=$1
    shift
    "$build/bin/leat" bench file "$files" --device "$device" --json "$@" >"$work/$name.json" ||
        return
    cp "$work/$name.json" "$out/file-$name.json"
    python3 - "$work/$name.json" <<'EOD'
import json, sys
for b in json.load(open(sys.argv[1]))["benchmarks"]:
    if b.get("error_occurred"):
        print(f"{b['name']:58} {b['error_message']}")
    else:
        ratio = b.get("ratio_to_best_other")
        print(f"{b['name']:58} {b['bw_bytes'] / 1e9:7.2f} ({b['bw_bytes_min'] / 1e9:.2f}-"
              f"{b['bw_bytes_max'] / 1e9:.2f}) GB/s" + (f"  {ratio:.2f}" if ratio else ""))
EOD
}

# A newcomer's first copy beside the tuned one.
copy() {
    "$build/bin/leat" file write "$files/from" --pattern stamps --bytes 4G || return
    "$build/bin/leat" file cp "$files/from" "$files/to" --device "$device" --checksum --stats &&
        LEAT_CONFIG=$out/leat.conf "$build/bin/leat" file cp "$files/from" "$files/to" \
            --device "$device" --stats
    local status=$?
    for _ in 1 2 3; do
        "$build/bin/leat" file read "$files/from" --device "$device"
        LEAT_CONFIG=$out/leat.conf "$build/bin/leat" file read "$files/from" --device "$device"
    done
    rm -f "$files/from" "$files/to"
    return $status
}

everything() {
    local sizes=64K,1M,16M,256M,4G pace="--rounds 5 --slice 80"
    local all=leat:1,leat:4,pinned:1,pinned:4,pinned:8,pinned:16,mapped:1,cufile:1,cufile:8
    all=$all,kvikio:1,kvikio:16
    step build packages 60 bash -c packages
    libraries
    step facts facts 30 bash -c facts
    step build configure 60 bash -c configure
    step build compile 240 bash -c compile
    touch "$out/leat.conf"
    step tests "tests" 90 bash -c gpu_tests
    step check "check" 60 bash -c check
    step cached "from the page cache" 110 bash -c \
        "bench cached --state cached --sizes $sizes --ranges none --against $all $pace"
    step cached "from the page cache, slow ways" 30 bash -c \
        "bench slow --state cached --sizes 1G --ranges none --against numpy,torch --rounds 3"
    step tmpfs "from tmpfs" 80 bash -c \
        "bench tmpfs --state tmpfs --sizes 1M,256M,4G --ranges none --against $all $pace"
    step ranges "many ranges" 110 bash -c "bench ranges --state cached --sizes none \
        --file-bytes 4G --ranges 100000x4K,10000x64K $pace \
        --against leat:1,pinned:1,pinned:8,cufile:1,cubatch,kvikio:1,kvikio:16"
    step direct "past the page cache" 80 bash -c "bench direct --state direct \
        --sizes 64K,1M,256M --ranges 10000x4K --file-bytes 1G --rounds 5 --slice 150 \
        --against leat:1,pinned:4,pinned:16,cufile:8,kvikio:16"
    step tune "tune" 60 bash -c tune
    step copy "the first copy" 60 bash -c copy
    echo "== summary"
    printf '%s\n' "${summary[@]}"
    case "${summary[*]}" in *FAILED* | *"OUT OF TIME"* | *"no time left"*) return 1 ;; esac
}

export -f facts packages configure compile gpu_tests check tune bench copy
export root build work out files device

everything 2>&1 | tee "$out/device_file.log"
exit "${PIPESTATUS[0]}"
