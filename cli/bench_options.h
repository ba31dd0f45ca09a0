/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that several benchmarks take: lists of sizes, and what all benchmarks of messages share.
 *
 * Advantage: a list is read and refused in one way. Disadvantage: the rows of a table have to be
 * constants, so the shared ones are a macro.
 */
#ifndef LEAT_CLI_BENCH_OPTIONS_H
#define LEAT_CLI_BENCH_OPTIONS_H

#include "bench_sides.h"
#include "options.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_sizes {
    uint64_t value[BENCH_SIZES_MAX];
    int count;
};

/* "N[,N...]", each with K, M or G; the option's name is for the complaint. */
bool bench_read_sizes(struct option_reader *reader, const char *option, uint64_t minimum,
                      uint64_t maximum, struct bench_sizes *sizes);

/* Words among `names`, with commas, or "none": chosen[i] for each. */
bool bench_read_set(struct option_reader *reader, const char *option, const char *const *names,
                    int count, bool *chosen);

struct bench_common {
    int rank_count, transport; /* row of the path table; -1: the best */
    bool against[BENCH_PEER_COUNT], json;
    struct bench_pace pace;
};

extern const struct bench_common bench_common_default;

enum bench_common_option {
    BENCH_OPTION_TRANSPORT = OPTION_LONG + 100,
    BENCH_OPTION_AGAINST,
    BENCH_OPTION_JSON,
    BENCH_OPTION_ROUNDS,
    BENCH_OPTION_SLICE
};

#define BENCH_COMMON_ROWS                                                                          \
    {'n', "ranks", "N", "ranks of each side (2)"},                                                 \
        {BENCH_OPTION_TRANSPORT, "transport", "NAME",                                              \
         "path that leat has to take, a row of `leat path` (the best)"},                           \
        {BENCH_OPTION_AGAINST, "against", "PEER[,PEER]",                                           \
         "openmpi and mpich, or none (openmpi,mpich)"},                                            \
    {                                                                                              \
        BENCH_OPTION_JSON, "json", NULL, "print one JSON object"                                   \
    }

#define BENCH_PACE_ROWS                                                                            \
    {BENCH_OPTION_ROUNDS, "rounds", "N", "slices a size and side (9)"},                            \
    {                                                                                              \
        BENCH_OPTION_SLICE, "slice", "MS", "length of a slice in milliseconds (20)"                \
    }

/* Takes the option if it is one of these. */
void bench_read_common(struct option_reader *reader, struct bench_common *common);

/* Has a side of leat take the path that --transport asks for. */
void bench_add_path(struct bench_side *side, const struct bench_common *common);

/* Starts leat's ranks, with an algorithm ("OPERATION=NAME") or NULL, and those of the peers that
 * are there. bench_close in any case. */
int bench_start_common(struct bench_sides *sides, const struct bench_common *common,
                       const char *algorithm);

#endif
