// SPDX-License-Identifier: Apache-2.0
// A communicator that a rank has died in: its collectives end, at every rank.
//
// A rank of a collective often waits for one that waits for the dead one, and would for ever, since
// who waits for the dead directly fails and sends nothing more. So whoever fails tells others which
// collective of which communicator, and because of whom; whoever is told first tells others in its
// turn. From that number on the communicator's collectives are over: those under way fail, later
// ones fail when they are called, and what a rank had not done yet nobody waits for. Up to 64 ranks
// everybody is told by everybody; among more of them those whose distance is a power of two, which
// reaches all unless the dead cut them off. Besides, a rank with a collective under way looks in
// turn at the job's record of each of its ranks, which also finds who died before anybody waited.
//
// Data that a failed collective has announced may be read by its receiver still. So each rank says
// once more when it reads nothing of the broken collectives any more, and who has announced
// something to it takes that back only then. Beyond 64 ranks it is taken back at once; that was
// told before, and a collective ends only after the queue was read, so nobody takes it for a
// result. Advantage: the same error at all ranks, in the time of a message. Disadvantage: a
// collective that could just have ended without the dead rank may fail.

#include "core/job.h"
#include "msg/coll.h"
#include "msg/internal.h"

#include <errno.h>
#include <string.h>

#define WATCH_RANKS  64    /* looked at each time */
#define DRAIN_ROUNDS 10000 /* others may go on sending */

static bool before(uint32_t number, uint32_t other)
{
    return (int32_t)((number - other) << 2) < 0; // numbers have 30 bits
}

// ---- Telling ----

// The place'th of those that are told, or -1.
static int told_rank(const leat_comm *comm, int place)
{
    if (comm->rank_count <= 64)
        return place < comm->rank_count ? place : -1;
    int64_t far = INT64_C(1) << place / 2;
    if (far >= comm->rank_count)
        return -1;
    int64_t rank = comm->rank + (place & 1 ? -far : far);
    return (int)((rank + comm->rank_count) % comm->rank_count);
}

static void tell(struct coll_comm *own, uint64_t *whom, uint8_t flags)
{
    struct msg_engine *engine = own->comm.engine;
    for (uint64_t left = *whom; left; left &= left - 1) {
        int place = __builtin_ctzll(left), rank = told_rank(&own->comm, place);
        uint32_t peer = rank < 0 || rank == own->comm.rank
                            ? 0
                            : msg_peer_make(engine, msg_comm_job_rank(&own->comm, rank));
        struct msg_packet packet;
        packet.header = (struct msg_header){.kind = WIRE_BROKEN,
                                            .flags = flags,
                                            .context = own->comm.context,
                                            .tag = own->broken_error,
                                            .bytes = own->broken_from,
                                            .handle = (uint32_t)own->broken_rank};
        if (!peer || msg_control(engine, peer, &packet, 0))
            *whom &= ~(UINT64_C(1) << place);
    }
}

// Whether a broken collective of it still receives here.
static bool receives(const struct coll_comm *own)
{
    for (const struct msg_schedule *at = own->comm.engine->schedules; at; at = at->next)
        for (uint64_t left = at->comm == &own->comm && at->error ? at->active : 0; left;
             left &= left - 1) {
            const struct msg_request *request = &at->slot[__builtin_ctzll(left)];
            if (request->kind == REQUEST_RECEIVE && !msg_finished(request))
                return true;
        }
    return false;
}

void msg_broken_progress(struct msg_engine *engine)
{
    struct coll_comm **link = &engine->tellers;
    while (*link) {
        struct coll_comm *own = *link;
        tell(own, &own->to_tell, 0);
        if (!own->to_tell && own->to_leave && !receives(own))
            tell(own, &own->to_leave, WIRE_LEFT);
        if (own->to_tell || own->to_leave) {
            link = &own->next_teller;
            continue;
        }
        *link = own->next_teller;
        own->telling = false;
        own->running--;
        coll_comm_release(&own->comm);
    }
}

// ---- Breaking ----

void coll_break(leat_comm *comm, uint32_t number, int rank, int error)
{
    struct coll_comm *own = coll_of(comm);
    struct msg_engine *engine = comm->engine;
    if (own->broken && !before(number, own->broken_from))
        return;
    if (!own->broken) {
        own->broken_rank = rank;
        own->broken_error = error;
    }
    own->broken = true;
    own->broken_from = number;
    engine->events++;
    for (struct msg_schedule *at = engine->schedules; at; at = at->next)
        if (at->comm == comm && !at->error && !before(at->number, number)) {
            at->error = own->broken_error;
            at->failed_peer = own->broken_rank;
        }
    if (!own->telling) {
        own->telling = true;
        own->running++; // it has to last until all are told
        own->next_teller = engine->tellers;
        engine->tellers = own;
    }
    own->to_tell = own->to_leave = UINT64_MAX;
    // In a deadlock nobody reads.
    own->left = own->broken_error == -EDEADLK ? UINT64_MAX : 0;
    tell(own, &own->to_tell, 0);
}

bool coll_is_broken(const leat_comm *comm, uint32_t number)
{
    const struct coll_comm *own = coll_of(comm);
    return own->broken && !before(number, own->broken_from);
}

