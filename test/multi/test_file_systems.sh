#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files on file systems that differ: that of the build, tmpfs, an overlay, ext4 on a loop device, one
# that gives short reads and errors (FUSE), /proc. On each, contents by checksum on every path that
# can be had, counts at the end, and many ranges; what cannot be mounted here is named.
# Needs LEAT_BIN, the command; runs where the tests' programs lie.
set -uo pipefail

leat=${LEAT_BIN:?the path of the command leat}
if [ "${FILE_SYSTEMS_INSIDE:-}" != 1 ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    # What is mounted there nobody else sees, and it goes with the test.
    FILE_SYSTEMS_INSIDE=1 exec unshare -m "$BASH" "$0"
fi
here=$PWD
scratch=$(mktemp -d "$here/file-systems-XXXXXX") || exit 1
memory=$(mktemp -d /dev/shm/leat-file-systems-XXXXXX) || exit 1
mounted=()
export HOME=$scratch
unset LEAT_CONFIG
failures=0
tried=0

subcommand=(file)
# shellcheck source=test/unit/lib_command.sh
. "$(dirname "$0")/../unit/lib_command.sh"

clean() {
    local place
    for place in "${mounted[@]}"; do
        umount "$place"
    done
    rm -rf "$scratch" "$memory"
}
trap clean EXIT

# attempt NAME DIRECTORY COMMAND...: mounts, or says what is not tried.
attempt() {
    local name=$1 place=$2 why
    shift 2
    mkdir -p "$place"
    if [ "${FILE_SYSTEMS_INSIDE:-}" != 1 ]; then
        echo "not tried: $name (mounting takes root and a mount namespace)"
        return 1
    fi
    if ! why=$("$@" 2>&1); then
        echo "not tried: $name (${why##*$'\n'})"
        return 1
    fi
    mounted=("$place" "${mounted[@]}")
}

source=$scratch/source
"$leat" file write "$source" --pattern stamps --bytes 5242999 >/dev/null || exit 1
size=5242999
crc=$("$leat" file read "$source" --require buffered --checksum --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["crc32c"])')
wanted=$(python3 - "$source" <<'EOD'
import sys
table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)
state = 0xFFFFFFFF
for byte in open(sys.argv[1], "rb").read(1 << 20):
    state = table[(state ^ byte) & 255] ^ state >> 8
print(f"{state ^ 0xFFFFFFFF:08x}")
EOD
)

# by PATH FILE: a read by this path has the right content, or says why there is no such path.
by() {
    local status
    what="read --require $1 of $2"
    "$leat" file read "$2" --require "$1" --checksum --json >"$scratch/out" 2>"$scratch/err"
    status=$?
    if [ $status -eq 0 ]; then
        json "j['crc32c'] == '$crc' and j['bytes'] == $size"
        json "[p['bytes'] for p in j['paths'] if p['path'] == '$1'] == [$size]"
        carried="$carried $1"
    else
        [ $status -eq 1 ] || fail "$what: status $status"
        says err "$1"
        says err "$2"
    fi
}

# everything NAME DIRECTORY
everything() {
    local name=$1 place=$2 way
    local file=$place/file
    tried=$((tried + 1))
    carried=""
    for way in off on auto; do
        expect 0 cp "$source" "$file" --direct $way --checksum --json
        cmp -s "$source" "$file" || fail "$what on $name: the copy"
        expect 0 read "$file" --direct $way --checksum --json
        json "j['crc32c'] == '$crc' and sum(p['bytes'] for p in j['paths']) == $size"
        # In tasks that end nowhere near a block, from an odd offset, across the end.
        expect 0 read "$file" --direct $way --task 100001 --offset 4097 --bytes 20M
        says out ": $((size - 4097)) bytes"
        expect 0 read "$file" --direct $way --offset $size --bytes 4K
        says out ": 0 bytes read"
        [ $way = auto ] && continue # writes are then as with off
        "$leat" file write "$file" --direct $way --offset 1000001 --bytes 2000003 <"$scratch/patch" \
            >"$scratch/out" 2>"$scratch/err" || fail "a write on $name: status"
        expect 0 read "$file" --direct $way --checksum
        says out "crc32c $patched"
        "$leat" file write "$file" --direct $way <"$source" >"$scratch/out" 2>"$scratch/err" ||
            fail "a whole write on $name: status"
        cmp -s "$source" "$file" || fail "a whole write on $name (direct $way)"
    done
    for way in cufile mapped odirect buffered; do
        by $way "$file"
    done
    case $carried in *buffered*) ;; *) fail "$name: not even through the page cache" ;; esac
    expect 0 check "$file" --json
    json "len([p for p in j['paths'] if p['chosen']]) == 1"
    # On that of the build it runs anyway, as unit.file_ranges.
    if [ "$place" != "$scratch" ] && [ -x "$here/unit_test_file_ranges" ]; then
        (cd "$place" && "$here/unit_test_file_ranges") >"$scratch/out" 2>"$scratch/err" ||
            { what="unit_test_file_ranges on $name" && fail "$what"; }
    fi
    rm "$file"
    echo "$name ($(stat -f -c %T "$place")):$carried"
}

