#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# leat file: what it prints, JSON and only JSON, contents by checksum, its options, and what is said
# of files that are not there. Needs LEAT_BIN, the command.
set -uo pipefail

leat=${LEAT_BIN:?the path of the command leat}
# Where the build lies: seldom tmpfs.
scratch=$(mktemp -d "$PWD/file-command-XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch
unset LEAT_CONFIG
failures=0

subcommand=(file)
# shellcheck source=test/unit/lib_command.sh
. "$(dirname "$0")/lib_command.sh"

data=$scratch/data
# Odd in size, and no two pages alike.
python3 - "$data" <<'EOD'
import random, sys
random.seed(5)
open(sys.argv[1], "wb").write(random.randbytes(2 * 2**20 + 1234))
EOD
size=$((2 * 1048576 + 1234))

# crc FILE [OFFSET BYTES]: by a table of its own, so that the command is not compared with itself.
crc() {
    python3 - "$@" <<'EOD'
import sys
table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)
data = open(sys.argv[1], "rb").read()
if len(sys.argv) > 2:
    data = data[int(sys.argv[2]):][:int(sys.argv[3])]
state = 0xFFFFFFFF
for byte in data:
    state = table[(state ^ byte) & 255] ^ state >> 8
print(f"{state ^ 0xFFFFFFFF:08x}")
EOD
}

whole=$(crc "$data")
part=$(crc "$data" 1000001 70003)

# ---- read ----

expect 0 read "$data" --checksum --json
silent err
json "j['schema'] == 'leat.file.read/1' and j['bytes'] == $size and j['crc32c'] == '$whole'"
json "j['device'] == 'cpu' and j['offset'] == 0 and j['seconds'] > 0"
json "abs(j['gb_per_s'] * j['seconds'] * 1e9 / j['bytes'] - 1) < 1e-6"
json "[p['path'] for p in j['paths']] == ['cufile', 'mapped', 'odirect', 'buffered']"
json "sum(p['bytes'] for p in j['paths']) == $size and all(p['reason'] for p in j['paths'])"
json "all((p['bytes'] > 0) == (p['ops'] > 0) for p in j['paths'])"
expect 0 read "$data" --json
json "j['crc32c'] is None and j['bytes'] == $size"
expect 0 read "$data" --offset 1000001 --bytes 70003 --checksum --json
json "j['crc32c'] == '$part' and j['bytes'] == 70003 and j['offset'] == 1000001"
expect 0 read "$data" --checksum --stats
says out "crc32c $whole"
says out "buffered"
says out "blocking waits"
silent err
expect 0 read "$data" --require buffered --checksum --json
json "j['crc32c'] == '$whole' and j['paths'][3]['bytes'] == $size"
expect 0 read "$data" --threads 3 --task 64K --direct off --compat on --checksum --json
json "j['crc32c'] == '$whole' and j['paths'][3]['ops'] >= $size // 65536"

# Across the end, at it, wholly past it, of nothing: short counts.
expect 0 read "$data" --offset $((size - 100)) --bytes 1M --checksum --json
json "j['bytes'] == 100 and j['crc32c'] == '$(crc "$data" $((size - 100)) 100)'"
expect 0 read "$data" --offset $size --json
json "j['bytes'] == 0"
expect 0 read "$data" --offset 1G --bytes 4K --checksum --json
json "j['bytes'] == 0 and j['crc32c'] == '00000000'"
expect 0 read "$data" --bytes 0 --json
json "j['bytes'] == 0"
: >"$scratch/empty"
expect 0 read "$scratch/empty" --checksum --json
json "j['bytes'] == 0"

# A hole beyond 4 GiB with something behind it.
truncate -s 5G "$scratch/sparse"
printf 'behind' | dd of="$scratch/sparse" bs=1 seek=5368709000 conv=notrunc status=none
{ printf 'behind' && head -c 114 /dev/zero; } >"$scratch/tail"
expect 0 read "$scratch/sparse" --offset 5368709000 --checksum --json
json "j['bytes'] == 120 and j['crc32c'] == '$(crc "$scratch/tail")'"
rm "$scratch/sparse"

# ---- write ----

