// SPDX-License-Identifier: Apache-2.0
// Scan and exclusive scan.
//
// Algorithms. Chain: each rank combines what comes from the rank below with its own values and
// hands it on, chunk by chunk. Advantage: everything is sent and combined once a rank.
// Disadvantage: the last rank waits for all others, one after the other. Doubling (Hillis and
// Steele, 1986): in round k each rank sends what it has combined so far, of the 2^k ranks up to
// itself, to the rank 2^k above. Advantage: the logarithm of the ranks in steps. Disadvantage:
// everything is sent and combined as often. Longer data goes piece by piece.

#include "msg/coll.h"

#include "msg/op.h"

// ---- Chain ----

static bool inclusive_move(struct msg_schedule *schedule)
{
    struct coll_exchange *exchange = &schedule->exchange;
    uint64_t bytes;
    uint8_t *received;
    while ((received = coll_in_next(schedule, &exchange->in, &bytes)) != NULL) {
        coll_fold(schedule, exchange->target, exchange->own, received, bytes, true);
        exchange->target += bytes;
        exchange->own += bytes;
        coll_in_take(&exchange->in);
    }
    if (exchange->out.left)
        coll_out_move(schedule, &exchange->out, (uint64_t)(exchange->target - exchange->out.next));
    else
        coll_out_move(schedule, &exchange->out, 0);
    return coll_in_ended(&exchange->in) && coll_out_ended(&exchange->out) && !schedule->error;
}

static void open_inclusive(struct msg_schedule *schedule, uint64_t bytes, bool last)
{
    const struct coll_call *call = &schedule->call;
    uint64_t from_below = schedule->rank ? bytes : 0;
    coll_exchange_open(schedule, schedule->rank + 1, call->receive, last ? 0 : bytes,
                       schedule->rank - 1, call->receive, from_below, schedule->chunk);
    coll_exchange_fold(schedule, call->send, true);
    if (schedule->rank)
        return;
    coll_copy(schedule, call->receive, call->send, bytes);
    coll_combine_alone(schedule, call->receive, bytes);
    schedule->exchange.target += bytes;
}

// What is handed on lies in the buffer's upper slots, what has come in the lower ones.
static bool exclusive_move(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    bool last = schedule->rank == schedule->rank_count - 1;
    uint64_t bytes, half = schedule->slots;
    uint8_t *received;
    for (;;) {
        while (schedule->tree.finished < schedule->tree.sent &&
               coll_finished(schedule, COLL_BIT(COLL_SLOTS + schedule->tree.finished % half)))
            schedule->tree.finished++;
        received = coll_in_next(schedule, &schedule->in, &bytes);
        if (!received || schedule->tree.sent - schedule->tree.finished == half)
            break;
        uint64_t from = schedule->in.taken * schedule->chunk;
        if (!last) {
            uint64_t place = schedule->tree.sent++ % half;
            uint8_t *passed_on = schedule->temp + (half + place) * schedule->chunk;
            coll_copy(schedule, passed_on, call->send + from, bytes);
            coll_combine(schedule, received, passed_on, bytes);
            coll_send(schedule, COLL_SLOTS + (int)place, schedule->rank + 1, 0, passed_on, bytes);
        }
        coll_copy(schedule, call->receive + from, received, bytes);
        if (schedule->rank == 1)
            coll_combine_alone(schedule, call->receive + from, bytes);
        coll_in_take(&schedule->in);
    }
    return coll_in_ended(&schedule->in) && schedule->tree.finished == schedule->tree.sent &&
           !schedule->error;
}

enum coll_step_result coll_scan_chain(struct msg_schedule *schedule)
{
    uint64_t bytes = schedule->call.count * schedule->call.element;
    bool last = schedule->rank == schedule->rank_count - 1;
    COLL_BEGIN(schedule);
    if (schedule->call.kind == LEAT_SCAN) {
        open_inclusive(schedule, bytes, last);
        COLL_AWAIT(schedule, inclusive_move(schedule));
    } else if (!schedule->rank) {
        coll_out_open(&schedule->out, 0, 0, 1, schedule->call.send, bytes, schedule->chunk);
        COLL_AWAIT(schedule, coll_out_move(schedule, &schedule->out, schedule->out.left));
    } else {
        schedule->slots /= 2;
        schedule->tree.sent = schedule->tree.finished = 0;
        coll_in_open(&schedule->in, 0, 0, schedule->rank - 1, NULL, bytes, schedule->chunk);
        COLL_AWAIT(schedule, exclusive_move(schedule));
    }
    COLL_END(schedule);
}

// ---- Doubling ----

// Combines what came with what was combined so far.
static void combine_round(struct msg_schedule *schedule)
{
    uint8_t *came = schedule->temp, *result = schedule->call.receive + schedule->from;
    coll_combine(schedule, came, schedule->at, schedule->bytes);
    if (schedule->call.kind == LEAT_SCAN)
        return;
    if (schedule->mask > 1) {
        coll_combine(schedule, came, result, schedule->bytes);
        return;
    }
    coll_copy(schedule, result, came, schedule->bytes);
    if (schedule->rank == 1)
        coll_combine_alone(schedule, result, schedule->bytes);
}

static enum coll_step_result double_piece(struct msg_schedule *schedule)
{
    COLL_BEGIN(schedule);
    coll_copy(schedule, schedule->at, schedule->call.send + schedule->from, schedule->bytes);
    for (schedule->mask = 1; schedule->mask < schedule->rank_count; schedule->mask <<= 1) {
        if (schedule->mask < schedule->rank_count - schedule->rank)
            coll_send(schedule, 0, schedule->rank + schedule->mask, 0, schedule->at,
                      schedule->bytes);
        if (schedule->rank >= schedule->mask)
            coll_receive(schedule, 1, schedule->rank - schedule->mask, 0, schedule->temp,
                         schedule->bytes);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
        if (schedule->rank >= schedule->mask)
            combine_round(schedule);
    }
    if (schedule->call.kind == LEAT_SCAN && !schedule->rank)
        coll_combine_alone(schedule, schedule->at, schedule->bytes);
    COLL_END(schedule);
}

enum coll_step_result coll_scan_doubling(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    uint64_t total = call->count * call->element;
    uint64_t most = schedule->slots / 2 * schedule->chunk;
    if (!schedule->point)
        schedule->from = 0;
    while (schedule->from < total) {
        if (!schedule->point) {
            schedule->bytes = total - schedule->from < most ? total - schedule->from : most;
            schedule->at =
                call->kind == LEAT_SCAN ? call->receive + schedule->from : schedule->temp + most;
        }
        if (double_piece(schedule) == COLL_WAITING)
            return COLL_WAITING;
        schedule->point = 0;
        schedule->from += schedule->bytes;
    }
    return COLL_DONE;
}
