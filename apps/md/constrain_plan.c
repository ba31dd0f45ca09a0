// SPDX-License-Identifier: Apache-2.0
// Sorts out a molecule kind's constraints: what is impossible, clusters, the order of elimination.
//
// Algorithm: two constraints that share an atom are coupled. Elimination takes next what is coupled
// to fewest (minimum degree: George & Liu, SIAM Review 31 (1989) 1; here in sweeps of a rising
// limit), and couples its partners to one another. Advantage: a tree of bonds is eaten from its
// leaves, which couples nothing new, and rings little. Disadvantage: one atom with hundreds of
// constraints couples all of them, so what would take too much memory is refused.

#include "md/constrain.h"
#include "md/constrain_plan.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OF_ATOM = 256, MOST_UPDATES = 1 << 25, MOST_BARS = 1 << 24 };

// What a constraint is coupled to and that has not been eliminated; its row, once it has been.
struct partners {
    int count, capacity;
    int *item;
};

struct draft {
    const struct md_molecule_type *type;
    int atoms, bars, clusters;
    int *bar_start, *bar_of_atom; // constraints of each atom
    struct partners *partners;
    int *queue, *order; // constraints by cluster: as they were found, as they are eliminated
    int *rank;          // of constraints in the cluster's order, -1 before
    int *cluster_start; // in queue and order
    int *local;         // of atoms: index in the cluster, -1 outside
    int64_t pairs, updates;
};

static void draft_free(struct draft *draft)
{
    for (int k = 0; draft->partners && k < draft->bars; k++)
        free(draft->partners[k].item);
    free(draft->partners);
    free(draft->bar_start);
}

static int no_memory(const struct md_molecule_type *type)
{
    return leat_fail(-ENOMEM, "no memory for the constraints of molecule '%s'", type->name);
}

// One piece of memory, cut up.
static int draft_open(const struct md_molecule_type *type, struct draft *draft)
{
    size_t atoms = (size_t)type->atom_count, bars = (size_t)type->constraint_count;
    *draft = (struct draft){.type = type, .atoms = type->atom_count};
    if (type->constraint_count > MOST_BARS)
        return leat_fail(-ENOTSUP, "molecule '%s' has %d constraints, limit %d", type->name,
                         type->constraint_count, MOST_BARS);
    draft->bar_start = calloc(2 * atoms + 6 * bars + 2, sizeof(int));
    draft->partners = calloc(bars, sizeof *draft->partners);
    if (!draft->bar_start || !draft->partners)
        return no_memory(type);
    draft->bars = type->constraint_count;
    draft->bar_of_atom = draft->bar_start + atoms + 1;
    draft->queue = draft->bar_of_atom + 2 * bars;
    draft->order = draft->queue + bars;
    draft->rank = draft->order + bars;
    draft->cluster_start = draft->rank + bars;
    draft->local = draft->cluster_start + bars + 1;
    for (size_t k = 0; k < bars; k++)
        draft->rank[k] = -1;
    for (size_t k = 0; k < atoms; k++)
        draft->local[k] = -1;
    return 0;
}

// ---- What is impossible ----

static int refuse(const struct md_molecule_type *type, int constraint, const char *what)
{
    const struct md_constraint *c = &type->constraints[constraint];
    return leat_fail(-EINVAL,
                     "molecule '%s': the constraint of atoms %d and %d to %g nm %s; correct "
                     "[ constraints ], or the bonds that become constraints",
                     type->name, c->a + 1, c->b + 1, c->length_nm, what);
}

