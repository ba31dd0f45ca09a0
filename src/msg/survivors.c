// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator that live agree on who they are.
//
// Algorithm: uniform consensus by a leader under a failure detector that does not err (Guerraoui
// and Rodrigues, "Introduction to Reliable Distributed Programming", 2006, hierarchical consensus),
// with ballots so that a leader may propose again. The leader is the lowest rank that is not known
// to be dead. All others join it, with what they can offer and the last proposal that they have
// accepted. Once all that live have joined, it proposes who they are and what a communicator needs;
// where a member dies before all have accepted, it proposes again without it; once all living
// members have accepted, it decides and tells all, and each tells all others before it returns.
//
// Why all get the same. A decided proposal was accepted by all that lived then. Whoever leads later
// has joins of all that live, so it sees that proposal, as the last one accepted by everybody, and
// proposes just that. Where one of them has accepted another one last, or none, nothing was
// decided, since all of these lived, and the new leader is free. A rank that has joined a leader
// listens to no earlier one.
//
// What is lost because its receiver does not take part yet is said again, about every 20 ms.
// Advantage: one round trip each for joining and accepting while nobody dies, through packets only,
// so it works where nothing else of the communicator does. Disadvantage: the leader hears
// everybody, and n^2 packets tell of the end.

#include "core/error.h"
#include "core/job.h"
#include "core/log.h"
#include "msg/coll.h"
#include "msg/internal.h"
#include "msg/survivors.h"
#include "msg/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum word_kind { WORD_JOIN = 1, WORD_PROPOSE, WORD_ACCEPT, WORD_DECIDE, WORD_OVER };

struct msg_agreement {
    leat_comm *parent;
    uint32_t number;
    int leader;
    uint32_t context; // of all that have joined, the largest
    uint64_t temp_bytes;
    struct msg_proposal accepted; // by this rank, the last one
    struct msg_proposal best;     // of those that have joined
    struct msg_proposal value;    // the leader's
    bool proposing, kept, answers, decided, over;
    uint64_t *ballot; // [rank_count] last accepted by those that have joined; NOT_JOINED
    uint8_t *done;    // [rank_count] has accepted the value; later: was told the end
};

#define NOT_JOINED UINT64_MAX

static uint64_t ballot_of(const struct msg_proposal *proposal)
{
    return (uint64_t)proposal->leader << 32 | proposal->version;
}

static bool is_lost(const struct msg_agreement *agreement, int rank)
{
    const leat_comm *parent = agreement->parent;
    return rank != parent->rank &&
           msg_rank_is_lost(parent->engine, msg_comm_job_rank(parent, rank));
}

// ---- Words ----

static bool say(const struct msg_agreement *agreement, int rank, enum word_kind kind,
                const struct msg_proposal *proposal)
{
    leat_comm *parent = agreement->parent;
    struct msg_engine *engine = parent->engine;
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_AGREE,
                                        .flags = (uint8_t)kind,
                                        .context = parent->context,
                                        .tag = agreement->leader,
                                        .bytes = agreement->temp_bytes,
                                        .handle = agreement->context,
                                        .sequence = agreement->number};
    memcpy(packet.payload, proposal, sizeof *proposal);
    uint32_t peer = msg_peer_make(engine, msg_comm_job_rank(parent, rank));
    return peer && msg_control(engine, peer, &packet, sizeof *proposal);
}

// This rank has left the agreement that is asked after; in order after what it said of its end.
static void say_over(struct msg_engine *engine, uint32_t index, const struct msg_header *header)
{
    struct msg_packet packet = {.header = {.kind = WIRE_AGREE,
                                           .flags = WORD_OVER,
                                           .context = header->context,
                                           .sequence = header->sequence}};
    if (header->flags != WORD_DECIDE && header->flags != WORD_OVER)
        msg_control(engine, index, &packet, sizeof(struct msg_proposal));
}

static void joined(struct msg_agreement *agreement, int from, const struct msg_header *header,
                   const struct msg_proposal *proposal)
{
    if (header->tag != agreement->parent->rank || agreement->proposing)
        return;
    agreement->ballot[from] = ballot_of(proposal);
    if (header->handle > agreement->context)
        agreement->context = header->handle;
    if (header->bytes < agreement->temp_bytes)
        agreement->temp_bytes = header->bytes;
    if (ballot_of(proposal) > ballot_of(&agreement->best))
        agreement->best = *proposal;
}

static void proposed(struct msg_agreement *agreement, int from, const struct msg_proposal *proposal)
{
    if (from < agreement->leader || (uint32_t)from != proposal->leader ||
        ballot_of(proposal) < ballot_of(&agreement->accepted))
        return;
    agreement->accepted = *proposal;
    agreement->answers = true;
}

