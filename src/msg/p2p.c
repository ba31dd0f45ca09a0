// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks: starting, matching, delivering, finishing.
//
// Algorithm: a send goes straight to its peer's ring when nothing is before it, and else joins the
// peer's list. A receive takes the oldest unexpected message that fits, or is posted. What arrives
// is copied into the receive it matches, or kept as unexpected, or, without room for that, left
// where it is. Advantage: the common case touches the request, the ring and nothing else.
// Disadvantage: the matcher is asked before the copy, so a receive is posted even when its message
// has just come.

#include "msg/gpu.h"

#include <errno.h>
#include <string.h>

void msg_finish(struct msg_request *request, int error)
{
    if (request->gpu && request->kind == REQUEST_RECEIVE) {
        int failed = msg_gpu_settle(request->engine->gpu);
        error = error ? error : failed;
    }
    request->state = STATE_FINISHED;
    request->status.error = error;
    request->engine->events++;
    request->engine->finished++;
    if (request->kind != REQUEST_COLLECTIVE && request->status_to)
        *request->status_to = request->status;
}

void msg_note_match(struct msg_request *request, const struct msg_envelope *envelope)
{
    request->status.source =
        request->comm ? msg_comm_rank_of(request->comm, envelope->source) : envelope->source;
    request->status.tag = envelope->tag;
    request->peer = envelope->source;
    request->total = envelope->bytes;
}

// Whether the data is of a GPU. False: it cannot be used, and the request has ended.
static bool look(struct msg_request *request)
{
    int found = msg_gpu_look(request->engine, &request->data);
    request->gpu = found > 0;
    if (found < 0)
        msg_finish(request, found);
    return found >= 0;
}

// ---- Sending ----

bool msg_send_pending(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state == OUT_NONE || peer->out_state == OUT_GRANTED) {
        // Once a ring is offered, what is in flight has to be accepted before it can be used.
        if (peer->out_state == OUT_GRANTED && peer->ring_out)
            return true;
        return msg_queue_send(engine, index) || msg_held_tell(engine, index);
    }
    if (peer->out_state != OUT_OPEN || peer->flags & PEER_FROZEN)
        return true; // ENDED or TAKE will say when
    struct msg_request *request;
    while ((request = msg_pending_head(peer)) != NULL) {
        // Finishing may hand the request back to its owner, so it leaves the list first.
        msg_pending_remove(peer, request);
        if (!msg_ring_send(engine, index, request)) {
            msg_pending_prepend(peer, request);
            msg_held_tell(engine, index);
            return false;
        }
        msg_held_untell(engine, index);
        engine->events++;
    }
    return true;
}

void msg_start_send(struct msg_engine *engine, struct msg_request *request, leat_comm *comm,
                    uint32_t context, leat_data data, int rank, int tag, bool synchronous)
{
    request->status = (leat_status){
        .source = comm ? comm->rank : engine->net->rank, .tag = tag, .bytes = data.bytes};
    request->engine = engine;
    request->data = data;
    request->comm = comm;
    request->status_to = NULL;
    request->total = data.bytes;
    request->done = 0;
    request->context = context;
    request->peer = rank;
    request->tag = tag;
    request->handle = request->remote = 0;
    request->kind = REQUEST_SEND;
    request->state = STATE_PENDING;
    // Hollow data has no bytes that a slot or packet could take.
    request->synchronous = synchronous || (engine->memory && data.bytes <= MSG_PACKET_PAYLOAD &&
                                           engine->memory->is_hollow(engine->memory, data.address));
    request->found = request->exposed = request->mode = request->gpu = 0;
    if (engine->gpu && !look(request))
        return;
    if (request->gpu && data.bytes > MSG_GPU_EAGER)
        request->synchronous = 1;
    engine->counts.bytes_sent += data.bytes;
    uint32_t index = msg_peer_make(engine, rank);
    if (!index) {
        msg_finish(request, -ENOBUFS);
        return;
    }
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->flags & PEER_LOST) {
        msg_finish(request, msg_lost_error(engine, rank));
        return;
    }
    if (peer->out_state == OUT_OPEN && !peer->pending_tail && !(peer->flags & PEER_FROZEN) &&
        msg_ring_send(engine, index, request))
        return;
    msg_pending_append(peer, request);
    msg_peer_owe(engine, index, peer->flags & PEER_ABSENT ? TODO_SEND | TODO_LOOK : TODO_SEND);
}

// ---- Receiving ----

