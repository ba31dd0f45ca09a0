// SPDX-License-Identifier: Apache-2.0
// All-to-all.
//
// Algorithms. Spread ("Simple Spread" in Sumimoto et al.): in step i each rank sends to the one i
// above and receives from the one i below, a window of steps at a time. Advantage: no two ranks
// send to the same one at the same time, and blocks go straight into place. Disadvantage: as many
// messages as ranks, however small.
// Exchange, for data in place: in step i the ranks whose numbers add up to i, around the end, swap
// their blocks chunk by chunk through the buffer. Advantage: no second copy of the data.
// Disadvantage: one partner at a time.
//
// Blocks of zero bytes are not sent. Why windows cannot lock up: of all messages that are not
// through, one with the lowest step finds both its ranks with nothing before it.

#include "msg/coll.h"

#define WINDOW (COLL_REQUESTS / 2)

static void open_cursors(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    coll_cursor_open(&schedule->sends, schedule, call->send_counts, call->send_offsets);
    coll_cursor_open(&schedule->receives, schedule, call->receive_counts, call->receive_offsets);
}

static void copy_own(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    if (!call->in_place)
        coll_copy(schedule, call->receive + coll_block_offset(&schedule->receives, schedule->rank),
                  call->send + coll_block_offset(&schedule->sends, schedule->rank),
                  coll_block_bytes(&schedule->sends, schedule->rank));
}

enum coll_step_result coll_alltoall_spread(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    int slot = schedule->i % WINDOW;
    COLL_BEGIN(schedule);
    open_cursors(schedule);
    copy_own(schedule);
    for (schedule->i = 1; schedule->i < schedule->rank_count; schedule->i++) {
        slot = schedule->i % WINDOW;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(slot) | COLL_BIT(WINDOW + slot)));
        int to = coll_rank(schedule, schedule->rank + schedule->i);
        int from = coll_rank(schedule, schedule->rank - schedule->i);
        uint64_t bytes = coll_block_bytes(&schedule->sends, to);
        if (bytes)
            coll_send(schedule, slot, to, 0, call->send + coll_block_offset(&schedule->sends, to),
                      bytes);
        bytes = coll_block_bytes(&schedule->receives, from);
        if (bytes)
            coll_receive(schedule, WINDOW + slot, from, 0,
                         call->receive + coll_block_offset(&schedule->receives, from), bytes);
    }
    COLL_END(schedule);
}

enum coll_step_result coll_alltoall_exchange(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    COLL_BEGIN(schedule);
    open_cursors(schedule);
    copy_own(schedule);
    for (schedule->i = 0; schedule->i < schedule->rank_count; schedule->i++) {
        int peer = coll_rank(schedule, schedule->i - schedule->rank);
        if (peer == schedule->rank)
            continue;
        coll_exchange_open(schedule, peer, call->send + coll_block_offset(&schedule->sends, peer),
                           coll_block_bytes(&schedule->sends, peer), peer,
                           call->receive + coll_block_offset(&schedule->receives, peer),
                           coll_block_bytes(&schedule->receives, peer), schedule->chunk);
        if (call->in_place)
            coll_exchange_replace(schedule);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    COLL_END(schedule);
}
