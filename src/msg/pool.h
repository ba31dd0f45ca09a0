/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message layer's memory: every byte is taken from a pool with a limit, and counted.
 *
 * The limits add up to the budget, so the sum is a bound as well. Small objects of one size come
 * from slabs that grow page by page and are never given back before the end; everything else from
 * the heap, counted with what the allocator rounds it to. Advantage: a full pool is a state that
 * the protocol knows, not a failure. Disadvantage: room left in one pool does not help another.
 */
#ifndef LEAT_MSG_POOL_H
#define LEAT_MSG_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum msg_pool_id {
    POOL_QUEUE,   /* the shared receive queue */
    POOL_PEERS,   /* records of peers in use, and their index */
    POOL_RINGS,   /* rings to and from peers */
    POOL_HEADERS, /* envelopes of unexpected messages, and the matcher's bins */
    POOL_BYTES,   /* their bytes */
    POOL_STAGING, /* pipes of rendezvous that cannot copy directly */
    POOL_WORK,    /* communicators, schedules of collectives and their buffers, handles */
    POOL_COUNT
};

/* One thread counts, and others may read the counts meanwhile: whole words, in no order. */
static inline void msg_set(uint64_t *count, uint64_t value)
{
    __atomic_store_n(count, value, __ATOMIC_RELAXED);
}
static inline void msg_add(uint64_t *count, uint64_t by)
{
    msg_set(count, *count + by);
}

struct msg_pool {
    uint64_t used, peak, limit; /* bytes */
};

struct msg_pools {
    struct msg_pool pool[POOL_COUNT];
    uint64_t used, peak, budget;
};

extern const char *const msg_pool_names[POOL_COUNT];

/* Zeroed memory, or NULL where the pool (or the system) has none. Free has to be given the same
 * `bytes`; it is safe on NULL. */
void *msg_alloc(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes);
void msg_free(struct msg_pools *pools, enum msg_pool_id id, void *memory, uint64_t bytes);
/* Counts memory that comes from elsewhere (a network's alloc). 0 or -ENOBUFS. */
int msg_charge(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes);
void msg_discharge(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes);
/* What msg_alloc counts for `bytes`: no less than the heap takes for them. */
uint64_t msg_heap_bytes(uint64_t bytes);

/* Objects of one size, found by index; index 0 is never used. */
struct msg_slab {
    struct msg_pools *pools;
    enum msg_pool_id id;
    uint32_t object_bytes; /* a multiple of 8 */
    uint32_t page_shift;   /* a page holds 1 << page_shift objects */
    uint32_t page_count, page_capacity;
    uint32_t free_head; /* chain through the first four bytes of free objects; 0: none */
    uint32_t live;      /* objects handed out */
    void **page;        /* [page_capacity], counted too */
};

void msg_slab_open(struct msg_slab *slab, struct msg_pools *pools, enum msg_pool_id id,
                   uint32_t object_bytes);
/* Objects still handed out go with it. */
void msg_slab_close(struct msg_slab *slab);
/* Index of a zeroed object, or 0 where the pool is full (then nothing has changed). */
uint32_t msg_slab_take(struct msg_slab *slab);
void msg_slab_give(struct msg_slab *slab, uint32_t index);
/* `count` objects at once, not zeroed, chained by the index in their first four bytes, which is 0
 * in the last one; returns the first, or 0 and takes none. */
uint32_t msg_slab_take_chain(struct msg_slab *slab, uint32_t count, uint32_t *last);
/* Gives such a chain back; in constant time. */
void msg_slab_give_chain(struct msg_slab *slab, uint32_t first, uint32_t last, uint32_t count);
/* Whether `count` objects could be taken now, but for the system's own lack of memory. `trial`, a
 * copy of the pools at first, is charged with it, so that what several slabs need adds up. */
bool msg_slab_fits(const struct msg_slab *slab, uint64_t count, struct msg_pools *trial);

/* Objects that can be taken without growing. */
static inline uint64_t msg_slab_free_count(const struct msg_slab *slab)
{
    return slab->page_count ? ((uint64_t)slab->page_count << slab->page_shift) - 1 - slab->live : 0;
}

static inline void *msg_slab_at(const struct msg_slab *slab, uint32_t index)
{
    uint32_t place = index & ((1u << slab->page_shift) - 1);
    return (char *)slab->page[index >> slab->page_shift] + (size_t)place * slab->object_bytes;
}

#endif
