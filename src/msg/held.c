// SPDX-License-Identifier: Apache-2.0
// The sender's side of messages that are held back: answering a search (hold.c has the receiver's).
//
// Algorithm: the list of sends is walked for the first message that fits. Once one is found the
// list is frozen until the receiver has decided, so that what was said stays true. A sender that
// lacks handles for announcing says so, and again when that is over, since its receiver cannot
// know. Advantage: a search needs no memory here but a mark in the request. Disadvantage: while it
// lasts, this peer gets no other message.

#include "msg/internal.h"

#include <string.h>

static struct msg_request *fitting(const struct msg_peer *peer, const struct msg_header *header)
{
    struct msg_request *request = msg_pending_head(peer);
    while (request) {
        if (request->context == header->context && (header->tag < 0 || request->tag == header->tag))
            return request;
        request = request == peer->pending_tail ? NULL : request->next;
    }
    return NULL;
}

void msg_held_asked(struct msg_engine *engine, uint32_t index, const struct msg_header *header)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_request *head = msg_pending_head(peer), *found = NULL;
    if (peer->flags & PEER_FROZEN) {
        peer->flags |= PEER_ASKED; // it is told to ask again once that is over
        return;
    }
    uint64_t sent = peer->out_state >= OUT_OPEN ? engine->ring_out[peer->ring_out]->head : 0;
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_ABSENT};
    if ((peer->out_state >= OUT_OPEN && sent != header->bytes) || peer->in_flight ||
        (head && head->done)) {
        packet.header.kind = WIRE_BEHIND;
        packet.header.bytes = sent;
    } else if ((found = fitting(peer, header)) != NULL) {
        packet.header = (struct msg_header){.kind = WIRE_FOUND,
                                            .context = found->context,
                                            .tag = found->tag,
                                            .bytes = found->data.bytes};
    }
    if (!msg_control(engine, index, &packet, 0)) {
        // There is no place to keep the question: it is asked again after BEHIND.
        msg_peer_owe(engine, index, TODO_FOUND);
        return;
    }
    if (found) {
        found->found = 1;
        peer->flags |= PEER_FROZEN;
    } else if (packet.header.kind == WIRE_ABSENT) {
        peer->flags |= PEER_ABSENT;
    }
}

bool msg_held_behind(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_packet packet;
    packet.header = (struct msg_header){
        .kind = WIRE_BEHIND,
        .bytes = peer->out_state >= OUT_OPEN ? engine->ring_out[peer->ring_out]->head : 0};
    return msg_control(engine, index, &packet, 0);
}

static struct msg_request *frozen(const struct msg_peer *peer)
{
    struct msg_request *request = msg_pending_head(peer);
    while (request && !request->found)
        request = request == peer->pending_tail ? NULL : request->next;
    return request;
}

static void thaw(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    unsigned answer = peer->flags & PEER_ASKED ? TODO_FOUND : 0;
    peer->flags &= (uint16_t) ~(PEER_FROZEN | PEER_ASKED);
    msg_peer_owe(engine, index, TODO_SEND | TODO_SWITCH | answer);
}

void msg_held_decided(struct msg_engine *engine, uint32_t index, const struct msg_header *header)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_request *request = frozen(peer);
    if (!(peer->flags & PEER_FROZEN) || !request)
        return;
    if (header->kind == WIRE_TAKE) {
        request->remote = header->handle;
        msg_peer_owe(engine, index, TODO_GIVE);
        return;
    }
    request->found = 0;
    thaw(engine, index);
}

bool msg_held_give(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_request *request = frozen(peer);
    if (!request)
        return true;
    struct msg_packet packet;
    uint32_t payload = (uint32_t)request->data.bytes;
    if (request->synchronous || request->gpu || request->data.bytes > MSG_PACKET_PAYLOAD) {
        struct msg_token token;
        if (!msg_announce(engine, request, 0, &packet.header, &token))
            return false;
        memcpy(packet.payload, &token, sizeof token);
        payload = sizeof token;
    } else {
        packet.header =
            (struct msg_header){.context = request->context, .tag = request->tag, .bytes = payload};
        msg_layout_read(&request->data, 0, packet.payload, payload);
    }
    packet.header.kind = WIRE_GIVEN;
    packet.header.sequence = request->remote;
    if (!msg_control(engine, index, &packet, payload)) {
        msg_unannounce(engine, request);
        return false;
    }
    request->found = 0;
    msg_pending_remove(peer, request);
    msg_held_untell(engine, index);
    thaw(engine, index);
    if (request->handle) {
        request->state = STATE_RENDEZVOUS;
        msg_add(&engine->counts.announced, 1);
    } else {
        msg_add(&engine->counts.queued, 1);
        msg_count(engine, peer->rank, request->data.bytes);
        msg_finish(request, 0);
    }
    return true;
}

bool msg_held_tell(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_request *head = msg_pending_head(peer);
    bool wants_handle =
        head && (head->synchronous || head->gpu || head->data.bytes > engine->tuning.eager_bytes);
    if (wants_handle && !(peer->flags & PEER_TOLD) &&
        engine->handle_count - engine->handles_live <= msg_handle_reserve(engine)) {
        peer->flags |= PEER_TOLD;
        msg_peer_owe(engine, index, TODO_HOLDING);
    }
    return false;
}

void msg_held_untell(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & PEER_TOLD) {
        peer->flags &= (uint16_t)~PEER_TOLD;
        msg_peer_owe(engine, index, TODO_HOLDING);
    }
}