run_write() { # run_write STATUS ARGUMENTS: with standard input from the data
    local wanted=$1 got
    shift
    what="leat file write $*"
    "$leat" file write "$@" <"$data" >"$scratch/out" 2>"$scratch/err"
    got=$?
    [ "$got" -eq "$wanted" ] || fail "$what: status $got, expected $wanted"
}

run_write 0 "$scratch/copy" --checksum --json
json "j['schema'] == 'leat.file.write/1' and j['bytes'] == $size and j['crc32c'] == '$whole'"
json "sum(p['bytes'] for p in j['paths']) == $size"
cmp -s "$data" "$scratch/copy" || fail "$what: the file"
json "'reads only' in j['paths'][1]['reason'] and 'writes' in j['paths'][2]['reason']"
printf k >"$scratch/k"
for path in cufile mapped; do
    expect 1 write "$scratch/k" --require $path --pattern zeros --bytes 64K
    says err "$path"
    [ "$(cat "$scratch/k")" = k ] || fail "$what: the file is lost"
    expect 1 write "$scratch/absent" --require $path --pattern zeros --bytes 64K
    [ ! -e "$scratch/absent" ] || fail "$what: a file is made"
done
expect 0 write "$scratch/k" --pattern zeros --bytes 1 --stats
says out "k: 1 byte written"
says out "a write like these"
says out "1 byte in 1 operation"
run_write 0 "$scratch/copy" --bytes 1000 --json
json "j['bytes'] == 1000"
[ "$(stat -c %s "$scratch/copy")" -eq 1000 ] || fail "$what: the file is begun anew"
cp "$data" "$scratch/copy"
run_write 0 "$scratch/copy" --offset 12345 --bytes 4321
says out "4321 bytes"
{ head -c 12345 "$data" && head -c 4321 "$data" && tail -c +$((12345 + 4321 + 1)) "$data"; } |
    cmp -s - "$scratch/copy" || fail "$what: the rest of the file stays"
expect 0 write "$scratch/stamps" --pattern stamps --bytes 100003 --checksum
says out "crc32c $(python3 -c 'import sys; b = b"".join((8*i).to_bytes(8, "little") for i in range(12501)); open(sys.argv[1], "wb").write(b[:100003])' "$scratch/wanted" && crc "$scratch/wanted")"
cmp -s "$scratch/wanted" "$scratch/stamps" || fail "$what: each 8 bytes are their offset"
expect 0 write "$scratch/zeros" --pattern zeros --bytes 64K
cmp -s -n 65536 /dev/zero "$scratch/zeros" || fail "$what: zeros"
expect 2 write "$scratch/zeros" --pattern zeros
says err "--bytes"
expect 1 write "$scratch/no/file" --pattern zeros --bytes 1
says err "no/file"
if [ -w /dev/full ] && [ "$(id -u)" = 0 ] && mkdir "$scratch/small" &&
    mount -t tmpfs -o size=1M none "$scratch/small" 2>/dev/null; then
    expect 1 write "$scratch/small/file" --pattern stamps --bytes 4M
    says err "No space left"
    says err "small/file"
    umount "$scratch/small"
fi

# ---- cp ----

expect 0 cp "$data" "$scratch/copied" --checksum --json
silent err
json "j['schema'] == 'leat.file.cp/1' and j['bytes'] == $size and j['crc32c'] == '$whole'"
json "sum(p['bytes'] for p in j['paths']) == $size"
json "j['to'].endswith('/copied')"
cmp -s "$data" "$scratch/copied" || fail "$what: the copy"
mkdir "$scratch/folder"
chmod 640 "$data"
expect 0 cp "$data" "$scratch/folder"
cmp -s "$data" "$scratch/folder/data" || fail "$what: into a directory"
[ "$(stat -c %a "$scratch/folder/data")" = 640 ] || fail "$what: permissions"
echo old >"$scratch/mine"
chmod 604 "$scratch/mine"
expect 0 cp "$data" "$scratch/mine"
[ "$(stat -c %a "$scratch/mine")" = 604 ] || fail "$what: the permissions of what was there"
(umask 077 && expect 0 cp "$data" "$scratch/new" && [ "$(stat -c %a "$scratch/new")" = 600 ]) ||
    fail "cp with a umask"
