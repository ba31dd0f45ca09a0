// SPDX-License-Identifier: Apache-2.0
// Molecules made whole, and the test whether they are.
//
// Algorithm: a breadth-first walk along bonds, constraints and rigid waters, once a kind of
// molecule, gives an order and for each atom the one it is put beside. Advantage: right for
// molecules of any length, whatever the order of their atoms. Disadvantage: supposes that bonds are
// shorter than half a box; parts that no bond connects are put beside the atom before them in the
// file, which may be any of their images.

#include "core/error.h"
#include "md/box.h"
#include "md/system.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The first atom in order is 0.
struct walk {
    int *order, *beside; // [atoms]; beside[i] is for atom order[i]
};

// Neighbours of atom i: neighbour[start[i] .. start[i + 1]).
struct graph {
    int *start, *neighbour;
};

typedef void visitor(void *context, int a, int b);

static void for_each_bond(const struct md_molecule_type *type, visitor *visit, void *context)
{
    for (int i = type->term_start[MD_TERM_BOND]; i < type->term_start[MD_TERM_BOND + 1]; i++)
        visit(context, type->terms[i].atom[0], type->terms[i].atom[1]);
    for (int i = 0; i < type->constraint_count; i++)
        visit(context, type->constraints[i].a, type->constraints[i].b);
    for (int i = 0; i < type->settle_count; i++) {
        visit(context, type->settles[i].oxygen, type->settles[i].oxygen + 1);
        visit(context, type->settles[i].oxygen, type->settles[i].oxygen + 2);
    }
}

static void count_ends(void *context, int a, int b)
{
    int *ends = context;
    ends[a]++;
    ends[b]++;
}

// Fills rows from their ends.
static void add_neighbours(void *context, int a, int b)
{
    struct graph *graph = context;
    graph->neighbour[--graph->start[a]] = b;
    graph->neighbour[--graph->start[b]] = a;
}

static int make_graph(const struct md_molecule_type *type, struct graph *graph)
{
    size_t atoms = (size_t)type->atom_count;
    size_t bonds = (size_t)type->term_start[MD_TERM_BOND + 1] + (size_t)type->constraint_count +
                   2 * (size_t)type->settle_count;
    graph->start = calloc(atoms + 1, sizeof *graph->start);
    graph->neighbour = calloc(2 * bonds + 1, sizeof *graph->neighbour);
    if (!graph->start || !graph->neighbour)
        return -ENOMEM;
    for_each_bond(type, count_ends, graph->start);
    for (int i = 0; i < type->atom_count; i++)
        graph->start[i + 1] += graph->start[i];
    for_each_bond(type, add_neighbours, graph);
    return 0;
}

static void follow(const struct graph *graph, int atoms, struct walk *walk, char *seen)
{
    int found = 0, next = 0;
    for (int i = 0; i < atoms; i++) {
        if (seen[i])
            continue;
        seen[i] = 1;
        walk->order[found] = i;
        walk->beside[found++] = i ? i - 1 : 0; // a lower number, so already in place
        for (; next < found; next++) {
            int atom = walk->order[next];
            for (int n = graph->start[atom]; n < graph->start[atom + 1]; n++) {
                int neighbour = graph->neighbour[n];
                if (seen[neighbour])
                    continue;
                seen[neighbour] = 1;
                walk->order[found] = neighbour;
                walk->beside[found++] = atom;
            }
        }
    }
}

static int make_walk(const struct md_molecule_type *type, struct walk *walk)
{
    size_t atoms = (size_t)type->atom_count;
    struct graph graph = {0};
    char *seen = calloc(atoms, 1);
    walk->order = calloc(atoms, sizeof *walk->order);
    walk->beside = calloc(atoms, sizeof *walk->beside);
    int error = seen && walk->order && walk->beside ? make_graph(type, &graph) : -ENOMEM;
    if (!error)
        follow(&graph, type->atom_count, walk, seen);
    free(graph.start);
    free(graph.neighbour);
    free(seen);
    return error;
}

static void free_walks(struct walk *walks, int count)
{
    for (int t = 0; walks && t < count; t++) {
        free(walks[t].order);
        free(walks[t].beside);
    }
    free(walks);
}

// One for each kind of molecule; NULL without memory.
static struct walk *make_walks(const struct md_topology *topology)
{
    int count = topology->molecule_type_count, error = 0;
    struct walk *walks = calloc((size_t)count, sizeof *walks);
    for (int t = 0; walks && t < count && !error; t++)
        error = make_walk(&topology->molecule_types[t], &walks[t]);
    if (walks && !error)
        return walks;
    free_walks(walks, count);
    leat_fail(-ENOMEM, "no memory for the bonds of %d kinds of molecules", count);
    return NULL;
}

