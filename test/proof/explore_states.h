/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states that a search has seen: a set of hashes, open addressing.
 *
 * Advantage: eight bytes a state. Disadvantage: two states of one hash are taken for one; among a
 * million states the chance of any such pair is below 1e-7.
 */
#ifndef LEAT_TEST_PROOF_EXPLORE_STATES_H
#define LEAT_TEST_PROOF_EXPLORE_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct states {
    uint64_t *seen; /* 0: free */
    size_t capacity, count;
};

static inline uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

static inline bool states_insert(uint64_t *table, size_t capacity, uint64_t hash)
{
    size_t at = hash & (capacity - 1);
    while (table[at] && table[at] != hash)
        at = (at + 1) & (capacity - 1);
    bool fresh = !table[at];
    table[at] = hash;
    return fresh;
}

/* False when it was there before. */
static inline bool states_add(struct states *states, uint64_t hash)
{
    if (states->count * 2 > states->capacity) {
        uint64_t *larger = calloc(states->capacity * 4, sizeof *larger);
        for (size_t i = 0; i < states->capacity; i++)
            if (states->seen[i])
                states_insert(larger, states->capacity * 4, states->seen[i]);
        free(states->seen);
        states->seen = larger;
        states->capacity *= 4;
    }
    bool fresh = states_insert(states->seen, states->capacity, hash);
    states->count += fresh;
    return fresh;
}

#endif
