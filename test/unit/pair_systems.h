/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems for the tests of non-bonded forces: molecules of three atoms on a jittered lattice.
 *
 * Advantage: dense like a liquid but without atoms so near that one pair hides all others.
 * Disadvantage: no chemistry; numbers are only good for comparing one loop with another.
 */
#ifndef TEST_PAIR_SYSTEMS_H
#define TEST_PAIR_SYSTEMS_H

#include "md/list_internal.h"
#include "support/splitmix.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM_MAX_TYPES = 16 };

struct pair_system {
    int count;
    double *x, *charge;
    int *type, *exclusion_start, *exclusion;
    double box[3];
    double c6[SYSTEM_MAX_TYPES * SYSTEM_MAX_TYPES], c12[SYSTEM_MAX_TYPES * SYSTEM_MAX_TYPES];
    struct md_interaction interaction;
};

static inline double random_unit(uint64_t *state)
{
    return (double)(splitmix_next(state) >> 11) * 0x1p-53;
}

static inline void system_free(struct pair_system *system)
{
    free(system->x);
    free(system->charge);
    free(system->type);
    free(system->exclusion_start);
    free(system->exclusion);
}

/* Every third type has no LJ. Coordinates are floats, so that mixed precision starts from the same.
 */
static inline void system_make(struct pair_system *system, uint64_t seed, const int lattice[3],
                               int type_count, double cutoff_nm)
{
    const double spacing = 0.265625; // a float, and so are its multiples
    const int count = lattice[0] * lattice[1] * lattice[2];
    memset(system, 0, sizeof *system);
    system->count = count;
    system->x = calloc(3 * (size_t)count + 1, sizeof(double));
    system->charge = calloc((size_t)count + 1, sizeof(double));
    system->type = calloc((size_t)count + 1, sizeof(int));
    system->exclusion_start = calloc((size_t)count + 1, sizeof(int));
    system->exclusion = calloc(2 * (size_t)count + 1, sizeof(int));
    int exclusions = 0;
    for (int i = 0; i < count; i++) {
        const int at[3] = {i % lattice[0], i / lattice[0] % lattice[1],
                           i / lattice[0] / lattice[1]};
        for (int d = 0; d < 3; d++)
            system->x[3 * i + d] =
                (float)(spacing * (at[d] + 0.5 + 0.4 * (random_unit(&seed) - 0.5)));
        system->charge[i] = (i % 3 == 0 ? -0.8 : 0.4) + 0.1 * (random_unit(&seed) - 0.5);
        system->type[i] = (int)(random_unit(&seed) * type_count);
        system->exclusion_start[i] = exclusions;
        for (int j = i / 3 * 3; j < i / 3 * 3 + 3 && j < count; j++)
            if (j != i)
                system->exclusion[exclusions++] = j;
    }
    system->exclusion_start[count] = exclusions;
    for (int d = 0; d < 3; d++)
        system->box[d] = spacing * lattice[d];
    for (int a = 0; a < type_count; a++)
        for (int b = 0; b <= a; b++) {
            const bool none = a % 3 == 1 || b % 3 == 1;
            const double sigma = 0.2 + 0.01 * (a + b) / type_count, epsilon = 0.3 + 0.1 * (a % 2);
            const double c6 = none ? 0 : 4 * epsilon * pow(sigma, 6);
            const double c12 = none ? 0 : 4 * epsilon * pow(sigma, 12);
            system->c6[a * type_count + b] = system->c6[b * type_count + a] = c6;
            system->c12[a * type_count + b] = system->c12[b * type_count + a] = c12;
        }
    system->interaction = (struct md_interaction){
        .cutoff_nm = cutoff_nm,
        .coulomb = 138.935457644,
        .krf = 0.5 * pow(cutoff_nm, -3),
        .crf = 1.5 / cutoff_nm,
        .type_count = type_count,
        .c6 = system->c6,
        .c12 = system->c12,
        .shift = true,
    };
}

/* The whole system on one rank. */
static inline struct md_list_input system_input(const struct pair_system *system, double list_nm)
{
    return (struct md_list_input){
        .home_count = system->count,
        .atom_count = system->count,
        .x_nm = system->x,
        .type = system->type,
        .charge = system->charge,
        .exclusion_start = system->exclusion_start,
        .exclusion = system->exclusion,
        .box_nm = {system->box[0], system->box[1], system->box[2]},
        .periodic = {true, true, true},
        .list_nm = list_nm,
    };
}

static inline void system_oracle(const struct pair_system *system, double *f,
                                 struct md_pair_output *output)
{
    const double box[3][3] = {
        {system->box[0], 0, 0}, {0, system->box[1], 0}, {0, 0, system->box[2]}};
    memset(f, 0, 3 * (size_t)system->count * sizeof *f);
    md_oracle(&system->interaction, system->count, system->x, system->type, system->charge,
              system->exclusion_start, system->exclusion, box, f, output);
}

/* One part's forces at x, added to f, through arrays of the list's precision. */
static inline void part_forces(struct md_list *list, enum md_part part, int count, const double *x,
                               double *f, struct md_pair_output *output)
{
    const size_t values = 3 * (size_t)count;
    if (list->precision == MD_DOUBLE) {
        md_list_forces(list, part, x, f, true, true, output);
        return;
    }
    float *x_mixed = malloc((values + 1) * sizeof *x_mixed);
    float *f_mixed = calloc(values + 1, sizeof *f_mixed);
    for (size_t k = 0; k < values; k++)
        x_mixed[k] = (float)x[k];
    md_list_forces(list, part, x_mixed, f_mixed, true, true, output);
    for (size_t k = 0; k < values; k++)
        f[k] += (double)f_mixed[k];
    free(x_mixed);
    free(f_mixed);
}

/* RMS of the difference over RMS of the reference. */
static inline double relative_rms(const double *f, const double *reference, int count)
{
    double difference = 0, size = 0;
    for (int k = 0; k < 3 * count; k++) {
        difference += (f[k] - reference[k]) * (f[k] - reference[k]);
        size += reference[k] * reference[k];
    }
    return sqrt(difference / size);
}

typedef void pair_visitor(void *context, int i, int j, const double shift[3]);

/* Calls visit for each atom pair of the list as built; shift is added to the wrapped x of i. */
static inline void visit_pairs(const struct md_list *list, enum md_part part, pair_visitor *visit,
                               void *context)
{
    struct md_rows rows;
    md_list_rows(list, part, 0, &rows);
    const int *atom = list->atom.data;
    for (size_t k = 0; k < rows.row_count; k++) {
        const struct md_row *row = &rows.row[k];
        for (int c = 0; c < row->count; c++) {
            const uint32_t mask =
                c < row->masked_count ? rows.mask[row->first_mask + (size_t)c] : UINT32_MAX;
            for (int bit = 0; bit < 32; bit++) {
                const int i = atom[MD_I_ATOMS * row->i + bit / MD_J_ATOMS];
                const int j = atom[MD_J_ATOMS * rows.j[row->first + (size_t)c] + bit % MD_J_ATOMS];
                if ((mask >> bit & 1u) != 0 && i >= 0 && j >= 0)
                    visit(context, i, j, list->shift[row->shift]);
            }
        }
    }
}

#endif