void msg_agreement_packet(struct msg_engine *engine, uint32_t index,
                          const struct msg_packet *packet)
{
    const struct msg_header *header = &packet->header;
    struct msg_agreement *agreement = engine->agreement;
    struct msg_proposal proposal;
    if (header->payload != sizeof proposal)
        return;
    if (!agreement || agreement->parent->context != header->context ||
        agreement->number != header->sequence) {
        const leat_comm *comm = coll_comm_find(engine, header->context);
        if (comm && (int32_t)(header->sequence - coll_of(comm)->agreements) < 0)
            say_over(engine, index, header);
        return; // otherwise this rank will take part, and is told again
    }
    int from = msg_comm_rank_of(agreement->parent, msg_peer_at(engine, index)->rank);
    if (from < 0)
        return;
    memcpy(&proposal, packet->payload, sizeof proposal);
    if (header->flags == WORD_JOIN) {
        joined(agreement, from, header, &proposal);
    } else if (header->flags == WORD_PROPOSE) {
        proposed(agreement, from, &proposal);
    } else if (header->flags == WORD_ACCEPT) {
        if (agreement->proposing && ballot_of(&proposal) == ballot_of(&agreement->value))
            agreement->done[from] = 1;
    } else if (header->flags == WORD_DECIDE && !agreement->decided) {
        agreement->accepted = proposal;
        agreement->decided = true;
    } else if (header->flags == WORD_OVER) {
        agreement->over = true;
    }
}

// ---- The leader ----

static bool all_joined(const struct msg_agreement *agreement)
{
    for (int rank = 0; rank < agreement->parent->rank_count; rank++)
        if (agreement->ballot[rank] == NOT_JOINED && !is_lost(agreement, rank))
            return false;
    return true;
}

// Whether the best proposal may have been decided: all that live have accepted it last.
static bool may_be_decided(const struct msg_agreement *agreement)
{
    for (int rank = 0; rank < agreement->parent->rank_count; rank++)
        if (!is_lost(agreement, rank) && agreement->ballot[rank] != ballot_of(&agreement->best))
            return false;
    return agreement->best.version != 0;
}

static void propose(struct msg_agreement *agreement)
{
    struct msg_proposal *value = &agreement->value;
    int ranks = agreement->parent->rank_count;
    uint32_t version = agreement->proposing ? value->version + 1 : 1;
    agreement->kept = !agreement->proposing && may_be_decided(agreement);
    agreement->proposing = true;
    *value = agreement->kept ? agreement->best
                             : (struct msg_proposal){.context = agreement->context,
                                                     .temp_bytes = agreement->temp_bytes};
    value->leader = (uint32_t)agreement->parent->rank;
    value->version = version;
    for (int rank = 0; rank < ranks && !agreement->kept; rank++)
        if (!is_lost(agreement, rank))
            value->member[rank / 8] = (uint8_t)(value->member[rank / 8] | 1 << rank % 8);
    memset(agreement->done, 0, (size_t)ranks);
    agreement->accepted = *value;
    agreement->done[agreement->parent->rank] = 1;
}

static bool member_lost(const struct msg_agreement *agreement)
{
    for (int rank = 0; rank < agreement->parent->rank_count; rank++)
        if (msg_proposal_has(&agreement->value, rank) && is_lost(agreement, rank))
            return true;
    return false;
}

static void lead(struct msg_agreement *agreement, bool again)
{
    if (!agreement->proposing && !all_joined(agreement))
        return;
    if (!agreement->proposing || (!agreement->kept && member_lost(agreement))) {
        propose(agreement);
        again = true;
    }
    bool all = true;
    for (int rank = 0; rank < agreement->parent->rank_count; rank++) {
        if (!msg_proposal_has(&agreement->value, rank) || is_lost(agreement, rank) ||
            agreement->done[rank])
            continue;
        all = false;
        if (again)
            say(agreement, rank, WORD_PROPOSE, &agreement->value);
    }
    agreement->decided = all;
}

// ---- Everybody ----

static void follow(struct msg_agreement *agreement, bool again)
{
    bool accepted =
        agreement->accepted.version && agreement->accepted.leader == (uint32_t)agreement->leader;
    if (accepted && (again || agreement->answers)) {
        agreement->answers = false;
        say(agreement, agreement->leader, WORD_ACCEPT, &agreement->accepted);
    } else if (again) {
        say(agreement, agreement->leader, WORD_JOIN, &agreement->accepted);
    }
}

static void step(struct msg_agreement *agreement, bool again)
{
    int leader = 0, own = agreement->parent->rank;
    while (leader != own && is_lost(agreement, leader))
        leader++;
    if (leader != agreement->leader) {
        agreement->leader = leader;
        again = true;
    }
    if (leader != own) {
        follow(agreement, again);
        return;
    }
    if (agreement->ballot[own] == NOT_JOINED) {
        agreement->ballot[own] = ballot_of(&agreement->accepted);
        if (ballot_of(&agreement->accepted) > ballot_of(&agreement->best))
            agreement->best = agreement->accepted;
    }
    lead(agreement, again);
}

