// SPDX-License-Identifier: Apache-2.0
// Counted memory: pools with limits, and slabs of equal objects in them.
//
// Algorithm: an allocation is charged with an upper bound, computed from its size, of what glibc's
// heap takes for it; a slab takes pages of 4 to 8 KiB and chains what is free through the objects
// themselves. An index is split into page and place by a shift. Advantage: taking and giving are a
// few instructions, and whether something will fit can be computed beforehand, exactly.
// Disadvantage: a slab keeps its pages, and the last one is charged as a whole.

#include "msg/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_WORD        8u
#define HEAP_GRAIN       16u
#define HEAP_LEAST       32u
#define HEAP_MAPS_FROM   (128u * 1024) // glibc's smallest threshold for a mapping of its own
#define PAGE_TARGET      8192u
#define PAGE_ARRAY_FIRST 8u

const char *const msg_pool_names[POOL_COUNT] = {
    [POOL_QUEUE] = "queue",     [POOL_PEERS] = "peers", [POOL_RINGS] = "rings",
    [POOL_HEADERS] = "headers", [POOL_BYTES] = "bytes", [POOL_STAGING] = "staging",
    [POOL_WORK] = "work",
};

static uint64_t round_up(uint64_t bytes, uint64_t grain)
{
    return (bytes + grain - 1) & ~(grain - 1);
}

uint64_t msg_heap_bytes(uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2)
        return UINT64_MAX; // fits nowhere
    if (bytes < HEAP_MAPS_FROM) {
        uint64_t chunk = round_up(bytes + HEAP_WORD, HEAP_GRAIN);
        return chunk < HEAP_LEAST ? HEAP_LEAST : chunk;
    }
    // Either of heap and mapping may be chosen; a mapping takes more.
    long page = sysconf(_SC_PAGESIZE);
    return round_up(round_up(bytes + HEAP_WORD, HEAP_GRAIN) + HEAP_WORD,
                    page > 0 ? (uint64_t)page : 4096);
}

static bool fits_under(uint64_t used, uint64_t bytes, uint64_t limit)
{
    return used <= limit && bytes <= limit - used;
}

int msg_charge(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes)
{
    struct msg_pool *pool = &pools->pool[id];
    if (!fits_under(pool->used, bytes, pool->limit) ||
        !fits_under(pools->used, bytes, pools->budget))
        return -ENOBUFS;
    msg_add(&pool->used, bytes);
    msg_add(&pools->used, bytes);
    if (pool->used > pool->peak)
        msg_set(&pool->peak, pool->used);
    if (pools->used > pools->peak)
        msg_set(&pools->peak, pools->used);
    return 0;
}

void msg_discharge(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes)
{
    msg_set(&pools->pool[id].used, pools->pool[id].used - bytes);
    msg_set(&pools->used, pools->used - bytes);
}

void *msg_alloc(struct msg_pools *pools, enum msg_pool_id id, uint64_t bytes)
{
    uint64_t charged = msg_heap_bytes(bytes);
    if (charged > SIZE_MAX || msg_charge(pools, id, charged))
        return NULL;
    void *memory = calloc(1, bytes ? (size_t)bytes : 1);
    if (!memory)
        msg_discharge(pools, id, charged);
    return memory;
}

void msg_free(struct msg_pools *pools, enum msg_pool_id id, void *memory, uint64_t bytes)
{
    if (!memory)
        return;
    free(memory);
    msg_discharge(pools, id, msg_heap_bytes(bytes));
}

static uint32_t chain_get(const struct msg_slab *slab, uint32_t index)
{
    uint32_t next;
    memcpy(&next, msg_slab_at(slab, index), sizeof next);
    return next;
}

static void chain_set(const struct msg_slab *slab, uint32_t index, uint32_t next)
{
    memcpy(msg_slab_at(slab, index), &next, sizeof next);
}

static uint64_t page_bytes(const struct msg_slab *slab)
{
    return (uint64_t)slab->object_bytes << slab->page_shift;
}

static uint32_t next_capacity(uint32_t capacity)
{
    return capacity ? 2 * capacity : PAGE_ARRAY_FIRST;
}

void msg_slab_open(struct msg_slab *slab, struct msg_pools *pools, enum msg_pool_id id,
                   uint32_t object_bytes)
{
    uint32_t bytes = (uint32_t)round_up(object_bytes ? object_bytes : 1, 8);
    uint32_t shift = 1; // index 0 is never used, so a page of one object would be lost
    while (((uint64_t)bytes << (shift + 1)) <= PAGE_TARGET)
        shift++;
    *slab = (struct msg_slab){.pools = pools, .id = id, .object_bytes = bytes, .page_shift = shift};
}