void msg_start_receive(struct msg_engine *engine, struct msg_request *request, leat_comm *comm,
                       uint32_t context, leat_data data, int rank, int tag)
{
    request->status = (leat_status){.source = LEAT_ANY_RANK, .tag = LEAT_ANY_TAG};
    request->engine = engine;
    request->data = data;
    request->comm = comm;
    request->status_to = NULL;
    request->total = request->done = 0;
    request->context = context;
    request->peer = rank;
    request->tag = tag;
    request->handle = request->remote = 0;
    request->kind = REQUEST_RECEIVE;
    request->state = STATE_PENDING;
    request->synchronous = request->found = request->exposed = request->mode = request->gpu = 0;
    if (engine->gpu && !look(request))
        return;
    if (engine->matcher.unexpected_count) {
        struct msg_unexpected *message = msg_match_find(&engine->matcher, context, rank, tag);
        if (message) {
            msg_match_take(&engine->matcher, message);
            msg_deliver(engine, request, message);
            return;
        }
    }
    // Whoever is waited for is a peer in use: its death has to be seen.
    if (rank >= 0 && rank != engine->last_waited) {
        msg_peer_make(engine, rank);
        engine->last_waited = rank;
    }
    // What a lost peer's ring still holds is found by the search.
    if (engine->lost_count && rank >= 0 && msg_rank_is_lost(engine, rank) &&
        !(msg_peer_at(engine, msg_peer_find(engine, rank))->flags & PEER_HOLDS)) {
        msg_finish(request, msg_lost_error(engine, rank));
        return;
    }
    msg_match_post(&engine->matcher, request);
    if (engine->holding)
        msg_hold_wanted(engine);
}

int msg_drop(struct msg_request *request)
{
    struct msg_engine *engine = request->engine;
    if (request->kind == REQUEST_RECEIVE && request->state == STATE_PENDING) {
        msg_match_withdraw(&engine->matcher, request);
    } else if (request->kind == REQUEST_SEND && request->state == STATE_PENDING &&
               !request->found && !request->done) {
        msg_pending_remove(msg_peer_at(engine, msg_peer_find(engine, request->peer)), request);
    } else if (request->kind == REQUEST_SEND && request->state == STATE_RENDEZVOUS &&
               !request->mode) {
        msg_unannounce(engine, request);
    } else {
        return -EALREADY;
    }
    msg_finish(request, -ECANCELED);
    return 0;
}

// What goes into the receive's memory of [offset, offset + bytes).
static void put_bytes(struct msg_request *request, uint64_t offset, const void *from,
                      uint64_t bytes)
{
    uint64_t room = request->data.bytes;
    if (offset >= room)
        return;
    if (bytes > room - offset)
        bytes = room - offset;
    struct msg_memory *memory = request->engine->memory;
    if (memory && !request->data.layout)
        memory->copy(memory, (char *)request->data.address + offset, from, bytes);
    else
        msg_put_bytes(request, offset, from, bytes);
}

// The whole message has come.
static void received(struct msg_engine *engine, struct msg_request *request)
{
    bool fits = request->total <= request->data.bytes;
    request->status.bytes = fits ? request->total : request->data.bytes;
    engine->counts.bytes_received += request->status.bytes;
    msg_finish(request, fits ? 0 : -EMSGSIZE);
}

static void envelope_of(const struct msg_engine *engine, uint32_t peer,
                        const struct msg_header *header, const void *payload,
                        struct msg_envelope *envelope)
{
    envelope->context = header->context;
    envelope->source = msg_peer_at(engine, peer)->rank;
    envelope->tag = header->tag;
    envelope->bytes = header->bytes;
    envelope->handle = 0;
    if (header->kind != WIRE_ANNOUNCE) {
        envelope->token = msg_token_none;
        return;
    }
    envelope->handle = header->handle;
    memcpy(&envelope->token, payload, sizeof envelope->token);
}

// Where the network has memory of its own for what has no bytes, the envelope's token says where.
static bool keep_hollow(struct msg_engine *engine, struct msg_unexpected *message,
                        const struct msg_header *header, const void *payload)
{
    void *kept = NULL;
    if (engine->memory && header->bytes && header->payload == header->bytes)
        kept = engine->memory->keep(engine->memory, payload, header->bytes);
    message->envelope.token.word[0] = (uintptr_t)kept;
    return kept;
}

static bool deliver_hollow(struct msg_engine *engine, struct msg_request *request,
                           const struct msg_unexpected *message)
{
    void *kept = (void *)(uintptr_t)message->envelope.token.word[0];
    if (!engine->memory || message->state != UNEXPECTED_WHOLE || !kept)
        return false;
    put_bytes(request, 0, kept, message->envelope.bytes);
    engine->memory->drop(engine->memory, kept, message->envelope.bytes);
    request->done = message->envelope.bytes;
    return true;
}

// Into the pools; ARRIVAL_HELD: they have no room.
static enum arrival keep(struct msg_engine *engine, struct msg_ring_in *ring,
                         const struct msg_envelope *envelope, const struct msg_header *header,
                         const void *payload)
{
    bool remote = header->kind == WIRE_ANNOUNCE;
    if (!msg_match_has_room(&engine->matcher, remote ? 0 : header->bytes))
        return ARRIVAL_HELD;
    struct msg_unexpected *message = msg_match_add(&engine->matcher, envelope);
    if (!message)
        return ARRIVAL_HELD; // the system has less than the pool
    if (remote) {
        message->state = UNEXPECTED_REMOTE;
    } else if (keep_hollow(engine, message, header, payload)) {
        message->state = UNEXPECTED_WHOLE;
    } else {
        msg_match_store(&engine->matcher, message, payload, header->payload);
        message->state = UNEXPECTED_WHOLE;
        if (header->payload < header->bytes) {
            message->state = UNEXPECTED_PARTIAL;
            ring->partial_message = message;
        }
    }
    engine->ticks++;
    return ARRIVAL_DONE;
}