# Part of the source overwritten: what a write into the middle has to come to.
head -c 3000000 "$source" | tail -c 2000003 | tr '\000-\377' '\377\000-\376' >"$scratch/patch"
cp "$source" "$scratch/patched"
python3 - "$scratch/patched" "$scratch/patch" <<'EOD'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(1000001)
    file.write(open(sys.argv[2], "rb").read())
EOD
patched=$("$leat" file read "$scratch/patched" --require buffered --checksum --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["crc32c"])')
[ "$patched" != "$crc" ] || fail "the patch changes nothing"

everything "that of the build" "$scratch"
everything tmpfs "$memory"

mkdir -p "$scratch/lower" "$scratch/upper" "$scratch/work"
if attempt overlay "$scratch/overlay" mount -t overlay overlay \
    -o "lowerdir=$scratch/lower,upperdir=$scratch/upper,workdir=$scratch/work" \
    "$scratch/overlay"; then
    everything overlay "$scratch/overlay"
fi

truncate -s 96M "$scratch/image"
if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q -F -b 4096 "$scratch/image"; then
    if attempt "ext4 on a loop device" "$scratch/loop" mount -o loop "$scratch/image" \
        "$scratch/loop"; then
        everything "ext4 on a loop device" "$scratch/loop"
    fi
else
    echo "not tried: ext4 on a loop device (no mkfs.ext4)"
fi

if [ ! -x "$here/faulty_fs" ]; then
    echo "not tried: FUSE (built without libfuse3)"
elif [ ! -c /dev/fuse ]; then
    echo "not tried: FUSE (there is no /dev/fuse)"
else
    mkdir -p "$scratch/backing"
    if attempt FUSE "$scratch/fuse" "$here/faulty_fs" "$scratch/backing" "$scratch/fuse"; then
        everything "FUSE with short reads and writes" "$scratch/fuse"
        # An error keeps its number and its offset, and what came before it is known.
        cp "$source" "$scratch/backing/bad"
        for way in off on auto; do
            expect 1 read "$scratch/fuse/bad" --direct $way
            says err "fuse/bad"
            says err "Input/output error"
            says err "1048576"
            expect 0 read "$scratch/fuse/bad" --direct $way --bytes 1M --checksum
            says out "crc32c $wanted"
            expect 1 write "$scratch/fuse/full" --direct $way --pattern stamps --bytes 2M
            says err "fuse/full"
            says err "No space left"
            says err "1048576"
            expect 1 cp "$scratch/fuse/bad" "$scratch/fuse/copy" --direct $way
            says err "1048576"
            [ ! -e "$scratch/fuse/copy" ] || fail "$what: a copy that failed has a name"
        done
    fi
fi

# Files that are made as they are read: no size, and no direct I/O.
for way in off on auto; do
    expect 0 read /proc/version --direct $way --checksum --json
    json "j['bytes'] == len(open('/proc/version', 'rb').read()) and j['paths'][3]['bytes'] == j['bytes']"
    expect 1 read /proc/version --direct $way --require odirect
    says err "/proc/version"
done

echo "file systems tried: $tried"
[ "$failures" -eq 0 ] && echo "all as expected"
exit $((failures > 0))
