// SPDX-License-Identifier: Apache-2.0
// Broadcast.
//
// Algorithms, all straight into the receivers' memory; ranks are counted from the root.
// Binomial tree: after round k, 2^k ranks have the data. Advantage: the logarithm of the ranks in
// steps. Disadvantage: the root sends everything several times.
// Chain: each rank hands on chunk by chunk to the next. Advantage: every byte is sent and received
// once a rank, to a neighbour, while others are on their way. Disadvantage: the first chunk takes
// as many steps as there are ranks.
// Scatter and allgather (van de Geijn): a binomial tree deals out parts, a ring collects them.
// Advantage: sends and receives every byte about twice, whatever the number of ranks, at all ranks
// at once. Disadvantage: parts get small where ranks are many.

#include "msg/coll.h"

#define CHAIN_CHUNK (128 * 1024)

enum coll_step_result coll_broadcast_binomial(struct msg_schedule *schedule)
{
    uint64_t bytes = schedule->call.count * schedule->call.element;
    int own = coll_from_root(schedule);
    COLL_BEGIN(schedule);
    schedule->mask = coll_low_bit(schedule, own);
    if (own) {
        coll_receive(schedule, 0, coll_to_rank(schedule, own - schedule->mask), 0,
                     schedule->call.receive, bytes);
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(0)));
    }
    schedule->i = 0;
    for (schedule->mask >>= 1; schedule->mask; schedule->mask >>= 1) {
        if (own + schedule->mask >= schedule->rank_count)
            continue;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->i % COLL_REQUESTS)));
        coll_send(schedule, schedule->i++ % COLL_REQUESTS,
                  coll_to_rank(schedule, own + schedule->mask), 0, schedule->call.receive, bytes);
    }
    COLL_END(schedule);
}

// Hands on what has come; true: all of it has.
static bool chain_move(struct msg_schedule *schedule)
{
    uint64_t bytes;
    while (coll_in_next(schedule, &schedule->in, &bytes)) {
        schedule->bytes += bytes;
        coll_in_take(&schedule->in);
    }
    uint64_t left = schedule->out.left;
    coll_out_move(schedule, &schedule->out, schedule->bytes);
    schedule->bytes -= left - schedule->out.left;
    return coll_in_ended(&schedule->in) && coll_out_ended(&schedule->out) && !schedule->error;
}

enum coll_step_result coll_broadcast_chain(struct msg_schedule *schedule)
{
    COLL_BEGIN(schedule);
    uint64_t bytes = schedule->call.count * schedule->call.element;
    int own = coll_from_root(schedule);
    bool last = own == schedule->rank_count - 1;
    uint64_t chunk = schedule->engine->tuning.chain_bytes;
    if (!chunk)
        chunk = CHAIN_CHUNK;
    coll_in_open(&schedule->in, 0, 0, coll_rank(schedule, schedule->rank - 1),
                 schedule->call.receive, own ? bytes : 0, chunk);
    coll_out_open(&schedule->out, COLL_SLOTS, 0, coll_rank(schedule, schedule->rank + 1),
                  schedule->call.receive, last ? 0 : bytes, chunk);
    schedule->bytes = own ? 0 : bytes; // there, and not handed on
    COLL_AWAIT(schedule, chain_move(schedule));
    COLL_END(schedule);
}

// Deals out the parts of ranks [own, own + mask) of the tree; leaves what coll_parts_ring needs.
enum coll_step_result coll_broadcast_scatter(struct msg_schedule *schedule)
{
    int own = coll_from_root(schedule), ranks = schedule->rank_count, top;
    uint64_t from, to;
    COLL_BEGIN(schedule);
    schedule->mask = coll_low_bit(schedule, own);
    if (own) {
        top = own + schedule->mask < ranks ? own + schedule->mask : ranks;
        from = coll_part(schedule, own, ranks);
        to = coll_part(schedule, top, ranks);
        if (to > from)
            coll_receive(schedule, 0, coll_to_rank(schedule, own - schedule->mask), 0,
                         schedule->call.receive + from, to - from);
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(0)));
    }
    schedule->i = 0;
    for (schedule->mask >>= 1; schedule->mask; schedule->mask >>= 1) {
        if (own + schedule->mask >= ranks)
            continue;
        COLL_AWAIT(schedule, coll_finished(schedule, COLL_BIT(schedule->i % COLL_REQUESTS)));
        top = own + 2 * schedule->mask < ranks ? own + 2 * schedule->mask : ranks;
        from = coll_part(schedule, own + schedule->mask, ranks);
        to = coll_part(schedule, top, ranks);
        if (to > from)
            coll_send(schedule, schedule->i++ % COLL_REQUESTS,
                      coll_to_rank(schedule, own + schedule->mask), 0,
                      schedule->call.receive + from, to - from);
    }
    // The ring uses any request.
    COLL_AWAIT(schedule, coll_finished(schedule, COLL_ALL));
    schedule->mask = own;
    COLL_END(schedule);
}

// Each rank holds the call's part `mask`, its neighbour above the next one; all get all.
enum coll_step_result coll_parts_ring(struct msg_schedule *schedule)
{
    int ranks = schedule->rank_count;
    COLL_BEGIN(schedule);
    for (schedule->i = 0; schedule->i < ranks - 1; schedule->i++) {
        int sent = coll_rank(schedule, schedule->mask - schedule->i);
        int received = coll_rank(schedule, sent - 1);
        uint64_t from = coll_part(schedule, sent, ranks);
        uint64_t to = coll_part(schedule, received, ranks);
        coll_exchange_open(
            schedule, coll_rank(schedule, schedule->rank + 1), schedule->call.receive + from,
            coll_part(schedule, sent + 1, ranks) - from, coll_rank(schedule, schedule->rank - 1),
            schedule->call.receive + to, coll_part(schedule, received + 1, ranks) - to,
            schedule->engine->tuning.part_bytes);
        COLL_AWAIT(schedule, coll_exchange(schedule));
    }
    COLL_END(schedule);
}
