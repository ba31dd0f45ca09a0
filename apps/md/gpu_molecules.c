// SPDX-License-Identifier: Apache-2.0
// What the device has to know of molecules: terms and constraints of their kinds, and which
// clusters of constraints a rank has.
//
// Algorithm: tables of all kinds are laid end to end once a run. A partition sends a list of the
// clusters only, those of one shape beside each other, so that neighbouring lanes do the same work.
// Advantage: terms need nothing at a partition, since an atom's site says which it is in and
// molecules are whole. Disadvantage: clusters of a molecule are far from each other in the list.

#include "core/error.h"
#include "md/constrain_plan.h"
#include "md/gpu_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- Terms ----

static int term_atoms(int kind)
{
    if (kind == MD_TERM_BOND || kind == MD_TERM_PAIR)
        return 2;
    return kind == MD_TERM_ANGLE ? 3 : 4;
}

// Calls for each atom of each term are in the order in which a site's shares are computed.
static void each_share(const struct md_system *system, int32_t *start, struct md_gpu_share *shares)
{
    int32_t before = 0;
    for (int t = 0; t < system->topology->molecule_type_count; t++) {
        const struct md_molecule_type *type = &system->topology->molecule_types[t];
        for (int kind = 0; kind < MD_TERM_KINDS; kind++)
            for (int k = type->term_start[kind]; k < type->term_start[kind + 1]; k++)
                for (int slot = 0; slot < term_atoms(kind); slot++) {
                    int32_t *place = &start[system->first_site[t] + type->terms[k].atom[slot] + 1];
                    if (shares)
                        shares[*place] = (struct md_gpu_share){before + k, kind, slot};
                    (*place)++;
                }
        before += type->term_start[MD_TERM_KINDS];
    }
}

static int put_shares(struct md_gpu *gpu, const struct md_system *system, size_t terms)
{
    size_t sites = (size_t)system->site_count, count = 0;
    int32_t *start = calloc(sites + 2, sizeof *start);
    struct md_gpu_share *shares = calloc(terms * MD_TERM_ATOMS + 1, sizeof *shares);
    int error = start && shares ? 0 : leat_fail(-ENOMEM, "no memory for %zu bonded terms", terms);
    if (!error) {
        each_share(system, start + 1, NULL);
        for (size_t s = 2; s < sites + 2; s++)
            start[s] += start[s - 1];
        count = (size_t)start[sites + 1];
        each_share(system, start, shares); // moves each start on to the next site's
        error = md_gpu_put(gpu, ARRAY_SHARE, shares, count, sizeof *shares);
    }
    if (!error)
        error = md_gpu_put(gpu, ARRAY_SHARE_START, start, sites + 1, sizeof *start);
    free(start);
    free(shares);
    return error;
}

static int put_terms(struct md_gpu *gpu, const struct md_system *system)
{
    const struct md_topology *topology = system->topology;
    size_t count = 0;
    for (int t = 0; t < topology->molecule_type_count; t++)
        count += (size_t)topology->molecule_types[t].term_start[MD_TERM_KINDS];
    gpu->bonded = count > 0;
    if (count > INT32_MAX / MD_TERM_ATOMS)
        return leat_fail(-EOVERFLOW, "%zu bonded terms of molecule kinds do not fit a device",
                         count);
    struct md_term *terms = calloc(count + 1, sizeof *terms);
    if (!terms)
        return leat_fail(-ENOMEM, "no memory for %zu bonded terms", count);
    count = 0;
    for (int t = 0; t < topology->molecule_type_count; t++) {
        const struct md_molecule_type *type = &topology->molecule_types[t];
        size_t more = (size_t)type->term_start[MD_TERM_KINDS];
        if (more)
            memcpy(terms + count, type->terms, more * sizeof *terms);
        count += more;
    }
    int error = md_gpu_put(gpu, ARRAY_TERM_TABLE, terms, count, sizeof *terms);
    free(terms);
    return error ? error : put_shares(gpu, system, count);
}

// ---- Tables of constraints ----

enum { TABLE_CLUSTERS, TABLE_COUNT = 7 };

struct part {
    enum md_gpu_array array;
    const void *data;
    size_t count, bytes;
};