static int check_alone(const struct md_molecule_type *type, int k)
{
    const struct md_constraint *c = &type->constraints[k];
    if (c->a < 0 || c->b < 0 || c->a >= type->atom_count || c->b >= type->atom_count)
        return refuse(type, k, "names an atom that the molecule does not have");
    if (c->a == c->b)
        return refuse(type, k, "is of an atom with itself");
    if (!(c->length_nm > 0.0) || !isfinite(c->length_nm * c->length_nm) ||
        !(c->length_nm * c->length_nm > 0.0))
        return refuse(type, k, "has no positive length");
    if (!(type->atoms[c->a].mass_u > 0.0 && type->atoms[c->b].mass_u > 0.0) ||
        !isfinite(type->atoms[c->a].mass_u + type->atoms[c->b].mass_u))
        return refuse(type, k, "is of an atom without mass");
    return 0;
}

// Lists each atom's constraints, in order.
static int list_atoms(struct draft *draft)
{
    const struct md_molecule_type *type = draft->type;
    int *start = draft->bar_start;
    for (int k = 0; k < draft->bars; k++) {
        int error = check_alone(type, k);
        if (error)
            return error;
        start[type->constraints[k].a]++;
        start[type->constraints[k].b]++;
    }
    // Sums to where each list ends; filled from the back, they are where it begins.
    for (int i = 1; i <= draft->atoms; i++)
        start[i] += start[i - 1];
    for (int k = draft->bars - 1; k >= 0; k--) {
        draft->bar_of_atom[--start[type->constraints[k].a]] = k;
        draft->bar_of_atom[--start[type->constraints[k].b]] = k;
    }
    return 0;
}

static int other_atom(const struct md_molecule_type *type, int constraint, int atom)
{
    const struct md_constraint *c = &type->constraints[constraint];
    return c->a == atom ? c->b : c->a;
}

// ---- Coupling and elimination ----

static int insert(const struct draft *draft, int of, int partner)
{
    struct partners *list = &draft->partners[of];
    for (int k = 0; k < list->count; k++)
        if (list->item[k] == partner)
            return 0;
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 8;
        int *item = realloc(list->item, (size_t)capacity * sizeof *item);
        if (!item)
            return no_memory(draft->type);
        list->item = item;
        list->capacity = capacity;
    }
    list->item[list->count++] = partner;
    return 0;
}

static void withdraw(struct partners *list, int partner)
{
    int kept = 0;
    for (int k = 0; k < list->count; k++)
        if (list->item[k] != partner)
            list->item[kept++] = list->item[k];
    list->count = kept;
}

// Couples the constraint to those that it shares one of its atoms with.
static int couple(struct draft *draft, int constraint, int atom)
{
    const struct md_molecule_type *type = draft->type;
    int degree = draft->bar_start[atom + 1] - draft->bar_start[atom];
    if (degree > MOST_OF_ATOM)
        return leat_fail(-ENOTSUP,
                         "molecule '%s': atom %d has %d constraints, limit %d; leave some out",
                         type->name, atom + 1, degree, MOST_OF_ATOM);
    for (int k = draft->bar_start[atom]; k < draft->bar_start[atom + 1]; k++) {
        int partner = draft->bar_of_atom[k];
        if (partner == constraint)
            continue;
        if (partner < constraint &&
            other_atom(type, partner, atom) == other_atom(type, constraint, atom))
            return refuse(type, constraint, "is there twice");
        int error = insert(draft, constraint, partner);
        if (error)
            return error;
    }
    return 0;
}

static int couple_all(struct draft *draft)
{
    int error = 0;
    for (int k = 0; !error && k < draft->bars; k++) {
        error = couple(draft, k, draft->type->constraints[k].a);
        if (!error)
            error = couple(draft, k, draft->type->constraints[k].b);
    }
    return error;
}

// Puts clusters into the queue one after the other.
static void find_clusters(struct draft *draft)
{
    int count = 0;
    for (int seed = 0; seed < draft->bars; seed++) {
        if (draft->rank[seed] != -1)
            continue;
        draft->cluster_start[draft->clusters++] = count;
        int next = count;
        draft->queue[count++] = seed;
        draft->rank[seed] = -2;
        for (; next < count; next++) {
            const struct partners *list = &draft->partners[draft->queue[next]];
            for (int k = 0; k < list->count; k++) {
                if (draft->rank[list->item[k]] != -1)
                    continue;
                draft->queue[count++] = list->item[k];
                draft->rank[list->item[k]] = -2;
            }
        }
    }
    draft->cluster_start[draft->clusters] = count;
}