// Where a rank stands among those that are told; -1: it is not.
static int place_of(const leat_comm *comm, int job_rank)
{
    return comm->rank_count <= 64 ? msg_comm_rank_of(comm, job_rank) : -1;
}

bool coll_may_take_back(const struct msg_schedule *schedule, int job_rank)
{
    const struct coll_comm *own = coll_of(schedule->comm);
    int place =
        coll_is_broken(schedule->comm, schedule->number) ? place_of(&own->comm, job_rank) : -1;
    return place < 0 || own->left >> place & 1 || job_rank == schedule->engine->net->rank;
}

void coll_failed(struct msg_schedule *schedule)
{
    int peer = schedule->failed_peer;
    if (peer >= 0 && (schedule->error == -ECONNRESET || msg_rank_is_lost(schedule->engine, peer)))
        coll_break(schedule->comm, schedule->number, peer, schedule->error);
}

// ---- Being told ----

leat_comm *coll_comm_find(const struct msg_engine *engine, uint32_t context)
{
    if (engine->world && engine->world->context == context)
        return engine->world;
    leat_comm *comm = engine->comms;
    while (comm && comm->context != context)
        comm = comm->next;
    return comm;
}

static void keep_early(struct msg_engine *engine, const struct msg_broken *broken)
{
    if (!engine->broken_early)
        engine->broken_early =
            msg_alloc(&engine->pools, POOL_WORK, MSG_BROKEN_EARLY * sizeof *broken);
    for (uint32_t i = 0; i < MSG_BROKEN_EARLY && engine->broken_early; i++)
        if (!memcmp(&engine->broken_early[i], broken, sizeof *broken))
            return;
    if (engine->broken_early)
        engine->broken_early[engine->broken_count++ % MSG_BROKEN_EARLY] = *broken;
}

void msg_broken_packet(struct msg_engine *engine, int from, const struct msg_packet *packet)
{
    const struct msg_header *header = &packet->header;
    struct msg_broken broken = {.context = header->context,
                                .number = (uint32_t)header->bytes & 0x3fffffff,
                                .rank = (int32_t)header->handle,
                                .error = header->tag};
    if (broken.error >= 0 || broken.rank < -1 || broken.rank >= engine->net->rank_count)
        return;
    leat_comm *comm = coll_comm_find(engine, broken.context);
    // A wait in a deadlock ends by the verdict, which says why. One that is not found this rank is
    // still making, or has freed.
    if (!comm || (broken.error == -EDEADLK && msg_deadlock_expected(engine))) {
        keep_early(engine, &broken);
        return;
    }
    coll_break(comm, broken.number, broken.rank, broken.error);
    int place = header->flags & WIRE_LEFT ? place_of(comm, from) : -1;
    if (place >= 0 && coll_of(comm)->broken_from == broken.number)
        coll_of(comm)->left |= UINT64_C(1) << place;
    engine->finished++; // a failed collective that waits for that goes on
}

void coll_break_early(leat_comm *comm)
{
    struct msg_engine *engine = comm->engine;
    for (uint32_t i = 0; i < MSG_BROKEN_EARLY && engine->broken_early; i++) {
        const struct msg_broken *broken = &engine->broken_early[i];
        if (broken->error && broken->context == comm->context)
            coll_break(comm, broken->number, broken->rank, broken->error);
    }
}

void msg_broken_again(struct msg_engine *engine)
{
    for (leat_comm *comm = engine->comms; comm; comm = comm->next)
        coll_break_early(comm);
    if (engine->world)
        coll_break_early(engine->world);
}

// ---- Looking ----

// The oldest collective of the communicator that runs, or NULL.
static struct msg_schedule *oldest(const struct msg_engine *engine, const leat_comm *comm)
{
    struct msg_schedule *found = NULL;
    for (struct msg_schedule *at = engine->schedules; at; at = at->next)
        if (at->comm == comm && !at->error && (!found || before(at->number, found->number)))
            found = at;
    return found;
}

// A rank that has died, of those whose turn it is; or -1.
static int find_dead(struct coll_comm *own)
{
    const leat_comm *comm = &own->comm;
    int count = comm->rank_count < WATCH_RANKS ? comm->rank_count : WATCH_RANKS;
    for (int n = 0; n < count; n++) {
        int rank = own->watched;
        own->watched = rank + 1 < comm->rank_count ? rank + 1 : 0;
        int job_rank = msg_comm_job_rank(comm, rank);
        if (rank != comm->rank && leat_rank_died(comm->engine->job, job_rank))
            return job_rank;
    }
    return -1;
}

void msg_broken_watch(struct msg_engine *engine)
{
    if (!engine->job)
        return;
    for (struct msg_schedule *at = engine->schedules; at; at = at->next) {
        leat_comm *comm = at->comm;
        if (at->error || oldest(engine, comm) != at)
            continue; // once a communicator
        int rank = find_dead(coll_of(comm));
        if (rank < 0)
            continue;
        // It may have done its part before it died.
        for (int n = 0; n < DRAIN_ROUNDS && msg_progress(engine, engine->now_ns); n++)
            continue;
        const struct msg_schedule *left = oldest(engine, comm);
        if (left)
            coll_break(comm, left->number, rank, -ECONNRESET);
        return; // the list has changed; the next look goes on
    }
}
