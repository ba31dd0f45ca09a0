#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How leat file ends: files that hang, signals, a file size limit, sources that become shorter. Reads
# and writes are those of a library that is loaded before the system's. Needs LEAT_BIN, the command.
set -uo pipefail

leat=${LEAT_BIN:?the path of the command leat}
scratch=$(mktemp -d "$PWD/file-ends-XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch
unset LEAT_CONFIG
failures=0

subcommand=(file)
# shellcheck source=test/unit/lib_command.sh
. "$(dirname "$0")/lib_command.sh"

if grep -qE '__(asan|tsan|msan)_init' "$leat"; then
    echo "a sanitizer has the system's calls already"
    exit 77
fi
cat >"$scratch/calls.c" <<'EOD'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// FAULT=NAME: on the file whose path contains that. It is told to the pipe TOLD, then hangs; or with
// SHRINK the file is cut there first.
static void fault(const char *call, int fd)
{
    char link[64], path[4096] = "";
    const char *name = getenv(call), *told = getenv("TOLD"), *shrink = getenv("SHRINK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!name || readlink(link, path, sizeof path - 1) < 0 || !strstr(path, name))
        return;
    if (shrink) {
        if (truncate(path, atol(shrink)))
            abort();
        return;
    }
    static int calls; // by several threads
    int pipe = told && !__atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) ? open(told, O_WRONLY) : -1;
    if (pipe >= 0 && write(pipe, "x\n", 2) != 2)
        abort();
    for (;;)
        pause();
}

ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    fault("FAULT_READ", fd);
    return ((ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"))(fd, to, bytes, offset);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    fault("FAULT_WRITE", fd);
    return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(fd, from, bytes,
                                                                                 offset);
}

ssize_t pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));

int fdatasync(int fd)
{
    fault("FAULT_SYNC", fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
EOD
if ! "${CC:-cc}" -shared -fPIC -o "$scratch/calls.so" "$scratch/calls.c" -ldl 2>"$scratch/err"; then
    echo "no C compiler to make the library with"
    exit 77
fi
data=$scratch/data
head -c 9M /dev/urandom >"$data"
mkfifo "$scratch/told"

nothing_left() {
    find "$scratch" -name '*.leat-*' -o -name 'leat-tune*' | grep -q . && fail "$what: a file is left"
}

# with NAME=VALUE... -- STATUS ARGUMENTS: expect, with the library.
with() {
    local wanted got settings=()
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    wanted=$2
    shift 2
    what="${settings[*]} leat file $*"
    env "${settings[@]}" LD_PRELOAD="$scratch/calls.so" LEAT_FILE_DIRECT=off timeout -s KILL 60 \
        "$leat" file "$@" >"$scratch/out" 2>"$scratch/err" <"$data"
    got=$?
    [ "$got" -eq "$wanted" ] || fail "$what: status $got, expected $wanted"
}

# ---- A file that hangs ----

echo old >"$scratch/copy"
with FAULT_READ=/data LEAT_TIMEOUT=1 -- 124 read "$data"
says err "LEAT_TIMEOUT"
with FAULT_WRITE=/written LEAT_TIMEOUT=1 -- 124 write "$scratch/written"
says err "LEAT_TIMEOUT"
with FAULT_READ=/data LEAT_TIMEOUT=1 -- 124 cp "$data" "$scratch/copy"
says err "LEAT_TIMEOUT"
nothing_left
with FAULT_WRITE=.leat- LEAT_TIMEOUT=1 -- 124 cp "$data" "$scratch/copy"
nothing_left
with FAULT_READ=.leat- LEAT_TIMEOUT=1 -- 124 cp --checksum "$data" "$scratch/copy"
nothing_left
[ "$(cat "$scratch/copy")" = old ] || fail "$what: the old file stays"

# ---- Signals ----

# signalled FAULT SIGNAL STATUS ARGUMENTS: sent when the command has come to the fault, where it hangs.
signalled() {
    local fault=$1 signal=$2 wanted=$3 process got
    shift 3
    what="$fault $signal leat file $*"
    # A shell's background job ignores INT, which is what the command would find.
    env "$fault" TOLD="$scratch/told" LD_PRELOAD="$scratch/calls.so" LEAT_FILE_DIRECT=off \
        LEAT_TIMEOUT=50 python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$leat" file "$@" >"$scratch/out" 2>"$scratch/err" &
    process=$!
    if ! timeout 40 head -n 1 "$scratch/told" >"$scratch/seen" || [ ! -s "$scratch/seen" ]; then
        fail "$what: it never came there"
    fi
    kill -s "$signal" "$process"
    wait "$process" 2>/dev/null
    got=$?
    [ "$got" -eq "$wanted" ] || fail "$what: status $got, expected $wanted"
    nothing_left
}

signalled FAULT_READ=/data INT 130 cp "$data" "$scratch/copy"
says err "ended by a signal"
signalled FAULT_WRITE=.leat- TERM 143 cp "$data" "$scratch/copy"
signalled FAULT_SYNC=.leat- HUP 129 cp "$data" "$scratch/copy"
signalled FAULT_READ=.leat- INT 130 cp --checksum "$data" "$scratch/copy"
signalled FAULT_READ=leat-tune INT 130 tune "$scratch" --bytes 4M --rounds 1 --dry-run
[ "$(cat "$scratch/copy")" = old ] || fail "$what: the old file stays"

# What is ignored stays ignored.
what="nohup leat file cp"
env FAULT_READ=/data TOLD="$scratch/told" LD_PRELOAD="$scratch/calls.so" LEAT_TIMEOUT=2 \
    LEAT_FILE_DIRECT=off nohup "$leat" file cp "$data" "$scratch/copy" >"$scratch/out" 2>"$scratch/err" &
process=$!
timeout 40 head -n 1 "$scratch/told" >/dev/null
kill -HUP "$process"
wait "$process"
[ $? -eq 124 ] || fail "$what: HUP was not ignored"
nothing_left

# ---- A file size limit ----

truncate -s 40M "$scratch/long"
limit=20480 # units of 1024 bytes
export LEAT_ARENA=16M
limited() {
    what="ulimit -f $limit; leat file $*"
    (ulimit -f $limit && "$leat" file "$@" >"$scratch/out" 2>"$scratch/err" <"$scratch/long")
    got=$?
    [ "$got" -eq 1 ] || fail "$what: status $got, expected 1"
    says err "File too large"
}
limited cp "$scratch/long" "$scratch/copy"
nothing_left
limited write "$scratch/written"
limited tune "$scratch" --bytes 24M --rounds 1 --dry-run
nothing_left
what="leat run under a file size limit"
(ulimit -f 1024 && "$leat" run -n 1 true >"$scratch/out" 2>"$scratch/err")
[ $? -eq 1 ] || fail "$what: no status 1"
says err "ulimit -f"
what="leat run"
ignored=$("$leat" run -n 1 sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status)
[ -n "$ignored" ] && [ $((0x$ignored >> 24 & 1)) -eq 0 ] ||
    fail "$what: SIGXFSZ is ignored ($ignored) by what it starts"
unset LEAT_ARENA

# ---- A source that becomes shorter ----

with FAULT_READ=/data SHRINK=1000 -- 1 cp "$data" "$scratch/copy"
says err "became shorter"
[ "$(cat "$scratch/copy")" = old ] || fail "$what: the old file stays"
nothing_left

[ "$failures" -eq 0 ] && echo "all as expected"
exit $((failures > 0))
