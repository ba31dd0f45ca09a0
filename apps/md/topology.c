// SPDX-License-Identifier: Apache-2.0
// A finished topology: release, rigid bonds, repetition, look-up of an atom.
//
// Advantage: blocks of equal molecules keep its size independent of the number of molecules.
// Disadvantage: finding an atom's molecule is a binary search instead of an index.

#include "md/topology_parts.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void md_molecule_type_free(struct md_molecule_type *type)
{
    free(type->atoms);
    free(type->terms);
    free(type->constraints);
    free(type->exclusion_start);
    free(type->exclusion);
    free(type->settles);
}

void md_topology_free(struct md_topology *topology)
{
    if (!topology)
        return;
    for (int i = 0; i < topology->molecule_type_count; i++)
        md_molecule_type_free(&topology->molecule_types[i]);
    free(topology->molecule_types);
    free(topology->c6);
    free(topology->c12);
    free(topology->type_name);
    free(topology->blocks);
    free(topology);
}

// ---- constraints

static bool is_hydrogen(const struct md_molecule_type *type, int atom)
{
    return toupper((unsigned char)type->atoms[atom].name[0]) == 'H';
}

static bool becomes_rigid(const struct md_molecule_type *type, const struct md_term *bond,
                          enum md_bonds_rigid rigid)
{
    return rigid == MD_RIGID_ALL_BONDS ||
           (rigid == MD_RIGID_H_BONDS &&
            (is_hydrogen(type, bond->atom[0]) || is_hydrogen(type, bond->atom[1])));
}

// The bonds are the first of the terms, so that those behind them move up.
static void take_bonds(struct md_molecule_type *type, enum md_bonds_rigid rigid)
{
    int bonds = type->term_start[MD_TERM_BOND + 1], kept = 0;
    for (int i = 0; i < bonds; i++) {
        const struct md_term *bond = &type->terms[i];
        if (becomes_rigid(type, bond, rigid))
            type->constraints[type->constraint_count++] =
                (struct md_constraint){bond->atom[0], bond->atom[1], bond->parameter[0]};
        else
            type->terms[kept++] = *bond;
    }
    int taken = bonds - kept, rest = type->term_start[MD_TERM_KINDS] - bonds;
    memmove(type->terms + kept, type->terms + bonds, (size_t)rest * sizeof *type->terms);
    for (int k = MD_TERM_BOND + 1; k <= MD_TERM_KINDS; k++)
        type->term_start[k] -= taken;
}

static int check_constraints(const struct md_molecule_type *type)
{
    for (int i = 0; i < type->constraint_count; i++) {
        const struct md_constraint *constraint = &type->constraints[i];
        if (!(constraint->length_nm > 0.0))
            return leat_fail(-EINVAL,
                             "moleculetype '%s': the bond of atoms %d and %d has a length of %g nm "
                             "at rest and cannot be made rigid",
                             type->name, constraint->a + 1, constraint->b + 1,
                             constraint->length_nm);
        for (int s = 0; s < type->settle_count; s++) {
            int first = type->settles[s].oxygen;
            if ((constraint->a >= first && constraint->a < first + 3) ||
                (constraint->b >= first && constraint->b < first + 3))
                return leat_fail(-ENOTSUP,
                                 "moleculetype '%s': a constraint between atoms %d and %d holds an "
                                 "atom of the rigid water of [ settles ] %d",
                                 type->name, constraint->a + 1, constraint->b + 1, first + 1);
        }
    }
    return 0;
}

int md_topology_constrain(struct md_topology *topology, enum md_bonds_rigid rigid)
{
    int error = 0;
    for (int t = 0; t < topology->molecule_type_count && !error; t++) {
        struct md_molecule_type *type = &topology->molecule_types[t];
        size_t most = (size_t)type->constraint_count + (size_t)type->term_start[MD_TERM_BOND + 1];
        struct md_constraint *grown = realloc(type->constraints, (most + 1) * sizeof *grown);
        if (!grown)
            return leat_fail(-ENOMEM, "no memory for %zu constraints", most);
        type->constraints = grown;
        take_bonds(type, rigid);
        error = check_constraints(type);
    }
    return error;
}

// ---- repetition

// A single kind stays a single block; else the list is repeated, its ends joined where they meet.
static int repeat_blocks(const struct md_topology *topology, int64_t times,
                         struct md_molecule_block **blocks, int *block_count)
{
    int old = topology->block_count;
    bool joined = topology->blocks[0].type == topology->blocks[old - 1].type;
    int64_t wanted = old == 1 ? 1 : times * (old - joined) + joined;
    if (wanted > INT_MAX)
        return leat_fail(-EINVAL, "repeating %d kinds of blocks %lld times is more than 2^31", old,
                         (long long)times);
    struct md_molecule_block *made = calloc((size_t)wanted, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for %lld blocks of molecules", (long long)wanted);
    int count = 0;
    int64_t rounds = old == 1 ? 1 : times;
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < old; i++) {
            struct md_molecule_block block = topology->blocks[i];
            if (old == 1)
                block.count *= times;
            if (count && made[count - 1].type == block.type)
                made[count - 1].count += block.count;
            else
                made[count++] = block;
        }
    }
    *blocks = made;
    *block_count = count;
    return 0;
}

int md_topology_tile(struct md_topology *topology, int64_t times)
{
    int64_t atoms, molecules, blocks_bound;
    if (times < 1 || __builtin_mul_overflow(topology->atom_count, times, &atoms) ||
        __builtin_mul_overflow(topology->molecule_count, times, &molecules) ||
        __builtin_mul_overflow((int64_t)topology->block_count, times, &blocks_bound))
        return leat_fail(-EINVAL, "%lld atoms cannot be repeated %lld times",
                         (long long)topology->atom_count, (long long)times);
    struct md_molecule_block *blocks = NULL;
    int block_count = 0;
    int error = repeat_blocks(topology, times, &blocks, &block_count);
    if (error)
        return error;
    int64_t first_atom = 0, first_molecule = 0;
    for (int i = 0; i < block_count; i++) {
        blocks[i].first_atom = first_atom;
        blocks[i].first_molecule = first_molecule;
        first_atom += blocks[i].count * topology->molecule_types[blocks[i].type].atom_count;
        first_molecule += blocks[i].count;
    }
    free(topology->blocks);
    topology->blocks = blocks;
    topology->block_count = block_count;
    topology->atom_count = atoms;
    topology->molecule_count = molecules;
    return 0;
}

void md_topology_locate(const struct md_topology *topology, int64_t atom,
                        const struct md_molecule_type **type, int *index, int64_t *molecule,
                        int64_t *first)
{
    int low = 0, high = topology->block_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (topology->blocks[middle].first_atom <= atom)
            low = middle;
        else
            high = middle;
    }
    const struct md_molecule_block *block = &topology->blocks[low];
    *type = &topology->molecule_types[block->type];
    int64_t within = atom - block->first_atom;
    int64_t number = within / (*type)->atom_count;
    *index = (int)(within % (*type)->atom_count);
    *molecule = block->first_molecule + number;
    *first = block->first_atom + number * (*type)->atom_count;
}
