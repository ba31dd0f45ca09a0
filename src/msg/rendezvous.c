// SPDX-License-Identifier: Apache-2.0
// Rendezvous: messages that are announced, and moved once they are matched.
//
// Algorithm: the receiver decides. It reads the bytes straight from the sender's memory where it
// can, chunk by chunk, and from a size on lets the sender help (share.c). Where memory cannot be
// reached, or is strided at the sender, or for sizes where that is faster, it opens a pipe
// (pipe.c). FINISH tells the sender that its bytes were read. Advantage: one copy, and no memory,
// whatever the size. Disadvantage: a round trip before the first byte.

#include "msg/rendezvous.h"

#include "msg/gpu.h"

#include <errno.h>
#include <string.h>

void msg_rendezvous_join(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_request *first = engine->rendezvous;
    if (first) {
        request->next = first;
        request->previous = first->previous;
        first->previous->next = request;
        first->previous = request;
    } else {
        request->next = request->previous = request;
        engine->rendezvous = request;
    }
    engine->rendezvous_count++;
}

void msg_rendezvous_leave(struct msg_engine *engine, struct msg_request *request)
{
    if (engine->rendezvous == request)
        engine->rendezvous = request->next == request ? NULL : request->next;
    request->next->previous = request->previous;
    request->previous->next = request->next;
    request->next = request->previous = NULL;
    engine->rendezvous_count--;
}

void msg_poke(const struct msg_engine *engine, int rank)
{
    if (engine->net->ops->wake)
        engine->net->ops->wake(engine->net, rank);
}

// ---- Announcing ----

bool msg_announce(struct msg_engine *engine, struct msg_request *request, uint32_t reserve,
                  struct msg_header *header, struct msg_token *token)
{
    if (!msg_handle_take(engine, request, reserve))
        return false;
    *token = request->gpu ? msg_gpu_token(engine, request) : msg_token_none;
    if (msg_is_plain(request) && request->data.bytes) {
        request->exposed =
            engine->net->ops->expose(engine->net, request->peer, request->data.address,
                                     request->data.bytes, token) == 0;
        if (!request->exposed)
            *token = msg_token_none;
    }
    request->token = *token;
    *header = (struct msg_header){.kind = WIRE_ANNOUNCE,
                                  .payload = sizeof *token,
                                  .context = request->context,
                                  .tag = request->tag,
                                  .bytes = request->data.bytes,
                                  .handle = request->handle};
    return true;
}

void msg_unannounce(struct msg_engine *engine, struct msg_request *request)
{
    if (request->exposed && engine->net->ops->hide)
        engine->net->ops->hide(engine->net, &request->token);
    request->exposed = 0;
    msg_handle_give(engine, request);
}

// ---- Receiving ----

int msg_copy_chunk(struct msg_engine *engine, struct msg_request *request, uint64_t offset,
                   uint64_t bytes)
{
    msg_count(engine, request->peer, bytes);
    if (request->far) {
        msg_layout_write(&request->data, offset, (const char *)request->far + offset, bytes);
        return 0;
    }
    while (bytes) {
        void *at;
        uint64_t together = msg_layout_piece(&request->data, offset, &at);
        if (!together)
            return -EINVAL; // a piece function that breaks its promise
        if (together > bytes)
            together = bytes;
        int error = engine->net->ops->bulk_get(engine->net, request->peer, &request->token, offset,
                                               at, together, &request->transfer);
        if (error)
            return error;
        offset += together;
        bytes -= together;
    }
    return 0;
}

void msg_rendezvous_received(struct msg_engine *engine, struct msg_request *request)
{
    bool fits = request->total <= request->data.bytes;
    int error = request->status.error;
    msg_rendezvous_leave(engine, request);
    request->status.bytes = error ? 0 : msg_wanted(request);
    engine->counts.bytes_received += request->status.bytes;
    msg_finish(request, error ? error : (fits ? 0 : -EMSGSIZE));
}

static void step_done(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_FINISH, .handle = request->remote};
    if (msg_control(engine, msg_peer_find(engine, request->peer), &packet, 0))
        msg_rendezvous_received(engine, request);
}

