# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What tests of the command share: runs it, keeps what it prints, and compares. Sourced, with `leat`
# (the command), `scratch` (a directory) and `failures` set; `subcommand` is empty or the first
# words of each run.
# shellcheck disable=SC2154 # leat and scratch

fail() {
    echo "FAILED: $1" >&2
    sed 's/^/  stdout: /' "$scratch/out" | head -n 20 >&2
    sed 's/^/  stderr: /' "$scratch/err" | head -n 20 >&2
    failures=$((failures + 1))
}

# expect STATUS ARGUMENTS...: runs leat, keeps what it prints.
expect() {
    local wanted=$1 got
    shift
    set -- "${subcommand[@]}" "$@"
    what="leat $*"
    "$leat" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$wanted" ] || fail "$what: status $got, expected $wanted"
}

says() { # says out|err WORDS
    grep -qF -- "$2" "$scratch/$1" || fail "$what: \"$2\" is not in std$1"
}

silent() { # silent out|err
    [ ! -s "$scratch/$1" ] || fail "$what: std$1 should be empty"
}

# json EXPRESSION: true for the object `j` that was printed, and nothing else was.
json() {
    python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); sys.exit(not eval(f"({sys.argv[2]})"))' \
        "$scratch/out" "$1" 2>>"$scratch/err" || fail "$what: not $1"
}
