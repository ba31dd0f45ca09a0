#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs ctest in a build directory, then counts single cmocka tests and lists what was skipped.
# usage: run_tests.sh BUILD_DIR [ctest arguments]
# LEAT_TOTALS: file that gets one line "passed failed skipped"; FAILURES_FILE: file that gets what
# failed, with the end of its output; JOBS: tests at a time.
set -uo pipefail

if [ $# -lt 1 ] || [ ! -f "$1/CTestTestfile.cmake" ]; then
    echo "usage: $0 BUILD_DIR [ctest arguments]; BUILD_DIR has to be configured with tests" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
report=$build/Testing/junit.xml
rm -f "$report"

# gcc 12's ThreadSanitizer maps its shadow where a randomised program may lie when the kernel
# uses more than 28 bits of randomness; the personality is inherited by every test.
prefix=()
if grep -q '^LEAT_SANITIZE:.*=.*thread' "$build/CMakeCache.txt" &&
    [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 32)" -gt 28 ]; then
    if setarch -R true 2>/dev/null; then
        prefix=(setarch -R)
    else
        echo "$0: address randomisation cannot be turned off here; ThreadSanitizer may refuse" \
            "to start (remedy: sysctl vm.mmap_rnd_bits=28)" >&2
    fi
fi

"${prefix[@]}" ctest --test-dir "$build" --output-on-failure --no-tests=error \
    -j "${JOBS:-$(nproc)}" --output-junit "$report" \
    --test-output-size-passed 4000000 --test-output-size-failed 4000000 "$@" </dev/null
ctest_status=$?
if [ ! -f "$report" ]; then
    echo "$0: ctest wrote no report (status $ctest_status)" >&2
    exit 1
fi

append=()
if [ -n "${LEAT_TOTALS:-}" ]; then
    append=(--append "$LEAT_TOTALS")
fi
if [ -n "${FAILURES_FILE:-}" ]; then
    append+=(--failures "$FAILURES_FILE")
fi
echo
python3 "$here/glue/summary.py" "$report" --may-skip "$here/may_skip.txt" "${append[@]}"
summary_status=$?
[ "$ctest_status" -eq 0 ] && [ "$summary_status" -eq 0 ]
