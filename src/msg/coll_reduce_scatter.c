// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter.
//
// Algorithm: each rank sends every other one its values for that one's block, and combines what it
// gets for its own as it comes, in a fixed order of sources. Operations that commute take them from
// the ranks below, around the end; others from the distance 1, 2, ... first below, then above, so
// that what is combined is always of ranks one after the other. Advantage: each byte is sent once,
// and combined straight into place. Disadvantage: as many messages as ranks.

#include "msg/coll.h"

// The two ranks of a step: to send to and receive from; -1: nobody.
static void partners(const struct msg_schedule *schedule, int step, int *to, int *from)
{
    if (!schedule->call.ordered) {
        *to = coll_rank(schedule, schedule->rank + step);
        *from = coll_rank(schedule, schedule->rank - step);
        return;
    }
    int distance = (step + 1) / 2;
    bool upwards = step & 1;
    *to = upwards ? schedule->rank + distance : schedule->rank - distance;
    *from = upwards ? schedule->rank - distance : schedule->rank + distance;
    *to = *to < schedule->rank_count ? *to : -1;
    *from = *from < schedule->rank_count ? *from : -1;
}

static void open_step(struct msg_schedule *schedule, uint64_t own_offset)
{
    const struct coll_call *call = &schedule->call;
    int to, from;
    partners(schedule, schedule->i, &to, &from);
    // One cursor walks up and one down.
    struct coll_cursor *cursor = to > schedule->rank ? &schedule->sends : &schedule->receives;
    uint64_t offset = to < 0 ? 0 : coll_block_offset(cursor, to);
    uint8_t *target = call->receive + (call->in_place ? own_offset : 0);
    uint64_t own_bytes = coll_block_bytes(cursor, schedule->rank);
    coll_exchange_open(schedule, to, call->send + offset, to < 0 ? 0 : coll_block_bytes(cursor, to),
                       from, target, from < 0 ? 0 : own_bytes, schedule->chunk);
    coll_exchange_fold(schedule, schedule->j ? target : call->send + own_offset,
                       from < schedule->rank);
    schedule->j += from >= 0;
}

enum coll_step_result coll_reduce_scatter_pairwise(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    int steps = call->ordered ? 2 * (schedule->rank_count - 1) : schedule->rank_count - 1;
    COLL_BEGIN(schedule);
    coll_cursor_open(&schedule->sends, schedule, call->receive_counts, NULL);
    schedule->receives = schedule->sends;
    schedule->from = coll_block_offset(&schedule->sends, schedule->rank);
    schedule->j = 0;
    for (schedule->i = 1; schedule->i <= steps; schedule->i++) {
        open_step(schedule, schedule->from);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    // The other blocks are sent by now.
    schedule->bytes = coll_block_bytes(&schedule->sends, schedule->rank);
    if (call->in_place && schedule->bytes)
        coll_move(schedule, call->receive, call->receive + schedule->from, schedule->bytes);
    COLL_END(schedule);
}
