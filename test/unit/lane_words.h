/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of device/kernel.h for blocks of several lanes in one thread: lanes are coroutines that
 * take turns where they wait or meet.
 *
 * As on a GPU, a barrier of a block is for the lanes that have not left the kernel. Included by
 * kernel.h in place of its own words (LEAT_KERNEL_WORDS). Advantage: what lanes of a block do to
 * each other shows without a GPU. Disadvantage: they never run at the same time.
 */
#ifndef LEAT_TEST_UNIT_LANE_WORDS_H
#define LEAT_TEST_UNIT_LANE_WORDS_H

#define K_FN __attribute__((unused)) static inline
#define K_UNROLL
#define K_COALESCES 0
#define LANES       32u
#define LANE_BLOCKS 2u /* most */

struct k_grid {
    uint32_t block, block_count;
};

/* The lane that runs. */
uint32_t lane_number(void);
/* Whether any lane of the block said so, once all that are left have come. */
uint32_t lane_meet(uint32_t block, uint32_t value);
/* Lets the others go on. The clock counts the turns of all. */
void lane_rest(void);
uint64_t lane_clock(void);
/* A bulk copy of a block's, carried out as late as it may be: when all but the last `left` of the
 * block's are asked for. */
void lane_copy(uint32_t block, void *to, const void *from, uint32_t bytes);
void lane_copies_end(uint32_t block, uint32_t left);

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
    return lane_number();
}
#define K_FOR_EACH(i, begin, end, grid)                                                            \
    for (uint32_t i = (begin) + (grid)->block * LANES + lane_number(); i < (end);                  \
         i += (grid)->block_count * LANES)
K_FN void k_sync_block(const struct k_grid *grid)
{
    lane_meet(grid->block, 0);
}
K_FN uint32_t k_any(const struct k_grid *grid, uint32_t value)
{
    return lane_meet(grid->block, value);
}
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    signal->value = value;
}
#define K_BLOCK_LANES(grid) LANES
#define K_TILE(grid, type, name, count)                                                            \
    static type name##_of[LANE_BLOCKS][2][count];                                                  \
    type(*name)[count] = name##_of[(grid)->block]
K_FN void k_tile_take(const struct k_grid *grid, uint32_t number)
{
    if (number < 2)
        return;
    if (lane_number() == 0)
        lane_copies_end(grid->block, 1);
    lane_meet(grid->block, 0);
}
K_FN void k_tile_send(const struct k_grid *grid, void *to, const void *half, uint32_t bytes)
{
    lane_meet(grid->block, 0);
    if (lane_number() == 0)
        lane_copy(grid->block, to, half, bytes);
}
K_FN void k_tile_done(const struct k_grid *grid, uint32_t count)
{
    if (!count)
        return;
    if (lane_number() == 0)
        lane_copies_end(grid->block, 0);
    lane_meet(grid->block, 0);
}
#define K_COLD K_FN
K_FN uint64_t k_ticket(uint64_t *next)
{
    return (*next)++;
}
K_FN uint64_t k_room(const struct leat_signal *carried)
{
    return carried->value;
}
K_FN void k_order_put(uint64_t *turn, uint64_t value)
{
    *turn = value;
}
K_FN void k_bell(struct leat_signal *bell)
{
    bell->value++;
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    uint32_t old = *word;
    *word += by;
    return old;
}
K_FN void k_store_relaxed(uint32_t *word, uint32_t value)
{
    *word = value;
}
K_FN void k_store_release(uint32_t *word, uint32_t value)
{
    *word = value;
}
K_FN uint32_t k_claim(uint32_t *word)
{
    uint32_t claimed = *word == 0;
    *word = 1;
    return claimed;
}
K_FN uint64_t k_turn(const struct k_grid *grid, uint64_t *word, uint64_t given)
{
    (void)grid;
    *word = given << 16;
    return given;
}
#define K_CALL(function, user, grid, step) ((void)(function), 0)
K_FN uint32_t k_failed(const struct k_error *error)
{
    return error->failed;
}
K_FN void k_pause(uint32_t ns)
{
    (void)ns;
}
K_FN int lane_overdue(const struct k_wait *wait, uint64_t begin)
{
    lane_rest();
    return k_failed(wait->error) ? -125 : lane_clock() - begin > wait->timeout_ns ? -110 : 0;
}
K_FN int k_wait_word(const struct k_wait *wait, struct leat_signal *signal, uint64_t wanted,
                     int peer, uint64_t *seen)
{
    const uint64_t begin = lane_clock();
    (void)peer;
    for (int code = 0;; code = lane_overdue(wait, begin)) {
        *seen = signal->value;
        if (code || leat_signal_reached(*seen, wanted))
            return code;
    }
}
K_FN void k_fail(const struct k_wait *wait, int code, int peer, int pulse, const void *signal,
                 uint64_t wanted, uint64_t seen);
K_FN void k_packet_put(struct k_packet *packet, const uint32_t word[3], uint32_t tag)
{
    for (int k = 0; k < 3; k++)
        packet->word[k] = word[k];
    packet->tag = tag;
}
K_FN uint32_t k_packet_wait(const struct k_wait *wait, const struct k_packet *packet, uint32_t tag,
                            uint32_t word[3])
{
    const uint64_t begin = lane_clock();
    for (int code = 0;; code = lane_overdue(wait, begin)) {
        if (code == -110)
            k_fail(wait, code, -1, -1, packet, tag, packet->tag);
        if (code)
            return 1;
        for (int k = 0; k < 3; k++)
            word[k] = packet->word[k];
        if (packet->tag == tag)
            return 0;
    }
}

#endif
