// SPDX-License-Identifier: Apache-2.0
// The engine of one rank: its memory, and its one round of progress.
//
// Algorithm: the budget is divided into pools when the engine is opened: what any job of that size
// may need at once (peers, queue, work) first, then at most half of it for rings, and what is left
// for unexpected messages. A round of progress reads rings and queue, moves rendezvous, pays what
// is owed to peers, and moves the search for held messages and the collectives. Advantage: bounds
// are checked once, and a round with nothing to do reads a few flags. Disadvantage: the division
// does not follow what a program does.

#include "msg/engine.h"

#include "core/error.h"
#include "msg/coll.h"
#include "msg/gpu.h"
#include "msg/rendezvous.h"

#include <errno.h>
#include <stdlib.h>

#define WORK_LEAST       (1u << 20)
#define UNEXPECTED_LEAST (64u << 10)
#define PEER_COST        64u

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

static uint64_t ring_cost(const struct msg_tuning *tuning)
{
    return msg_ring_bytes(tuning) + 2 * sizeof(struct msg_ring_in) +
           2 * sizeof(struct msg_ring_out) + 2 * sizeof(struct msg_credit);
}

// Divides the budget; false where it does not suffice.
static bool divide(struct msg_engine *engine)
{
    struct msg_tuning *tuning = &engine->tuning;
    struct msg_pool *pool = engine->pools.pool;
    uint64_t budget = tuning->budget_bytes, ring = ring_cost(tuning);
    pool[POOL_QUEUE].limit = engine->net->queue_bytes;
    pool[POOL_PEERS].limit = PEER_COST * (uint64_t)engine->net->rank_count + 16384;
    pool[POOL_WORK].limit = at_least(budget / 8, WORK_LEAST);
    pool[POOL_STAGING].limit =
        at_least(budget / 16, msg_pipe_memory(tuning) + 8192 + tuning->staging_bytes);
    uint64_t fixed = pool[POOL_QUEUE].limit + pool[POOL_PEERS].limit + pool[POOL_WORK].limit +
                     pool[POOL_STAGING].limit;
    if (budget < fixed + ring + UNEXPECTED_LEAST)
        return false;
    uint64_t left = budget - fixed, most = left - UNEXPECTED_LEAST;
    uint64_t rings = (budget / 2 < most ? budget / 2 : most) / ring;
    if (!rings)
        rings = 1;
    uint64_t peers = (uint64_t)engine->net->rank_count;
    if (rings > peers)
        rings = peers; // one to oneself too
    if (rings > tuning->ring_limit)
        rings = tuning->ring_limit;
    tuning->ring_limit = (uint32_t)rings;
    pool[POOL_RINGS].limit = rings * ring;
    left -= rings * ring;
    pool[POOL_HEADERS].limit = left / 3;
    pool[POOL_BYTES].limit = left - left / 3;
    return true;
}

// A message by ring has to find room as a whole.
static uint32_t fitting(const struct msg_tuning *tuning, uint32_t bytes)
{
    uint64_t bulk = tuning->ring_bulk_bytes, fragment = tuning->fragment_bytes;
    uint64_t slots = tuning->ring_slots;
    while (bytes > MSG_SLOT_PAYLOAD) {
        uint64_t count = (bytes + fragment - 1) / fragment;
        if (count <= slots && bytes + fragment + 64 * count <= bulk)
            break;
        bytes -= bytes / 64 + 1;
    }
    return bytes;
}

static void fit_eager(struct msg_tuning *tuning)
{
    tuning->eager_bytes = fitting(tuning, tuning->eager_bytes);
    tuning->eager_most =
        tuning->eager_hop_bytes ? fitting(tuning, tuning->ring_bulk_bytes) : tuning->eager_bytes;
    if (tuning->eager_most < tuning->eager_bytes)
        tuning->eager_most = tuning->eager_bytes;
}

bool msg_budget_fits(const struct msg_tuning *tuning, int rank_count, uint64_t queue_bytes)
{
    struct msg_net net = {.rank_count = rank_count, .queue_bytes = queue_bytes};
    struct msg_engine trial = {.net = &net, .tuning = *tuning};
    return divide(&trial);
}

