// SPDX-License-Identifier: Apache-2.0
// The system as rank 0 has read it, to all ranks.
//
// Algorithm: one walk through the structures measures, packs or unpacks: plain members as they lie
// in memory, arrays one after the other. Coordinates stay with rank 0, which deals them out when
// domains are made (domain.c). Advantage: files are read and checked once, by one reader of a
// parallel file system, and errors in them are found once; no other rank ever holds all atoms.
// Disadvantage: all ranks have to be the same program, as they are in a job; and whoever adds an
// array to a structure has to add it here.

#include "core/error.h"
#include "md/md.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct parcel {
    enum { MEASURE, PACK, UNPACK } way;
    unsigned char *data;
    uint64_t at;
    bool failed;
};

static void carry(struct parcel *parcel, void *data, uint64_t bytes)
{
    if (parcel->way == PACK)
        memcpy(parcel->data + parcel->at, data, bytes);
    else if (parcel->way == UNPACK)
        memcpy(data, parcel->data + parcel->at, bytes);
    parcel->at += bytes;
}

// An array that is to be made where it is unpacked; NULL there without memory. `array` is the
// address of a pointer of any type, which only memcpy may read and write under that name.
static void carry_array(struct parcel *parcel, void *array, int64_t count, size_t element_bytes)
{
    uint64_t bytes = (uint64_t)count * element_bytes;
    void *data = NULL;
    if (parcel->way == UNPACK) {
        data = parcel->failed ? NULL : malloc(bytes + 1);
        parcel->failed = !data;
        memcpy(array, &data, sizeof data);
    } else {
        memcpy(&data, array, sizeof data);
    }
    if (data && bytes)
        carry(parcel, data, bytes);
}

static void carry_molecule_type(struct parcel *parcel, struct md_molecule_type *type)
{
    carry_array(parcel, &type->atoms, type->atom_count, sizeof *type->atoms);
    carry_array(parcel, &type->exclusion_start, type->atom_count + 1,
                sizeof *type->exclusion_start);
    int exclusions = type->exclusion_start ? type->exclusion_start[type->atom_count] : 0;
    carry_array(parcel, &type->exclusion, exclusions, sizeof *type->exclusion);
    carry_array(parcel, &type->terms, type->term_start[MD_TERM_KINDS], sizeof *type->terms);
    carry_array(parcel, &type->constraints, type->constraint_count, sizeof *type->constraints);
    carry_array(parcel, &type->settles, type->settle_count, sizeof *type->settles);
}

static void carry_topology(struct parcel *parcel, struct md_topology *topology)
{
    int64_t pairs = (int64_t)topology->type_count * topology->type_count;
    carry_array(parcel, &topology->c6, pairs, sizeof *topology->c6);
    carry_array(parcel, &topology->c12, pairs, sizeof *topology->c12);
    carry_array(parcel, &topology->type_name, topology->type_count, sizeof *topology->type_name);
    carry_array(parcel, &topology->blocks, topology->block_count, sizeof *topology->blocks);
    carry_array(parcel, &topology->molecule_types, topology->molecule_type_count,
                sizeof *topology->molecule_types);
    if (!topology->molecule_types)
        topology->molecule_type_count = 0;
    for (int t = 0; t < topology->molecule_type_count; t++)
        carry_molecule_type(parcel, &topology->molecule_types[t]);
}

static void carry_system(struct parcel *parcel, struct md_system *system)
{
    struct gro *input = system->input;
    carry(parcel, system, sizeof *system);
    system->input = parcel->way == UNPACK ? NULL : input;
    carry_array(parcel, &system->number, system->number_count, sizeof *system->number);
    if (parcel->way == UNPACK)
        system->constrainers = NULL; // of rank 0's memory
    carry_array(parcel, &system->topology, 1, sizeof *system->topology);
    carry_array(parcel, &system->sites, system->site_count, sizeof *system->sites);
    int types = system->topology ? system->topology->molecule_type_count : 0;
    carry_array(parcel, &system->first_site, types + 1, sizeof *system->first_site);
    if (system->topology)
        carry_topology(parcel, system->topology);
    system->interaction.c6 = system->topology ? system->topology->c6 : NULL;
    system->interaction.c12 = system->topology ? system->topology->c12 : NULL;
}

static int pack(struct md_rank *rank)
{
    struct md_together *together = &rank->together;
    struct parcel parcel = {.way = MEASURE};
    carry_system(&parcel, &rank->system);
    together->parcel_bytes = parcel.at;
    together->parcel = malloc(parcel.at);
    if (!together->parcel)
        return leat_fail(-ENOMEM, "no memory to pack a topology of %llu bytes",
                         (unsigned long long)parcel.at);
    parcel = (struct parcel){.way = PACK, .data = together->parcel};
    carry_system(&parcel, &rank->system);
    return 0;
}

static int make_room(struct md_together *together)
{
    if (!together->parcel)
        together->parcel = malloc(together->parcel_bytes);
    return together->parcel ? 0
                            : leat_fail(-ENOMEM, "no memory for a topology of %llu bytes",
                                        (unsigned long long)together->parcel_bytes);
}

static int unpack(struct md_rank *rank)
{
    struct parcel parcel = {.way = UNPACK, .data = rank->together.parcel};
    carry_system(&parcel, &rank->system);
    return parcel.failed ? leat_fail(-ENOMEM, "no memory for a topology") : 0;
}

static int load(struct md_rank *rank)
{
    int error = md_check_outputs(rank->options);
    if (!error)
        error = md_system_load(rank->job, rank->options, true, &rank->system);
    return error || rank->rank_count == 1 ? error : pack(rank);
}

int md_system_share(struct md_rank *rank)
{
    struct md_together *together = &rank->together;
    int error = md_agree_on_files(rank, rank->rank == 0 ? load(rank) : 0);
    if (error || rank->rank_count == 1)
        return error;
    error = md_tell(rank, &together->parcel_bytes, sizeof together->parcel_bytes);
    if (!error)
        error = md_agree(rank, make_room(together));
    if (!error)
        error = md_tell(rank, together->parcel, together->parcel_bytes);
    if (!error)
        error = md_agree(rank, rank->rank == 0 ? 0 : unpack(rank));
    if (error)
        return error;
    free(together->parcel);
    together->parcel = NULL;
    return 0;
}
