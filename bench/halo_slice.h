/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of the halo benchmark, as both sides run it: the same atoms, index map, shift and
 * consumer, so that only the way in between differs.
 *
 * Between slices a rank sleeps in a read of its command pipe, so that whoever is measured has the
 * cores to itself. A command is one line "ATOMS ITERATIONS"; the answer, from rank 0, is one line
 * "NANOSECONDS FLAG_NANOSECONDS": of one exchange, and of a flag's way from rank to rank (0: not
 * measured). "0 0" ends the rank.
 */
#ifndef LEAT_BENCH_HALO_SLICE_H
#define LEAT_BENCH_HALO_SLICE_H

#include <stdint.h>
#include <stdio.h>

#define SLICE_ATOMS_MAX 1000000

struct slice_pipes {
    FILE *commands, *answers;
};

/* Opens DIRECTORY/SIDE.RANK and, on rank 0, DIRECTORY/SIDE.out; 0 or -1. */
static inline int slice_open(const char *directory, const char *side, int rank,
                             struct slice_pipes *pipes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%d", directory, side, rank);
    pipes->commands = fopen(path, "r");
    snprintf(path, sizeof path, "%s/%s.out", directory, side);
    pipes->answers = rank == 0 ? fopen(path, "w") : NULL;
    return pipes->commands && (rank || pipes->answers) ? 0 : -1;
}

/* False at the end. */
static inline int slice_next(struct slice_pipes *pipes, uint32_t *atoms, uint32_t *iterations)
{
    return fscanf(pipes->commands, "%u %u", atoms, iterations) == 2 && *atoms &&
           *atoms <= SLICE_ATOMS_MAX;
}

static inline void slice_answer(struct slice_pipes *pipes, double ns, double flag_ns)
{
    if (pipes->answers) {
        fprintf(pipes->answers, "%.3f %.3f\n", ns, flag_ns);
        fflush(pipes->answers);
    }
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
