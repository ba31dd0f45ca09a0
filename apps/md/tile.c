// SPDX-License-Identifier: Apache-2.0
// Coordinates before the run: an input repeated in space.
//
// Repeating appends copies of the whole, x outermost and z fastest, so that a topology repeated as
// often fits without being looked at. Advantage: the same order as `gmx genconf -nbox`, whose files
// are interchangeable with it. Disadvantage: copies of one molecule type do not lie together, so
// the list of molecules grows with the number of copies.

#include "core/error.h"
#include "md/system.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static int count_residues(const struct gro *gro)
{
    int count = 0;
    for (int64_t i = 0; i < gro->atom_count; i++)
        if (i == 0 || gro->labels[i].residue != gro->labels[i - 1].residue)
            count++;
    return count;
}

static int grow(struct gro *gro, int64_t atoms)
{
    size_t count = (size_t)atoms;
    void *labels = realloc(gro->labels, count * sizeof *gro->labels);
    gro->labels = labels ? labels : gro->labels;
    void *x = realloc(gro->x_nm, 3 * count * sizeof *gro->x_nm);
    gro->x_nm = x ? x : gro->x_nm;
    void *v = realloc(gro->v_nm_ps, 3 * count * sizeof *gro->v_nm_ps);
    gro->v_nm_ps = v ? v : gro->v_nm_ps;
    if (!labels || !x || !v)
        return leat_fail(-ENOMEM, "no memory for %lld atoms; use a smaller --tile",
                         (long long)atoms);
    return 0;
}

static void copy_atoms(struct gro *gro, int64_t atoms, int64_t copy, const double shift[3],
                       int residues)
{
    for (int64_t i = 0; i < atoms; i++) {
        int64_t to = copy * atoms + i;
        gro->labels[to] = gro->labels[i];
        // Residue numbers wrap in the file, at 100,000.
        int64_t residue = gro->labels[i].residue + copy * residues;
        gro->labels[to].residue = (int)(residue % 100000);
        for (int d = 0; d < 3; d++) {
            gro->x_nm[3 * to + d] = gro->x_nm[3 * i + d] + shift[d];
            gro->v_nm_ps[3 * to + d] = gro->v_nm_ps[3 * i + d];
        }
    }
}

int md_tile(struct gro *gro, const int tile[3])
{
    int64_t times = (int64_t)tile[0] * tile[1] * tile[2];
    int64_t atoms = gro->atom_count;
    if (times == 1)
        return 0;
    if (atoms > INT_MAX / times)
        return leat_fail(
            -EOVERFLOW, "--tile %dx%dx%d of %lld atoms makes more than %d atoms; use a smaller one",
            tile[0], tile[1], tile[2], (long long)atoms, INT_MAX);
    int error = grow(gro, atoms * times);
    if (error)
        return error;
    int residues = count_residues(gro);
    for (int64_t copy = 1; copy < times; copy++) {
        int64_t place[3] = {copy / tile[2] / tile[1], copy / tile[2] % tile[1], copy % tile[2]};
        double shift[3];
        for (int d = 0; d < 3; d++)
            shift[d] = (double)place[0] * gro->box_nm[0][d] + (double)place[1] * gro->box_nm[1][d] +
                       (double)place[2] * gro->box_nm[2][d];
        copy_atoms(gro, atoms, copy, shift, residues);
    }
    gro->atom_count = atoms * times;
    for (int d = 0; d < 3; d++)
        for (int k = 0; k < 3; k++)
            gro->box_nm[d][k] *= tile[d];
    return 0;
}

int md_find_block(const struct md_topology *topology, int64_t molecule)
{
    int low = 0, high = topology->block_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (topology->blocks[middle].first_molecule <= molecule)
            low = middle;
        else
            high = middle;
    }
    return low;
}
