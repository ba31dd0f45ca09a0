#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# leat torus: what it prints, JSON and only JSON, its options, and machine files that are wrong.
# Needs LEAT_BIN, the command, and LEAT_SOURCE_DIR.
set -uo pipefail

leat=${LEAT_BIN:?the path of the command leat}
source=${LEAT_SOURCE_DIR:?the source tree}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch LEAT_MACHINES=$source/share/machines
failures=0

subcommand=(torus)
# shellcheck source=test/unit/lib_command.sh
. "$(dirname "$0")/lib_command.sh"

# machine NAME LINES: a torus of 4x4x2x2 with more lines.
machine() {
    cat >"$scratch/$1.machine" <<EOF
name = $1
kind = torus
sides = 4 4 2 2
axes = X Y Z A
wrap = X Y Z
link_gb_per_s = 4.7
hop_ns = 100
latency_ns = 910
tni_count = 4
packet_bytes = 1920
software_send_ns = 180
software_receive_ns = 180
copy_gb_per_s = 5.4
$2
EOF
}

# Each operation, checked at every rank, with what it says about itself.
expect 0 k bcast --nodes 4x6x4 --bytes 1M --json
silent err
json 'j["schema"] == "leat.torus/1" and j["checked"] is True and j["wrong_ranks"] == 0'
json 'j["algorithm"] == "trinary" and j["ranks"] == 96 and j["bytes"] == 1 << 20'
json '0 < j["bound_seconds"] <= j["seconds"] and j["gb_per_s"] <= j["bound_gb_per_s"]'
json 'abs(j["gb_per_s"] * j["seconds"] * 1e9 / j["bytes"] - 1) < 1e-9 and j["events"] > 0'
expect 0 k allreduce --nodes 4x6x4 --bytes 256K --algorithm ring --json
json 'j["checked"] and j["algorithm"] == "ring" and j["seconds"] >= j["bound_seconds"]'
expect 0 k alltoall --nodes 4x6x4 --json
json 'j["checked"] and j["bytes"] == 8 and j["seconds"] >= j["bound_seconds"]'
expect 0 k barrier --nodes 4x6x4 --json
json 'j["algorithm"] == "words" and j["seconds"] >= j["bound_seconds"] > 0'
expect 0 k barrier --nodes 4x6x4 --algorithm dissemination --json
json 'j["algorithm"] == "dissemination" and j["seconds"] >= j["bound_seconds"] > 0'
expect 0 k exchange --nodes 4x6x4 --bytes 64K --json
json 'j["checked"] and j["bound_seconds"] <= j["seconds"] and j["bound_by"] == "node path"'
json 'j["gb_per_s"] <= j["bound_gb_per_s"] <= 16'
expect 0 k exchange --nodes 3x4x1 --bytes 8 --json
json 'j["checked"] and j["bound_seconds"] <= j["seconds"]'
expect 1 gpu-cluster exchange --nodes 64
says err "is no torus"
expect 0 gpu-cluster allreduce --nodes 64 --bytes 64K --json
json 'j["checked"] and j["ranks"] == 64'

# The published figures of the machine, without anything set for one of them.
expect 0 k pingpong --json
json '[d["hops"] for d in j["distances"]] == [1, 2, 4, 8, 16, 32, 40]'
json 'abs(j["distances"][0]["latency_us"] / 1.27 - 1) < 0.05'
json 'abs(j["distances"][0]["gb_per_s"] / 4.7 - 1) < 0.02'
json 'abs(j["distances"][0]["eager_limit_bytes"] / 18e3 - 1) < 0.2'
json 'abs(j["distances"][-1]["eager_limit_bytes"] / 60e3 - 1) < 0.2'
json 'all(abs(d["eager_limit_bytes"] / d["eager_limit_set_bytes"] - 1) < 0.05 for d in j["distances"])'
json 'all(abs((d["latency_us"] - j["distances"][0]["latency_us"]) / (d["hops"] - 1) - 0.1) < 0.001 for d in j["distances"][1:])'
expect 0 gpu-cluster pingpong --json
json '[d["hops"] for d in j["distances"]] == [2, 4, 8] and j["distances"][0]["gb_per_s"] > 4 * j["distances"][1]["gb_per_s"]'
expect 0 gpu-cluster alltoall --nodes 32 --bytes 64K --json
json 'j["checked"] and j["gb_per_s"] < j["bound_gb_per_s"] < 500'
expect 0 k pingpong --hops 3 --bytes 100
says out "us of 100"

