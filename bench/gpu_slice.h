/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice of the GPU halo benchmark, as every side runs it.
 *
 * The command is "WAY/OPTIONS ATOMS EXCHANGES": the way of a side that has several ("store"), then
 * letters: x forward (coordinates and shift) or f reverse (forces, accumulated), 3 or 4 floats an
 * element, c a consumer that reads every ghost, g replayed from a CUDA graph. The answer's first
 * value is nanoseconds of one exchange, or negative when this way cannot do that here; the reason
 * is on stderr then, and the side goes on.
 *
 * Advantage: one word tells all, and a side needs no state between commands. Disadvantage: a way's
 * name has eight letters at most.
 */
#ifndef LEAT_BENCH_GPU_SLICE_H
#define LEAT_BENCH_GPU_SLICE_H

#include "slice.h"

#include <stdbool.h>

#define GPU_ATOMS_MAX   1000000
#define GPU_WAY_MAX     9   /* with the final zero */
#define GPU_GRAPH_COUNT 100 /* exchanges in a graph */
#define GPU_SLICE_S     50  /* a side that needs longer for a slice ends itself, */
#define GPU_OPEN_S      60  /* or to begin with */

struct gpu_slice {
    char way[GPU_WAY_MAX];
    uint32_t atoms, count;
    int components;
    bool reverse, consume, graph;
};

static inline void gpu_slice_format(const struct gpu_slice *slice, char what[16])
{
    snprintf(what, 16, "%.8s/%c%c%s%s", slice->way, slice->reverse ? 'f' : 'x',
             slice->components == 4 ? '4' : '3', slice->consume ? "c" : "",
             slice->graph ? "g" : "");
}

/* 0, or -1: `wrong` says why. */
static inline int gpu_slice_parse(const struct slice_command *command, struct gpu_slice *slice,
                                  const char **wrong)
{
    const char *slash = strchr(command->what, '/');
    memset(slice, 0, sizeof *slice);
    *wrong = "no such slice";
    if (!slash || slash == command->what || slash - command->what >= GPU_WAY_MAX)
        return -1;
    memcpy(slice->way, command->what, (size_t)(slash - command->what));
    for (const char *at = slash + 1; *at; at++) {
        if (*at == '3' || *at == '4')
            slice->components = *at - '0';
        else if (*at == 'f')
            slice->reverse = true;
        else if (*at == 'c')
            slice->consume = true;
        else if (*at == 'g')
            slice->graph = true;
        else if (*at != 'x')
            return -1;
    }
    if (!slice->components)
        return -1;
    *wrong = "atoms or exchanges out of range";
    if (!command->amount || command->amount > GPU_ATOMS_MAX || !command->count ||
        command->count > 100000000)
        return -1;
    slice->atoms = (uint32_t)command->amount;
    slice->count = (uint32_t)command->count;
    return 0;
}

#endif
