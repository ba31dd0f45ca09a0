/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leat's side of the halo benchmark with ranks as threads of one process: what a rank has.
 *
 * Advantage: several ranks share a GPU, and each sees the others' plans, so that what has to arrive
 * is worked out on the host without the library. Disadvantage: a rank that fails ends them all.
 */
#ifndef LEAT_BENCH_LEAT_SIDE_H
#define LEAT_BENCH_LEAT_SIDE_H

#include "gpu_slice.h"
#include "side_stream.h"

#define LEAT_DEVICE_HOST_ONLY
#include <leat/device.h>
#include <leat/halo.h>

#include <pthread.h>

#define SIDE_RANKS_MAX 8

struct side_rank {
    struct side *side;
    leat_job *job;
    int rank;
    pthread_t thread;
    struct side_stream stream;
    bool shares_device; /* with another rank */
    /* Of the slice before too, where it was of the same kind. */
    struct gpu_slice slice;
    leat_plan *plan;
    leat_plan_info info;
    leat_halo *halo;
    leat_region *field, *staging; /* elements and second zone; what the host sees of them */
    float *device, *host;
    float *expected; /* [element_count * components] */
    bool verified;
    int verdict;   /* of preparing, for the other ranks to read */
    uint64_t made; /* exchanges before the resident loop that runs */
};

struct side {
    const char *directory, *name;
    enum leat_mode mode;
    int grid[3], rank_count; /* a grid of zeros: one pulse between two ranks */
    enum leat_plan_kind kind;
    pthread_barrier_t barrier;
    struct side_rank rank[SIDE_RANKS_MAX];
};

/* Plan of the rank's slice. 0 or a negative errno with detail, as all here. */
int side_make_plan(struct side_rank *rank);

/* Writes stamps into the rank's elements on its device, and what one exchange makes of them into
 * `expected`. Collective. */
int side_fill(struct side_rank *rank, uint32_t stamp);

/* Compares the device's elements with what is expected. */
int side_check(struct side_rank *rank);

static inline uint32_t side_ghost_count(const struct side_rank *rank)
{
    return rank->info.element_count - rank->info.home_count;
}

#endif
