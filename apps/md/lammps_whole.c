// SPDX-License-Identifier: Apache-2.0
// Molecules of a LAMMPS data file put together along their links.
//
// Algorithm: a breadth-first tree over the links of a kind, made once; then each atom of a molecule
// goes to the image nearest to the one before it in the tree. Every link is looked at afterwards.
// Advantage: needs no image flags, which files may lack, and is what LAMMPS does link by link.
// Disadvantage: wants links shorter than half the box.

#include "md/lammps_parts.h"

#include "core/error.h"
#include "md/box.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Neighbours of a kind's atoms in compressed rows, and the tree over them.
struct tree {
    int *start, *neighbour;
    int *order, *before; // atoms, each after the one that it follows
};

struct span {
    const struct lammps_link *link;
    int count, atoms;
};

static struct span span_of(const struct lammps_molecules *molecules, int m)
{
    return (struct span){molecules->link + molecules->first_link[m],
                         molecules->first_link[m + 1] - molecules->first_link[m],
                         molecules->first[m + 1] - molecules->first[m]};
}

static void free_tree(struct tree *tree)
{
    free(tree->start);
    free(tree->neighbour);
    free(tree->order);
    free(tree->before);
    *tree = (struct tree){0};
}

// Rows are counted one place ahead, so that filling leaves every start where it belongs.
static void fill_rows(struct tree *tree, struct span span, bool count)
{
    for (int i = 0; i < span.count; i++)
        for (int a = 1; a < lammps_arity[span.link[i].kind]; a++) {
            int one = span.link[i].atom[a - 1], other = span.link[i].atom[a];
            if (count) {
                tree->start[one + 2]++;
                tree->start[other + 2]++;
            } else {
                tree->neighbour[tree->start[one + 1]++] = other;
                tree->neighbour[tree->start[other + 1]++] = one;
            }
        }
}

static void walk(struct tree *tree, int atoms)
{
    for (int i = 0; i < atoms; i++)
        tree->before[i] = -1;
    int found = 1;
    tree->order[0] = tree->before[0] = 0;
    for (int at = 0; at < found; at++) {
        int from = tree->order[at];
        for (int n = tree->start[from]; n < tree->start[from + 1]; n++) {
            int to = tree->neighbour[n];
            if (tree->before[to] >= 0)
                continue;
            tree->before[to] = from;
            tree->order[found++] = to;
        }
    }
}

static int make_tree(struct tree *tree, struct span span)
{
    size_t atoms = (size_t)span.atoms;
    free_tree(tree);
    tree->start = calloc(atoms + 3, sizeof *tree->start);
    tree->neighbour = calloc(6 * (size_t)span.count + 1, sizeof *tree->neighbour);
    tree->order = calloc(atoms, sizeof *tree->order);
    tree->before = calloc(atoms, sizeof *tree->before);
    if (!tree->start || !tree->neighbour || !tree->order || !tree->before)
        return leat_fail(-ENOMEM, "no memory for a molecule of %d atoms", span.atoms);
    fill_rows(tree, span, true);
    for (size_t i = 0; i < atoms; i++)
        tree->start[i + 2] += tree->start[i + 1];
    fill_rows(tree, span, false);
    walk(tree, span.atoms);
    return 0;
}

static void place(const struct tree *tree, int atoms, const double box_nm[3][3], double *x)
{
    for (int i = 1; i < atoms; i++) {
        double *now = x + 3 * (int64_t)tree->order[i];
        const double *before = x + 3 * (int64_t)tree->before[tree->order[i]];
        double step[3] = {now[0] - before[0], now[1] - before[1], now[2] - before[2]};
        md_box_shorten(box_nm, step);
        for (int d = 0; d < 3; d++)
            now[d] = before[d] + step[d];
    }
}

static int check(const struct lammps_file *file, const int *atom, struct span span,
                 const double box_nm[3][3], const double *x)
{
    // A box vector is far longer than any rounding.
    double least = 1e-3 * fmin(fmin(box_nm[0][0], box_nm[1][1]), box_nm[2][2]);
    for (int i = 0; i < span.count; i++) {
        const struct lammps_link *link = &span.link[i];
        for (int a = 1; a < lammps_arity[link->kind]; a++) {
            const double *one = x + 3 * (int64_t)link->atom[a - 1];
            const double *other = x + 3 * (int64_t)link->atom[a];
            double step[3] = {other[0] - one[0], other[1] - one[1], other[2] - one[2]};
            double nearest[3] = {step[0], step[1], step[2]};
            md_box_shorten(box_nm, nearest);
            if (fabs(step[0] - nearest[0]) + fabs(step[1] - nearest[1]) +
                    fabs(step[2] - nearest[2]) <
                least)
                continue;
            return md_fail_at((struct md_place){file->name, link->line}, -ENOTSUP,
                              "atoms %d and %d of a %s are half a box apart, or their molecule is "
                              "bonded to its own image; neither is supported",
                              atom[link->atom[a - 1]] + 1, atom[link->atom[a]] + 1,
                              lammps_names[link->kind]);
        }
    }
    return 0;
}

int lammps_make_whole(const struct lammps_file *file, const struct lammps_molecules *molecules,
                      const double box_nm[3][3], double *x)
{
    struct tree tree = {0};
    int error = 0;
    for (int m = 0; m < molecules->count && !error; m++) {
        struct span span = span_of(molecules, m);
        int64_t first = molecules->first[m];
        if (span.atoms == 1)
            continue;
        if (!tree.order || molecules->kind[m] != molecules->kind[m - 1])
            error = make_tree(&tree, span);
        if (error)
            break;
        place(&tree, span.atoms, box_nm, x + 3 * first);
        error = check(file, molecules->atom + first, span, box_nm, x + 3 * first);
    }
    free_tree(&tree);
    return error;
}
