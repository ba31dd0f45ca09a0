// SPDX-License-Identifier: Apache-2.0
// The shared receive queue: messages of peers without a ring, and all control.
//
// Algorithm: messages by queue are numbered; the receiver accepts them in order or rejects the next
// one and all that follow it, and the sender keeps each in its list until it is accepted, with at
// most a window of them in flight. So a packet that finds no room costs nobody anything and nothing
// has to be kept for it. Control packets are always taken at once. Advantage: a queue of fixed size
// serves any number of senders. Disadvantage: a message by queue finishes at its sender only after
// a round trip; who sends often is given a ring.

#include "msg/internal.h"

#include <errno.h>
#include <string.h>

#define DRAIN 64 /* packets taken before the rings have their turn */

bool msg_control(struct msg_engine *engine, uint32_t index, struct msg_packet *packet,
                 uint32_t payload)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & PEER_LOST)
        return true; // nothing more is owed to it
    // What was accepted has to be known before anything else is said of it.
    if (peer->todo & TODO_ANSWER && packet->header.kind != WIRE_ACCEPT &&
        packet->header.kind != WIRE_REJECT) {
        if (!msg_queue_answer(engine, index))
            return false;
        peer->todo &= (uint16_t)~TODO_ANSWER;
    }
    packet->header.flag = (uint32_t)engine->net->rank;
    packet->header.payload = (uint16_t)payload;
    int error = engine->net->ops->queue_send(engine->net, peer->rank, packet,
                                             (uint32_t)sizeof packet->header + payload);
    if (!error && packet->header.kind < WIRE_ASK)
        engine->sent++;
    if (error == -EAGAIN)
        engine->refused++;
    if (error == -ECONNRESET) {
        // What waits for it ends later: the caller is in the middle of some of that.
        msg_peer_owe(engine, index, TODO_LOST);
        return true;
    }
    return !error;
}

bool msg_queue_answer(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    bool rejecting = peer->flags & PEER_REJECTING;
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = rejecting ? WIRE_REJECT : WIRE_ACCEPT,
                                        .sequence = peer->receive_sequence};
    if (!msg_control(engine, index, &packet, 0))
        return false;
    if (rejecting)
        msg_peer_owe(engine, index, TODO_RESUME);
    return true;
}

// ---- Sending ----

static bool send_one(struct msg_engine *engine, uint32_t index, struct msg_request *request)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_packet packet;
    uint32_t payload;
    if (request->synchronous || request->gpu || request->data.bytes > MSG_PACKET_PAYLOAD) {
        struct msg_token token;
        if (!msg_announce(engine, request, msg_handle_reserve(engine), &packet.header, &token))
            return false;
        memcpy(packet.payload, &token, sizeof token);
        payload = sizeof token;
    } else {
        payload = (uint32_t)request->data.bytes;
        packet.header = (struct msg_header){
            .kind = WIRE_EAGER, .context = request->context, .tag = request->tag, .bytes = payload};
        msg_layout_read(&request->data, 0, packet.payload, payload);
    }
    packet.header.sequence = peer->send_sequence;
    if (!msg_control(engine, index, &packet, payload)) {
        msg_unannounce(engine, request);
        return false;
    }
    if (peer->flags & PEER_LOST)
        return false;
    request->state = STATE_FLIGHT;
    peer->send_sequence++;
    peer->in_flight++;
    msg_held_untell(engine, index);
    return true;
}

bool msg_queue_send(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & (PEER_HELD | PEER_FROZEN))
        return true; // RESUME or TAKE will say when
    struct msg_request *next = msg_pending_head(peer);
    for (uint32_t n = 0; n < peer->in_flight; n++)
        next = next->next;
    while (peer->pending_tail && peer->in_flight < engine->tuning.queue_window) {
        if (peer->in_flight && next == msg_pending_head(peer))
            return true; // all of them are in flight
        struct msg_request *after = next->next;
        if (!send_one(engine, index, next))
            return peer->flags & PEER_LOST;
        engine->events++;
        next = after;
    }
    return true; // ACCEPT opens the window again
}

// ---- Answers ----

static void accepted(struct msg_engine *engine, uint32_t index, uint32_t sequence)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    uint32_t oldest = peer->send_sequence - peer->in_flight;
    uint32_t count = sequence - oldest;
    if (count > peer->in_flight)
        return; // an answer to what was answered before, or nonsense
    while (count--) {
        struct msg_request *request = msg_pending_head(peer);
        msg_pending_remove(peer, request);
        peer->in_flight--;
        if (request->handle) {
            request->state = STATE_RENDEZVOUS;
            msg_add(&engine->counts.announced, 1);
            continue;
        }
        msg_add(&engine->counts.queued, 1);
        msg_count(engine, peer->rank, request->data.bytes);
        msg_finish(request, 0);
    }
    if (peer->pending_tail)
        msg_peer_owe(engine, index, TODO_SEND);
}