// How far `now` has to move to be beside `before`; true if it is there already.
static bool is_beside(const double *before, const double *now, const double box_nm[3][3],
                      double move[3])
{
    double step[3], beside[3], off = 0.0;
    for (int d = 0; d < 3; d++)
        beside[d] = step[d] = now[d] - before[d];
    md_box_shorten(box_nm, beside);
    for (int d = 0; d < 3; d++) {
        move[d] = beside[d] - step[d];
        off += fabs(move[d]);
    }
    return off < 1e-3; // a box vector is far longer than any rounding
}

static int find_cut(const double *x, const struct walk *walk, int atoms, const double box_nm[3][3])
{
    double move[3];
    for (int i = 1; i < atoms; i++)
        if (!is_beside(x + 3 * (int64_t)walk->beside[i], x + 3 * (int64_t)walk->order[i], box_nm,
                       move))
            return i;
    return 0;
}

int md_check_whole(const char *name, const struct gro *gro, const struct md_topology *topology)
{
    struct walk *walks = make_walks(topology);
    int64_t atom = 0;
    int error = walks ? 0 : -ENOMEM;
    for (int b = 0; b < topology->block_count && !error; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        const struct walk *walk = &walks[block->type];
        for (int64_t m = 0; m < block->count && !error; m++, atom += type->atom_count) {
            int cut = find_cut(gro->x_nm + 3 * atom, walk, type->atom_count, gro->box_nm);
            if (cut)
                error = leat_fail(-EINVAL,
                                  "--tile wants whole molecules, but the box cuts a %s of %s "
                                  "between atoms %lld and %lld; make them whole first with "
                                  "`gmx trjconv -pbc whole`",
                                  type->name, name, (long long)atom + walk->beside[cut] + 1,
                                  (long long)atom + walk->order[cut] + 1);
        }
    }
    free_walks(walks, topology->molecule_type_count);
    return error;
}

static void make_molecule_whole(double *x, const struct walk *walk, int atoms,
                                const double box_nm[3][3])
{
    for (int i = 1; i < atoms; i++) {
        double *now = x + 3 * (int64_t)walk->order[i], move[3];
        is_beside(x + 3 * (int64_t)walk->beside[i], now, box_nm, move);
        for (int d = 0; d < 3; d++)
            now[d] += move[d];
    }
}

// Returns the square of how far an atom is from the centre at most.
static double centre_molecule(double *x, int atoms, const double box_nm[3][3])
{
    double centre[3] = {0.0, 0.0, 0.0}, shift[3], furthest2 = 0.0;
    for (int i = 0; i < atoms; i++)
        for (int d = 0; d < 3; d++)
            centre[d] += x[3 * i + d] / atoms;
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

// Bonds that were not walked along close rings, which have to close without the box's help.
struct closing {
    const double *x;
    const double (*box_nm)[3];
    int a, b; // the first bond that does not
};

static void check_closed(void *context, int a, int b)
{
    struct closing *closing = context;
    double move[3];
    if (closing->a == closing->b &&
        !is_beside(closing->x + 3 * (int64_t)a, closing->x + 3 * (int64_t)b, closing->box_nm, move))
        *closing = (struct closing){closing->x, closing->box_nm, a, b};
}

static int make_one_whole(const char *name, int64_t first, const struct md_molecule_type *type,
                          const struct walk *walk, const double box_nm[3][3], double *x)
{
    struct closing closing = {x, box_nm, 0, 0};
    make_molecule_whole(x, walk, type->atom_count, box_nm);
    for_each_bond(type, check_closed, &closing);
    if (closing.a == closing.b)
        return 0;
    return leat_fail(-EINVAL,
                     "a %s of %s is bonded to its own image between atoms %lld and %lld; molecules "
                     "without an end are not supported",
                     type->name, name, (long long)first + closing.a + 1,
                     (long long)first + closing.b + 1);
}

int md_make_whole(const char *name, struct gro *gro, const struct md_topology *topology,
                  const double box_nm[3][3], bool whole, double *radius_nm)
{
    struct walk *walks = make_walks(topology);
    double furthest2 = 0.0;
    int64_t atom = 0;
    int error = walks ? 0 : -ENOMEM;
    for (int b = 0; b < topology->block_count && !error; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        for (int64_t m = 0; m < block->count && !error; m++, atom += type->atom_count) {
            double *x = gro->x_nm + 3 * atom;
            if (!whole)
                error = make_one_whole(name, atom, type, &walks[block->type], box_nm, x);
            if (!error)
                furthest2 = fmax(furthest2, centre_molecule(x, type->atom_count, box_nm));
        }
    }
    free_walks(walks, topology->molecule_type_count);
    if (!error)
        *radius_nm = sqrt(furthest2);
    return error;
}
