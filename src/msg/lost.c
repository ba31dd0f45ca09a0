// SPDX-License-Identifier: Apache-2.0
// A peer that is gone: what waited for it ends.
//
// Algorithm: its list of sends, the rendezvous with it and the posted receives that name it finish
// with -ECONNRESET; what came from it before and was not received yet stays and can be received.
// A receive from anybody ends so once nobody else of its communicator is left. Advantage: nobody
// waits for the dead. Disadvantage: until then a receive from anybody goes on waiting.

#include "msg/internal.h"

#include <errno.h>

#define DRAIN_ROUNDS 10000 /* others may go on sending */

static void end_rendezvous(struct msg_engine *engine, int rank)
{
    struct msg_request *request = engine->rendezvous;
    for (uint64_t n = engine->rendezvous_count; n; n--) {
        struct msg_request *next = request->next;
        if (request->peer == rank) {
            msg_rendezvous_drop(engine, request);
            msg_finish(request, -ECONNRESET);
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
            msg_finish(request, -ECONNRESET);
    }
}

static void end_receives(struct msg_engine *engine, int rank)
{
    uint64_t stamp = 0;
    struct msg_request *request;
    while ((request = msg_match_next_posted(&engine->matcher, stamp)) != NULL) {
        stamp = request->stamp;
        if (request->peer != rank)
            continue;
        msg_match_withdraw(&engine->matcher, request);
        msg_finish(request, -ECONNRESET);
    }
}

void msg_peer_lost(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & PEER_LOST)
        return;
    peer->flags |= PEER_LOST;
    engine->lost_count++;
    peer->todo = 0;
    peer->in_flight = 0;
    struct msg_request *request;
    while ((request = msg_pending_head(peer)) != NULL) {
        msg_pending_remove(peer, request);
        msg_unannounce(engine, request);
        msg_finish(request, -ECONNRESET);
    }
    end_rendezvous(engine, peer->rank);
    end_receives(engine, peer->rank);
    struct msg_ring_in *ring = peer->ring_in ? engine->ring_in[peer->ring_in] : NULL;
    if (ring && ring->partial) {
        request = ring->partial;
        ring->partial = NULL;
        msg_finish(request, -ECONNRESET);
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
    struct msg_net *net = comm->engine->net;
    for (int rank = 0; rank < comm->rank_count; rank++)
        if (rank != comm->rank && net->ops->alive(net, msg_comm_job_rank(comm, rank)) == 0)
            return false;
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
            peer->flags & PEER_LOST || engine->net->ops->alive(engine->net, peer->rank) == 0)
            continue;
        // It may have sent before it went.
        for (int n = 0; n < DRAIN_ROUNDS && msg_progress(engine, engine->now_ns); n++)
            continue;
        msg_peer_lost(engine, i);
    }
    end_wildcards(engine);
}
