// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a LAMMPS data file; an input that is accepted has to be consistent.
//
// Advantage: covers everything from lines to molecules put together. Disadvantage: counts and lines
// have to fit each other, so the corpus matters.

#include "md/lammps.h"

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

static void check_terms(const struct md_molecule_type *type)
{
    demand(type->term_start[0] == 0);
    for (int k = 0; k < MD_TERM_KINDS; k++) {
        demand(type->term_start[k] <= type->term_start[k + 1]);
        for (int i = type->term_start[k]; i < type->term_start[k + 1]; i++)
            for (int a = 0; a < MD_TERM_ATOMS; a++)
                demand(type->terms[i].atom[a] >= 0 && type->terms[i].atom[a] < type->atom_count);
    }
}

static void check_type(const struct md_topology *topology, const struct md_molecule_type *type)
{
    demand(type->atom_count > 0);
    for (int i = 0; i < type->atom_count; i++) {
        demand(type->atoms[i].type >= 0 && type->atoms[i].type < topology->type_count);
        demand(type->atoms[i].mass_u > 0.0 && isfinite(type->atoms[i].charge_e));
        int last = -1;
        for (int j = type->exclusion_start[i]; j < type->exclusion_start[i + 1]; j++) {
            demand(type->exclusion[j] > last && type->exclusion[j] != i);
            last = type->exclusion[j];
        }
        demand(last < type->atom_count);
    }
    check_terms(type);
}

static void check_topology(const struct md_topology *topology)
{
    demand(topology->type_count > 0);
    for (int i = 0; i < topology->type_count * topology->type_count; i++)
        demand(isfinite(topology->c6[i]) && isfinite(topology->c12[i]));
    for (int i = 0; i < topology->molecule_type_count; i++)
        check_type(topology, &topology->molecule_types[i]);
    int64_t atoms = 0, molecules = 0;
    for (int i = 0; i < topology->block_count; i++) {
        const struct md_molecule_block *block = &topology->blocks[i];
        demand(block->count > 0 && block->type < topology->molecule_type_count);
        demand(block->first_atom == atoms && block->first_molecule == molecules);
        atoms += block->count * topology->molecule_types[block->type].atom_count;
        molecules += block->count;
    }
    demand(atoms == topology->atom_count && molecules == topology->molecule_count);
}

// Each atom of the file stands in one place.
static void check_numbers(const int64_t *number, int64_t count)
{
    bool *seen = calloc((size_t)count, sizeof *seen);
    for (int64_t i = 0; seen && i < count; i++) {
        demand(number[i] >= 0 && number[i] < count && !seen[number[i]]);
        seen[number[i]] = true;
    }
    free(seen);
}

static void check_coordinates(const struct gro *gro)
{
    for (int64_t i = 0; i < 3 * gro->atom_count; i++)
        demand(isfinite(gro->x_nm[i]) && isfinite(gro->v_nm_ps[i]));
    for (int d = 0; d < 3; d++)
        demand(gro->box_nm[d][d] > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!stream)
        return 0;
    struct md_lammps lammps;
    struct md_lammps_input input;
    md_lammps_begin(&lammps);
    // All ways of reading are taken, the same one for the same bytes.
    lammps.units = size % 2 ? MD_UNITS_LJ : MD_UNITS_REAL;
    lammps.atom_style = size % 3 ? NULL : "full";
    lammps.arithmetic = size % 5 == 0;
    lammps.coulomb = size % 7 > 0;
    lammps.cutoff = 10.0;
    lammps.special_lj[2] = lammps.special_coulomb[2] = size % 11 > 5 ? 0.5 : 0.0;
    if (md_lammps_read_stream(stream, "fuzz.data", &lammps, &input) == 0) {
        demand(input.gro->atom_count == input.topology->atom_count);
        check_topology(input.topology);
        check_coordinates(input.gro);
        if (input.number)
            check_numbers(input.number, input.gro->atom_count);
        md_lammps_input_free(&input);
    } else {
        demand(!input.topology && !input.gro && !input.number);
    }
    md_lammps_end(&lammps);
    fclose(stream);
    return 0;
}