static int eliminate(struct draft *draft, int constraint)
{
    const struct partners *row = &draft->partners[constraint];
    draft->pairs += row->count;
    draft->updates += (int64_t)row->count * row->count;
    if (draft->updates > MOST_UPDATES)
        return leat_fail(-ENOTSUP,
                         "molecule '%s': its constraints are connected in too many ways to be "
                         "solved; leave some out",
                         draft->type->name);
    for (int k = 0; k < row->count; k++) {
        withdraw(&draft->partners[row->item[k]], constraint);
        for (int j = 0; j < row->count; j++) {
            int error = j == k ? 0 : insert(draft, row->item[k], row->item[j]);
            if (error)
                return error;
        }
    }
    return 0;
}

// Sweeps go to and fro, since the next one to take often lies beside the last.
static int order_cluster(struct draft *draft, int start, int end)
{
    int done = 0;
    for (int limit = 0, sweep = 0, before = -1; done < end - start; sweep++) {
        limit += done == before;
        before = done;
        for (int k = start; k < end; k++) {
            int constraint = draft->queue[sweep % 2 ? end - 1 - (k - start) : k];
            if (draft->rank[constraint] >= 0 || draft->partners[constraint].count > limit)
                continue;
            int error = eliminate(draft, constraint);
            if (error)
                return error;
            draft->order[start + done] = constraint;
            draft->rank[constraint] = done++;
        }
    }
    return 0;
}

// ---- Tables ----

// All of a plan's memory that is written while it is made.
struct filling {
    struct md_constrainer *constrainer;
    struct md_cluster *clusters;
    struct md_bar *bars;
    struct md_coupling *entries;
    int32_t *atom, *column, *update;
    double *inverse_mass;
};

static size_t count_entries(const struct draft *draft)
{
    size_t count = (size_t)draft->bars;
    for (int i = 0; i < draft->atoms; i++) {
        size_t degree = (size_t)(draft->bar_start[i + 1] - draft->bar_start[i]);
        count += degree * degree - degree;
    }
    return count;
}

static int reserve(const struct draft *draft, double tolerance, struct filling *to)
{
    size_t bars = (size_t)draft->bars;
    to->constrainer = calloc(1, sizeof *to->constrainer);
    if (!to->constrainer)
        return no_memory(draft->type);
    struct md_constraint_tables *tables = &to->constrainer->tables;
    // Elements beyond the last, so that none has no address.
    tables->clusters = to->clusters = calloc((size_t)draft->clusters, sizeof *to->clusters);
    tables->bars = to->bars = calloc(bars, sizeof *to->bars);
    tables->entries = to->entries = calloc(count_entries(draft), sizeof *to->entries);
    tables->atom = to->atom = calloc(2 * bars, sizeof *to->atom);
    tables->inverse_mass = to->inverse_mass = calloc(2 * bars, sizeof *to->inverse_mass);
    tables->column = to->column = calloc((size_t)draft->pairs + 1, sizeof *to->column);
    tables->update = to->update = calloc((size_t)draft->updates + 1, sizeof *to->update);
    tables->tolerance = fmax(tolerance, 1e-14); // below it rounding decides
    memcpy(to->constrainer->name, draft->type->name, sizeof to->constrainer->name);
    bool all = to->clusters && to->bars && to->entries && to->atom && to->inverse_mass &&
               to->column && to->update;
    return all ? 0 : no_memory(draft->type);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1
                                                     : *(const int32_t *)a > *(const int32_t *)b;
}