// One byte shows whether this way is open, once a peer, before the sender is asked to help.
static bool may_get(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_peer *peer = msg_peer_at(engine, msg_peer_find(engine, request->peer));
    uint8_t byte;
    if (!(peer->flags & PEER_GETS) &&
        engine->net->ops->bulk_get(engine->net, request->peer, &request->token, 0, &byte, 1,
                                   &request->transfer) == 0)
        peer->flags |= PEER_GETS;
    return peer->flags & PEER_GETS;
}

// The bytes of the next step: a chunk, or, where a get takes time, what lies together.
static uint64_t step_bytes(const struct msg_engine *engine, const struct msg_request *request)
{
    uint64_t bytes = msg_wanted(request) - request->done;
    const bool maps = msg_maps(engine, request->peer);
    const uint64_t most = maps ? engine->tuning.chunk_bytes : engine->tuning.get_bytes;
    if (bytes > most)
        bytes = most;
    if (!maps) {
        void *at;
        uint64_t together = msg_layout_piece(&request->data, request->done, &at);
        if (bytes > together)
            bytes = together;
    }
    return bytes;
}

bool msg_rendezvous_busy(const struct msg_request *request)
{
    bool gets = request->kind == REQUEST_RECEIVE && request->mode == MODE_GET && request->found;
    return ((gets || request->mode == MODE_PUT) && !request->transfer.finished) ||
           msg_gpu_busy(request);
}

static void step_put(struct msg_engine *engine, struct msg_request *request)
{
    int error = request->transfer.finished;
    if (!error)
        return;
    error = error < 0 ? error : 0;
    msg_rendezvous_leave(engine, request);
    msg_finish(request, request->status.error ? request->status.error : error);
}

// `found`: a get is under way.
static void step_copy(struct msg_engine *engine, struct msg_request *request)
{
    if (request->found && !request->transfer.finished)
        return;
    uint64_t bytes = step_bytes(engine, request);
    int error;
    if (request->found) {
        error = request->transfer.finished < 0 ? request->transfer.finished : 0;
        error = request->status.error ? request->status.error : error;
        request->found = 0;
    } else {
        request->transfer.finished = 0;
        error = bytes ? msg_copy_chunk(engine, request, request->done, bytes) : -EINVAL;
        if (error == -EAGAIN)
            return;
        if (error > 0) {
            request->found = 1;
            return;
        }
    }
    engine->events++;
    if (error == -EPERM && !request->done) {
        request->mode = MODE_WANT_PIPE;
        return;
    }
    if (error == -EPROTO)
        msg_peer_nonsense(engine, msg_peer_find(engine, request->peer), NULL,
                          "an announcement's token names no memory of its rank's");
    request->done += error ? 0 : bytes;
    request->status.error = error;
    if (error || request->done == msg_wanted(request)) {
        request->mode = MODE_DONE;
        step_done(engine, request);
    }
}

// Each piece would take a get of its own, and each get a round trip.
static bool scattered(const struct msg_engine *engine, const struct msg_request *request)
{
    void *at;
    if (!request->data.layout || msg_maps(engine, request->peer))
        return false;
    // A piece function that gives nothing is found out by the get.
    uint64_t together = msg_layout_piece(&request->data, 0, &at);
    return together && together < engine->tuning.direct_bytes;
}

static void choose(struct msg_engine *engine, struct msg_request *request)
{
    const bool maps = msg_maps(engine, request->peer);
    request->far = request->near = NULL;
    request->transfer.finished = 0;
    if (!msg_wanted(request)) {
        request->mode = MODE_DONE;
        return;
    }
    if (msg_gpu_choose(engine, request))
        return;
    if (msg_token_is_none(&request->token)) {
        request->mode = MODE_WANT_PIPE;
        return;
    }
    request->far =
        engine->net->ops->map(engine->net, request->peer, &request->token, request->total);
    if (request->far)
        request->mode = MODE_COPY;
    else
        request->mode = request->total < engine->tuning.direct_bytes || scattered(engine, request)
                            ? MODE_WANT_PIPE
                            : MODE_GET;
    if (request->mode == MODE_GET && maps && !may_get(engine, request))
        request->mode = MODE_WANT_PIPE;
    if (request->mode == MODE_WANT_PIPE)
        return;
    msg_add(&engine->counts.direct, 1);
    if (maps && msg_wanted(request) >= engine->tuning.share_bytes)
        msg_share_ask(engine, request);
}

