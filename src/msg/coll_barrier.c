// SPDX-License-Identifier: Apache-2.0
// Barrier, and what is done where there is nobody to talk to.
//
// Algorithm: dissemination (Hensgen, Finkel and Manber, 1988): in round k each rank tells the one
// 2^k above it, around the end, and hears from the one 2^k below. Advantage: the logarithm of the
// ranks in rounds, for any number of them, and all ranks do the same. Disadvantage: n log n
// messages, where a tree sends 2n.

#include "msg/coll.h"

#include "msg/op.h"

enum coll_step_result coll_barrier_dissemination(struct msg_schedule *schedule)
{
    int half = COLL_REQUESTS / 2;
    COLL_BEGIN(schedule);
    schedule->i = 0;
    for (schedule->mask = 1; schedule->mask < schedule->rank_count; schedule->mask <<= 1) {
        // What was told some rounds ago may still be on its way; nobody waits for it meanwhile.
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->i % half)));
        coll_send(schedule, schedule->i % half,
                  coll_rank(schedule, schedule->rank + schedule->mask), 0, NULL, 0);
        coll_receive(schedule, half, coll_rank(schedule, schedule->rank - schedule->mask), 0, NULL,
                     0);
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(half)));
        schedule->i++;
    }
    COLL_END(schedule);
}

enum coll_step_result coll_alone(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    if (schedule->rank_count > 1 || call->kind == LEAT_BARRIER || call->kind == LEAT_BROADCAST ||
        call->kind == LEAT_EXCLUSIVE_SCAN)
        return COLL_DONE;
    uint64_t bytes = call->count * call->element;
    if (call->kind == LEAT_REDUCE_SCATTER && call->receive_counts)
        bytes = call->receive_counts[0] * call->element;
    if (coll_reduces(call->kind)) {
        coll_copy(schedule, call->receive, call->send, bytes);
        coll_combine_alone(schedule, call->receive, bytes);
        return COLL_DONE;
    }
    struct coll_cursor from, to;
    coll_cursor_open(&from, schedule, call->send_counts, call->send_offsets);
    coll_cursor_open(&to, schedule, call->receive_counts, call->receive_offsets);
    bytes = call->send_counts ? coll_block_bytes(&from, 0) : coll_block_bytes(&to, 0);
    if (!call->in_place && bytes)
        coll_copy(schedule, call->receive + coll_block_offset(&to, 0),
                  call->send + coll_block_offset(&from, 0), bytes);
    return COLL_DONE;
}
