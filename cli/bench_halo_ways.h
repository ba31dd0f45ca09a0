/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways that `leat bench halo` compares where ranks are threads, and the programs behind them.
 *
 * A way is one mode of leat, or one manner of exchange of a peer's library; a peer's program may
 * serve several. Advantage: what fails takes only its own ways along. Disadvantage: leat is a
 * process a mode, so with all modes there is room for three peers' programs.
 */
#ifndef LEAT_CLI_BENCH_HALO_WAYS_H
#define LEAT_CLI_BENCH_HALO_WAYS_H

#include "bench_halo.h"

#define HALO_WAYS_MAX 16

enum halo_group {
    HALO_EXCHANGE, /* exchanges back to back */
    HALO_STEP,     /* each with a consumer */
    HALO_GRAPH,    /* back to back, replayed from a CUDA graph; last, since it may fail most ways */
    HALO_GROUP_COUNT
};
extern const char *const halo_group_names[HALO_GROUP_COUNT];

struct halo_way {
    const char *name, *word; /* in reports; in commands to its side */
    struct bench_side *side;
    bool ours, measured;
    int mode, kind; /* leat's */
    uint32_t iterations;
    struct bench_series ns;
    double pulses, ghosts, launches, waits; /* as leat's side counts them */
};

struct halo_ways {
    struct bench_sides sides;
    struct halo_way way[HALO_WAYS_MAX];
    int count;
    char side_name[BENCH_SIDES_MAX][32];
    bool ours_failed;
};

/* Adds sides and ways for what is asked. A peer that is not there is named on stderr. 0; -ENOENT
 * leat's own program is missing; -E2BIG more sides than there is room for. */
int halo_ways_add(struct halo_ways *ways, const struct halo_request *request);

/* Whether a way of this kind can be in the group at all. */
bool halo_way_joins(const struct halo_way *way, enum halo_group group, bool reverse);

/*
 * Measures all ways of a group by turns, at one size. What fails is marked as not measured, its
 * side ended where it does not answer any more. 0, or -EINTR and other reasons to end altogether.
 */
int halo_ways_measure(struct halo_ways *ways, const struct bench_pace *pace, enum halo_group group,
                      int components, bool reverse, uint64_t atoms);

#endif
