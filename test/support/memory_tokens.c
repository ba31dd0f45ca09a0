// SPDX-License-Identifier: Apache-2.0
// Memory that peers can reach, by token: place in a table, generation, and a secret.
//
// Freed memory is kept a while, filled with a pattern, where peers store to it directly: who stores
// too late is found. Advantage: works without a sanitizer. Disadvantage: tells only that it was
// stored to, not by whom.

#include "support/memory_events.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN      0xdd
#define PARKED_BYTES (16u << 20)

static uint64_t secret(const struct endpoint *endpoint, size_t index, uint32_t generation)
{
    uint64_t hash = memory_mix(endpoint->fabric->options.seed, (uint64_t)endpoint->net.rank);
    return memory_mix(memory_mix(hash, index), generation);
}

static struct memory *free_place(struct endpoint *endpoint)
{
    for (size_t i = 0; i < endpoint->memory_count; i++)
        if (!endpoint->memory[i].live && !endpoint->memory[i].parked)
            return &endpoint->memory[i];
    if (endpoint->memory_count == endpoint->memory_capacity) {
        uint32_t capacity = endpoint->memory_capacity ? 2 * endpoint->memory_capacity : 8;
        struct memory *more = realloc(endpoint->memory, capacity * sizeof *more);
        if (!more)
            return NULL;
        endpoint->memory = more;
        endpoint->memory_capacity = capacity;
    }
    struct memory *memory = &endpoint->memory[endpoint->memory_count++];
    memset(memory, 0, sizeof *memory);
    return memory;
}

struct memory *memory_register(struct endpoint *endpoint, int peer, void *address, uint64_t bytes,
                               struct msg_token *token)
{
    struct memory *memory = free_place(endpoint);
    if (!memory)
        return NULL;
    *memory = (struct memory){.address = address,
                              .bytes = bytes,
                              .owner = endpoint->net.rank,
                              .peer = peer,
                              .generation = memory->generation + 1,
                              .live = true};
    size_t index = (size_t)(memory - endpoint->memory);
    token->word[0] = (uint64_t)memory->generation << 32 | index;
    token->word[1] = secret(endpoint, index, memory->generation);
    token->word[2] = ~token->word[1];
    memory->born = endpoint->changes;
    return memory;
}

static void refuse(struct memory_fabric *fabric, const char *what, const char *why, int from,
                   int owner, uint64_t offset, uint64_t bytes)
{
    fabric->refused++;
    if (what && !fabric->options.hostile)
        memory_misuse(fabric, "%s of rank %d to rank %d, %llu bytes at %llu: %s", what, from, owner,
                      (unsigned long long)bytes, (unsigned long long)offset, why);
}

struct memory *memory_named(struct memory_fabric *fabric, int from, int owner,
                            const struct msg_token *token, uint64_t offset, uint64_t bytes,
                            const char *what)
{
    struct endpoint *endpoint = memory_endpoint(fabric, owner);
    size_t index = (uint32_t)token->word[0];
    uint32_t generation = (uint32_t)(token->word[0] >> 32);
    struct memory *memory = index < endpoint->memory_count ? &endpoint->memory[index] : NULL;
    const char *why = NULL;
    if (!memory || token->word[1] != secret(endpoint, index, generation) ||
        token->word[2] != ~token->word[1])
        why = "the token was made by nobody";
    else if (!memory->live || memory->generation != generation)
        why = "the memory has been freed or hidden";
    else if (memory->peer >= 0 && memory->peer != from)
        why = "the token is for others";
    else if (offset > memory->bytes || bytes > memory->bytes - offset)
        why = "beyond the memory";
    if (!why)
        return memory;
    refuse(fabric, what, why, from, owner, offset, bytes);
    return NULL;
}

// ---- freed memory ----

static void unpark(struct memory_fabric *fabric, struct memory *memory)
{
    for (uint64_t i = 0; i < memory->bytes; i++) {
        if ((unsigned char)memory->address[i] == PATTERN)
            continue;
        memory_misuse(fabric, "byte %llu of %llu of memory that rank %d had freed was stored to",
                      (unsigned long long)i, (unsigned long long)memory->bytes, memory->owner);
        break;
    }
    free(memory->address);
    fabric->parked_bytes -= memory->bytes;
    memory->parked = false;
}

void memory_unpark_all(struct memory_fabric *fabric)
{
    for (int rank = 0; rank < fabric->options.rank_count; rank++) {
        struct endpoint *endpoint = fabric->endpoint[rank];
        for (size_t i = 0; endpoint && i < endpoint->memory_count; i++)
            if (endpoint->memory[i].parked)
                unpark(fabric, &endpoint->memory[i]);
    }
}

void memory_release(struct memory_fabric *fabric, struct memory *memory)
{
    memory->live = false;
    if (memory->exposed)
        return;
    if (!fabric->options.map) {
        free(memory->address);
        return;
    }
    memset(memory->address, PATTERN, memory->bytes);
    memory->parked = true;
    fabric->parked_bytes += memory->bytes;
    if (fabric->parked_bytes > PARKED_BYTES)
        memory_unpark_all(fabric);
}