static void add_atom(struct draft *draft, struct filling *to, struct md_cluster *cluster, int atom)
{
    struct md_constraint_tables *tables = &to->constrainer->tables;
    if (draft->local[atom] >= 0)
        return;
    draft->local[atom] = cluster->atom_count++;
    to->atom[tables->atom_count] = atom;
    to->inverse_mass[tables->atom_count++] = 1.0 / draft->type->atoms[atom].mass_u;
}

// Bars in the order of elimination, with their atoms and the columns of their rows.
static void add_bars(struct draft *draft, int number, struct filling *to)
{
    struct md_constraint_tables *tables = &to->constrainer->tables;
    struct md_cluster *cluster = &to->clusters[number];
    for (int k = draft->cluster_start[number]; k < draft->cluster_start[number + 1]; k++) {
        const struct md_constraint *c = &draft->type->constraints[draft->order[k]];
        const struct partners *row = &draft->partners[draft->order[k]];
        add_atom(draft, to, cluster, c->a);
        add_atom(draft, to, cluster, c->b);
        int32_t *column = to->column + tables->pair_count;
        for (int p = 0; p < row->count; p++)
            column[p] = draft->rank[row->item[p]];
        qsort(column, (size_t)row->count, sizeof *column, compare_ints);
        tables->pair_count += row->count;
        cluster->pair_count += row->count;
        to->bars[tables->bar_count++] =
            (struct md_bar){draft->local[c->a], draft->local[c->b], cluster->pair_count,
                            c->length_nm * c->length_nm};
        cluster->bar_count++;
    }
}

// Where the matrix keeps (row, column).
static int32_t find_value(const struct filling *from, const struct md_cluster *cluster, int32_t row,
                          int32_t column)
{
    if (row == column)
        return row;
    int32_t low = row < column ? row : column, high = row < column ? column : row;
    const struct md_bar *bars = from->bars + cluster->first_bar;
    const int32_t *columns = from->column + cluster->first_pair;
    int32_t p = low > 0 ? bars[low - 1].pair_end : 0;
    while (columns[p] != high) // every pair that is asked for is there, by elimination's closure
        p++;
    return cluster->bar_count + 2 * p + (row > column);
}

static void add_entry(struct filling *to, const struct md_cluster *cluster, int32_t row,
                      int32_t column, double coupling)
{
    struct md_constraint_tables *tables = &to->constrainer->tables;
    to->entries[tables->entry_count++] =
        (struct md_coupling){find_value(to, cluster, row, column), row, column, coupling};
}

// The diagonal, and what shares one of this atom's ends.
static void add_entries(const struct draft *draft, int number, struct filling *to)
{
    const struct md_molecule_type *type = draft->type;
    struct md_cluster *cluster = &to->clusters[number];
    for (int k = draft->cluster_start[number]; k < draft->cluster_start[number + 1]; k++) {
        int constraint = draft->order[k];
        int ends[2] = {type->constraints[constraint].a, type->constraints[constraint].b};
        double inverse[2] = {1.0 / type->atoms[ends[0]].mass_u, 1.0 / type->atoms[ends[1]].mass_u};
        int32_t row = draft->rank[constraint];
        add_entry(to, cluster, row, row, inverse[0] + inverse[1]);
        for (int end = 0; end < 2; end++)
            for (int j = draft->bar_start[ends[end]]; j < draft->bar_start[ends[end] + 1]; j++) {
                int partner = draft->bar_of_atom[j];
                bool same_end = type->constraints[partner].a == ends[end] ? end == 0 : end == 1;
                if (partner != constraint)
                    add_entry(to, cluster, row, draft->rank[partner],
                              same_end ? inverse[end] : -inverse[end]);
            }
    }
    cluster->entry_count = to->constrainer->tables.entry_count - cluster->first_entry;
}

