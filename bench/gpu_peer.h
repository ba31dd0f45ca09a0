/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of the GPU halo benchmark: serves slices with what its library does for an exchange.
 *
 * Every size and way is verified before it is first timed, several exchanges with new stamps, and
 * warmed up before each slice. Timed are exchanges enqueued back to back, with one wait for the
 * stream at the end.
 *
 * Advantage: a peer is one function that enqueues. Disadvantage: the host's part of an exchange is
 * timed as far as the stream waits for it, not by itself.
 */
#ifndef LEAT_BENCH_GPU_PEER_H
#define LEAT_BENCH_GPU_PEER_H

#include "gpu_halo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns of enqueue, begin and others besides 0. */
enum {
    GPU_FAILED = -1, /* the peer ends */
    GPU_CANNOT = 1   /* not this way, here or at all; both ranks say so */
};

struct gpu_peer {
    struct gpu_halo halo;
    void *user;
    /* Waits for the other rank on the host. */
    int (*barrier)(struct gpu_peer *peer);
    /* Prepares for halo.slice: exchanges are counted from 0 again. Both ranks have empty streams
     * and meet in a barrier before and after. May be NULL. */
    int (*begin)(struct gpu_peer *peer);
    /* Enqueues exchanges number first to first + count - 1; exchange n lands in zone n & 1. */
    int (*enqueue)(struct gpu_peer *peer, uint64_t first, uint32_t count);
    /* Whether something in the stream failed that CUDA does not know of. May be NULL. */
    int (*look)(struct gpu_peer *peer);
    cudaGraphExec_t graph;
    char verified[64][24];
    int verified_count;
};

/* For enqueue: exchanges one by one, with the zone of each, until one fails. */
int gpu_peer_each(struct gpu_peer *peer, uint64_t first, uint32_t count,
                  int (*exchange)(struct gpu_peer *peer, int zone));
/* What the slice asks for behind an exchange: forces added, or ghosts read, or nothing. */
int gpu_peer_take(struct gpu_peer *peer, int zone);

/* Until the command "end"; 0 or 1, an exit status. */
int gpu_peer_serve(struct gpu_peer *peer, const char *directory, const char *side);

#ifdef __cplusplus
}
#endif

#endif
