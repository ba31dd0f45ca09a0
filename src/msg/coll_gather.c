// SPDX-License-Identifier: Apache-2.0
// Gather and scatter.
//
// Algorithms. Linear: the root receives from, or sends to, each rank, a window of them at a time,
// straight into place. Advantage: one step, no copies, blocks of any sizes, and only the root has
// to know them. Disadvantage: all the work is the root's, and everybody its peer. Binomial tree: a
// rank gathers the blocks of its subtree and hands them on together. Advantage: the root has the
// logarithm of the ranks in peers and messages. Disadvantage: each byte is copied several times,
// through a buffer; for small blocks.

#include "msg/coll.h"

static uint64_t block_bytes(const struct msg_schedule *schedule)
{
    return schedule->call.count * schedule->call.element;
}

// ---- Linear ----

enum coll_step_result coll_gather_linear(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    struct coll_cursor *cursor = &schedule->receives;
    COLL_BEGIN(schedule);
    if (schedule->rank != call->root) {
        if (block_bytes(schedule))
            coll_send(schedule, 0, call->root, 0, call->send, block_bytes(schedule));
        return COLL_DONE;
    }
    coll_cursor_open(cursor, schedule, call->receive_counts, call->receive_offsets);
    if (!call->in_place)
        coll_copy(schedule, call->receive + coll_block_offset(cursor, schedule->rank), call->send,
                  block_bytes(schedule));
    for (schedule->i = schedule->j = 0; schedule->i < schedule->rank_count; schedule->i++) {
        if (schedule->i == schedule->rank || !coll_block_bytes(cursor, schedule->i))
            continue;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->j % COLL_REQUESTS)));
        coll_receive(schedule, schedule->j++ % COLL_REQUESTS, schedule->i, 0,
                     call->receive + coll_block_offset(cursor, schedule->i),
                     coll_block_bytes(cursor, schedule->i));
    }
    COLL_END(schedule);
}

enum coll_step_result coll_scatter_linear(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    struct coll_cursor *cursor = &schedule->sends;
    COLL_BEGIN(schedule);
    if (schedule->rank != call->root) {
        if (block_bytes(schedule))
            coll_receive(schedule, 0, call->root, 0, call->receive, block_bytes(schedule));
        return COLL_DONE;
    }
    coll_cursor_open(cursor, schedule, call->send_counts, call->send_offsets);
    for (schedule->i = schedule->j = 0; schedule->i < schedule->rank_count; schedule->i++) {
        if (schedule->i == schedule->rank || !coll_block_bytes(cursor, schedule->i))
            continue;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->j % COLL_REQUESTS)));
        coll_send(schedule, schedule->j++ % COLL_REQUESTS, schedule->i, 0,
                  call->send + coll_block_offset(cursor, schedule->i),
                  coll_block_bytes(cursor, schedule->i));
    }
    if (!call->in_place)
        coll_copy(schedule, call->receive, call->send + coll_block_offset(cursor, schedule->rank),
                  block_bytes(schedule));
    COLL_END(schedule);
}

// ---- Binomial ----

// Ranks in the subtree of the rank that is `from_root` above the root and `low_bit` above its
// parent.
static uint64_t subtree(const struct msg_schedule *schedule, int from_root, int low_bit)
{
    int rest = schedule->rank_count - from_root;
    return (uint64_t)(low_bit < rest ? low_bit : rest);
}

// Between the buffer, in order from the root on, and the root's blocks, in order of ranks.
static void reorder(struct msg_schedule *schedule, bool gather)
{
    const struct coll_call *call = &schedule->call;
    uint64_t bytes = block_bytes(schedule);
    for (int i = 0; i < schedule->rank_count; i++) {
        uint64_t offset = (uint64_t)coll_to_rank(schedule, i) * bytes;
        uint8_t *at = schedule->temp + (uint64_t)i * bytes;
        if (!gather)
            coll_copy(schedule, at, call->send + offset, bytes);
        else if (i || !call->in_place)
            coll_copy(schedule, call->receive + offset, at, bytes);
    }
}

enum coll_step_result coll_gather_binomial(struct msg_schedule *schedule)
{
    uint64_t bytes = block_bytes(schedule);
    int own = coll_from_root(schedule), low = coll_low_bit(schedule, own);
    COLL_BEGIN(schedule);
    schedule->i = 0;
    for (schedule->mask = 1; schedule->mask < low; schedule->mask <<= 1) {
        if (own + schedule->mask >= schedule->rank_count)
            break;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->i % COLL_REQUESTS)));
        coll_receive(schedule, schedule->i++ % COLL_REQUESTS,
                     coll_to_rank(schedule, own + schedule->mask), 0,
                     schedule->temp + (uint64_t)schedule->mask * bytes,
                     subtree(schedule, own + schedule->mask, schedule->mask) * bytes);
    }
    if (own || !schedule->call.in_place)
        coll_copy(schedule, schedule->temp, schedule->call.send, bytes);
    COLL_AWAIT(schedule, coll_finished(schedule, COLL_ALL));
    if (own)
        coll_send(schedule, 0, coll_to_rank(schedule, own - low), 0, schedule->temp,
                  subtree(schedule, own, low) * bytes);
    else
        reorder(schedule, true);
    COLL_END(schedule);
}

enum coll_step_result coll_scatter_binomial(struct msg_schedule *schedule)
{
    uint64_t bytes = block_bytes(schedule);
    int own = coll_from_root(schedule), low = coll_low_bit(schedule, own);
    COLL_BEGIN(schedule);
    if (own) {
        coll_receive(schedule, 0, coll_to_rank(schedule, own - low), 0, schedule->temp,
                     subtree(schedule, own, low) * bytes);
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(0)));
    } else {
        reorder(schedule, false);
    }
    schedule->i = 0;
    for (schedule->mask = low >> 1; schedule->mask; schedule->mask >>= 1) {
        if (own + schedule->mask >= schedule->rank_count)
            continue;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->i % COLL_REQUESTS)));
        coll_send(schedule, schedule->i++ % COLL_REQUESTS,
                  coll_to_rank(schedule, own + schedule->mask), 0,
                  schedule->temp + (uint64_t)schedule->mask * bytes,
                  subtree(schedule, own + schedule->mask, schedule->mask) * bytes);
    }
    if (own || !schedule->call.in_place)
        coll_copy(schedule, schedule->call.receive, schedule->temp, bytes);
    COLL_END(schedule);
}