# Memory of one endpoint: bounded whatever the ranks.
expect 0 k memory --nodes 48x6x4 --json
json '[b["rings_in"] for b in j["bounds"]] == [0, 339, 1024, 1151] and j["checked"]'
json 'all(b["used_bytes"] <= b["peak_bytes"] <= b["budget_bytes"] for b in j["bounds"])'

# A halo: as many ghosts as the eighth shell holds at even density, and both kinds right.
water=$source/test/data/water.gro
expect 0 k md-halo --gro "$water" --nodes 4x6x4 --tile 2x3x2 --cutoff 0.9 --steps 5 --json
json 'j["checked"] and j["atoms"] == 36000 and j["ranks"] == 96 and j["steps"] == 5'
json 'abs(j["ghosts_mean"] / (375 * (lambda r: 3 * r + 3 * 3.14159 / 4 * r ** 2 + 3.14159 / 6 * r ** 3)(0.9 / 1.55371)) - 1) < 0.02'
json '0 < j["onehop_step_us"] and 0 < j["forwarded_step_us"] < 100'
cp "$scratch/out" "$scratch/halo"
expect 0 k md-halo --gro "$water" --nodes 4x6x4 --tile 2x3x2 --cutoff 0.9 --steps 5 --atom-ns 20 --json
json 'abs(j["onehop_step_us"] - json.load(open("'"$scratch/halo"'"))["onehop_step_us"] - 7.5) < 2.5'
expect 0 gpu-cluster md-halo --gro "$water" --nodes 2x2x1
says out "right at all ranks"
expect 2 k md-halo --nodes 2x2x2
says err "--gro FILE"
expect 1 k md-halo --gro "$water" --nodes 4
says err "--nodes AxBxC"
expect 1 k md-halo --gro "$water" --nodes 4x1x1
says err "0.776"
expect 1 k md-halo --gro "$scratch/none.gro" --nodes 2x2x2
says err "none.gro"
expect 2 k md-halo --gro "$water" --nodes 2x2x2 --cutoff -1

# Text, pictures, and the same run twice.
expect 0 k bcast --nodes 4x6x4 --bytes 1M --svg "$scratch/loads.svg"
says out "right at all ranks"
says out "trinary"
silent err
python3 -c 'import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); sys.exit(len(d.getElementsByTagName("rect")) < 20 or not d.getElementsByTagName("polyline"))' \
    "$scratch/loads.svg" || fail "$what: the picture"
expect 1 k bcast --nodes 4x6x4 --svg "$scratch/no/loads.svg"
says err "no/loads.svg"
for run in a b; do
    expect 0 k allreduce --nodes 4x6x4 --bytes 1M --jitter 5000 --seed 7 --json
    python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(j["seconds"].hex(), j["events"])' \
        "$scratch/out" >"$scratch/run.$run"
done
cmp -s "$scratch/run.a" "$scratch/run.b" || fail "the same seed gives another time"
expect 0 k allreduce --nodes 4x6x4 --bytes 1M --jitter 5000 --seed 8 --json
python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(j["seconds"].hex(), j["events"])' \
    "$scratch/out" >"$scratch/run.b"
cmp -s "$scratch/run.a" "$scratch/run.b" && fail "another seed gives the same time"

