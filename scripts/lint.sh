#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that need no run of the program. usage: lint.sh [--fix-format] [CHECK...]
# CHECK: format spdx length words kernels shell cppcheck tidy (all of them by default)
# Works on the files that git tracks; exits 1 when any check found something.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

jobs=${JOBS:-$(nproc)}
tracked() { git ls-files -- "$@" | while read -r file; do [ -f "$file" ] && echo "$file"; done; }
c_files() { tracked '*.c' '*.h' '*.cu' '*.cuh' '*.inc'; }

check_format() {
    c_files | xargs -r clang-format --dry-run --Werror
}

check_spdx() {
    tracked '*.c' '*.h' '*.cu' '*.cuh' '*.inc' '*.sh' '*.py' '*.map' '*.cmake' '*CMakeLists.txt' \
        Makefile .ci/run | while read -r file; do
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0' ||
            echo "$file:1: no SPDX-License-Identifier: Apache-2.0 in the first three lines"
    done | report
}

# A function body is what lies between braces in the first column (clang-format puts them there).
check_length() {
    {
        c_files | while read -r file; do
            awk -v file="$file" -v public="${file#include/leat/}" '
                /^\{$/ { start = NR }
                /^\}$/ { if (start && NR - start + 1 > 60)
                             printf "%s:%d: function of %d lines, at most 60\n", file, start,
                                    NR - start + 1
                         start = 0 }
                END { limit = public == file ? 600 : 350
                      if (NR > limit)
                          printf "%s:%d: file of %d lines, at most %d\n", file, NR, NR, limit }
            ' "$file"
        done
        tracked '*.sh' '*.py' | while read -r file; do
            awk -v file="$file" 'END { if (NR > 600)
                printf "%s:%d: file of %d lines, at most 600\n", file, NR, NR }' "$file"
        done
    } | report
}

# Nothing here may depend on one machine or talk about how it was written. The patterns are
# written so that they do not match themselves.
check_words() {
    {
        git grep -nIE '/wor[k]/|/tmp/[h]/|/roo[t]/|/home/[a-z]|bash_[j]obs' -- .
        git grep -nIE '(deb|security|ftp)\.debia[n]\.org|pyp[i]\.org|pythonhosted\.or[g]' -- .
        git grep -nIiE '\b(clau[d]e|chatgp[t]|copilo[t]|sub-?agen[t]s?|as an a[i]\b)' -- .
        git grep -nIiE '\bthis (coding )?sessio[n]\b|\bai assistan[t]|language mode[l]' -- .
        true # nothing found is what is wanted
    } | report
}

# Kernels have one source for the CPU and CUDA; one that no .cu includes would rot unseen.
check_kernels() {
    tracked 'src/*kernels.inc' | while read -r file; do
        # The slash keeps kernels.inc, which includes the others, from vouching for itself.
        tracked '*.cu' 'src/halo/kernels.inc' |
            xargs -r grep -lE "#include .*/$(basename "$file" .inc)\\.inc" |
            grep -q . || echo "$file:1: no .cu file includes it, so nvcc never sees it"
    done | report
}

check_shell() {
    {
        tracked '*.sh'
        echo .ci/run
    } | xargs -r shellcheck -x -S warning
}

# Leaks are LeakSanitizer's to find: cppcheck takes `p = q ? q : p` after realloc for one.
check_cppcheck() {
    tracked 'src/*.c' 'apps/*.c' 'cli/*.c' | xargs -r cppcheck -q -j "$jobs" --std=c11 \
        --language=c --enable=warning,performance,portability --inline-suppr \
        --error-exitcode=1 --suppress=missingIncludeSystem --suppress=memleak \
        -D__x86_64__=1 -D__linux__=1 -D__GNUC__=12 \
        -D'json_array_foreach(a,i,v)=while((v=json_array_get(a,(i=0))))' \
        -D'json_object_foreach(o,k,v)=while((v=json_object_get(o,k)))' \
        -Iinclude -Isrc -Iapps -Icli
}

# Wants compile commands; a configured release build has them.
check_tidy() {
    if [ ! -f build/release/compile_commands.json ]; then
        cmake --preset release >/dev/null || return 1
    fi
    # gcc's own warning options mean nothing to clang. The analyzer looks at 50,000 states of a
    # function instead of 225,000: in functions as short as these the rest is the same paths behind
    # more loops, and most of the time.
    tracked 'src/*.c' 'apps/*.c' 'cli/*.c' |
        xargs -r -n 1 -P "$jobs" bash -c '
            prelude=(--extra-arg=-include --extra-arg="$PWD/scripts/analyzer.h")
            [ "$1" != src/core/error.c ] || prelude=()
            for word in -Xclang -analyzer-config -Xclang max-nodes=50000; do
                prelude+=(--extra-arg="$word")
            done
            clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option \
                "${prelude[@]}" "$1" 2>/dev/null' tidy
}

# Passes its input on and fails when there was any.
report() {
    local text
    text=$(cat)
    [ -z "$text" ] || { echo "$text" && return 1; }
}

if [ "${1:-}" = --fix-format ]; then
    c_files | xargs -r clang-format -i
    exit
fi
if [ $# -eq 0 ]; then
    set -- format spdx length words kernels shell cppcheck tidy
fi
failed=0
for check in "$@"; do
    if ! declare -F "check_$check" >/dev/null; then
        echo "$0: no check '$check'" >&2
        exit 2
    fi
    start=$SECONDS
    if "check_$check"; then
        echo "lint $check: ok ($((SECONDS - start)) s)"
    else
        echo "lint $check: FAILED ($((SECONDS - start)) s)"
        failed=1
    fi
done
exit $failed