name=$(printf 'n%.0s' {1..255})
expect 0 cp "$data" "$scratch/$name"
cmp -s "$data" "$scratch/$name" || fail "$what: a name of 255 bytes"
rm "$scratch/$name"
expect 1 cp "$data" "$scratch/n$name"
says err "too long"
expect 1 cp "$data" ''
says err "empty"
expect 1 cp "$data" "$scratch/none/"
says err "no directory"
ln -s nowhere "$scratch/dangling"
expect 1 cp "$data" "$scratch/dangling"
says err "link to what is not there"
[ -L "$scratch/dangling" ] || fail "$what: the link stays"
expect 1 cp "$data" "$scratch/mine" --offset $((size + 1))
says err "has $size bytes: --offset $((size + 1)) is past its end"
cmp -s "$data" "$scratch/mine" || fail "$what: what was there stays"
expect 1 cp /proc/version "$scratch/mine" --offset 1M
says err "ends before --offset 1048576"
cmp -s "$data" "$scratch/mine" || fail "$what: what was there stays"
expect 0 cp "$data" "$scratch/mine" --offset $size --json
json "j['bytes'] == 0"
echo old >"$scratch/old"
ln -s ../old "$scratch/folder/link"
expect 0 cp "$data" "$scratch/folder/link" --offset 5 --bytes 10 --stats
says out "writing"
[ -L "$scratch/folder/link" ] || fail "$what: the link stays"
head -c 15 "$data" | tail -c 10 | cmp -s - "$scratch/old" || fail "$what: what the link leads to"
expect 1 cp "$data" "$data"
says err "same file"
expect 1 cp "$data" /dev/null
says err "no regular file"
expect 1 cp "$scratch/none" "$scratch/copied"
says err "none"
cmp -s "$data" "$scratch/copied" || fail "$what: the old file stays"
expect 0 cp /proc/version "$scratch/version"
cat /proc/version | cmp -s - "$scratch/version" || fail "$what: a file without a size"
expect 0 cp "$data" "$scratch/copied" --json
json "'reads only' in j['write_paths'][1]['reason'] and 'reads only' not in str(j['paths'])"
find "$scratch" -name '*.leat-*' | grep -q . && fail "a temporary name is left"

# Names need not be UTF-8, JSON has to be.
odd=$scratch/$(printf 'caf\351 \303\244')
cp "$data" "$odd"
for command in "read" "check" "write --pattern zeros --bytes 4K" "cp $data"; do
    # shellcheck disable=SC2086 # words of a command
    expect 0 $command "$odd" --json
    json "(j['to'] if 'to' in j else j['file']).endswith('caf\\\\xE9 ä')"
    cp "$data" "$odd"
done

# ---- check ----

expect 0 check "$data" --json
silent err
json "j['schema'] == 'leat.file.check/1' and j['bytes'] == $size and j['file_system']"
json "len([p for p in j['paths'] if p['chosen']]) == 1 and all(p['reason'] for p in j['paths'])"
json "j['cut']['tasks'] == -(-$size // j['cut']['task_bytes']) and j['cut']['task_bytes'] >= 1 << 18"
json "'version' in j['cufile'] and isinstance(j['missing'], list)"
expect 0 check "$data" --bytes 1G --json
json "j['cut']['tasks'] == 256 and j['read']['bytes'] == 1 << 30"
expect 0 check "$data" --bytes 1
says out "cut into 1 task of 1 byte"
expect 0 check "$data" --require buffered
says out "can be had"
expect 1 check "$data" --require mapped
says out "CANNOT"
says err "mapped"
expect 1 check /proc/version --require odirect --json
json "j['required']['met'] is False and j['required']['reason']"
says err "odirect"
expect 0 check /proc/version
says out "proc"
expect 1 check "$scratch/none"
says err "none"
expect 1 check "$scratch"
says err "directory"
if ! "$leat" info | grep -q 'cuda:0'; then
    expect 77 check "$data" --device cuda:0
    says err "CUDA"
fi

# ---- tune ----

