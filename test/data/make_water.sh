#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes water.gro: a lattice of SPC/E waters, equilibrated by leat under v-rescale, first with short
# steps. Run it from anywhere; LEAT_BIN names the command (default: leat on the PATH).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
leat=${LEAT_BIN:-leat}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

settings() { # dt in ps, steps, tau_t in ps, gen-vel
    cat <<MDP
integrator      = md
dt              = $1
nsteps          = $2
nstlist         = 10
coulombtype     = reaction-field
epsilon-rf      = 0
rcoulomb        = 0.9
rvdw            = 0.9
vdw-modifier    = potential-shift
tcoupl          = v-rescale
tc-grps         = System
tau-t           = $3
ref-t           = 300
gen-vel         = $4
gen-temp        = 300
gen-seed        = 20
ld-seed         = 20
MDP
}

python3 "$here/make_water.py" 10 1 > "$work/0.gro"
settings 0.0001 3000 0.005 yes > "$work/1.mdp"
settings 0.0005 4000 0.02 no > "$work/2.mdp"
settings 0.002 25000 0.1 no > "$work/3.mdp"
for stage in 1 2 3; do
    "$leat" md --gro "$work/$((stage - 1)).gro" --top "$here/water.top" --mdp "$work/$stage.mdp" \
        --out "$work/$stage.gro"
done
cp "$work/3.gro" "$here/water.gro"