static void add_updates(const struct draft *draft, int number, struct filling *to)
{
    struct md_constraint_tables *tables = &to->constrainer->tables;
    const struct md_cluster *cluster = &to->clusters[number];
    const struct md_bar *bars = to->bars + cluster->first_bar;
    const int32_t *column = to->column + cluster->first_pair;
    int count = draft->cluster_start[number + 1] - draft->cluster_start[number];
    for (int k = 0; k < count; k++) {
        int32_t first = k > 0 ? bars[k - 1].pair_end : 0, end = bars[k].pair_end;
        for (int32_t p = first; p < end; p++)
            for (int32_t q = first; q < end; q++)
                to->update[tables->update_count++] = find_value(to, cluster, column[p], column[q]);
    }
}

static int check_freedom(const struct draft *draft, int number, const struct md_cluster *cluster)
{
    if (cluster->atom_count < 3 || cluster->bar_count <= 3 * (int64_t)cluster->atom_count - 6)
        return 0;
    const struct md_molecule_type *type = draft->type;
    const struct md_constraint *c = &type->constraints[draft->queue[draft->cluster_start[number]]];
    return leat_fail(-EINVAL,
                     "molecule '%s': the group of atoms %d, %d and others has %d constraints for "
                     "%d atoms, whose shape has %d degrees of freedom; leave some out of "
                     "[ constraints ]",
                     type->name, c->a + 1, c->b + 1, cluster->bar_count, cluster->atom_count,
                     3 * cluster->atom_count - 6);
}

static int add_cluster(struct draft *draft, int number, struct filling *to)
{
    struct md_constraint_tables *tables = &to->constrainer->tables;
    struct md_cluster *cluster = &to->clusters[number];
    cluster->first_bar = tables->bar_count;
    cluster->first_atom = tables->atom_count;
    cluster->first_pair = tables->pair_count;
    cluster->first_entry = tables->entry_count;
    cluster->first_update = tables->update_count;
    add_bars(draft, number, to);
    add_entries(draft, number, to);
    add_updates(draft, number, to);
    tables->cluster_count++;
    int32_t scratch = 12 * cluster->bar_count + 3 * cluster->atom_count + 2 * cluster->pair_count;
    tables->scratch_count = scratch > tables->scratch_count ? scratch : tables->scratch_count;
    return check_freedom(draft, number, cluster);
}

static int make(struct draft *draft, double tolerance, struct filling *to)
{
    int error = list_atoms(draft);
    if (!error)
        error = couple_all(draft);
    if (error)
        return error;
    find_clusters(draft);
    for (int c = 0; !error && c < draft->clusters; c++)
        error = order_cluster(draft, draft->cluster_start[c], draft->cluster_start[c + 1]);
    if (!error)
        error = reserve(draft, tolerance, to);
    for (int c = 0; !error && c < draft->clusters; c++)
        error = add_cluster(draft, c, to);
    return error;
}

int md_constrainer_make(const struct md_molecule_type *type, double tolerance,
                        struct md_constrainer **constrainer)
{
    struct draft draft;
    struct filling filling = {0};
    if (type->constraint_count == 0) {
        *constrainer = NULL;
        return 0;
    }
    if (!(tolerance > 0.0 && tolerance < 1.0))
        return leat_fail(-EINVAL, "tolerance %g of constraints: expected between 0 and 1",
                         tolerance);
    int error = draft_open(type, &draft);
    if (!error)
        error = make(&draft, tolerance, &filling);
    draft_free(&draft);
    if (error)
        md_constrainer_free(filling.constrainer);
    else
        *constrainer = filling.constrainer;
    return error;
}

void md_constrainer_free(struct md_constrainer *constrainer)
{
    if (!constrainer)
        return;
    const struct md_constraint_tables *tables = &constrainer->tables;
    const void *const all[] = {tables->clusters, tables->bars,   tables->entries,     tables->atom,
                               tables->column,   tables->update, tables->inverse_mass};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free((void *)(uintptr_t)all[k]);
    free(constrainer);
}
