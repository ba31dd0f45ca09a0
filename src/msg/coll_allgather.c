// SPDX-License-Identifier: Apache-2.0
// Allgather.
//
// Algorithms. Ring: each rank hands on to the one above what came last from the one below, in its
// final place. Advantage: no copies, neighbours only, blocks of any sizes. Disadvantage: as many
// steps as ranks.
// Bruck's: in round k each rank has 2^k blocks from its own on, and gets as many more from the rank
// 2^k above. Advantage: the logarithm of the ranks in steps, for any number of them. Disadvantage:
// blocks lie rotated meanwhile, so it needs a buffer for all of them and a copy; for small ones.

#include "msg/coll.h"

static uint8_t *block(struct msg_schedule *schedule, struct coll_cursor *cursor, int rank)
{
    return schedule->call.receive + coll_block_offset(cursor, rank);
}

static void open_cursors(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    coll_cursor_open(&schedule->sends, schedule, call->receive_counts, call->receive_offsets);
    schedule->receives = schedule->sends;
}

enum coll_step_result coll_allgather_ring(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    COLL_BEGIN(schedule);
    open_cursors(schedule);
    for (schedule->i = 0; schedule->i < schedule->rank_count - 1; schedule->i++) {
        int sent = coll_rank(schedule, schedule->rank - schedule->i);
        int received = coll_rank(schedule, sent - 1);
        const uint8_t *from = block(schedule, &schedule->sends, sent);
        coll_exchange_open(schedule, coll_rank(schedule, schedule->rank + 1),
                           schedule->i      ? from
                           : call->in_place ? from
                                            : call->send,
                           coll_block_bytes(&schedule->sends, sent),
                           coll_rank(schedule, schedule->rank - 1),
                           block(schedule, &schedule->receives, received),
                           coll_block_bytes(&schedule->receives, received), 0);
        if (!schedule->i && !call->in_place) {
            // Neighbours need not wait for the own copy.
            coll_exchange(schedule);
            coll_copy(schedule, block(schedule, &schedule->sends, sent), call->send,
                      coll_block_bytes(&schedule->sends, sent));
        }
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    COLL_END(schedule);
}

// Bytes of `count` blocks from the one `first` above this rank's on.
static uint64_t rotated_bytes(const struct msg_schedule *schedule, int first, int count)
{
    uint64_t bytes = 0;
    for (int i = first; i < first + count; i++)
        bytes += coll_block_bytes(&schedule->sends, coll_rank(schedule, schedule->rank + i));
    return bytes;
}

static void unrotate(struct msg_schedule *schedule)
{
    const uint8_t *from = schedule->temp;
    for (int i = 0; i < schedule->rank_count; i++) {
        int rank = coll_rank(schedule, schedule->rank + i);
        uint64_t bytes = coll_block_bytes(&schedule->sends, rank);
        if (i || !schedule->call.in_place)
            coll_copy(schedule, block(schedule, &schedule->sends, rank), from, bytes);
        from += bytes;
    }
}

enum coll_step_result coll_allgather_bruck(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    COLL_BEGIN(schedule);
    open_cursors(schedule);
    coll_copy(schedule, schedule->temp,
              call->in_place ? block(schedule, &schedule->sends, schedule->rank) : call->send,
              coll_block_bytes(&schedule->sends, schedule->rank));
    for (schedule->mask = 1; schedule->mask < schedule->rank_count; schedule->mask <<= 1) {
        int mask = schedule->mask, rest = schedule->rank_count - mask;
        int count = mask < rest ? mask : rest;
        coll_exchange_open(schedule, coll_rank(schedule, schedule->rank - mask), schedule->temp,
                           rotated_bytes(schedule, 0, count),
                           coll_rank(schedule, schedule->rank + mask),
                           schedule->temp + rotated_bytes(schedule, 0, mask),
                           rotated_bytes(schedule, mask, count), 0);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    unrotate(schedule);
    COLL_END(schedule);
}