# Usage errors.
expect 2
expect 2 k
expect 2 k bcats
says err "did you mean bcast?"
expect 2 k bcast again
expect 2 k bcast --nodes 4x
says err "48x6x32"
expect 2 k bcast --nodes 0x4
expect 2 k bcast --bytes 1Q
expect 2 k bcast --byts 8
says err "bytes"
expect 2 k bcast --root -1
expect 2 k pingpong --hops 0
expect 2 k bcast --seed x
expect 1 k bcast --nodes 53x2
says err "53"
expect 1 k bcast --nodes 400x400
says err "82944"
expect 1 k bcast --nodes 48x6x32 --bytes 8 --root 9216
says err "9216"
expect 1 k bcast --nodes 4x6x4 --algorithm best
says err "there are: binomial, chain"
expect 1 k allreduce --nodes 4x6x4 --bytes 12
says err "no whole number"
expect 1 k pingpong --hops 41
says err "the longest way has 40"

# Machine files: file, line, key and what was expected.
expect 1 nowhere bcast
says err "nowhere"
machine whole ''
expect 0 "$scratch/whole.machine" bcast --bytes 1M --algorithm chain --json
json 'j["checked"] and j["ranks"] == 64'
cp "$scratch/out" "$scratch/whole"
machine dead_link 'dead_link = 0 0 0 0 +Z'
expect 0 "$scratch/dead_link.machine" bcast --bytes 1M --algorithm chain --json
json 'j["checked"] and j["ranks"] == 64'
json 'j["seconds"] > json.load(open("'"$scratch/whole"'"))["seconds"]'
machine route 'route = A Z Y X'
expect 0 "$scratch/route.machine" exchange --bytes 64K --json
json 'j["checked"]'
for route in 'X Y Z' 'X Y Z Z' 'X Y Z B'; do
    machine wrong_route "route = $route"
    expect 1 "$scratch/wrong_route.machine" bcast
    says err "wrong_route.machine:14"
    says err "each once"
done
# The dragonfly that the cluster's file offers in its comment.
sed -e '/^outside/,/^switch_ns/d' -e 's/^#   //' "$LEAT_MACHINES/gpu-cluster.machine" >"$scratch/fly.machine"
expect 0 "$scratch/fly.machine" alltoall --nodes 64 --bytes 4K --json
json 'j["checked"] and j["ranks"] == 64 and j["seconds"] >= j["bound_seconds"]'
# A bar is drawn on a terminal only.
if command -v script >/dev/null; then
    script -qec "$leat torus k bcast --nodes 4x6x4 --bytes 4M" /dev/null </dev/null >"$scratch/out" 2>&1
    says out "[####"
    expect 0 k bcast --nodes 4x6x4 --bytes 4M
    silent err
fi

# Where streams share links, they take turns: a chain is not done link after link.
expect 0 k bcast --nodes 4x6x4 --bytes 16M --algorithm chain --json
json 'j["gb_per_s"] > 3'
sed 's/^route .*/route = X Y Z A B C/' "$LEAT_MACHINES/k.machine" >"$scratch/shared.machine"
expect 0 "$scratch/shared.machine" bcast --nodes 4x6x4 --bytes 16M --algorithm chain --json
json '0.95 < j["gb_per_s"] < 2.5'
machine wrong_link 'dead_link = 0 0 0 0 +Q'
expect 1 "$scratch/wrong_link.machine" bcast
says err "wrong_link.machine:14"
machine dead_node 'dead_node = 1 0 0 0'
expect 1 "$scratch/dead_node.machine" bcast
says err "dead_node.machine:14"
machine twice 'hop_ns = 90'
expect 1 "$scratch/twice.machine" bcast
says err "twice.machine:14"
machine unknown 'hops_ns = 90'
expect 1 "$scratch/unknown.machine" bcast
says err "unknown.machine:14"
says err "hops_ns"
machine slow 'tni_gb_per_s = -1'
expect 1 "$scratch/slow.machine" bcast
says err "slow.machine:14"
machine short ''
sed -i '/latency_ns/d' "$scratch/short.machine"
expect 1 "$scratch/short.machine" bcast
says err "latency_ns"
: >"$scratch/empty.machine"
expect 1 "$scratch/empty.machine" bcast
says err "empty.machine"

[ "$failures" -eq 0 ] && echo "all as expected"
exit $((failures > 0))
