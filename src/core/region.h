/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a region handle holds, and the keys by which peers find each other's regions.
 */
#ifndef LEAT_CORE_REGION_H
#define LEAT_CORE_REGION_H

#include "core/job.h"

struct transport;

struct leat_region {
    struct leat_job *job;
    struct leat_region *next, **link;
    int owner;
    uint32_t slot;
    uint64_t generation; /* of the slot when this handle was made */
    uint64_t bytes;
    uint64_t remote; /* offset in the owner's arena, or its address there */
    uint32_t serial; /* as in struct region_slot */
    /* Where this rank loads and stores it (its kernels, for a GPU's memory); NULL when only copies
     * reach it. */
    void *address;
    enum region_kind kind;
    bool view;    /* found through the directory: freeing it leaves the memory alone */
    bool far;     /* of a rank that is reached by the network: its directory is not here */
    bool retired; /* no longer used here, but a peer may not have left it yet */
    const struct transport *transport;
    int row;               /* of the path table */
    struct import *import; /* transport/import.c's, of a view of another process's memory */
};

/* Names a region across ranks: small enough to travel in a board or a letter. */
struct region_key {
    int32_t owner;
    uint32_t slot;
    uint64_t generation;
};

/* This rank's region of that name; false: there is none. Any thread. */
bool leat_region_named(struct leat_job *job, const char *name, struct region_key *key,
                       uint64_t *bytes, uint32_t *kind);
struct region_key leat_region_key(const struct leat_region *region);
/* A view of the region that `key` names; -ESTALE when it has been freed meanwhile. */
int leat_region_attach(struct leat_job *job, const struct region_key *key, leat_region **region);
/*
 * A region with signals may not be freed as soon as they are in: whoever raised one looks for
 * sleepers behind the word afterwards. Retired, it stays until leat_region_free_retired, which is
 * for a moment when every rank has come out of what it did with it. NULL is nothing.
 */
void leat_region_retire(struct leat_region *region);
void leat_region_free_retired(struct leat_job *job);
/* -ESTALE with detail when the owner has freed it. */
int leat_region_check(const struct leat_region *region, uint64_t offset, uint64_t bytes,
                      const char *what);
/* Where a signal lies: -EINVAL it is not aligned or not in an allocated region; else as
 * leat_region_check. */
int leat_signal_at(const leat_job *job, leat_place place, struct leat_signal **signal);

#endif
