// SPDX-License-Identifier: Apache-2.0
// Memory of simulated ranks: hollow buffers, rings, and the engine's copies.
//
// Algorithm: a range of addresses is reserved and divided among ranks; an address there leads to a
// store by a division. Other memory is an ordinary allocation or, if large, a piece of a mapping
// that takes pages on use; a store notes which parts of it stand for hollow data. Advantage: a copy
// finds out by itself whether there are bytes to move. Disadvantage: the rank's few blocks are
// searched one by one.

#define _GNU_SOURCE
#include "sim/sim_net.h"

#include "core/error.h"
#include "msg/op.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DENSE_MOST  16384 /* bytes: larger memory is touched in part, as a rule */
#define DENSE_PIECE (UINT64_C(16) << 20)
#define WIDE_PIECE  (UINT64_C(1) << 38)
#define PAGE        4096
#define LINE        64

void sim_misuse(struct sim_fabric *fabric, const char *format, ...)
{
    if (fabric->misuse[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fabric->misuse, sizeof fabric->misuse, format, arguments);
    va_end(arguments);
}

static void out_of_memory(struct sim_fabric *fabric)
{
    if (!fabric->error)
        fabric->error = leat_fail(-ENOMEM, "no memory to say what hollow buffers hold");
}

// ---- Arenas ----

struct sim_arena_piece {
    struct sim_arena_piece *next;
    char *memory;
    uint64_t bytes;
};

static void arena_end(struct sim_arena *arena)
{
    while (arena->pieces) {
        struct sim_arena_piece *piece = arena->pieces;
        arena->pieces = piece->next;
        munmap(piece->memory, piece->bytes);
        free(piece);
    }
}

static bool arena_grow(struct sim_arena *arena, uint64_t bytes)
{
    uint64_t least = arena->dense ? DENSE_PIECE : WIDE_PIECE;
    struct sim_arena_piece *piece = malloc(sizeof *piece);
    if (!piece)
        return false;
    piece->bytes = bytes > least ? bytes : least;
    piece->memory = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (piece->memory == MAP_FAILED) {
        free(piece);
        return false;
    }
    // Large pages would hold memory that nothing touches, or save looking up many small ones.
    madvise(piece->memory, piece->bytes, arena->dense ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    piece->next = arena->pieces;
    arena->pieces = piece;
    arena->memory = piece->memory;
    arena->bytes = piece->bytes;
    arena->used = 0;
    return true;
}

static char *arena_take(struct sim_arena *arena, uint64_t bytes)
{
    uint64_t grain = arena->dense ? LINE : PAGE;
    bytes = (bytes + grain - 1) / grain * grain;
    if (bytes > arena->bytes - arena->used && !arena_grow(arena, bytes))
        return NULL;
    arena->used += bytes;
    return arena->memory + arena->used - bytes;
}

// ---- Opening ----

static uint64_t hollow_range(const struct sim_fabric *fabric)
{
    return (uint64_t)fabric->rank_count * 4 * fabric->hollow_bytes;
}

int sim_memory_open(struct sim_fabric *fabric)
{
    uint64_t range;
    if (__builtin_mul_overflow((uint64_t)fabric->rank_count * 4, fabric->hollow_bytes, &range) ||
        range > UINT64_C(1) << 46)
        return leat_fail(-EINVAL, "%d ranks with buffers of %llu bytes: no such range of addresses",
                         fabric->rank_count, (unsigned long long)fabric->hollow_bytes);
    void *at = mmap(NULL, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return leat_fail(-ENOMEM, "no range of %llu addresses for hollow buffers",
                         (unsigned long long)range);
    fabric->hollow = at;
    fabric->slots.dense = true;
    return 0;
}

void sim_memory_close(struct sim_fabric *fabric)
{
    if (fabric->hollow)
        munmap(fabric->hollow, hollow_range(fabric));
    fabric->hollow = NULL;
    arena_end(&fabric->slots);
    arena_end(&fabric->wide);
}

// The place of a block of that size that was freed, or a new one; UINT32_MAX: no memory.
static uint32_t find_place(struct sim_rank *rank, uint64_t bytes)
{
    uint32_t at = 0;
    while (at < rank->block_count &&
           (rank->block[at].live || (rank->block[at].memory && rank->block[at].bytes != bytes)))
        at++;
    if (at < rank->block_capacity)
        return at;
    uint32_t capacity = rank->block_capacity ? 2 * rank->block_capacity : 8;
    struct sim_block *grown = realloc(rank->block, capacity * sizeof *grown);
    if (!grown)
        return UINT32_MAX;
    memset(grown + rank->block_capacity, 0, (capacity - rank->block_capacity) * sizeof *grown);
    rank->block = grown;
    rank->block_capacity = capacity;
    return at;
}

static bool make_block(struct sim_fabric *fabric, struct sim_block *block, uint64_t bytes)
{
    bool ring = bytes == fabric->ring_bytes;
    uint64_t near = ring ? fabric->slots_bytes : bytes;
    // Freed memory is kept for the next block of its size.
    if (block->memory) {
        memset(block->memory, 0, near);
        if (block->far)
            madvise(block->far, bytes - near, MADV_DONTNEED);
        return true;
    }
    block->far = ring ? arena_take(&fabric->wide, bytes - near) : NULL;
    if (ring && !block->far)
        return false;
    block->far_from = near;
    block->bytes = bytes;
    block->memory = ring || bytes < DENSE_MOST ? arena_take(&fabric->slots, near)
                                               : arena_take(&fabric->wide, near);
    return block->memory;
}

int sim_memory_alloc(struct sim_rank *rank, uint64_t bytes, void **address, uint32_t *index)
{
    uint32_t at = find_place(rank, bytes);
    if (at == UINT32_MAX || !make_block(rank->fabric, &rank->block[at], bytes))
        return -ENOMEM;
    if (at == rank->block_count)
        rank->block_count++;
    rank->block[at].live = true;
    *address = rank->block[at].memory;
    *index = at;
    return 0;
}

static void block_end(struct sim_block *block)
{
    block->live = false;
    block->generation++;
    sim_store_close(&block->store);
}

void sim_memory_free(struct sim_rank *rank, void *address)
{
    for (uint32_t i = 0; i < rank->block_count; i++)
        if (rank->block[i].live && rank->block[i].memory == address) {
            block_end(&rank->block[i]);
            return;
        }
    sim_misuse(rank->fabric, "rank %d frees memory that is not its own", rank->net.rank);
}

void sim_memory_release(struct sim_rank *rank)
{
    for (uint32_t i = 0; i < rank->block_count; i++)
        if (rank->block[i].live)
            block_end(&rank->block[i]);
    free(rank->block);
    rank->block = NULL;
    rank->block_count = rank->block_capacity = 0;
    sim_store_close(&rank->send);
    sim_store_close(&rank->receive);
    sim_store_close(&rank->kept);
    sim_store_close(&rank->temp_store);
}

// ---- Where an address leads ----

static struct sim_store *store_of(const struct sim_rank *rank, const void *address, uint64_t *place,
                                  bool *hollow)
{
    // The stores are the rank's, however it is called here.
    struct sim_rank *own = (struct sim_rank *)(uintptr_t)rank;
    const struct sim_fabric *fabric = rank->fabric;
    uint64_t at =
        (uint64_t)((uintptr_t)address - (uintptr_t)sim_hollow_send(fabric, rank->net.rank));
    *hollow = at < 4 * fabric->hollow_bytes;
    if (*hollow) {
        uint64_t part = at / fabric->hollow_bytes;
        *place = at - part * fabric->hollow_bytes;
        return part == 0 ? &own->send : part == 1 ? &own->receive : &own->kept;
    }
    *place = (uint64_t)((uintptr_t)address - (uintptr_t)rank->temp);
    if (*place < rank->temp_bytes)
        return &own->temp_store;
    for (uint32_t i = 0; i < rank->block_count; i++) {
        struct sim_block *block = &own->block[i];
        *place = (uint64_t)((uintptr_t)address - (uintptr_t)block->memory);
        if (block->live && *place < block->far_from)
            return &block->store;
        *place = (uint64_t)((uintptr_t)address - (uintptr_t)block->far);
        if (block->live && *place < block->bytes - block->far_from) {
            *place += block->far_from;
            return &block->store;
        }
    }
    return NULL;
}

struct sim_store *sim_memory_hollow(const struct sim_rank *rank, const void *address,
                                    uint64_t bytes, uint64_t *place)
{
    bool hollow;
    struct sim_range range;
    struct sim_store *store = store_of(rank, address, place, &hollow);
    if (!store || hollow)
        return store;
    return store->count && sim_store_read(store, *place, *place + bytes, &range, 1) ? store : NULL;
}

void sim_memory_move(struct sim_rank *to_rank, void *to, const struct sim_rank *from_rank,
                     const void *from, uint64_t bytes)
{
    struct sim_fabric *fabric = to_rank->fabric;
    uint64_t from_place, to_place;
    bool to_hollow;
    struct sim_store *from_store = sim_memory_hollow(from_rank, from, bytes, &from_place);
    struct sim_store *to_store = store_of(to_rank, to, &to_place, &to_hollow);
    if (from_store && !to_store) {
        sim_misuse(fabric, "rank %d copies hollow data to memory", to_rank->net.rank);
        return;
    }
    if (from_store) {
        if (sim_store_copy(to_store, to_place, from_store, from_place, bytes))
            out_of_memory(fabric);
        return;
    }
    if (to_hollow) {
        sim_misuse(fabric, "rank %d copies memory to a hollow buffer", to_rank->net.rank);
        return;
    }
    if (to_store && to_store->count &&
        sim_store_write(to_store, to_place, to_place + bytes, NULL, 0, 0))
        out_of_memory(fabric);
    memmove(to, from, bytes);
}

// ---- What the engine asks ----

static struct sim_rank *rank_of(const struct msg_memory *memory)
{
    return (struct sim_rank *)(void *)((uintptr_t)memory - offsetof(struct sim_rank, memory));
}

static bool is_hollow(const struct msg_memory *memory, const void *address)
{
    uint64_t place;
    return sim_memory_hollow(rank_of(memory), address, 1, &place);
}

static void copy(struct msg_memory *memory, void *to, const void *from, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(memory);
    sim_spend(rank, (uint64_t)((double)bytes * rank->fabric->costs.copy_ps));
    if (bytes)
        sim_memory_move(rank, to, rank, from, bytes);
}

static void combine(struct msg_memory *memory, enum leat_operation operation, enum leat_type type,
                    const leat_user_operation *user, const void *in, void *inout, uint64_t count)
{
    struct sim_rank *rank = rank_of(memory);
    uint64_t bytes = count * msg_type_bytes(type), in_place, inout_place;
    if (operation == LEAT_OPERATION_USER && user->element_bytes)
        bytes = count * user->element_bytes;
    sim_spend(rank, (uint64_t)((double)bytes * rank->fabric->costs.combine_ps));
    struct sim_store *in_store = sim_memory_hollow(rank, in, bytes, &in_place);
    struct sim_store *inout_store = sim_memory_hollow(rank, inout, bytes, &inout_place);
    if (!in_store && !inout_store)
        msg_combine(operation, type, user, in, inout, count);
    else if (!in_store || !inout_store)
        sim_misuse(rank->fabric, "rank %d combines hollow data with memory", rank->net.rank);
    else if (sim_store_combine(in_store, in_place, inout_store, inout_place, bytes))
        out_of_memory(rank->fabric);
}

static void *keep(struct msg_memory *memory, const void *from, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(memory);
    struct sim_fabric *fabric = rank->fabric;
    uint64_t place;
    struct sim_store *store = sim_memory_hollow(rank, from, bytes, &place);
    if (!store)
        return NULL;
    if (rank->kept_next + bytes > fabric->hollow_bytes)
        rank->kept_next = 0;
    struct sim_range range;
    if (sim_store_read(&rank->kept, rank->kept_next, rank->kept_next + bytes, &range, 1))
        sim_misuse(fabric, "rank %d keeps more hollow messages than there is room for",
                   rank->net.rank);
    char *kept = (char *)sim_hollow_send(fabric, rank->net.rank) + 2 * fabric->hollow_bytes;
    copy(memory, kept + rank->kept_next, from, bytes);
    rank->kept_next += bytes;
    return kept + rank->kept_next - bytes;
}

static void drop(struct msg_memory *memory, void *kept, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(memory);
    uint64_t place;
    bool hollow;
    struct sim_store *store = store_of(rank, kept, &place, &hollow);
    if (sim_store_write(store, place, place + bytes, NULL, 0, 0))
        out_of_memory(rank->fabric);
}

static void *bulk(struct msg_memory *memory, void *ring, uint64_t slots)
{
    const struct sim_rank *rank = rank_of(memory);
    for (uint32_t i = 0; i < rank->block_count; i++)
        if (rank->block[i].live && rank->block[i].memory == ring)
            return sim_block_at(&rank->block[i], slots);
    return (char *)ring + slots;
}

static void *buffer(struct msg_memory *memory, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(memory);
    if (bytes < rank->fabric->temp_bytes)
        bytes = rank->fabric->temp_bytes;
    if (!rank->temp) {
        rank->temp = arena_take(&rank->fabric->wide, bytes);
        rank->temp_bytes = rank->temp ? bytes : 0;
    }
    return rank->temp;
}

void sim_memory_hook(struct sim_rank *rank)
{
    rank->memory = (struct msg_memory){.is_hollow = is_hollow,
                                       .copy = copy,
                                       .combine = combine,
                                       .keep = keep,
                                       .drop = drop,
                                       .bulk = bulk,
                                       .buffer = buffer};
    rank->net.memory = &rank->memory;
}
