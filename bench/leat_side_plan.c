// SPDX-License-Identifier: Apache-2.0
// Plans of leat's side of the halo benchmark: one pulse by the index map that the peers have, or
// all pulses of a grid of domains with atoms at random places.
//
// Advantage: whole plans come from the library's own decomposition, as a program's do.
// Disadvantage: atoms without structure; those of a liquid are no more evenly spread, but whole.

#define _GNU_SOURCE
#include "leat_side.h"

#include "core/error.h"
#include "halo_pulse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define ATOMS_PER_NM3 100.0 /* water */
#define CUTOFF_NM     1.0

static int make_pulse(struct side_rank *rank)
{
    const uint32_t atoms = rank->slice.atoms;
    uint32_t *index = malloc(sizeof *index * atoms);
    if (!index)
        return leat_fail(-ENOMEM, "no memory for an index map of %u atoms", atoms);
    int error = pulse_plan(rank->job, rank->rank, atoms, index, &rank->plan);
    free(index);
    return error;
}

static double random_unit(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / 9007199254740992.0;
}

// Cubes with edges of whole quarters, so that stamps with shifts are exact in floats.
static double domain_edge_nm(uint32_t atoms)
{
    return ceil(4 * cbrt(atoms / ATOMS_PER_NM3)) / 4;
}

static void scatter(const struct side_rank *rank, double *x_nm, uint32_t *start)
{
    const int *grid = rank->side->grid;
    const int at[3] = {rank->rank / (grid[1] * grid[2]), rank->rank / grid[2] % grid[1],
                       rank->rank % grid[2]};
    const double edge = domain_edge_nm(rank->slice.atoms);
    uint64_t state = (uint64_t)rank->rank + 1;
    for (uint32_t atom = 0; atom < rank->slice.atoms; atom++) {
        start[atom] = atom;
        for (int d = 0; d < 3; d++)
            x_nm[3 * (size_t)atom + (size_t)d] = edge * (at[d] + random_unit(&state));
    }
    start[rank->slice.atoms] = rank->slice.atoms;
}

static int make_whole(struct side_rank *rank)
{
    const struct side *side = rank->side;
    const uint32_t atoms = rank->slice.atoms;
    double *x_nm = malloc(3 * sizeof *x_nm * atoms);
    uint32_t *start = malloc(sizeof *start * ((size_t)atoms + 1));
    int error = x_nm && start ? 0 : leat_fail(-ENOMEM, "no memory for %u atoms", atoms);
    if (!error) {
        scatter(rank, x_nm, start);
        leat_decomposition decomposition = {
            .size = sizeof decomposition, .cutoff_nm = CUTOFF_NM, .kind = side->kind};
        for (int d = 0; d < 3; d++) {
            decomposition.grid[d] = side->grid[d];
            decomposition.box_nm[d][d] = side->grid[d] * domain_edge_nm(atoms);
        }
        const leat_groups groups = {.group_count = atoms, .start = start};
        error = leat_plan_build(rank->job, &decomposition, &groups, x_nm, &rank->plan);
    }
    free(x_nm);
    free(start);
    return error;
}

int side_make_plan(struct side_rank *rank)
{
    int error = rank->side->grid[0] ? make_whole(rank) : make_pulse(rank);
    rank->info.size = sizeof rank->info;
    return error ? error : leat_plan_info_get(rank->plan, &rank->info);
}
