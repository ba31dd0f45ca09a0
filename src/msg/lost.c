// SPDX-License-Identifier: Apache-2.0
// A peer that is gone: what waited for it ends.
//
// Algorithm: its list of sends, the rendezvous with it and the posted receives that name it finish
// with -ECONNRESET; what came from it before and was not received yet stays and can be received.
// A receive from anybody ends so once nobody else of its communicator is left. A peer that has sent
// what cannot be is lost in the same way, with -EPROTO. Advantage: nobody waits for the dead.
// Disadvantage: until then a receive from anybody goes on waiting.

#include "core/job.h"
#include "core/log.h"
#include "msg/internal.h"
#include "msg/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRAIN_ROUNDS 10000 /* others may go on sending */

int msg_lost_error(struct msg_engine *engine, int rank)
{
    uint32_t index = msg_peer_find(engine, rank);
    return index && msg_peer_at(engine, index)->flags & PEER_NONSENSE ? -EPROTO : -ECONNRESET;
}

void msg_peer_nonsense(struct msg_engine *engine, uint32_t index, const struct msg_header *header,
                       const char *what)
{
    struct msg_peer *peer = index ? msg_peer_at(engine, index) : NULL;
    if (peer && peer->flags & (PEER_LOST | PEER_NONSENSE))
        return;
    char text[MSG_NONSENSE_BYTES];
    if (header)
        snprintf(text, sizeof text,
                 "%s (kind %u, flags %#x, payload %u, tag %d, %llu bytes, handle %#x, sequence %u)",
                 what, header->kind, header->flags, header->payload, header->tag,
                 (unsigned long long)header->bytes, header->handle, header->sequence);
    else
        snprintf(text, sizeof text, "%s", what);
    int rank = peer ? peer->rank : -1;
    if (engine->job && (peer || !engine->nonsense))
        leat_log(engine->job->config.log_level, LOG_ERROR, engine->net->rank,
                 "rank %d has sent what cannot be: %s", rank, text);
    if (!engine->nonsense) {
        engine->nonsense = msg_alloc(&engine->pools, POOL_WORK, sizeof text);
        engine->nonsense_rank = rank;
        if (engine->nonsense)
            memcpy(engine->nonsense, text, sizeof text);
    }
    if (!peer)
        return;
    peer->flags |= PEER_NONSENSE;
    // What waits for it ends later: the caller may be in the middle of some of that.
    msg_peer_owe(engine, index, TODO_LOST);
}

bool msg_map_words(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet,
                   const struct msg_token *token, uint64_t bytes, void **words)
{
    struct msg_net *net = engine->net;
    int rank = msg_peer_at(engine, index)->rank;
    *words = net->ops->map(net, rank, token, bytes);
    if (*words ? (uintptr_t)*words % sizeof(uint64_t) == 0 : !msg_maps(engine, rank))
        return true;
    // Memory of one that has gone is not there by right.
    if (!net->ops->alive || net->ops->alive(net, rank) == 0)
        msg_peer_nonsense(engine, index, &packet->header, "it names no memory of its rank's");
    return false;
}

static void end_rendezvous(struct msg_engine *engine, int rank, int error)
{
    struct msg_request *request = engine->rendezvous;
    for (uint64_t n = engine->rendezvous_count; n; n--) {
        struct msg_request *next = request->next;
        if (request->peer == rank && msg_rendezvous_busy(request)) {
            request->status.error = error; // the network still uses the request's memory
        } else if (request->peer == rank) {
            msg_rendezvous_drop(engine, request);
            msg_finish(request, error);
        }
        request = next;
    }
    // Announced ones that the peer never answered, and receives that asked it for a message.
    for (uint32_t i = 1; i <= engine->handle_count; i++) {
        request = engine->handle[i].request;
        if (!request || request->peer != rank)
            continue;
        if (request->kind == REQUEST_SEND && request->state == STATE_RENDEZVOUS)
            msg_rendezvous_drop(engine, request);
        msg_handle_give(engine, request);
        if (request->state == STATE_RENDEZVOUS || request->state == STATE_TAKING)
            msg_finish(request, error);
    }
}