static void rejected(struct msg_engine *engine, uint32_t index, uint32_t sequence)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (sequence - (peer->send_sequence - peer->in_flight) > peer->in_flight)
        return;
    accepted(engine, index, sequence);
    struct msg_request *request = msg_pending_head(peer);
    for (uint32_t n = 0; n < peer->in_flight; n++, request = request->next) {
        msg_unannounce(engine, request);
        request->state = STATE_PENDING;
    }
    peer->in_flight = 0;
    peer->send_sequence = sequence;
    peer->flags |= PEER_HELD;
}

static void message(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (packet->header.sequence != peer->receive_sequence || peer->flags & PEER_REJECTING)
        return; // follows one that was rejected: it comes again
    if (msg_arrive(engine, index, NULL, &packet->header, packet->payload) == ARRIVAL_HELD) {
        peer->flags |= PEER_REJECTING;
        msg_add(&engine->counts.held, 1);
        msg_hold_update(engine, index);
    } else {
        peer->receive_sequence++;
        msg_ring_consider(engine, index);
    }
    msg_peer_owe(engine, index, TODO_ANSWER);
}

// ---- Packets ----

// What a packet says that cannot be, or NULL.
static const char *fault_of(const struct msg_header *header, uint32_t bytes)
{
    uint32_t token = sizeof(struct msg_token);
    bool given = header->kind == WIRE_GIVEN;
    if (header->payload > bytes - sizeof *header)
        return "its payload is longer than the packet";
    switch (header->kind) {
    case WIRE_EAGER:
    case WIRE_GIVEN:
        if (given && header->handle)
            return header->payload < token ? "an announcement has no token" : NULL;
        return header->payload != header->bytes ? "its payload is not the message" : NULL;
    case WIRE_ANNOUNCE:
    case WIRE_GRANT:
    case WIRE_SWITCH:
        return header->payload < token ? "it has no token" : NULL;
    case WIRE_CLEAR:
        return header->payload < 2 * token ? "it lacks tokens" : NULL;
    case WIRE_CREDIT:
        return header->payload < sizeof(uint64_t) ? "it lacks a figure" : NULL;
    case WIRE_NONE:
    case WIRE_MORE:
    case WIRE_TAKEN:
        return "no packet is of this kind";
    default:
        return header->kind < WIRE_KINDS ? NULL : "no packet is of this kind";
    }
}

static void control(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    switch (packet->header.kind) {
    case WIRE_EAGER:
    case WIRE_ANNOUNCE:
        message(engine, index, packet);
        break;
    case WIRE_ACCEPT:
        accepted(engine, index, packet->header.sequence);
        break;
    case WIRE_REJECT:
        rejected(engine, index, packet->header.sequence);
        break;
    case WIRE_RESUME:
        msg_peer_at(engine, index)->flags &= (uint16_t)~PEER_HELD;
        msg_peer_owe(engine, index, TODO_SEND);
        break;
    case WIRE_GRANT:
        msg_ring_granted(engine, index, packet);
        break;
    case WIRE_SWITCH:
        msg_ring_switched(engine, index, packet);
        break;
    case WIRE_REVOKE:
        msg_ring_revoked(engine, index);
        break;
    case WIRE_ENDED:
        msg_ring_ended(engine, index);
        break;
    case WIRE_END:
        msg_ring_declined(engine, index);
        break;
    case WIRE_CREDIT:
        msg_ring_credited(engine, index, packet);
        break;
    case WIRE_CLEAR:
        msg_rendezvous_clear(engine, index, packet);
        break;
    case WIRE_FINISH:
        msg_rendezvous_finish(engine, index, packet);
        break;
    case WIRE_ASK:
    case WIRE_QUIET:
    case WIRE_DEADLOCK:
        msg_deadlock_packet(engine, msg_peer_at(engine, index)->rank, packet);
        break;
    case WIRE_AGREE:
        msg_agreement_packet(engine, index, packet);
        break;
    case WIRE_BROKEN:
        msg_broken_packet(engine, msg_peer_at(engine, index)->rank, packet);
        break;
    default:
        msg_hold_packet(engine, index, packet);
        break;
    }
}

void msg_queue_packet(struct msg_engine *engine, const struct msg_packet *packet, uint32_t bytes)
{
    const struct msg_header *header = &packet->header;
    engine->received += bytes < sizeof *header || header->kind < WIRE_ASK;
    if (bytes < sizeof *header || bytes > sizeof *packet ||
        header->flag >= (uint32_t)engine->net->rank_count) {
        msg_peer_nonsense(engine, 0, NULL, "a packet names no rank of the job as its sender");
        return;
    }
    uint32_t index = msg_peer_make(engine, (int)header->flag);
    if (!index || msg_peer_at(engine, index)->flags & PEER_NONSENSE)
        return;
    const char *fault = fault_of(header, bytes);
    if (fault)
        msg_peer_nonsense(engine, index, header, fault);
    else
        control(engine, index, packet);
}

void msg_queue_progress(struct msg_engine *engine)
{
    struct msg_net *net = engine->net;
    for (int n = 0; n < DRAIN; n++) {
        uint32_t bytes;
        const void *packet = net->ops->queue_peek(net, &bytes);
        if (!packet)
            return;
        msg_queue_packet(engine, packet, bytes);
        net->ops->queue_release(net);
        engine->events++;
    }
}
