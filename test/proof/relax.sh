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

# compile FOLDER FLAGS... : objects of the sources on standard input
compile() {
    local folder=$1
    shift
    mkdir -p "$folder"
    xargs -P "$(nproc)" -I{} sh -c '
        folder=$1 file=$2
        shift 2
        "$@" -c "$file" -o "$folder/$(printf %s "${file%.c}" | tr / _).o"' sh "$folder" {} "$cc" "${flags[@]}" "$@"
}

if ! echo 'int main(void) { return 0; }' >"$build/empty.c" ||
    ! "$cc" "${flags[@]}" "$build/empty.c" -o "$build/empty" 2>/dev/null ||
    ! "${prefix[@]}" "$build/empty"; then
    echo "$cc makes no programs with ThreadSanitizer that run here"
    exit 77
fi

find "$source"/src/{core,transport,device,halo,msg,sim,file} "$source/test/proof/test_protocol.c" \
    -name '*.c' ! -path '*/device/cuda*' |
    compile "$build/right" || exit 1

# run NAME TEST : links with what NAME's folder replaces, and runs one test; the log says what came
run() {
    local objects=() object
    for object in "$build"/right/*.o; do
        [ -f "$build/$1/$(basename "$object")" ] && object=$build/$1/$(basename "$object")
        objects+=("$object")
    done
    "$cc" "${flags[@]}" "${objects[@]}" "${cmocka[@]}" -lm -lrt -ldl -o "$build/program" || return 1
    TSAN_OPTIONS="halt_on_error=1 exitcode=66" "${prefix[@]}" "$build/program" "$2" \
        >"$build/log" 2>&1
}

failed=0
say() {
    echo "$1"
    case $1 in *WRONG*) failed=1 && cat "$build/log" ;; esac
}

for test in test_fused* test_pulse* test_the_resident* test_packets*; do
    if run right "$test"; then
        say "orders as they are, $test: clean"
    else
        say "orders as they are, $test: WRONG, not clean"
    fi
done

# weaken NAME VALUE TEST FILES... : the test has to end with a race
weaken() {
    local name=$1 value=$2 test=$3
    shift 3
    rm -rf "$build/weak"
    printf '%s\n' "${@/#/$source/src/}" | compile "$build/weak" "-D$name=$value" || exit 1
    run weak "$test"
    if [ $? -eq 66 ] && grep -q 'ThreadSanitizer: data race' "$build/log"; then
        say "$name=$value, $test: a race, as it should be"
    else
        say "$name=$value, $test: WRONG, no race was seen"
    fi
}

weaken SIGNAL_ORDER_RAISE __ATOMIC_RELAXED 'test_fused*' core/signal.c
weaken SIGNAL_ORDER_READ __ATOMIC_RELAXED 'test_fused*' core/signal.c device/cpu.c
for value in __ATOMIC_RELAXED __ATOMIC_ACQUIRE __ATOMIC_RELEASE; do
    weaken K_ORDER_COUNT $value 'test_fused*' device/cpu.c
    weaken K_ORDER_COUNT $value 'test_pulse*' device/cpu.c
    weaken K_ORDER_COUNT $value 'test_the_resident*' device/cpu.c
done
weaken K_ORDER_TAG_PUT __ATOMIC_RELAXED 'test_packets*' device/cpu.c
weaken K_ORDER_TAG_TAKE __ATOMIC_RELAXED 'test_packets*' device/cpu.c

# The ring to the halo's proxy: with two slots, so that both ends meet in it all the time, and a
# thread that looks into it by itself, since the bell that it otherwise waits for is an order, too.
ring=(device/cpu.c halo/proxy.c halo/post.c)
small=(-DK_RING_ORDERS=2 -DPROXY_LOOKS=1)
printf '%s\n' "${ring[@]/#/$source/src/}" | compile "$build/ring" "${small[@]}" || exit 1
if run ring 'test_the_ring*'; then
    say "orders as they are, test_the_ring*, two slots: clean"
else
    say "orders as they are, test_the_ring*, two slots: WRONG, not clean"
fi
# weaken_ring NAME FILE
weaken_ring() {
    rm -rf "$build/weak"
    cp -r "$build/ring" "$build/weak"
    echo "$source/src/$2" | compile "$build/weak" "${small[@]}" "-D$1=__ATOMIC_RELAXED" || exit 1
    run weak 'test_the_ring*'
    if [ $? -eq 66 ] && grep -q 'ThreadSanitizer: data race' "$build/log"; then
        say "$1=__ATOMIC_RELAXED, test_the_ring*: a race, as it should be"
    else
        say "$1=__ATOMIC_RELAXED, test_the_ring*: WRONG, no race was seen"
    fi
}
weaken_ring RING_ORDER_PUT device/cpu.c
weaken_ring RING_ORDER_TAKE halo/proxy.c
weaken_ring RING_ORDER_ROOM device/cpu.c
weaken_ring RING_ORDER_CARRIED halo/proxy.c
exit $failed