static struct part table_part(const struct md_constraint_tables *from, int table)
{
    const struct part parts[TABLE_COUNT] = {
        {ARRAY_PLAN_CLUSTER, from->clusters, (size_t)from->cluster_count, sizeof *from->clusters},
        {ARRAY_PLAN_BAR, from->bars, (size_t)from->bar_count, sizeof *from->bars},
        {ARRAY_PLAN_ENTRY, from->entries, (size_t)from->entry_count, sizeof *from->entries},
        {ARRAY_PLAN_ATOM, from->atom, (size_t)from->atom_count, sizeof *from->atom},
        {ARRAY_PLAN_MASS, from->inverse_mass, (size_t)from->atom_count, sizeof(double)},
        {ARRAY_PLAN_COLUMN, from->column, (size_t)from->pair_count, sizeof *from->column},
        {ARRAY_PLAN_UPDATE, from->update, (size_t)from->update_count, sizeof *from->update},
    };
    return parts[table];
}

static const struct md_constraint_tables *tables_of(const struct md_system *system, int type)
{
    const struct md_constrainer *constrainer =
        system->constrainers ? system->constrainers[type] : NULL;
    return constrainer ? &constrainer->tables : NULL;
}

// A cluster's places in the tables of all kinds, behind those of `before`.
static void move_clusters(struct md_cluster *cluster, const struct md_constraint_tables *from,
                          struct md_constraint_tables *before)
{
    for (int32_t k = 0; k < from->cluster_count; k++) {
        cluster[k].first_bar += before->bar_count;
        cluster[k].first_atom += before->atom_count;
        cluster[k].first_pair += before->pair_count;
        cluster[k].first_entry += before->entry_count;
        cluster[k].first_update += before->update_count;
    }
    before->bar_count += from->bar_count;
    before->atom_count += from->atom_count;
    before->pair_count += from->pair_count;
    before->entry_count += from->entry_count;
    before->update_count += from->update_count;
}

static int put_table(struct md_gpu *gpu, const struct md_system *system, int table)
{
    int types = system->topology->molecule_type_count;
    struct md_constraint_tables before = {0};
    struct part part = table_part(&before, table);
    size_t count = 0;
    for (int t = 0; t < types; t++)
        if (tables_of(system, t))
            count += table_part(tables_of(system, t), table).count;
    char *all = count > INT32_MAX ? NULL : calloc(count + 1, part.bytes);
    if (!all)
        return leat_fail(-ENOMEM, "no memory for %zu elements of the constraints' tables", count);
    count = 0;
    for (int t = 0; t < types; t++) {
        const struct md_constraint_tables *from = tables_of(system, t);
        if (!from)
            continue;
        struct part more = table_part(from, table);
        if (more.count)
            memcpy(all + count * part.bytes, more.data, more.count * part.bytes);
        if (table == TABLE_CLUSTERS)
            move_clusters((struct md_cluster *)(void *)all + count, from, &before);
        count += more.count;
    }
    int error = md_gpu_put(gpu, part.array, all, count, part.bytes);
    free(all);
    return error;
}

static int put_constraints(struct md_gpu *gpu, const struct md_system *system)
{
    struct md_constraint_tables *tables = &gpu->args.constraints;
    int error = 0;
    for (int table = 0; !error && table < TABLE_COUNT; table++)
        error = put_table(gpu, system, table);
    *tables = (struct md_constraint_tables){
        .clusters = gpu->array[ARRAY_PLAN_CLUSTER].data,
        .bars = gpu->array[ARRAY_PLAN_BAR].data,
        .entries = gpu->array[ARRAY_PLAN_ENTRY].data,
        .atom = gpu->array[ARRAY_PLAN_ATOM].data,
        .inverse_mass = gpu->array[ARRAY_PLAN_MASS].data,
        .column = gpu->array[ARRAY_PLAN_COLUMN].data,
        .update = gpu->array[ARRAY_PLAN_UPDATE].data,
    };
    for (int t = 0; t < system->topology->molecule_type_count; t++)
        if (tables_of(system, t))
            tables->tolerance = tables_of(system, t)->tolerance;
    return error;
}

int md_gpu_molecules_open(struct md_gpu *gpu, const struct md_system *system)
{
    if (!system->topology)
        return 0;
    int error = put_terms(gpu, system);
    return error ? error : put_constraints(gpu, system);
}