static void step(struct msg_engine *engine, struct msg_request *request)
{
    switch (request->mode) {
    case MODE_COPY:
    case MODE_GET:
        step_copy(engine, request);
        break;
    case MODE_SHARE:
        msg_share_step(engine, request);
        break;
    case MODE_WANT_PIPE:
        msg_pipe_want(engine, request);
        break;
    case MODE_PIPE:
        msg_pipe_step(engine, request);
        break;
    case MODE_DONE:
        step_done(engine, request);
        break;
    case MODE_HELP:
        msg_share_help(engine, request);
        break;
    case MODE_FILL:
        msg_pipe_fill(engine, request);
        break;
    case MODE_PUT:
        step_put(engine, request);
        break;
    case MODE_GPU_COPY:
        msg_gpu_step_copy(engine, request);
        break;
    case MODE_GPU_WANT:
        msg_gpu_want_pipe(engine, request);
        break;
    case MODE_GPU_PIPE:
        msg_gpu_step_pipe(engine, request);
        break;
    case MODE_GPU_FILL:
        msg_gpu_fill(engine, request);
        break;
    case MODE_GPU_FAR_WANT:
        msg_gpu_far_want(engine, request);
        break;
    case MODE_GPU_PULL:
        msg_gpu_pull(engine, request);
        break;
    case MODE_GPU_PUSH:
        msg_gpu_push(engine, request);
        break;
    default:
        break;
    }
}

void msg_fetch(struct msg_engine *engine, struct msg_request *request,
               const struct msg_envelope *envelope)
{
    request->remote = envelope->handle;
    request->token = envelope->token;
    request->state = STATE_RENDEZVOUS;
    request->done = 0;
    request->found = 0;
    request->status.error = 0;
    if (msg_rank_is_lost(engine, request->peer)) {
        msg_finish(request, msg_lost_error(engine, request->peer));
        return;
    }
    msg_rendezvous_join(engine, request);
    choose(engine, request);
    engine->events++;
}

void msg_rendezvous_progress(struct msg_engine *engine)
{
    // A step may end its request, whose memory is then the caller's again.
    struct msg_request *request = engine->rendezvous;
    for (uint64_t n = engine->rendezvous_count; n && engine->rendezvous; n--) {
        struct msg_request *next = request->next;
        step(engine, request);
        request = next;
    }
}

// ---- Packets ----

void msg_rendezvous_clear(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet)
{
    struct msg_request *request = msg_handle_request(engine, packet->header.handle,
                                                     msg_peer_at(engine, peer)->rank, REQUEST_SEND);
    if (!request || request->state != STATE_RENDEZVOUS)
        return;
    if (packet->header.bytes > request->data.bytes)
        msg_peer_nonsense(engine, peer, &packet->header, "it wants more than the message has");
    else if (packet->header.flags & WIRE_FAR)
        msg_gpu_far_offered(engine, peer, request, packet);
    else if (packet->header.flags & WIRE_STAGED)
        msg_gpu_offered(engine, peer, request, packet);
    else if (packet->header.flags & WIRE_PIPE)
        msg_pipe_offered(engine, peer, request, packet);
    else
        msg_share_asked(engine, peer, request, packet);
}

void msg_rendezvous_finish(struct msg_engine *engine, uint32_t peer,
                           const struct msg_packet *packet)
{
    struct msg_request *request = msg_handle_request(engine, packet->header.handle,
                                                     msg_peer_at(engine, peer)->rank, REQUEST_SEND);
    if (!request || request->state != STATE_RENDEZVOUS)
        return;
    if (request->mode == MODE_GPU_PUSH) {
        request->found = 1; // copies may be under way
        return;
    }
    if (request->mode != MODE_NONE)
        msg_rendezvous_leave(engine, request);
    msg_unannounce(engine, request);
    msg_finish(request, 0);
}

void msg_rendezvous_drop(struct msg_engine *engine, struct msg_request *request)
{
    if (request->kind == REQUEST_SEND) {
        if (request->mode == MODE_GPU_PUSH)
            msg_gpu_drop(engine, request);
        if (request->mode != MODE_NONE)
            msg_rendezvous_leave(engine, request);
        msg_unannounce(engine, request);
        return;
    }
    if (request->mode == MODE_SHARE)
        msg_share_drop(engine, request);
    else if (request->mode >= MODE_GPU_COPY)
        msg_gpu_drop(engine, request);
    else if (request->near)
        msg_pipe_drop(engine, request);
    msg_rendezvous_leave(engine, request);
}