// Says the end to all that live, those that it leaves out included.
static bool say_end(struct msg_agreement *agreement)
{
    bool all = true;
    for (int rank = 0; rank < agreement->parent->rank_count; rank++) {
        if (agreement->done[rank] || is_lost(agreement, rank))
            continue;
        agreement->done[rank] = say(agreement, rank, WORD_DECIDE, &agreement->accepted);
        all = all && agreement->done[rank];
    }
    return all;
}

static void go_round(struct msg_waiter *waiter)
{
    if (msg_progress(waiter->engine, waiter->engine->now_ns))
        msg_waiter_busy(waiter);
    else
        msg_waiter_idle(waiter);
}

static int run(struct msg_agreement *agreement)
{
    struct msg_waiter waiter;
    int ranks = agreement->parent->rank_count;
    msg_waiter_begin(&waiter, agreement->parent->engine, -1);
    for (bool again = true; !agreement->over;) {
        step(agreement, again);
        if (agreement->decided)
            break;
        waiter.checked = false;
        go_round(&waiter);
        again = waiter.checked;
    }
    if (!agreement->decided)
        return leat_fail(-ECONNRESET,
                         "leat_comm_split: the other ranks take rank %d for dead and "
                         "have gone on without it",
                         agreement->parent->engine->net->rank);
    memset(agreement->done, 0, (size_t)ranks);
    agreement->done[agreement->parent->rank] = 1;
    while (!say_end(agreement))
        go_round(&waiter);
    if (!msg_proposal_has(&agreement->accepted, agreement->parent->rank))
        return leat_fail(-ECONNRESET, "leat_comm_split: the other ranks take rank %d for dead",
                         agreement->parent->engine->net->rank);
    return 0;
}

static bool waits_for(const struct msg_agreement *agreement, int rank)
{
    if (is_lost(agreement, rank) || agreement->leader != agreement->parent->rank)
        return rank == agreement->leader;
    return agreement->proposing
               ? msg_proposal_has(&agreement->value, rank) && !agreement->done[rank]
               : agreement->ballot[rank] == NOT_JOINED;
}

void msg_agreement_report(const struct msg_engine *engine, double seconds)
{
    const struct msg_agreement *agreement = engine->agreement;
    const leat_comm *parent = agreement->parent;
    int first = -1, count = 0;
    char more[32] = "";
    for (int rank = 0; rank < parent->rank_count; rank++)
        if (waits_for(agreement, rank)) {
            first = first < 0 ? msg_comm_job_rank(parent, rank) : first;
            count++;
        }
    if (count > 1)
        snprintf(more, sizeof more, " and %d more", count - 1);
    if (engine->job && count)
        leat_log(engine->job->config.log_level, LOG_WARN, engine->net->rank,
                 "leat_comm_split (LEAT_COMM_SURVIVORS) waits for rank %d%s, for %.0f s now: all "
                 "ranks that live call it",
                 first, more, seconds);
}

int msg_survivors_agree(leat_comm *parent, uint64_t temp_bytes, struct msg_proposal *decided)
{
    struct msg_engine *engine = parent->engine;
    uint64_t ranks = (uint64_t)parent->rank_count, bytes = sizeof(struct msg_agreement) + 9 * ranks;
    if (parent->rank_count > MSG_SURVIVORS_MOST)
        return leat_fail(-E2BIG, "leat_comm_split: survivors of %d ranks; of at most %d",
                         parent->rank_count, MSG_SURVIVORS_MOST);
    struct msg_agreement *agreement = msg_alloc(&engine->pools, POOL_WORK, bytes);
    if (!agreement)
        return leat_fail(-ENOBUFS,
                         "leat_comm_split: no room for %" PRIu64 " bytes; raise LEAT_MSG_BUDGET",
                         bytes);
    agreement->parent = parent;
    agreement->number = coll_of(parent)->agreements;
    agreement->leader = -1;
    agreement->context = engine->next_context > 2 ? engine->next_context : 2;
    agreement->temp_bytes = temp_bytes;
    agreement->ballot = (void *)(agreement + 1);
    agreement->done = (uint8_t *)(agreement->ballot + ranks);
    memset(agreement->ballot, 0xff, ranks * sizeof *agreement->ballot);
    // Whose death matters is a peer in use.
    for (int rank = 0; rank < parent->rank_count; rank++)
        msg_peer_make(engine, msg_comm_job_rank(parent, rank));
    engine->agreement = agreement;
    msg_check_peers(engine);
    int error = run(agreement);
    *decided = agreement->accepted;
    engine->agreement = NULL;
    coll_of(parent)->agreements++;
    msg_free(&engine->pools, POOL_WORK, agreement, bytes);
    return error;
}
