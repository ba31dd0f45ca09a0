#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command's frame: help, usage errors with the nearest name, exit statuses, JSON and only JSON.
# Needs LEAT_BIN, the command.
set -uo pipefail

leat=${LEAT_BIN:?the path of the command leat}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch
unset LEAT_TIMEOUT LEAT_ARENA LEAT_PATHS LEAT_FABRIC LEAT_BLOCKS LEAT_SPIN LEAT_LOG LEAT_CONFIG LEAT_TRACE
unset LEAT_RANK LEAT_SIZE LEAT_JOB_FD LEAT_ROOT LEAT_JOB_KEY
failures=0

subcommand=()
# shellcheck source=test/unit/lib_command.sh
. "$(dirname "$0")/lib_command.sh"

# Help and version go to standard output.
expect 0 --version
grep -qE '^leat [0-9]+\.[0-9]+\.[0-9]+$' "$scratch/out" || fail "$what"
expect 0 --help
for word in info path run md compare halo LEAT_TIMEOUT LEAT_LOG; do says out "$word"; done
silent err
for command in info path run md compare halo; do
    expect 0 "$command" --help
    says out "usage: leat $command"
    says out "--help"
    silent err
done

# Usage errors: status 2, nothing on standard output, the nearest name.
expect 2
silent out
says err "usage: leat"
expect 2 rnu
silent out
says err "did you mean run?"
expect 2 xyzzy
says err "leat --help"
expect 2 run --gird 1x1x1 true
silent out
says err "did you mean --grid?"
expect 2 info --josn
says err "did you mean --json?"
expect 2 info --json=yes
says err "takes no value"
expect 2 info -z
says err "no option -z"
expect 2 info extra
says err '"extra"'
expect 2 path -n
says err "--ranks needs a value"
for value in 0 -1 2x 99999999999999999999 ''; do
    expect 2 path -n "$value"
    says err "--ranks is \"$value\""
    silent out
done
expect 2 run true
says err "-n N"
expect 2 run -n 2
says err "which program"
for grid in 2x2 2x2x0 2x2x2x 2x-1x2 x1x2 1048576x1048576x1; do
    expect 2 run -n 2 --grid "$grid" true
    says err "--grid is \"$grid\""
done
expect 2 run -n 2 --grid 2x2x1 true
says err "2x2x1"

# run: what follows the program belongs to the program; its status is the job's.
expect 0 run -n 2 echo --help -n 9
[ "$(sort -u "$scratch/out")" = "--help -n 9" ] || fail "$what: options of the program"
silent err
expect 7 run -n 1 -- sh -c 'exit 7'
says err "rank 0 (pid "
expect 127 run -n 1 leat-no-such-program
says err "leat-no-such-program"
expect 126 run -n 1 /
# shellcheck disable=SC2016 # the ranks' shell expands them
expect 0 run -n 2 --grid 1x2x1 sh -c 'echo "$LEAT_RANK of $LEAT_SIZE"'
says out "0 of 2"
says out "1 of 2"

# info: the same in both forms.
expect 0 info
says out "transports:"
expect 0 info --json
silent err
json 'j["schema"] == "leat.info/4" and j["host"]["cores"] >= 1 and j["devices"][0]["name"] == "cpu" and "settings" not in j'
json '[t["name"] for t in j["transports"]] ==
      ["self", "peer", "shm", "nvshmem", "fabric", "hostcopy"]'
json 'all(t["present"] == (t["absent"] is None) for t in j["transports"])'
json 'all(t["present"] or t["costs"] for t in j["transports"] + j["launchers"])'
json 'j["host"]["memory_bytes"] >= j["host"]["available_bytes"] > 0 and j["host"]["usable_cores"] >= 1'
json '[l["name"] for l in j["launchers"]] == ["leat run", "root", "pmix"]'
json 'all(p["state"] for p in j["permissions"])'
json '[f["name"] for f in j["files"]] == ["io_uring", "cuFile", "direct I/O"]'
json 'all(f["what"] if f["present"] else f["absent"] and f["costs"] for f in j["files"])'
here=$PWD
cd /proc || exit 1 # where no file can be made
expect 0 info --json
json '"no file can be made" in j["files"][2]["absent"]'
cd "$here" || exit 1
printf 'LEAT_SPIN = 5\n' >"$scratch/settings"
export LEAT_CONFIG=$scratch/settings LEAT_ARENA=64M
expect 0 info --config --json
json '{s["name"]: (s["value"], s["source"]) for s in j["settings"]} == {
    "LEAT_TIMEOUT": ("30", "default"), "LEAT_ARENA": ("64M", "environment"),
    "LEAT_PATHS": ("auto", "default"), "LEAT_DEVICE": ("cpu", "default"),
    "LEAT_BLOCKS": ("1", "default"), "LEAT_HALO_PACKETS": ("0", "default"),
    "LEAT_HALO_BULK": ("0", "default"),
    "LEAT_SPIN": ("5", "file"), "LEAT_LOG": ("warn", "default"),
    "LEAT_FABRIC": ("auto", "default"), "LEAT_TRACE": ("off", "default"), "LEAT_MSG_BUDGET": ("64M", "default"),
    "LEAT_MSG_PEERS": ("1024", "default"), "LEAT_MSG_EAGER": ("32K", "default"),
    "LEAT_MSG_SHARE": ("32K", "default"), "LEAT_COMPAT": ("auto", "default"),
    "LEAT_CUFILE_MIN": ("16K", "default"), "LEAT_FILE_THREADS": ("0", "default"),
    "LEAT_FILE_TASK": ("4M", "default"), "LEAT_FILE_BUFFER": ("2M", "default"),
    "LEAT_FILE_BUFFERS": ("4", "default"), "LEAT_FILE_DIRECT": ("auto", "default"),
    "LEAT_FILE_GAP": ("16K", "default"), "LEAT_FILE_MAPPED_CHUNK": ("64M", "default")}'
expect 0 info --config
says out "$scratch/settings"
LEAT_CONFIG=$scratch/absent expect 1 info
says err "$scratch/absent"
silent out
LEAT_BLOCKS=0 expect 1 info
says err "LEAT_BLOCKS"
LEAT_TIMOUT=3 expect 0 info --json
says err "did you mean LEAT_TIMEOUT?"
json 'j["schema"] == "leat.info/4"'

# path: threads, processes, and a rule that leaves none.
expect 0 path
says out "self"
expect 0 path -n 3 --json
silent err
json 'j["schema"] == "leat.path/1" and j["ranks"] == 3 and j["ranks_are"] == "threads"'
json 'len(j["pairs"]) == 18 and all(p["path"] == ("self" if p["from"] == p["to"] else "shm")
                                    for p in j["pairs"])'
json 'all(sum(r["taken"] for r in p["rows"]) == 1 and all(r["reason"] for r in p["rows"])
          for p in j["pairs"])'
expect 0 run -n 3 "$leat" path --json
json 'j["ranks_are"] == "processes" and len(j["pairs"]) == 18'
json 'all(p["path"] == ("self" if p["from"] == p["to"] else "shm") for p in j["pairs"]
          if p["memory"] == "allocated")'
LEAT_PATHS=forbid:shm expect 1 path --json
says err "no path leads from rank 0"
json '{p["path"] for p in j["pairs"] if p["from"] != p["to"]} == {None}'
expect 2 run -n 2 "$leat" path -n 2
says err "its own ranks"

# Output that cannot be written is a failure.
what="leat info >/dev/full"
"$leat" info >/dev/full 2>"$scratch/err"
[ $? -eq 1 ] || fail "$what"
says err "standard output"

[ "$failures" -eq 0 ]
