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

#define ARENA_FROM  8192 /* bytes; smaller memory comes from the heap */
#define ARENA_PIECE (UINT64_C(1) << 38)
#define PAGE        4096

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
    return 0;
}

void sim_memory_close(struct sim_fabric *fabric)
{
    if (fabric->hollow)
        munmap(fabric->hollow, hollow_range(fabric));
    fabric->hollow = NULL;
    while (fabric->pieces) {
        struct sim_arena_piece *piece = fabric->pieces;
        fabric->pieces = piece->next;
        munmap(piece->memory, piece->bytes);
        free(piece);
    }
}

static char *arena_take(struct sim_fabric *fabric, uint64_t bytes)
{
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > fabric->arena_bytes - fabric->arena_used) {
        struct sim_arena_piece *piece = malloc(sizeof *piece);
        if (!piece)
            return NULL;
        piece->bytes = bytes > ARENA_PIECE ? bytes : ARENA_PIECE;
        piece->memory = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (piece->memory == MAP_FAILED) {
            free(piece);
            return NULL;
        }
        // Large pages would hold memory that nothing touches.
        madvise(piece->memory, piece->bytes, MADV_NOHUGEPAGE);
        piece->next = fabric->pieces;
        fabric->pieces = piece;
        fabric->arena = piece->memory;
        fabric->arena_bytes = piece->bytes;
        fabric->arena_used = 0;
    }
    fabric->arena_used += bytes;
    return fabric->arena + fabric->arena_used - bytes;
}

int sim_memory_alloc(struct sim_rank *rank, uint64_t bytes, void **address, uint32_t *index)
{
    uint32_t at = 0;
    while (at < rank->block_count &&
           (rank->block[at].live || (rank->block[at].memory && rank->block[at].bytes != bytes)))
        at++;
    if (at == rank->block_capacity) {
        uint32_t capacity = rank->block_capacity ? 2 * rank->block_capacity : 8;
        struct sim_block *grown = realloc(rank->block, capacity * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        memset(grown + rank->block_capacity, 0, (capacity - rank->block_capacity) * sizeof *grown);
        rank->block = grown;
        rank->block_capacity = capacity;
    }
    struct sim_block *block = &rank->block[at];
    // Freed memory of the arena is kept for the next of its size.
    if (!block->memory)
        block->memory = bytes < ARENA_FROM ? calloc(1, bytes) : arena_take(rank->fabric, bytes);
    else
        madvise(block->memory, (bytes + PAGE - 1) / PAGE * PAGE, MADV_DONTNEED);
    if (!block->memory)
        return -ENOMEM;
    if (at == rank->block_count)
        rank->block_count++;
    block->bytes = bytes;
    block->live = true;
    *address = block->memory;
    *index = at;
    return 0;
}

static void block_end(struct sim_block *block)
{
    block->live = false;
    block->generation++;
    sim_store_close(&block->store);
    if (block->bytes < ARENA_FROM) {
        free(block->memory);
        block->memory = NULL;
    }
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
        *place = (uint64_t)((uintptr_t)address - (uintptr_t)rank->block[i].memory);
        if (rank->block[i].live && *place < rank->block[i].bytes)
            return &own->block[i].store;
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

static void *buffer(struct msg_memory *memory, uint64_t bytes)
{
    struct sim_rank *rank = rank_of(memory);
    if (!rank->temp) {
        rank->temp = arena_take(rank->fabric, bytes);
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
                                       .buffer = buffer};
    rank->net.memory = &rank->memory;
}
