#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example programs run under the launcher, and what they print is right.
set -euo pipefail

examples=$(cd "$(dirname "$LEAT_BIN")/../examples" && pwd)

# jacobi compares itself with the known decay and fails when it is off.
"$LEAT_BIN" run -n 8 --grid 2x2x2 "$examples/jacobi"
"$LEAT_BIN" run -n 3 "$examples/jacobi"
"$examples/jacobi"

# Newton's third law: what all ranks print adds up to nothing.
for ranks in 1 2 4 8; do
    "$LEAT_BIN" run -n $ranks "$examples/particles" | awk -v ranks=$ranks '
        { x += $(NF - 2); y += $(NF - 1); z += $NF; lines++; print }
        END { if (lines != ranks || x * x + y * y + z * z > 1e-8) { print "sum", x, y, z; exit 1 } }'
done

# messages compares itself with pi; whoever computed which part, all print the same bits.
for ranks in 1 2 5; do
    "$LEAT_BIN" run -n $ranks "$examples/messages" | awk -v ranks=$ranks '
        { values += !seen[$NF]++; lines++; print }
        END { if (lines != ranks || values != 1) exit 1 }'
done

# ranges looks at every word it has read, and what its paths carried is what it read.
records=$(mktemp -d ./records-XXXXXX)
trap 'rm -rf "$records"' EXIT
"$examples/ranges" "$records/new" | tee "$records/out"
awk '/ bytes$/ { bytes += $2 } END { exit bytes != 33334 * 500 }' "$records/out"

# Nor does it take a file that somebody else has.
echo mine >"$records/mine"
if "$examples/ranges" "$records/mine" 2>"$records/err"; then
    echo "ranges writes over a file"
    exit 1
fi
grep -q "mine" "$records/err"
[ "$(cat "$records/mine")" = mine ]
[ "$("$examples/ranges" --help 2>&1 >/dev/null | grep -c usage)" = 1 ]

# The resident ones: the decay is known, and energy stays, whether ranks are processes or threads.
LEAT_BLOCKS=2 "$LEAT_BIN" run -n 3 "$examples/resident_jacobi"
"$examples/resident_jacobi" 2
for way in "$LEAT_BIN run -n 2 $examples/resident_particles" "$examples/resident_particles 3"; do
    LEAT_BLOCKS=2 $way | awk '{ first += $4; last += $7; lines++; print }
        END { if (lines < 2 || first < 400 * lines || (last - first) ^ 2 > (1e-5 * first) ^ 2) exit 1 }'
done
