// SPDX-License-Identifier: Apache-2.0
// Allreduce.
//
// Algorithms. Where the number of ranks is no power of two, the first ones give their values to
// their neighbours before, and get the result after (all but the ring).
// Recursive doubling: in round k ranks 2^k apart exchange all they have; both combine the lower
// one's values first, so all get the same bits. Advantage: the fewest steps. Disadvantage:
// everything is sent and combined log n times. Longer data goes piece by piece.
// Recursive halving (Rabenseifner): in round k such ranks exchange halves of what they still answer
// for, and gather the results in reverse order. Advantage: log n steps, everything sent twice in
// all. Disadvantage: halves lie apart, and partners ever farther away.
// Ring: coll_ring.c.

#include "msg/coll.h"

#include "msg/op.h"

// The largest power of two within the ranks, and how many are beyond it.
static int power_of(const struct msg_schedule *schedule)
{
    return 1 << (31 - __builtin_clz((unsigned)schedule->rank_count));
}

// This rank's number among the power of two; -1: its values are with its neighbour above.
static int folded_rank(const struct msg_schedule *schedule)
{
    int beyond = schedule->rank_count - power_of(schedule);
    if (schedule->rank >= 2 * beyond)
        return schedule->rank - beyond;
    return schedule->rank & 1 ? schedule->rank / 2 : -1;
}

static int unfolded(const struct msg_schedule *schedule, int folded)
{
    int beyond = schedule->rank_count - power_of(schedule);
    return folded < beyond ? 2 * folded + 1 : folded + beyond;
}

static bool has_folded(const struct msg_schedule *schedule)
{
    return schedule->rank < 2 * (schedule->rank_count - power_of(schedule));
}

// ---- Recursive doubling ----

// The one of the two places for values that does not hold the current ones.
static uint8_t *spare(const struct msg_schedule *schedule)
{
    uint8_t *result = schedule->call.receive + schedule->from;
    return schedule->current == result ? schedule->temp : result;
}

// Combines what came into the spare place with the current values, in the place that saves a copy:
// for built-in operations, whose operands may be exchanged, where the result belongs.
static void combine_spare(struct msg_schedule *schedule, bool lower)
{
    const struct coll_call *call = &schedule->call;
    uint8_t *came = spare(schedule), *result = call->receive + schedule->from;
    bool ordered = call->operation == LEAT_OPERATION_USER;
    if (!ordered && schedule->current == result) {
        coll_combine(schedule, came, result, schedule->bytes);
    } else if (!ordered || !lower) {
        coll_combine(schedule, schedule->current, came, schedule->bytes);
        schedule->current = came;
    } else {
        // The place that nothing came into holds the current values, or is free.
        uint8_t *own = came == schedule->temp ? result : schedule->temp;
        coll_copy(schedule, own, schedule->current, schedule->bytes);
        coll_combine(schedule, came, own, schedule->bytes);
        schedule->current = own;
    }
}

static void exchange_current(struct msg_schedule *schedule, int peer, bool send, bool receive)
{
    // Stores to the peer's memory take long to leave the core: what follows might wait for them.
    if (receive)
        coll_receive(schedule, 1, peer, 0, spare(schedule), schedule->bytes);
    if (send)
        coll_send(schedule, 0, peer, 0, schedule->current, schedule->bytes);
}

// The piece at `from`, whose values begin at `current`.
static enum coll_step_result double_piece(struct msg_schedule *schedule)
{
    int power = power_of(schedule), own = folded_rank(schedule);
    COLL_BEGIN(schedule);
    if (own < 0) {
        exchange_current(schedule, schedule->rank + 1, true, false);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
        coll_receive(schedule, 1, schedule->rank + 1, 0, schedule->call.receive + schedule->from,
                     schedule->bytes);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
        return COLL_DONE;
    }
    if (has_folded(schedule)) {
        exchange_current(schedule, schedule->rank - 1, false, true);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
        combine_spare(schedule, true);
    }
    for (schedule->mask = 1; schedule->mask < power; schedule->mask <<= 1) {
        exchange_current(schedule, unfolded(schedule, own ^ schedule->mask), true, true);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
        combine_spare(schedule, (own & schedule->mask) != 0);
    }
    coll_copy(schedule, schedule->call.receive + schedule->from, schedule->current,
              schedule->bytes);
    if (has_folded(schedule)) {
        coll_send(schedule, 0, schedule->rank - 1, 0, schedule->call.receive + schedule->from,
                  schedule->bytes);
        COLL_AWAIT(schedule, coll_finished(schedule, 3));
    }
    COLL_END(schedule);
}

