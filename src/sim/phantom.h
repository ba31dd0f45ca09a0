/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phantom data: bytes that are not there, and what they stand for.
 *
 * A store says of each range of a buffer whose data it holds: which bytes (shift: what byte 0 of
 * the buffer would be) of which contributions (sum of a hash of each rank that went in). Copies
 * carry that along, reductions add the sums of the same bytes up, and anything else (other bytes
 * combined, a hole read) leaves a hole that no check passes. So a result is right if it is one
 * range with the expected sum and shift 0, whatever sizes and places the data passed through.
 *
 * Advantage: terabytes of buffers cost a few hundred bytes a rank where ranges join, and every byte
 * is accounted for. Disadvantage: it knows sums of contributions, not values: a reduction that
 * rounds or overflows looks like one that does not.
 */
#ifndef LEAT_SIM_PHANTOM_H
#define LEAT_SIM_PHANTOM_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes [from, to) of a store; byte i of it is byte i + shift of the original data. */
struct sim_range {
    uint64_t from, to;
    uint64_t sum;
    uint64_t shift; /* modulo 2^64 */
};

/* Ranges in order, none empty, no two that could be one. A gap in the array follows where it was
 * changed last, so that a sequence of changes moves little. */
struct sim_store {
    struct sim_range *range;
    uint32_t count, capacity, gap; /* ranges; the gap begins after `gap` of them */
};

/* What a contribution of a rank counts for. */
uint64_t sim_phantom_hash(uint64_t rank);
/* The sum of hashes of ranks 0 .. count-1. */
uint64_t sim_phantom_all(uint64_t count);

void sim_store_close(struct sim_store *store);
/* Says of [from, to) that it holds these ranges, moved by `move` (from there to here; their from
 * and to are the source's). Whatever they leave out is a hole. -ENOMEM. */
int sim_store_write(struct sim_store *store, uint64_t from, uint64_t to,
                    const struct sim_range *ranges, uint32_t count, uint64_t move);
/* Ranges that overlap [from, to), cut to it: how many there are; at most `most` are written. */
uint32_t sim_store_read(const struct sim_store *store, uint64_t from, uint64_t to,
                        struct sim_range *ranges, uint32_t most);
/* Copies within or between stores, `to` not overlapping `from` in one store. -ENOMEM. */
int sim_store_copy(struct sim_store *to_store, uint64_t to, const struct sim_store *from_store,
                   uint64_t from, uint64_t bytes);
/* inout[i] += in[i] */
int sim_store_combine(const struct sim_store *in_store, uint64_t in, struct sim_store *inout_store,
                      uint64_t inout, uint64_t bytes);
/* Whether [0, bytes) is the original [0, bytes) with this sum. */
bool sim_store_is(const struct sim_store *store, uint64_t bytes, uint64_t sum);

#endif
