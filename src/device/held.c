// SPDX-License-Identifier: Apache-2.0
// See held.h.

#include "device/held.h"

#include <stddef.h>

#define GRAIN 512 /* CUDA's own */

uint64_t held_round(uint64_t bytes)
{
    return bytes ? (bytes + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
}

static bool is_free(const struct held_block *block, uint64_t seen_idle)
{
    return block->freed_at && block->freed_at <= seen_idle;
}

void *held_take(struct held *held, int place, uint64_t bytes, uint64_t seen_idle)
{
    struct held_block *best = NULL;
    for (struct held_block *block = held->blocks; block; block = block->next)
        if (block->place == place && is_free(block, seen_idle) && block->bytes >= bytes &&
            block->bytes / 2 <= bytes && (!best || block->bytes < best->bytes))
            best = block;
    if (!best)
        return NULL;
    best->freed_at = 0;
    return best->address;
}

void held_add(struct held *held, struct held_block *block)
{
    block->freed_at = 0;
    block->next = held->blocks;
    held->blocks = block;
}

static struct held_block **find(struct held *held, const void *address)
{
    struct held_block **link = &held->blocks;
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

void held_free(struct held *held, const void *address, bool for_good)
{
    struct held_block *block = *find(held, address);
    uint64_t count = __atomic_add_fetch(&held->frees, 1, __ATOMIC_ACQ_REL);
    if (block)
        block->freed_at = for_good ? UINT64_MAX : count;
}

struct held_block *held_remove(struct held *held, const void *address)
{
    struct held_block **link = find(held, address), *block = *link;
    if (block)
        *link = block->next;
    return block;
}

struct held_block *held_cut(struct held *held, uint64_t seen_idle, bool all)
{
    struct held_block *cut = NULL;
    for (struct held_block **link = &held->blocks; *link;) {
        struct held_block *block = *link;
        if (!all && !is_free(block, seen_idle)) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        block->next = cut;
        cut = block;
    }
    return cut;
}