enum coll_step_result coll_allreduce_doubling(struct msg_schedule *schedule)
{
    uint64_t total = schedule->call.count * schedule->call.element;
    uint64_t most = schedule->slots * schedule->chunk;
    if (!schedule->point)
        schedule->from = 0;
    while (schedule->from < total) {
        if (!schedule->point) {
            schedule->bytes = total - schedule->from < most ? total - schedule->from : most;
            schedule->current = schedule->call.send + schedule->from;
        }
        if (double_piece(schedule) == COLL_WAITING)
            return COLL_WAITING;
        schedule->point = 0;
        schedule->from += schedule->bytes;
    }
    return COLL_DONE;
}

// ---- Recursive halving ----

// The part, in bytes, that a rank of the power of two answers for after some rounds.
static void range_of(const struct msg_schedule *schedule, int folded, int end_mask, uint64_t *from,
                     uint64_t *to)
{
    uint64_t low = 0, high = schedule->call.count;
    for (int mask = 1; mask < end_mask; mask <<= 1) {
        uint64_t middle = low + (high - low) / 2;
        if (folded & mask)
            low = middle;
        else
            high = middle;
    }
    *from = low * schedule->call.element;
    *to = high * schedule->call.element;
}

static void open_halving(struct msg_schedule *schedule, int own)
{
    int mask = schedule->mask, peer = unfolded(schedule, own ^ mask);
    bool first = mask == 1 && !has_folded(schedule);
    const uint8_t *values = first ? schedule->call.send : schedule->call.receive;
    uint64_t from, to, kept, kept_to;
    range_of(schedule, own ^ mask, 2 * mask, &from, &to);
    range_of(schedule, own, 2 * mask, &kept, &kept_to);
    coll_exchange_open(schedule, peer, values + from, to - from, peer,
                       schedule->call.receive + kept, kept_to - kept, schedule->chunk);
    coll_exchange_fold(schedule, values + kept, (own & mask) != 0);
}

static void open_gathering(struct msg_schedule *schedule, int own)
{
    int mask = schedule->mask, peer = unfolded(schedule, own ^ mask);
    uint64_t from, to, other, other_to;
    range_of(schedule, own, 2 * mask, &from, &to);
    range_of(schedule, own ^ mask, 2 * mask, &other, &other_to);
    coll_exchange_open(schedule, peer, schedule->call.receive + from, to - from, peer,
                       schedule->call.receive + other, other_to - other, 0);
}

enum coll_step_result coll_allreduce_halving(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    int own = folded_rank(schedule), power = power_of(schedule), peer = schedule->rank;
    uint64_t bytes = call->count * call->element;
    COLL_BEGIN(schedule);
    if (own < 0) {
        peer++;
        coll_exchange_open(schedule, peer, call->send, bytes, peer, NULL, 0, schedule->chunk);
        COLL_AWAIT(schedule, coll_exchange(schedule));
        coll_exchange_open(schedule, schedule->rank + 1, NULL, 0, schedule->rank + 1, call->receive,
                           bytes, 0);
        COLL_AWAIT(schedule, coll_exchange(schedule));
        return COLL_DONE;
    }
    if (has_folded(schedule)) {
        peer--;
        coll_exchange_open(schedule, peer, NULL, 0, peer, call->receive, bytes, schedule->chunk);
        coll_exchange_fold(schedule, call->send, true);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    for (schedule->mask = 1; schedule->mask < power; schedule->mask <<= 1) {
        open_halving(schedule, own);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    for (schedule->mask >>= 1; schedule->mask; schedule->mask >>= 1) {
        open_gathering(schedule, own);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    if (has_folded(schedule)) {
        coll_exchange_open(schedule, schedule->rank - 1, call->receive, bytes, schedule->rank - 1,
                           NULL, 0, 0);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    COLL_END(schedule);
}
