// SPDX-License-Identifier: Apache-2.0
// Reduction to one rank.
//
// Algorithm: a binomial tree over blocks of 2^k ranks that lie one after the other: the values of
// two such neighbours are combined, lower ranks first, at the root where it is in one of them and
// else at the lowest rank. So the brackets are the same for every root, and suit operations that do
// not commute. Data passes in chunks: while one is combined, the next ones are coming; what has
// been combined lies in the slot in which it came last and is sent on from there. Advantage: the
// logarithm of the ranks in steps, no copies, a buffer of a few chunks. Disadvantage: the root
// receives everything as many times as there are steps.

#include "msg/coll.h"

#include "msg/op.h"

// Who holds the combined values of the ranks from `start` on that belong to one block of a level.
static int holder(const struct msg_schedule *schedule, int64_t start, int level)
{
    int64_t root = schedule->call.root;
    return root >= start && root < start + (INT64_C(1) << level) ? (int)root : (int)start;
}

// This rank's place in the tree: levels at which it receives, and whom it sends to.
static void find_place(struct msg_schedule *schedule)
{
    int64_t rank = schedule->rank, ranks = schedule->rank_count;
    schedule->tree.children = schedule->tree.lower = 0;
    schedule->tree.child_count = 0;
    schedule->tree.parent = -1;
    for (int level = 0; INT64_C(1) << level < ranks; level++) {
        int64_t block = rank >> level, start = (block ^ 1) << level;
        if (start >= ranks)
            continue;
        if (holder(schedule, block >> 1 << (level + 1), level + 1) != rank) {
            schedule->tree.parent = holder(schedule, start, level);
            return;
        }
        schedule->tree.children |= 1u << level;
        schedule->tree.lower |= (uint32_t)(block & 1) << level;
        schedule->tree.child_count++;
    }
}

static int child_level(const struct msg_schedule *schedule, uint64_t index)
{
    uint32_t left = schedule->tree.children;
    while (index--)
        left &= left - 1;
    return __builtin_ctz(left);
}

static uint64_t chunk_of(const struct msg_schedule *schedule, uint64_t index)
{
    uint64_t bytes = schedule->call.count * schedule->call.element;
    uint64_t left = bytes - index * schedule->chunk;
    return left < schedule->chunk ? left : schedule->chunk;
}

static uint8_t *slot_of(const struct msg_schedule *schedule, uint64_t index)
{
    return schedule->temp + index % schedule->slots * schedule->chunk;
}

// Receives chunk after chunk, of each child in turn, in the order in which they are combined.
static void post(struct msg_schedule *schedule, uint64_t freed)
{
    uint64_t children = (uint64_t)schedule->tree.child_count;
    while (schedule->tree.posted < children * schedule->tree.chunks &&
           schedule->tree.posted - freed < schedule->slots) {
        uint64_t index = schedule->tree.posted++;
        int level = child_level(schedule, index % children);
        int64_t start = ((int64_t)schedule->rank >> level ^ 1) << level;
        coll_receive(schedule, (int)(index % schedule->slots), holder(schedule, start, level), 0,
                     slot_of(schedule, index), chunk_of(schedule, index / children));
    }
}

static bool arrived(struct msg_schedule *schedule)
{
    return schedule->tree.taken < schedule->tree.posted &&
           coll_finished(schedule, COLL_BIT(schedule->tree.taken % schedule->slots));
}

// The root combines into the caller's memory.
static bool root_move(struct msg_schedule *schedule)
{
    uint64_t children = (uint64_t)schedule->tree.child_count;
    post(schedule, schedule->tree.taken);
    while (children && arrived(schedule)) {
        uint64_t index = schedule->tree.taken, chunk = index / children;
        bool first = index % children == 0;
        uint8_t *target = schedule->call.receive + chunk * schedule->chunk;
        const uint8_t *own = first ? schedule->call.send + chunk * schedule->chunk : target;
        bool lower = schedule->tree.lower >> child_level(schedule, index % children) & 1;
        coll_fold(schedule, target, own, slot_of(schedule, index), chunk_of(schedule, chunk),
                  lower);
        schedule->tree.taken++;
        post(schedule, schedule->tree.taken);
    }
    return schedule->tree.taken == children * schedule->tree.chunks && !schedule->error;
}

// A slot is free again once it is combined into the next one, or, a chunk's last one, once it is
// sent.
static uint64_t freed(struct msg_schedule *schedule)
{
    uint64_t children = (uint64_t)schedule->tree.child_count;
    uint64_t sent = schedule->tree.finished * children;
    uint64_t chunk_done = schedule->tree.taken / children * children;
    if (sent < chunk_done)
        return sent + children - 1; // the last one of the oldest chunk that is not sent
    return schedule->tree.taken - (schedule->tree.taken > chunk_done);
}

static bool reap_sends(struct msg_schedule *schedule)
{
    while (schedule->tree.finished < schedule->tree.sent &&
           coll_finished(schedule, COLL_BIT(COLL_SLOTS + schedule->tree.finished % COLL_SLOTS)))
        schedule->tree.finished++;
    return !schedule->error;
}

// In between: the children's ranks are higher than this one and its block's.
static bool inner_move(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    uint64_t children = (uint64_t)schedule->tree.child_count;
    reap_sends(schedule);
    post(schedule, freed(schedule));
    while (arrived(schedule) && schedule->tree.sent - schedule->tree.finished < COLL_SLOTS) {
        uint64_t index = schedule->tree.taken++, chunk = index / children;
        uint64_t bytes = chunk_of(schedule, chunk);
        const uint8_t *before =
            index % children ? slot_of(schedule, index - 1) : call->send + chunk * schedule->chunk;
        coll_combine(schedule, before, slot_of(schedule, index), bytes);
        if (schedule->tree.taken % children == 0) {
            coll_send(schedule, COLL_SLOTS + (int)(schedule->tree.sent % COLL_SLOTS),
                      schedule->tree.parent, 0, slot_of(schedule, index), bytes);
            schedule->tree.sent++;
        }
        reap_sends(schedule);
        post(schedule, freed(schedule));
    }
    return schedule->tree.finished == schedule->tree.chunks && !schedule->error;
}

enum coll_step_result coll_reduce_binomial(struct msg_schedule *schedule)
{
    COLL_BEGIN(schedule);
    uint64_t bytes = schedule->call.count * schedule->call.element;
    find_place(schedule);
    schedule->tree.posted = schedule->tree.taken = schedule->tree.sent = 0;
    schedule->tree.finished = 0;
    schedule->tree.chunks = (bytes + schedule->chunk - 1) / schedule->chunk;
    if (schedule->tree.parent < 0) {
        COLL_AWAIT(schedule, root_move(schedule));
    } else if (schedule->tree.child_count) {
        COLL_AWAIT(schedule, inner_move(schedule));
    } else {
        coll_out_open(&schedule->out, 0, 0, schedule->tree.parent, schedule->call.send, bytes,
                      schedule->chunk);
        COLL_AWAIT(schedule, coll_out_move(schedule, &schedule->out, schedule->out.left));
    }
    COLL_END(schedule);
}
