// SPDX-License-Identifier: Apache-2.0
// Space in this rank's arena: first fit over free spans.
//
// Algorithm: free spans sorted by offset, joined with their neighbours when space comes back.
// Advantage: a few dozen regions live at a time, so the list is short and fragments heal.
// Disadvantage: linear in the number of free spans. Private to the owner: peers never look here.

#define _GNU_SOURCE
#include "core/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_ALIGN  64
#define ARENA_RETURN (UINT64_C(4) << 20) /* freed spans from this size on go back to the system */

static int insert_span(struct arena *arena, size_t at, struct arena_span span)
{
    if (arena->free_count == arena->free_capacity) {
        size_t capacity = arena->free_capacity ? 2 * arena->free_capacity : 64;
        struct arena_span *grown = realloc(arena->free, capacity * sizeof *grown);
        if (!grown)
            return leat_fail(-ENOMEM, "no memory for the arena's list of free spans");
        arena->free = grown;
        arena->free_capacity = capacity;
    }
    memmove(arena->free + at + 1, arena->free + at, (arena->free_count - at) * sizeof *arena->free);
    arena->free[at] = span;
    arena->free_count++;
    return 0;
}

static void remove_span(struct arena *arena, size_t at)
{
    arena->free_count--;
    memmove(arena->free + at, arena->free + at + 1, (arena->free_count - at) * sizeof *arena->free);
}

int leat_arena_open(struct leat_job *job)
{
    struct arena *arena = &job->arena;
    arena->head = leat_arena_head(job, job->rank);
    arena->bytes = job->segment->head->arena_bytes;
    uint64_t head_bytes = sizeof(struct arena_head);
    head_bytes = (head_bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    arena->fresh = head_bytes;
    return insert_span(arena, 0, (struct arena_span){head_bytes, arena->bytes - head_bytes});
}

void leat_arena_close(struct leat_job *job)
{
    free(job->arena.free);
    job->arena.free = NULL;
    job->arena.free_count = job->arena.free_capacity = 0;
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes ? (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN : ARENA_ALIGN;
}

// Only what was used before can hold old bytes; the rest of the sparse file reads as zero.
static void clear(struct arena *arena, uint64_t offset, uint64_t bytes)
{
    uint64_t end = offset + bytes;
    if (offset < arena->fresh)
        memset((char *)arena->head + offset, 0, (end < arena->fresh ? end : arena->fresh) - offset);
    if (end > arena->fresh)
        arena->fresh = end;
}

int leat_arena_alloc(struct leat_job *job, uint64_t bytes, uint64_t *offset)
{
    struct arena *arena = &job->arena;
    uint64_t wanted = bytes <= arena->bytes ? rounded(bytes) : bytes;
    for (size_t i = 0; i < arena->free_count; i++) {
        struct arena_span *span = &arena->free[i];
        if (span->bytes < wanted)
            continue;
        *offset = span->offset;
        span->offset += wanted;
        span->bytes -= wanted;
        if (!span->bytes)
            remove_span(arena, i);
        clear(arena, *offset, wanted);
        leat_count(&arena->used, wanted);
        if (arena->used > arena->peak)
            __atomic_store_n(&arena->peak, arena->used, __ATOMIC_RELAXED);
        return 0;
    }
    return leat_fail(-ENOMEM,
                     "no room for %llu bytes in the arena of rank %d: %llu of %llu bytes are in "
                     "use; set LEAT_ARENA larger",
                     (unsigned long long)bytes, job->rank, (unsigned long long)arena->used,
                     (unsigned long long)arena->bytes);
}

static void give_back(struct arena *arena, uint64_t offset, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (offset + page - 1) / page * page;
    uint64_t end = (offset + bytes) / page * page;
    if (bytes >= ARENA_RETURN)
        madvise((char *)arena->head + begin, end - begin, MADV_REMOVE);
}

void leat_arena_free(struct leat_job *job, uint64_t offset, uint64_t bytes)
{
    struct arena *arena = &job->arena;
    bytes = rounded(bytes);
    __atomic_store_n(&arena->used, arena->used - bytes, __ATOMIC_RELAXED);
    give_back(arena, offset, bytes);
    size_t at = 0;
    while (at < arena->free_count && arena->free[at].offset < offset)
        at++;
    bool joins_left = at > 0 && arena->free[at - 1].offset + arena->free[at - 1].bytes == offset;
    bool joins_right = at < arena->free_count && offset + bytes == arena->free[at].offset;
    if (joins_left) {
        arena->free[at - 1].bytes += bytes;
        if (joins_right) {
            arena->free[at - 1].bytes += arena->free[at].bytes;
            remove_span(arena, at);
        }
    } else if (joins_right) {
        arena->free[at].offset = offset;
        arena->free[at].bytes += bytes;
    } else {
        // Without memory for the list the span stays in use: lost until close, never handed twice.
        insert_span(arena, at, (struct arena_span){offset, bytes});
    }
}
