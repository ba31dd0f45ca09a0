// SPDX-License-Identifier: Apache-2.0
// A peer that is gone: what waited for it ends.
//
// Algorithm: its list of sends, the rendezvous with it and the posted receives that name it finish
// with -ECONNRESET; what came from it before and was not received yet stays and can be received.
// Advantage: nobody waits for the dead. Disadvantage: a receive from anybody goes on waiting, since
// somebody else may still send.

#include "msg/internal.h"

#include <errno.h>

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