static uint64_t smallest_budget(struct msg_engine *engine)
{
    uint64_t low = 1 << 16, high = UINT64_C(1) << 48;
    struct msg_tuning asked = engine->tuning;
    while (low < high) {
        engine->tuning = asked;
        engine->tuning.budget_bytes = low + (high - low) / 2;
        if (divide(engine))
            high = engine->tuning.budget_bytes;
        else
            low = engine->tuning.budget_bytes + 1;
    }
    engine->tuning = asked;
    return low;
}

static int open_parts(struct msg_engine *engine)
{
    struct msg_pools *pools = &engine->pools;
    uint64_t places = engine->tuning.ring_limit + 1ULL;
    pools->budget = engine->tuning.budget_bytes;
    int error = msg_charge(pools, POOL_QUEUE, engine->net->queue_bytes);
    if (!error)
        error = msg_charge(pools, POOL_WORK, sizeof *engine);
    msg_match_open(&engine->matcher, pools);
    if (!error)
        error = msg_peers_open(engine);
    engine->ring_out = msg_alloc(pools, POOL_WORK, places * sizeof *engine->ring_out);
    engine->ring_in = msg_alloc(pools, POOL_WORK, places * sizeof *engine->ring_in);
    if (!error)
        error = msg_handles_open(engine);
    if (!error)
        error = msg_hold_open(engine);
    if (!error)
        error = msg_shares_open(engine);
    return error ? error : (engine->ring_out && engine->ring_in ? 0 : -ENOMEM);
}

int msg_engine_open(struct msg_net *net, const struct msg_tuning *tuning,
                    struct msg_engine **engine)
{
    struct msg_engine *made = calloc(1, sizeof *made);
    if (!made) {
        net->ops->close(net);
        return leat_fail(-ENOMEM, "no memory for the message layer of rank %d", net->rank);
    }
    made->net = net;
    made->memory = net->memory;
    made->tuning = *tuning;
    made->last_waited = -1;
    fit_eager(&made->tuning);
    if (!made->tuning.get_bytes)
        made->tuning.get_bytes = tuning->chunk_bytes;
    int error = 0;
    if (!divide(made))
        error = leat_fail(-ENOBUFS,
                          "LEAT_MSG_BUDGET of %llu bytes is too small for %d ranks: at least %llu",
                          (unsigned long long)tuning->budget_bytes, net->rank_count,
                          (unsigned long long)smallest_budget(made));
    else if ((error = open_parts(made)) != 0)
        error = leat_fail(error, "no memory for the message layer of rank %d", net->rank);
    if (error) {
        msg_engine_close(made);
        return error;
    }
    *engine = made;
    return 0;
}

void msg_engine_close(struct msg_engine *engine)
{
    if (!engine)
        return;
    msg_comms_close(engine);
    msg_gpu_close(engine);
    if (engine->shares) {
        msg_rings_close(engine);
        msg_shares_close(engine);
    }
    msg_hold_close(engine);
    msg_handles_close(engine);
    msg_free(&engine->pools, POOL_WORK, engine->nonsense, MSG_NONSENSE_BYTES);
    msg_deadlock_close(engine);
    msg_free(&engine->pools, POOL_WORK, engine->broken_early,
             MSG_BROKEN_EARLY * sizeof *engine->broken_early);
    uint64_t places = engine->tuning.ring_limit + 1ULL;
    if (engine->ring_in)
        msg_free(&engine->pools, POOL_WORK, engine->ring_in, places * sizeof *engine->ring_in);
    if (engine->ring_out)
        msg_free(&engine->pools, POOL_WORK, engine->ring_out, places * sizeof *engine->ring_out);
    if (engine->index)
        msg_peers_close(engine);
    if (engine->matcher.headers.pools)
        msg_match_close(&engine->matcher);
    engine->net->ops->close(engine->net);
    free(engine);
}

bool msg_progress(struct msg_engine *engine, uint64_t now_ns)
{
    uint64_t before = engine->events;
    engine->now_ns = now_ns;
    if (engine->net->ops->progress)
        engine->net->ops->progress(engine->net, now_ns);
    if (!engine->net->quiet || engine->holding)
        msg_rings_progress(engine);
    msg_queue_progress(engine);
    if (engine->rendezvous && engine->rendezvous_count != engine->net->gets)
        msg_rendezvous_progress(engine);
    if (engine->todo_head)
        msg_peers_progress(engine);
    if (engine->holding)
        msg_hold_progress(engine);
    if (engine->schedules)
        msg_collective_progress(engine);
    if (engine->tellers)
        msg_broken_progress(engine);
    return engine->events != before;
}
