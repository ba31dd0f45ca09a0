// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a .top file; a topology that is accepted has to be consistent.
//
// Advantage: covers the preprocessor, the reader, rigid bonds, repetition and look-up.
// Disadvantage: an #include reads from the machine's own disk, so runs with one differ from machine
// to machine.

#include "md/topology.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static bool excludes(const struct md_molecule_type *type, int atom, int partner)
{
    for (int i = type->exclusion_start[atom]; i < type->exclusion_start[atom + 1]; i++) {
        if (type->exclusion[i] == partner)
            return true;
    }
    return false;
}

static void check_type(const struct md_topology *topology, const struct md_molecule_type *type)
{
    demand(type->atom_count > 0);
    for (int i = 0; i < type->atom_count; i++) {
        demand(type->atoms[i].type >= 0 && type->atoms[i].type < topology->type_count);
        demand(type->atoms[i].mass_u > 0 && isfinite(type->atoms[i].charge_e));
        int last = -1;
        for (int j = type->exclusion_start[i]; j < type->exclusion_start[i + 1]; j++) {
            int partner = type->exclusion[j];
            demand(partner > last && partner != i && partner < type->atom_count);
            demand(excludes(type, partner, i));
            last = partner;
        }
    }
    for (int i = 0; i < type->settle_count; i++)
        demand(type->settles[i].oxygen >= 0 && type->settles[i].oxygen + 2 < type->atom_count);
}

static void check_terms(const struct md_molecule_type *type)
{
    static const int atoms[MD_TERM_KINDS] = {2, 3, 4, 4, 4, 4, 2};
    demand(type->term_start[0] == 0);
    for (int kind = 0; kind < MD_TERM_KINDS; kind++) {
        demand(type->term_start[kind] <= type->term_start[kind + 1]);
        for (int i = type->term_start[kind]; i < type->term_start[kind + 1]; i++) {
            const struct md_term *term = &type->terms[i];
            for (int a = 0; a < MD_TERM_ATOMS; a++) {
                demand(term->atom[a] >= 0 && term->atom[a] < type->atom_count);
                for (int b = 0; b < a && a < atoms[kind]; b++)
                    demand(term->atom[a] != term->atom[b]);
            }
            for (int p = 0; p < MD_TERM_PARAMETERS; p++)
                demand(isfinite(term->parameter[p]));
        }
    }
    for (int i = 0; i < type->constraint_count; i++) {
        const struct md_constraint *constraint = &type->constraints[i];
        demand(constraint->a >= 0 && constraint->a < type->atom_count);
        demand(constraint->b >= 0 && constraint->b < type->atom_count);
        demand(constraint->a != constraint->b && constraint->length_nm > 0.0);
    }
}

static void constrain(struct md_topology *topology, enum md_bonds_rigid rigid)
{
    if (md_topology_constrain(topology, rigid))
        return;
    for (int i = 0; i < topology->molecule_type_count; i++) {
        const struct md_molecule_type *type = &topology->molecule_types[i];
        check_terms(type);
        demand(rigid != MD_RIGID_ALL_BONDS || type->term_start[MD_TERM_BOND + 1] == 0);
    }
}

static void check_blocks(const struct md_topology *topology)
{
    int64_t atoms = 0, molecules = 0;
    for (int i = 0; i < topology->block_count; i++) {
        const struct md_molecule_block *block = &topology->blocks[i];
        demand(block->count > 0 && block->type < topology->molecule_type_count);
        demand(block->first_atom == atoms && block->first_molecule == molecules);
        atoms += block->count * topology->molecule_types[block->type].atom_count;
        molecules += block->count;
    }
    demand(atoms == topology->atom_count && molecules == topology->molecule_count);
    const struct md_molecule_type *type;
    int index;
    int64_t molecule, first;
    md_topology_locate(topology, atoms - 1, &type, &index, &molecule, &first);
    demand(index == type->atom_count - 1 && molecule == molecules - 1 &&
           first + index == atoms - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!stream)
        return 0;
    struct md_topology *topology = NULL;
    if (md_topology_read_stream(stream, "fuzz.top", "-DFUZZ -DTWO=2", NULL, &topology) == 0) {
        demand(topology->type_count > 0);
        for (int i = 0; i < topology->type_count * topology->type_count; i++)
            demand(isfinite(topology->c6[i]) && isfinite(topology->c12[i]));
        for (int i = 0; i < topology->molecule_type_count; i++) {
            check_type(topology, &topology->molecule_types[i]);
            check_terms(&topology->molecule_types[i]);
        }
        constrain(topology, size % 2 ? MD_RIGID_H_BONDS : MD_RIGID_ALL_BONDS);
        check_blocks(topology);
        if (md_topology_tile(topology, 3) == 0)
            check_blocks(topology);
        md_topology_free(topology);
    } else {
        demand(topology == NULL);
    }
    fclose(stream);
    return 0;
}
