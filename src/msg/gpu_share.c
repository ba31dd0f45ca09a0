// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs between processes of a host: named by its owner, mapped once by who reads it.
//
// Algorithm: CUDA gives every allocation a number that is never used again. The owner of a message
// keeps a table, in memory that peers have mapped, of allocations with that number and the handle
// by which other processes map them; its announcement says place, number and offset. Who receives
// looks whether the place still holds that number, maps the allocation at the first time, and keeps
// the mapping. Memory that was freed and made again at its address has another number, so a mapping
// is never taken for what lies there later; one whose owner has newer memory there goes. Advantage:
// from the second message on nothing is asked. Disadvantage: memory stays taken on the GPU until
// all who have mapped it have let go.

#include "msg/gpu.h"

#include "core/job.h"

#include <errno.h>
#include <string.h>

#define ENTRIES 32
#define SHARED  (UINT64_MAX - 2)
#define PLACE   48 // bits of the offset before the place

#define WORDS (sizeof(struct copies_share) / sizeof(uint64_t))

_Static_assert(sizeof(struct copies_share) % sizeof(uint64_t) == 0, "it goes word by word");

struct gpu_entry {
    uint64_t id; // 0: none
    uint64_t used;
    uint64_t base;         // the owner's copy of what `share` begins with
    uint64_t share[WORDS]; // of a struct copies_share
};

struct gpu_table {
    struct gpu_entry entry[ENTRIES];
};

struct gpu_view {
    int rank;
    uint64_t id, base, bytes, used; // base: the owner's address
    void *address;                  // NULL: it could not be mapped
};

struct msg_gpu_views {
    struct gpu_view view[ENTRIES];
};

// ---- The owner ----

static bool make_table(struct msg_engine *engine)
{
    struct msg_gpu *gpu = engine->gpu;
    struct endpoint *endpoint = &engine->job->arena.head->endpoint;
    void *made = NULL;
    if (gpu->table)
        return true;
    if (msg_charge(&engine->pools, POOL_STAGING, sizeof *gpu->table))
        return false;
    if (engine->net->ops->alloc(engine->net, sizeof *gpu->table, &made, &gpu->table_token)) {
        msg_discharge(&engine->pools, POOL_STAGING, sizeof *gpu->table);
        return false;
    }
    gpu->table = made;
    __atomic_store_n(&endpoint->gpu_offset,
                     (uint64_t)((char *)made - (char *)engine->job->arena.head), __ATOMIC_RELEASE);
    return true;
}

// The entry of an allocation, made where there is none. NULL: other processes cannot map it.
static struct gpu_entry *entry_of(struct msg_gpu *gpu, const void *address, uint64_t id)
{
    struct gpu_entry *oldest = &gpu->table->entry[0];
    struct copies_share share;
    for (int i = 0; i < ENTRIES; i++) {
        struct gpu_entry *entry = &gpu->table->entry[i];
        if (entry->id == id)
            return entry;
        if (entry->used < oldest->used)
            oldest = entry;
    }
    if (gpu->ops->share(gpu->device, address, &share))
        return NULL;
    // Who reads it looks at the number before and after: with a new word, it sees that one is gone.
    uint64_t words[WORDS];
    memcpy(words, &share, sizeof words);
    __atomic_store_n(&oldest->id, 0, __ATOMIC_RELAXED);
    for (size_t i = 0; i < WORDS; i++)
        __atomic_store_n(&oldest->share[i], words[i], __ATOMIC_RELEASE);
    oldest->base = share.base;
    __atomic_store_n(&oldest->id, id, __ATOMIC_RELEASE);
    return oldest;
}

bool msg_gpu_show(struct msg_engine *engine, int rank, const void *address, struct msg_token *token)
{
    struct msg_gpu *gpu = engine->gpu;
    if (!gpu->ops->share || !msg_maps(engine, rank) || !make_table(engine))
        return false;
    uint64_t id = gpu->ops->number(gpu->device, address);
    struct gpu_entry *entry = id ? entry_of(gpu, address, id) : NULL;
    if (!entry)
        return false;
    entry->used = ++gpu->far_uses;
    uint64_t offset = (uint64_t)(uintptr_t)address - entry->base;
    uint64_t place = (uint64_t)(entry - gpu->table->entry);
    if (offset >> PLACE)
        return false;
    *token = (struct msg_token){{SHARED, place << PLACE | offset, id}};
    return true;
}

// ---- Who receives ----

