/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of the halo benchmark, as both sides run it: the same atoms, index map, shift and
 * consumer, so that only the way in between differs.
 *
 * The command is "halo ATOMS ITERATIONS"; the answer's value is nanoseconds of one exchange.
 */
#ifndef LEAT_BENCH_HALO_SLICE_H
#define LEAT_BENCH_HALO_SLICE_H

#include "slice.h"

#define SLICE_ATOMS_MAX 1000000

/* Whether a command can be run; `wrong` says why not. */
static inline int slice_is_halo(const struct slice_command *command, const char **wrong)
{
    int known = strcmp(command->what, "halo") == 0, fits = command->amount <= SLICE_ATOMS_MAX;
    *wrong = known ? "too many atoms" : "no such slice";
    return known && fits && command->amount && command->count;
}

/* Every other home atom or so, ascending, as a boundary layer is. */
static inline void slice_index(uint32_t atoms, uint32_t *index)
{
    uint32_t state = 12345;
    for (uint32_t i = 0; i < atoms; i++) {
        state = state * 1664525u + 1013904223u;
        index[i] = 2 * i + (state >> 31);
    }
}

/* Reads every ghost once. */
static inline float slice_consume(const float *ghosts, uint32_t atoms)
{
    float sum[4] = {0};
    uint32_t count = 3 * atoms, i = 0;
    for (; i + 4 <= count; i += 4)
        for (uint32_t k = 0; k < 4; k++)
            sum[k] += ghosts[i + k];
    for (; i < count; i++)
        sum[0] += ghosts[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

#endif
