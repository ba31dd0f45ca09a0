// SPDX-License-Identifier: Apache-2.0
// Excluded partners of the atoms of a molecule.
//
// Algorithm: a breadth-first walk from every atom, nrexcl bonds deep, joined with the explicit
// exclusions, sorted. Advantage: linear in the number of exclusions, whatever the size of the
// molecule. Disadvantage: each pair is found twice, once from either end.

#include "md/topology_parts.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// Neighbours of each atom, in compressed rows.
struct graph {
    int *start, *neighbour;
};

struct walk {
    int *seen;  // the last atom whose walk came here, plus one
    int *queue; // atoms in order of distance, the start first
    int found;
};

static void free_graph(struct graph *graph)
{
    free(graph->start);
    free(graph->neighbour);
}

static int make_graph(struct graph *graph, int atom_count, const struct md_links *links)
{
    size_t ends = 2 * (size_t)links->count;
    if (ends > INT_MAX)
        return leat_fail(-ENOTSUP, "more than 2^30 bonds or exclusions in a molecule");
    graph->start = calloc((size_t)atom_count + 2, sizeof *graph->start);
    graph->neighbour = calloc(ends + 1, sizeof *graph->neighbour);
    if (!graph->start || !graph->neighbour)
        return leat_fail(-ENOMEM, "no memory for %d bonds", links->count);
    // Counted one place ahead, so that filling leaves every start where it belongs.
    int *next = graph->start + 1;
    for (int i = 0; i < links->count; i++) {
        next[links->links[i].a + 1]++;
        next[links->links[i].b + 1]++;
    }
    for (int i = 0; i < atom_count; i++)
        next[i + 1] += next[i];
    for (int i = 0; i < links->count; i++) {
        int a = links->links[i].a, b = links->links[i].b;
        graph->neighbour[next[a]++] = b;
        graph->neighbour[next[b]++] = a;
    }
    return 0;
}

static void visit(struct walk *walk, int origin, int atom)
{
    if (walk->seen[atom] == origin + 1)
        return;
    walk->seen[atom] = origin + 1;
    walk->queue[walk->found++] = atom;
}

// Leaves the origin and its partners in the queue.
static void find_partners(struct walk *walk, const struct graph *bonds,
                          const struct graph *explicit_ones, int origin, int depth)
{
    walk->found = 0;
    visit(walk, origin, origin);
    for (int level = 0, begin = 0; level < depth && begin < walk->found; level++) {
        int end = walk->found;
        for (; begin < end; begin++) {
            int atom = walk->queue[begin];
            for (int i = bonds->start[atom]; i < bonds->start[atom + 1]; i++)
                visit(walk, origin, bonds->neighbour[i]);
        }
    }
    for (int i = explicit_ones->start[origin]; i < explicit_ones->start[origin + 1]; i++)
        visit(walk, origin, explicit_ones->neighbour[i]);
}

static int ascending(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

static int append_partners(struct md_molecule_type *out, int atom, struct walk *walk,
                           int64_t *capacity)
{
    int64_t total = (int64_t)out->exclusion_start[atom] + walk->found - 1;
    if (total > INT_MAX)
        return leat_fail(-ENOTSUP, "moleculetype '%s' has more than 2^31 excluded pairs",
                         out->name);
    if (total > *capacity) {
        int64_t wanted = 2 * total;
        int *grown = realloc(out->exclusion, (size_t)wanted * sizeof *grown);
        if (!grown)
            return leat_fail(-ENOMEM, "no memory for %lld exclusions", (long long)wanted);
        out->exclusion = grown;
        *capacity = wanted;
    }
    int *row = out->exclusion + out->exclusion_start[atom];
    size_t count = (size_t)walk->found - 1; // without the atom itself
    if (count)
        memcpy(row, walk->queue + 1, count * sizeof *row);
    qsort(row, count, sizeof *row, ascending);
    out->exclusion_start[atom + 1] = (int)total;
    return 0;
}

// A rigid water is bonded from the oxygen to either hydrogen.
static int join_settles(struct md_links *bonds, const struct md_molecule_type *out)
{
    for (int i = 0; i < 2 * out->settle_count; i++) {
        struct md_link *grown =
            md_reserve(bonds->links, bonds->count, &bonds->capacity, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        bonds->links = grown;
        int oxygen = out->settles[i / 2].oxygen;
        bonds->links[bonds->count++] = (struct md_link){.a = oxygen, .b = oxygen + 1 + i % 2};
    }
    return 0;
}

int md_molecule_exclude(struct md_molecule_entry *molecule)
{
    struct md_molecule_type *out = &molecule->out;
    size_t atoms = (size_t)out->atom_count;
    struct graph bonds = {0}, explicit_ones = {0};
    struct walk walk = {calloc(atoms, sizeof(int)), calloc(atoms, sizeof(int)), 0};
    int64_t capacity = 16;
    out->exclusion_start = calloc(atoms + 1, sizeof *out->exclusion_start);
    out->exclusion = calloc((size_t)capacity, sizeof *out->exclusion);
    int error = 0;
    if (!walk.seen || !walk.queue || !out->exclusion_start || !out->exclusion)
        error = leat_fail(-ENOMEM, "no memory for the exclusions of %zu atoms", atoms);
    if (!error)
        error = join_settles(&molecule->bonds, out);
    if (!error)
        error = make_graph(&bonds, out->atom_count, &molecule->bonds);
    if (!error)
        error = make_graph(&explicit_ones, out->atom_count, &molecule->exclusions);
    for (int i = 0; i < out->atom_count && !error; i++) {
        find_partners(&walk, &bonds, &explicit_ones, i, molecule->nrexcl);
        error = append_partners(out, i, &walk, &capacity);
    }
    free(walk.seen);
    free(walk.queue);
    free_graph(&bonds);
    free_graph(&explicit_ones);
    return error;
}
