// SPDX-License-Identifier: Apache-2.0
// Coordinates before the run: an input repeated in space, molecules made whole.
//
// Repeating appends copies of the whole, x outermost and z fastest, so that a topology repeated as
// often fits without being looked at. Advantage: the same order as `gmx genconf -nbox`, whose files
// are interchangeable with it. Disadvantage: copies of one molecule type do not lie together, so
// the list of molecules grows with the number of copies.
//
// A molecule is made whole by moving each atom beside its predecessor in the file. Advantage: works
// for a molecule longer than half the box. Disadvantage: supposes that neighbours in the file are
// less than half a box apart.

#include "core/error.h"
#include "md/box.h"
#include "md/system.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_beside(const double *before, const double *now, const double box_nm[3][3])
{
    double step[3] = {now[0] - before[0], now[1] - before[1], now[2] - before[2]};
    double beside[3] = {step[0], step[1], step[2]};
    md_box_shorten(box_nm, beside);
    // A box vector is far longer than any rounding.
    return fabs(step[0] - beside[0]) + fabs(step[1] - beside[1]) + fabs(step[2] - beside[2]) < 1e-3;
}

int md_check_whole(const char *name, const struct gro *gro, const struct md_topology *topology)
{
    int64_t atom = 0;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        for (int64_t m = 0; m < block->count; m++, atom++)
            for (int i = 1; i < type->atom_count; i++, atom++)
                if (!is_beside(gro->x_nm + 3 * atom, gro->x_nm + 3 * (atom + 1), gro->box_nm))
                    return leat_fail(-EINVAL,
                                     "--tile wants whole molecules, but the box cuts a %s of %s "
                                     "between atoms %lld and %lld; make them whole first with "
                                     "`gmx trjconv -pbc whole`",
                                     type->name, name, (long long)atom + 1, (long long)atom + 2);
    }
    return 0;
}

// Returns the square of how far an atom is from the centre at most.
static double make_molecule_whole(double *x, int atoms, const double box_nm[3][3], bool whole)
{
    double centre[3] = {x[0] / atoms, x[1] / atoms, x[2] / atoms}, shift[3], furthest2 = 0.0;
    for (int i = 1; i < atoms; i++) {
        double *now = x + 3 * i, *before = x + 3 * (i - 1), step[3];
        for (int d = 0; d < 3; d++)
            step[d] = now[d] - before[d];
        double beside[3] = {step[0], step[1], step[2]};
        if (!whole)
            md_box_shorten(box_nm, beside);
        for (int d = 0; d < 3; d++) {
            now[d] -= step[d] - beside[d];
            centre[d] += now[d] / atoms;
        }
    }
    md_box_outside(box_nm, centre, shift);
    for (int i = 0; i < atoms; i++) {
        double distance2 = 0.0;
        for (int d = 0; d < 3; d++) {
            double off = x[3 * i + d] - centre[d];
            distance2 += off * off;
            x[3 * i + d] -= shift[d];
        }
        furthest2 = fmax(furthest2, distance2);
    }
    return furthest2;
}

double md_make_whole(struct gro *gro, const struct md_topology *topology, const double box_nm[3][3],
                     bool whole)
{
    double *x = gro->x_nm, furthest2 = 0.0;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        int atoms = topology->molecule_types[block->type].atom_count;
        for (int64_t m = 0; m < block->count; m++, x += 3 * (int64_t)atoms)
            furthest2 = fmax(furthest2, make_molecule_whole(x, atoms, box_nm, whole));
    }
    return sqrt(furthest2);
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
