/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs that the ranks of a process have freed and that does not go back yet.
 *
 * Algorithm: frees are counted. A block remembers the count at which it was freed; whoever opens a
 * rank's stream empty has thereby seen the end of all that was enqueued before the count that it
 * had read. A block that all ranks are past is taken again for what is nearly as large. Advantage:
 * nothing is given back while kernels wait for one another, which CUDA answers by waiting for all
 * of them. Disadvantage: memory that nobody asks for in that size stays away from everybody else.
 *
 * Nothing here is a GPU's; the caller holds a lock.
 */
#ifndef LEAT_DEVICE_HELD_H
#define LEAT_DEVICE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#define HELD_PINNED (-1) /* in place of a GPU's number: memory of the host that all GPUs reach */

struct held_block {
    struct held_block *next;
    int place; /* GPU, or HELD_PINNED */
    uint64_t bytes;
    void *address;
    uint64_t freed_at; /* 0: in use */
};

struct held {
    struct held_block *blocks;
    uint64_t frees; /* so far; read without the lock too */
};

/* What is asked of CUDA for so many bytes, so that blocks fit again. */
uint64_t held_round(uint64_t bytes);
/* The smallest block there of at least so many bytes and at most twice as many, freed before
 * everybody has seen `seen_idle` frees; it is in use then. NULL: there is none. */
void *held_take(struct held *held, int place, uint64_t bytes, uint64_t seen_idle);
/* A block that is in use from now on; `block` is the caller's memory until it is cut. */
void held_add(struct held *held, struct held_block *block);
/* Frees a block: with `for_good` it is not taken again. */
void held_free(struct held *held, const void *address, bool for_good);
/* Takes the block out; NULL where there is none at that address. */
struct held_block *held_remove(struct held *held, const void *address);
/* Takes out all that could be taken again, or with `all` everything; a list. */
struct held_block *held_cut(struct held *held, uint64_t seen_idle, bool all);

#endif