// ---- Clusters of a rank ----

static int type_of_group(const struct md_rank *rank, uint32_t group)
{
    const struct md_domain *domain = &rank->domain;
    return rank->system.sites[domain->site[domain->group_start[group]]].molecule_type;
}

// Numbers of molecules of each kind on this rank.
static int count_molecules(const struct md_rank *rank, uint32_t **molecules)
{
    int types = rank->system.topology->molecule_type_count;
    *molecules = calloc((size_t)types + 1, sizeof **molecules);
    if (!*molecules)
        return leat_fail(-ENOMEM, "no memory for %d molecule kinds", types);
    for (uint32_t g = 0; g < rank->domain.group_count; g++)
        (*molecules)[type_of_group(rank, g)]++;
    return 0;
}

static size_t scratch_of(const struct md_cluster *cluster)
{
    return 12 * (size_t)cluster->bar_count + 3 * (size_t)cluster->atom_count +
           2 * (size_t)cluster->pair_count;
}

static int reserve_clusters(struct md_gpu *gpu, size_t count)
{
    if (count <= gpu->cluster_capacity)
        return 0;
    free(gpu->cluster);
    gpu->cluster_capacity = 0;
    gpu->cluster = calloc(count + count / 8, sizeof *gpu->cluster);
    if (!gpu->cluster)
        return leat_fail(-ENOMEM, "no memory for %zu groups of constraints", count);
    gpu->cluster_capacity = count + count / 8;
    return 0;
}

int md_gpu_molecules_reserve(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    size_t count = 0, scratch = 0;
    uint32_t *molecules = NULL;
    if (!rank->system.constrainers)
        return 0;
    int error = count_molecules(rank, &molecules);
    for (int t = 0; !error && t < rank->system.topology->molecule_type_count; t++) {
        const struct md_constraint_tables *tables = tables_of(&rank->system, t);
        for (int32_t c = 0; tables && c < tables->cluster_count; c++) {
            count += molecules[t];
            scratch += molecules[t] * scratch_of(&tables->clusters[c]);
        }
    }
    free(molecules);
    if (!error && count > UINT32_MAX)
        error =
            leat_fail(-EOVERFLOW, "%zu groups of constraints on one rank; use more ranks", count);
    if (!error)
        error = reserve_clusters(gpu, count);
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_CLUSTER, count, sizeof *gpu->cluster);
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_SCRATCH, scratch, sizeof(double));
    gpu->cluster_count = error ? 0 : (uint32_t)count;
    return error;
}

// All of one kind's clusters of one shape.
static void list_clusters(const struct md_rank *rank, int type, int32_t cluster, int32_t number,
                          uint32_t *count, uint64_t *scratch)
{
    const struct md_cluster *plan = &tables_of(&rank->system, type)->clusters[cluster];
    for (uint32_t g = 0; g < rank->domain.group_count; g++) {
        if (type_of_group(rank, g) != type)
            continue;
        rank->gpu->cluster[(*count)++] =
            (struct md_gpu_cluster){rank->domain.group_start[g], number, *scratch};
        *scratch += scratch_of(plan);
    }
}

static void hold_atoms(const struct md_rank *rank)
{
    for (uint32_t g = 0; g < rank->domain.group_count; g++) {
        const struct md_constraint_tables *tables =
            tables_of(&rank->system, type_of_group(rank, g));
        uint8_t *role = rank->gpu->role + rank->domain.group_start[g];
        for (int32_t k = 0; tables && k < tables->atom_count; k++)
            role[tables->atom[k]] = MD_GPU_HELD;
    }
}

int md_gpu_molecules_send(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    uint32_t count = 0;
    uint64_t scratch = 0;
    int32_t number = 0;
    if (gpu->cluster_count == 0)
        return 0;
    for (int t = 0; t < rank->system.topology->molecule_type_count; t++) {
        const struct md_constraint_tables *tables = tables_of(&rank->system, t);
        for (int32_t c = 0; tables && c < tables->cluster_count; c++)
            list_clusters(rank, t, c, number++, &count, &scratch);
    }
    hold_atoms(rank);
    return md_gpu_upload(gpu, gpu->array[ARRAY_CLUSTER].data, gpu->cluster,
                         count * sizeof *gpu->cluster);
}