mkdir -p "$scratch/.config/leat"
printf '# mine\nLEAT_TIMEOUT = 20\nLEAT_FILE_TASK = 3M # why\n' >"$scratch/.config/leat/leat.conf"
expect 0 tune "$data" --rounds 1 --dry-run --json
json "j['schema'] == 'leat.file.tune/1' and j['written'] is None"
json "[s['name'] for s in j['settings']] == ['LEAT_FILE_THREADS', 'LEAT_FILE_TASK']"
json "all(s['value'] in [m['value'] for m in s['measured']] for s in j['settings'])"
grep -q 'LEAT_FILE_TASK = 3M # why' "$scratch/.config/leat/leat.conf" || fail "$what: kept nothing"
expect 0 tune "$scratch" --bytes 4M --rounds 1
says out "kept in $scratch/.config/leat/leat.conf"
head -n 2 "$scratch/.config/leat/leat.conf" | cmp -s - <(printf '# mine\nLEAT_TIMEOUT = 20\n') ||
    fail "$what: other lines stay"
grep -Eq '^LEAT_FILE_TASK = [0-9]+M # why$' "$scratch/.config/leat/leat.conf" ||
    fail "$what: the comment stays"
grep -Eq '^LEAT_FILE_THREADS = [0-9]+$' "$scratch/.config/leat/leat.conf" || fail "$what: threads"
find "$scratch" -name 'leat-tune*' | grep -q . && fail "tune leaves its file"
LEAT_CONFIG=$scratch/made.conf expect 0 tune "$scratch" --bytes 4M --rounds 1
grep -q '^LEAT_FILE_TASK' "$scratch/made.conf" || fail "tune makes the file that LEAT_CONFIG names"
expect 1 tune "$scratch" --bytes 1048576G
says err "are free there; --bytes asks for less"
expect 1 tune "$scratch/empty"
says err "at least 1M"
rm -r "$scratch/.config"

# ---- bench file ----

subcommand=(bench file)
expect 0 "$scratch" --file-bytes 1M --sizes 64K --ranges 100x4K --state cached,direct --rounds 2 \
    --slice 1 --against leat:1,pread:2,pread --json
json "j['schema'] == 'leat.bench/1' and j['context']['benchmark'] == 'file'"
json "len(j['benchmarks']) == 2 * 2 * 4 and not any('error_occurred' in b for b in j['benchmarks'])"
json "all(b['bw_bytes_min'] <= b['bw_bytes'] <= b['bw_bytes_max'] for b in j['benchmarks'])"
json "all(('ratio_to_best_other' in b) == ('/leat' in b['name']) for b in j['benchmarks'])"
json "{b['bs'] for b in j['benchmarks']} == {65536, 4096}"
expect 0 "$scratch" --file-bytes 1M --sizes 64K --ranges none --rounds 1 --slice 1 --against nobody
says out "of 65536 bytes"
says err "nobody is not measured"
find "$scratch" -name 'leat-bench*' | grep -q . && fail "bench file leaves its file"
expect 1 "$scratch/none" --against none
says err "none"
expect 2 "$scratch" --ranges 10
says err "10000x4K"
expect 2 "$scratch" --state warm
expect 2 "$scratch" "$scratch"
expect 0 --help
says out "usage: leat bench file"
subcommand=(file)

# ---- Usage ----

expect 0 --help
says out "check|read|write|cp|tune"
for verb in check read write cp tune; do
    expect 0 "$verb" --help
    says out "usage: leat file $verb"
done
expect 2
expect 2 raed
says err "did you mean read?"
expect 2 read
expect 2 read "$data" "$data"
expect 2 cp "$data"
expect 2 read "$data" --bytes 1Q
says err "K, M or G"
expect 2 read "$data" --offset 9223372036854775808
expect 2 read "$data" --direct maybe
says err "auto, on, off"
expect 2 read "$data" --require mappd
says err "did you mean mapped?"
expect 2 read "$data" --device gpu
says err "cuda:0"
expect 2 read "$data" --threads 0
expect 2 read "$data" --task 12
says err "4K"
expect 1 read "$scratch/none"
says err "none"
expect 1 read "$scratch"
says err "directory"

# A bar is drawn on a terminal only.
if command -v script >/dev/null; then
    script -qec "$leat file read $data" /dev/null </dev/null >"$scratch/out" 2>&1
    says out "[####"
fi

[ "$failures" -eq 0 ] && echo "all as expected"
exit $((failures > 0))
