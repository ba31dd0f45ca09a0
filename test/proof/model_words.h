/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of device/kernel.h for a search through all orders: each operation on a shared word is
 * a point at which another thread may go on.
 *
 * Included by kernel.h in place of its own words (LEAT_KERNEL_WORDS). Data are plain memory:
 * between two points a thread's loads and stores happen at once, which loses nothing as long as
 * every value is checked, since of two pieces that touch the same data each order is tried.
 * MODEL_ELEMENT gives a point before each element too.
 */
#ifndef LEAT_TEST_PROOF_MODEL_WORDS_H
#define LEAT_TEST_PROOF_MODEL_WORDS_H

#include "proof/explore.h"

#define K_FN __attribute__((unused)) static inline
#define K_UNROLL
#define K_COALESCES 0

struct k_grid {
    uint32_t block, block_count;
};

/* The test's: stores and checks the word, and spoils the protocol where a mutant asks for it. */
void model_raise(struct leat_signal *signal, uint64_t value);
void model_await(const struct leat_signal *signal, uint64_t wanted);
void model_element(void);

K_FN uint32_t k_block(const struct k_grid *grid)
{
    return grid->block;
}
K_FN uint32_t k_block_count(const struct k_grid *grid)
{
    return grid->block_count;
}
K_FN uint32_t k_lane(const struct k_grid *grid)
{
    (void)grid;
    return 0;
}
K_FN uint32_t k_part(uint32_t begin, uint32_t end, uint32_t block, uint32_t block_count)
{
    return begin + (uint32_t)((uint64_t)(end - begin) * block / block_count);
}
#define K_FOR_EACH(i, begin, end, grid)                                                            \
    for (uint32_t i = k_part((begin), (end), (grid)->block, (grid)->block_count),                  \
                  i##_end = k_part((begin), (end), (grid)->block + 1, (grid)->block_count);        \
         i < i##_end && (model_element(), 1); i++)
K_FN void k_sync_block(const struct k_grid *grid)
{
    (void)grid;
}
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    model_raise(signal, value);
}
#define K_COLD K_FN
K_FN uint64_t k_ticket(uint64_t *next)
{
    uint64_t ticket = (*next)++;
    explore_step((uint32_t)ticket);
    return ticket;
}
K_FN uint64_t k_room(const struct leat_signal *carried)
{
    return carried->value; // too few once is waited for: no point of its own
}
K_FN void k_order_put(uint64_t *turn, uint64_t value)
{
    *turn = value;
    explore_step(0);
}
/* The thread is one that goes on as soon as there is an order: test_wakeup.c is about the bell. */
K_FN void k_bell(struct leat_signal *bell)
{
    (void)bell;
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    uint32_t old = *word;
    *word += by;
    explore_step(old);
    return old;
}
K_FN uint32_t k_any(const struct k_grid *grid, uint32_t value)
{
    (void)grid;
    return value;
}
K_FN void k_store_release(uint32_t *word, uint32_t value)
{
    *word = value;
}
K_FN uint64_t k_turn(const struct k_grid *grid, uint64_t *word, uint64_t given)
{
    (void)given;
    uint64_t old = (*word)++;
    if ((old & 0xffff) + 1 == grid->block_count)
        *word += 0x10000 - grid->block_count;
    explore_step((uint32_t)(old >> 16));
    return (old >> 16) + 1;
}
K_FN void k_pause(uint32_t ns)
{
    (void)ns;
}
K_FN void k_store_relaxed(uint32_t *word, uint32_t value)
{
    *word = value; // the raise that follows is the point: nobody else looks at both
}
#define K_CALL(function, user, grid, step)                                                         \
    ((function) ? (function)((user), (grid)->block, (grid)->block_count, (step)) : 0)
K_FN uint32_t k_claim(uint32_t *word)
{
    uint32_t claimed = *word == 0;
    *word = 1;
    explore_step(claimed);
    return claimed;
}
K_FN uint32_t k_failed(const struct k_error *error)
{
    return error->failed;
}
K_FN int k_wait_word(const struct k_wait *wait, struct leat_signal *signal, uint64_t wanted,
                     int peer, uint64_t *seen)
{
    (void)wait;
    (void)peer;
    model_await(signal, wanted);
    *seen = signal->value;
    return 0;
}
/* Packets are not searched: their pulses are large here, so that none travels in them. */
K_FN void k_packet_put(struct k_packet *packet, const uint32_t word[3], uint32_t tag)
{
    (void)packet;
    (void)word;
    (void)tag;
    explore_violation("a packet");
}
K_FN uint32_t k_packet_wait(const struct k_wait *wait, const struct k_packet *packet, uint32_t tag,
                            uint32_t word[3])
{
    (void)wait;
    (void)packet;
    (void)tag;
    word[0] = word[1] = word[2] = 0;
    explore_violation("a packet");
    return 1;
}

#endif
