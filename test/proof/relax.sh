#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Weakens the exchange's memory orders one at a time, by the names they have in core/signal.h and
# device/kernel.h, and wants ThreadSanitizer to see each missed in test_protocol.c: a proof that the
# test would notice, and that no order is stronger than it has to be. Ranks are threads here
# (thread_ranks). What ThreadSanitizer cannot see (LOOK, ANNOUNCE: not about data but about sleep)
# is shown by test_wakeup.c.
set -uo pipefail

source=${LEAT_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cc=${CC:-cc}
read -ra cmocka <<<"$(pkg-config --cflags --libs cmocka)"
flags=(-std=gnu17 -O1 -g -fsanitize=thread -pthread -I"$source/include" -I"$source/src"
    -I"$source/test")

# gcc 12's ThreadSanitizer cannot live with more than 28 bits of address randomness.
prefix=()
if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 32)" -gt 28 ]; then
    setarch -R true 2>/dev/null && prefix=(setarch -R)
fi

# compile FOLDER FILE FLAGS...: beside others, as many at once as there are processors. A variant is a
# folder of the objects that differ from those in "right".
processors=$(nproc)
running=0
compile() {
    local folder=$build/$1 file=$2
    shift 2
    mkdir -p "$folder"
    if [ $running -ge "$processors" ]; then
        wait -n || exit 1
        running=$((running - 1))
    fi
    "$cc" "${flags[@]}" "$@" -c "$source/$file" \
        -o "$folder/$(printf %s "${file%.c}" | tr / _).o" &
    running=$((running + 1))
}

if ! echo 'int main(void) { return 0; }' >"$build/empty.c" ||
    ! "$cc" "${flags[@]}" "$build/empty.c" -o "$build/empty" 2>/dev/null ||
    ! "${prefix[@]}" "$build/empty"; then
    echo "$cc makes no programs with ThreadSanitizer that run here"
    exit 77
fi

while read -r file; do
    compile right "${file#"$source/"}"
done < <(find "$source"/src/{core,transport,device,halo,msg,sim,file} \
    "$source/test/proof/test_protocol.c" -name '*.c' ! -path '*/device/cuda*')

# One name and value a variant, and what it is in.
weak=("SIGNAL_ORDER_RAISE __ATOMIC_RELAXED core/signal.c"
    "SIGNAL_ORDER_READ __ATOMIC_RELAXED core/signal.c device/cpu.c"
    "K_ORDER_TAG_PUT __ATOMIC_RELAXED device/cpu.c"
    "K_ORDER_TAG_TAKE __ATOMIC_RELAXED device/cpu.c")
for value in __ATOMIC_RELAXED __ATOMIC_ACQUIRE __ATOMIC_RELEASE; do
    weak+=("K_ORDER_COUNT $value device/cpu.c")
done
for variant in "${weak[@]}"; do
    read -r name value files <<<"$variant"
    for file in $files; do
        compile "$name=$value" "src/$file" "-D$name=$value"
    done
done

# The ring to the halo's proxy: with two slots, so that both ends meet in it all the time, and a
# thread that looks into it by itself, since the bell that it otherwise waits for is an order, too.
ring=(device/cpu.c halo/proxy.c halo/post.c)
small=(-DK_RING_ORDERS=2 -DPROXY_LOOKS=1)
weak_ring=("RING_ORDER_PUT device/cpu.c" "RING_ORDER_TAKE halo/proxy.c"
    "RING_ORDER_ROOM device/cpu.c" "RING_ORDER_CARRIED halo/proxy.c")
for file in "${ring[@]}"; do
    compile ring "src/$file" "${small[@]}"
done
for variant in "${weak_ring[@]}"; do
    read -r name file <<<"$variant"
    compile "$name" "src/$file" "${small[@]}" "-D$name=__ATOMIC_RELAXED"
done

while [ $running -gt 0 ]; do
    wait -n || exit 1
    running=$((running - 1))
done

# link FOLDER [FOLDER]: a program in the first of them, of what lies there, else in the second, else
# in "right".
link() {
    local objects=() object folder
    for object in "$build"/right/*.o; do
        for folder in "${2:-$1}" "$1"; do
            [ -f "$build/$folder/${object##*/}" ] && object=$build/$folder/${object##*/}
        done
        objects+=("$object")
    done
    "$cc" "${flags[@]}" "${objects[@]}" "${cmocka[@]}" -lm -lrt -ldl -o "$build/$1/program"
}

# run FOLDER TEST: runs one test; the log says what came
run() {
    TSAN_OPTIONS="halt_on_error=1 exitcode=66" "${prefix[@]}" "$build/$1/program" "$2" \
        >"$build/log" 2>&1
}

failed=0
say() {
    echo "$1"
    case $1 in *WRONG*) failed=1 && cat "$build/log" ;; esac
}

# clean FOLDER TEST WORDS
clean() {
    if run "$1" "$2"; then
        say "orders as they are, $2$3: clean"
    else
        say "orders as they are, $2$3: WRONG, not clean"
    fi
}

# weaken FOLDER TEST WORDS: the test has to end with a race
weaken() {
    run "$1" "$2"
    if [ $? -eq 66 ] && grep -q 'ThreadSanitizer: data race' "$build/log"; then
        say "$3, $2: a race, as it should be"
    else
        say "$3, $2: WRONG, no race was seen"
    fi
}

link right || exit 1
for test in 'test_fused*' 'test_pulse*' 'test_the_resident*' 'test_packets*'; do
    clean right "$test" ""
done
for variant in "${weak[@]}"; do
    read -r name value _ <<<"$variant"
    tests=('test_fused*')
    case $name in
    K_ORDER_COUNT) tests+=('test_pulse*' 'test_the_resident*') ;;
    K_ORDER_TAG_*) tests=('test_packets*') ;;
    esac
    link "$name=$value" || exit 1
    for test in "${tests[@]}"; do
        weaken "$name=$value" "$test" "$name=$value"
    done
    rm "$build/$name=$value/program"
done

link ring || exit 1
clean ring 'test_the_ring*' ", two slots"
for variant in "${weak_ring[@]}"; do
    read -r name _ <<<"$variant"
    link "$name" ring || exit 1
    weaken "$name" 'test_the_ring*' "$name=__ATOMIC_RELAXED"
done
exit $failed