// What the owner's table says at that place; false: something else by now.
static bool read_entry(struct msg_engine *engine, int rank, uint64_t place, uint64_t id,
                       struct copies_share *share)
{
    struct arena_head *head = leat_arena_head(engine->job, rank);
    uint64_t arena = engine->job->segment->head->arena_bytes;
    uint64_t at = __atomic_load_n(&head->endpoint.gpu_offset, __ATOMIC_ACQUIRE);
    if (!at || at % sizeof(uint64_t) || at > arena || arena - at < sizeof(struct gpu_table) ||
        place >= ENTRIES)
        return false;
    const struct gpu_entry *entry =
        &((const struct gpu_table *)(const void *)((const char *)head + at))->entry[place];
    if (__atomic_load_n(&entry->id, __ATOMIC_ACQUIRE) != id)
        return false;
    uint64_t words[WORDS] = {0};
    for (size_t i = 0; i < WORDS; i++)
        words[i] = __atomic_load_n(&entry->share[i], __ATOMIC_ACQUIRE);
    memcpy(share, words, sizeof words);
    return __atomic_load_n(&entry->id, __ATOMIC_RELAXED) == id;
}

static void let_go(struct msg_gpu *gpu, struct gpu_view *view)
{
    if (view->address)
        gpu->ops->detach(gpu->device, view->address);
    *view = (struct gpu_view){0};
}

// Newer memory at the same address of the same owner: what was there is gone.
static bool outdated(const struct gpu_view *view, int rank, const struct copies_share *share)
{
    return view->id && view->rank == rank && view->base < share->base + share->bytes &&
           share->base < view->base + view->bytes;
}

static struct gpu_view *view_of(struct msg_gpu *gpu, int rank, uint64_t id)
{
    for (int i = 0; gpu->views && i < ENTRIES; i++)
        if (gpu->views->view[i].id == id && gpu->views->view[i].rank == rank)
            return &gpu->views->view[i];
    return NULL;
}

static struct gpu_view *make_view(struct msg_gpu *gpu, int rank, uint64_t id,
                                  const struct copies_share *share)
{
    struct gpu_view *place = NULL;
    if (!gpu->views)
        gpu->views = msg_alloc(&gpu->engine->pools, POOL_STAGING, sizeof *gpu->views);
    if (!gpu->views || gpu->started != gpu->passed)
        return NULL; // a copy under way may use what would have to go
    for (int i = 0; i < ENTRIES; i++) {
        struct gpu_view *view = &gpu->views->view[i];
        if (outdated(view, rank, share))
            let_go(gpu, view);
        if (!place || view->used < place->used)
            place = view;
    }
    let_go(gpu, place);
    *place = (struct gpu_view){.rank = rank, .id = id, .base = share->base, .bytes = share->bytes};
    if (gpu->ops->attach(gpu->device, share, &place->address))
        place->address = NULL;
    return place;
}

void *msg_gpu_seen(struct msg_engine *engine, int rank, const struct msg_token *token,
                   uint64_t bytes)
{
    struct msg_gpu *gpu = engine->gpu;
    uint64_t place = token->word[1] >> PLACE, id = token->word[2];
    uint64_t offset = token->word[1] & ((UINT64_C(1) << PLACE) - 1);
    struct copies_share share;
    if (token->word[0] != SHARED || !id || !gpu->ops->attach || !msg_maps(engine, rank))
        return NULL;
    struct gpu_view *view = view_of(gpu, rank, id);
    if (!view && read_entry(engine, rank, place, id, &share))
        view = make_view(gpu, rank, id, &share);
    if (!view || !view->address || offset > view->bytes || bytes > view->bytes - offset)
        return NULL;
    view->used = ++gpu->far_uses;
    return (char *)view->address + offset;
}

void msg_gpu_share_close(struct msg_gpu *gpu)
{
    struct msg_engine *engine = gpu->engine;
    for (int i = 0; gpu->views && i < ENTRIES; i++)
        let_go(gpu, &gpu->views->view[i]);
    msg_free(&engine->pools, POOL_STAGING, gpu->views, sizeof *gpu->views);
    gpu->views = NULL;
    if (!gpu->table)
        return;
    __atomic_store_n(&engine->job->arena.head->endpoint.gpu_offset, 0, __ATOMIC_RELEASE);
    engine->net->ops->free(engine->net, gpu->table, sizeof *gpu->table);
    msg_discharge(&engine->pools, POOL_STAGING, sizeof *gpu->table);
    gpu->table = NULL;
}