static void arrive_at(struct msg_engine *engine, struct msg_ring_in *ring,
                      struct msg_request *request, const struct msg_envelope *envelope,
                      const struct msg_header *header, const void *payload)
{
    engine->ticks++;
    msg_note_match(request, envelope);
    if (header->kind == WIRE_ANNOUNCE && request->kind == REQUEST_MATCHED) {
        // leat_recv_matched will say where to.
        request->remote = envelope->handle;
        request->token = envelope->token;
        request->state = STATE_ANNOUNCED;
        engine->events++;
        return;
    }
    if (header->kind == WIRE_ANNOUNCE) {
        msg_fetch(engine, request, envelope);
        return;
    }
    put_bytes(request, 0, payload, header->payload);
    request->done = header->payload;
    if (request->done < request->total) {
        request->state = STATE_PARTIAL;
        ring->partial = request;
    } else {
        received(engine, request);
    }
}

void msg_arrive_at(struct msg_engine *engine, uint32_t peer, struct msg_ring_in *ring,
                   struct msg_request *request, const struct msg_header *header,
                   const void *payload)
{
    struct msg_envelope envelope;
    envelope_of(engine, peer, header, payload, &envelope);
    arrive_at(engine, ring, request, &envelope, header, payload);
}

enum arrival msg_arrive(struct msg_engine *engine, uint32_t peer, struct msg_ring_in *ring,
                        const struct msg_header *header, const void *payload)
{
    struct msg_envelope envelope;
    envelope_of(engine, peer, header, payload, &envelope);
    struct msg_request *request =
        engine->matcher.posted_count ? msg_match_arrival(&engine->matcher, &envelope) : NULL;
    if (!request)
        return keep(engine, ring, &envelope, header, payload);
    arrive_at(engine, ring, request, &envelope, header, payload);
    return ARRIVAL_DONE;
}

enum arrival msg_arrive_more(struct msg_engine *engine, struct msg_ring_in *ring,
                             const struct msg_header *header, const void *payload)
{
    uint64_t bytes = header->payload;
    if (ring->partial) {
        struct msg_request *request = ring->partial;
        if (bytes > request->total - request->done)
            bytes = request->total - request->done;
        put_bytes(request, request->done, payload, bytes);
        request->done += bytes;
        if (request->done < request->total)
            return ARRIVAL_DONE;
        ring->partial = NULL;
        received(engine, request);
    } else if (ring->partial_message) {
        struct msg_unexpected *message = ring->partial_message;
        if (bytes > message->envelope.bytes - message->stored)
            bytes = message->envelope.bytes - message->stored;
        // There was room with the first fragment, but other messages may have come since.
        if (msg_match_store(&engine->matcher, message, payload, bytes))
            return ARRIVAL_HELD;
        if (message->stored < message->envelope.bytes)
            return ARRIVAL_DONE;
        message->state = UNEXPECTED_WHOLE;
        ring->partial_message = NULL;
    }
    return ARRIVAL_DONE;
}

void msg_deliver(struct msg_engine *engine, struct msg_request *request,
                 struct msg_unexpected *message)
{
    struct msg_envelope envelope = message->envelope;
    uint8_t state = message->state;
    msg_note_match(request, &envelope);
    if (state != UNEXPECTED_REMOTE && !deliver_hollow(engine, request, message)) {
        uint32_t cell = 0;
        const void *piece;
        uint64_t bytes, offset = 0;
        while (offset < message->stored &&
               (bytes = msg_match_piece(&engine->matcher, message, &cell, &piece)) > 0) {
            put_bytes(request, offset, piece, bytes);
            offset += bytes;
        }
        request->done = message->stored;
    }
    uint32_t peer = state == UNEXPECTED_PARTIAL ? msg_peer_find(engine, envelope.source) : 0;
    msg_match_drop(&engine->matcher, message);
    if (state == UNEXPECTED_REMOTE) {
        msg_fetch(engine, request, &envelope);
    } else if (state == UNEXPECTED_PARTIAL && msg_rank_is_lost(engine, envelope.source)) {
        msg_finish(request, msg_lost_error(engine, envelope.source)); // the rest will not come
    } else if (state == UNEXPECTED_PARTIAL) {
        struct msg_ring_in *ring = engine->ring_in[msg_peer_at(engine, peer)->ring_in];
        ring->partial_message = NULL;
        ring->partial = request;
        request->state = STATE_PARTIAL;
    } else {
        received(engine, request);
    }
}