void msg_slab_close(struct msg_slab *slab)
{
    for (uint32_t i = 0; i < slab->page_count; i++)
        msg_free(slab->pools, slab->id, slab->page[i], page_bytes(slab));
    msg_free(slab->pools, slab->id, slab->page, slab->page_capacity * sizeof *slab->page);
    slab->page = NULL;
    slab->page_count = slab->page_capacity = slab->free_head = slab->live = 0;
}

// Repeats what growing page by page would charge, in its order, since an array of pages and the one
// that replaces it are there at the same time.
bool msg_slab_fits(const struct msg_slab *slab, uint64_t count, struct msg_pools *trial)
{
    if (count <= msg_slab_free_count(slab))
        return true;
    if (count >= UINT32_MAX - slab->live)
        return false; // beyond what an index can name
    uint64_t objects = 1 + (uint64_t)slab->live + count;
    uint64_t pages = ((objects - 1) >> slab->page_shift) + 1;
    uint32_t capacity = slab->page_capacity;
    for (uint64_t at = slab->page_count; at < pages;) {
        if (at == capacity) {
            uint32_t more = next_capacity(capacity);
            if (msg_charge(trial, slab->id, msg_heap_bytes(more * sizeof *slab->page)))
                return false;
            if (capacity)
                msg_discharge(trial, slab->id, msg_heap_bytes(capacity * sizeof *slab->page));
            capacity = more;
        }
        uint64_t end = pages < capacity ? pages : capacity;
        if (msg_charge(trial, slab->id, (end - at) * msg_heap_bytes(page_bytes(slab))))
            return false;
        at = end;
    }
    return true;
}

static bool grow_array(struct msg_slab *slab)
{
    uint32_t more = next_capacity(slab->page_capacity);
    void **page = msg_alloc(slab->pools, slab->id, more * sizeof *page);
    if (!page)
        return false;
    if (slab->page) {
        memcpy(page, slab->page, slab->page_count * sizeof *page);
        msg_free(slab->pools, slab->id, slab->page, slab->page_capacity * sizeof *page);
    }
    slab->page = page;
    slab->page_capacity = more;
    return true;
}

static bool grow(struct msg_slab *slab)
{
    if (slab->page_count == slab->page_capacity && !grow_array(slab))
        return false;
    void *page = msg_alloc(slab->pools, slab->id, page_bytes(slab));
    if (!page)
        return false;
    uint32_t first = slab->page_count << slab->page_shift;
    uint32_t last = first + (1u << slab->page_shift) - 1;
    slab->page[slab->page_count++] = page;
    chain_set(slab, last, slab->free_head);
    first += first == 0;
    for (uint32_t i = first; i < last; i++)
        chain_set(slab, i, i + 1);
    slab->free_head = first;
    return true;
}

// Makes room for `count` objects, or fails without having taken pages for some of them.
static bool reserve(struct msg_slab *slab, uint32_t count)
{
    if (count <= msg_slab_free_count(slab))
        return true;
    struct msg_pools trial = *slab->pools;
    if (!msg_slab_fits(slab, count, &trial))
        return false;
    while (count > msg_slab_free_count(slab))
        if (!grow(slab))
            return false;
    return true;
}

uint32_t msg_slab_take(struct msg_slab *slab)
{
    uint32_t index = slab->free_head;
    if (!index) {
        if (!reserve(slab, 1))
            return 0;
        index = slab->free_head;
    }
    slab->free_head = chain_get(slab, index);
    slab->live++;
    memset(msg_slab_at(slab, index), 0, slab->object_bytes);
    return index;
}

uint32_t msg_slab_take_chain(struct msg_slab *slab, uint32_t count, uint32_t *last)
{
    if (!count || !reserve(slab, count))
        return 0;
    uint32_t first = slab->free_head, at = first;
    for (uint32_t i = 1; i < count; i++)
        at = chain_get(slab, at);
    slab->free_head = chain_get(slab, at);
    chain_set(slab, at, 0);
    slab->live += count;
    *last = at;
    return first;
}

void msg_slab_give(struct msg_slab *slab, uint32_t index)
{
    if (index)
        msg_slab_give_chain(slab, index, index, 1);
}

void msg_slab_give_chain(struct msg_slab *slab, uint32_t first, uint32_t last, uint32_t count)
{
    chain_set(slab, last, slab->free_head);
    slab->free_head = first;
    slab->live -= count;
}