static void end_receives(struct msg_engine *engine, int rank, int error)
{
    uint64_t stamp = 0;
    struct msg_request *request;
    while ((request = msg_match_next_posted(&engine->matcher, stamp)) != NULL) {
        stamp = request->stamp;
        if (request->peer != rank)
            continue;
        msg_match_withdraw(&engine->matcher, request);
        msg_finish(request, error);
    }
}

void msg_peer_lost(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & PEER_LOST)
        return;
    int error = msg_lost_error(engine, peer->rank);
    peer->flags |= PEER_LOST;
    engine->lost_count++;
    peer->todo = 0;
    peer->in_flight = 0;
    struct msg_request *request;
    while ((request = msg_pending_head(peer)) != NULL) {
        msg_pending_remove(peer, request);
        if (msg_rendezvous_busy(request)) {
            // Half written, and the network still reads from it.
            request->state = STATE_RENDEZVOUS;
            msg_rendezvous_join(engine, request);
            continue;
        }
        msg_unannounce(engine, request);
        msg_finish(request, error);
    }
    end_rendezvous(engine, peer->rank, error);
    end_receives(engine, peer->rank, error);
    msg_hold_lost(engine, index);
    struct msg_ring_in *ring = peer->ring_in ? engine->ring_in[peer->ring_in] : NULL;
    if (ring && ring->partial) {
        request = ring->partial;
        ring->partial = NULL;
        msg_finish(request, error);
    }
}

bool msg_rank_is_lost(struct msg_engine *engine, int rank)
{
    if (!engine->lost_count)
        return false;
    uint32_t index = msg_peer_find(engine, rank);
    return index && msg_peer_at(engine, index)->flags & PEER_LOST;
}

bool msg_all_lost(const leat_comm *comm)
{
    struct msg_engine *engine = comm->engine;
    struct msg_net *net = engine->net;
    for (int rank = 0; rank < comm->rank_count; rank++) {
        int job_rank = msg_comm_job_rank(comm, rank);
        if (rank != comm->rank && !msg_rank_is_lost(engine, job_rank) &&
            net->ops->alive(net, job_rank) == 0)
            return false;
    }
    return comm->rank_count > 1;
}

static void end_wildcards(struct msg_engine *engine)
{
    uint64_t stamp = 0;
    const leat_comm *looked_at = NULL;
    bool lost = false;
    struct msg_request *request;
    while (engine->matcher.wild_head &&
           (request = msg_match_next_posted(&engine->matcher, stamp)) != NULL) {
        stamp = request->stamp;
        if (request->peer >= 0 || !request->comm)
            continue;
        if (request->comm != looked_at)
            lost = msg_all_lost(request->comm);
        looked_at = request->comm;
        if (!lost)
            continue;
        msg_match_withdraw(&engine->matcher, request);
        msg_finish(request, -ECONNRESET);
    }
}

void msg_check_peers(struct msg_engine *engine)
{
    if (!engine->net->ops->alive)
        return;
    uint32_t end = engine->peers.page_count << engine->peers.page_shift;
    for (uint32_t i = 1; i < end; i++) {
        const struct msg_peer *peer = msg_peer_at(engine, i);
        if (peer->rank == engine->net->rank || !msg_peer_is_used(engine, i) ||
            peer->flags & PEER_LOST)
            continue;
        if (engine->net->ops->watch)
            engine->net->ops->watch(engine->net, peer->rank);
        if (engine->net->ops->alive(engine->net, peer->rank) == 0)
            continue;
        // It may have sent before it went.
        for (int n = 0; n < DRAIN_ROUNDS && msg_progress(engine, engine->now_ns); n++)
            continue;
        msg_peer_lost(engine, i);
    }
    end_wildcards(engine);
    if (engine->schedules)
        msg_broken_watch(engine);
}
