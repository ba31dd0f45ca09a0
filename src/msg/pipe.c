// SPDX-License-Identifier: Apache-2.0
// Pipes: rendezvous through a few fragments of the receiver's memory.
//
// Algorithm: the receiver offers a pipe; the sender fills its fragments in order, each with its
// number + 1 in a flag written last, as far as they have been emptied; the receiver empties them.
// The sender reads how far that is from the pipe where it is mapped, and is told by packets
// elsewhere. Advantage: works where the sender's memory cannot be reached, packs strided data on
// the way, and both sides copy at once in memory that stays in the cache. Disadvantage: two copies.

#include "msg/rendezvous.h"

#include "msg/gpu.h"

#include <errno.h>
#include <string.h>

#define FRAGMENTS MSG_PIPE_FRAGMENTS
#define PACKED    4096

struct pipe {
    struct msg_pipe_head head;
    uint8_t data[];
};

// Strided data is packed on the stack before it is put, so fragments are small where there is no
// mapping.
static uint64_t fragment_bytes(const struct msg_engine *engine, int peer)
{
    uint64_t size = engine->tuning.pipe_bytes / FRAGMENTS;
    return size < PACKED || msg_maps(engine, peer) ? size : PACKED;
}

uint64_t msg_pipe_memory(const struct msg_tuning *tuning)
{
    return sizeof(struct pipe) + tuning->pipe_bytes;
}

void msg_pipe_drop(struct msg_engine *engine, struct msg_request *request)
{
    uint64_t bytes = msg_pipe_memory(&engine->tuning);
    engine->net->ops->free(engine->net, request->near, bytes);
    msg_discharge(&engine->pools, POOL_STAGING, bytes);
    request->near = NULL;
}

static bool offer(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_token tokens[2] = {request->token, request->token};
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_CLEAR,
                                        .flags = WIRE_PIPE,
                                        .handle = request->remote,
                                        .bytes = msg_wanted(request),
                                        .sequence = (uint32_t)request->produced};
    memcpy(packet.payload, tokens, sizeof tokens);
    return msg_control(engine, msg_peer_find(engine, request->peer), &packet, sizeof tokens);
}

void msg_pipe_want(struct msg_engine *engine, struct msg_request *request)
{
    uint64_t bytes = msg_pipe_memory(&engine->tuning);
    if (!request->near) {
        if (msg_charge(&engine->pools, POOL_STAGING, bytes))
            return; // one that is open ends
        if (engine->net->ops->alloc(engine->net, bytes, &request->near, &request->token)) {
            msg_discharge(&engine->pools, POOL_STAGING, bytes);
            request->near = NULL;
            return;
        }
        request->produced = 0;
    }
    if (!offer(engine, request))
        return;
    request->mode = MODE_PIPE;
    msg_add(&engine->counts.piped, 1);
    engine->events++;
}

// `produced` counts the fragments that were emptied, `found` says that the sender does not know.
void msg_pipe_step(struct msg_engine *engine, struct msg_request *request)
{
    struct pipe *pipe = request->near;
    uint64_t size = fragment_bytes(engine, request->peer), all = msg_wanted(request);
    bool any = false;
    for (int n = 0; n < FRAGMENTS && request->done < all; n++) {
        uint64_t place = request->produced % FRAGMENTS;
        if (__atomic_load_n(&pipe->head.fragment[place].flag, __ATOMIC_ACQUIRE) !=
            request->produced + 1)
            break;
        uint64_t bytes = all - request->done < size ? all - request->done : size;
        msg_put_bytes(request, request->done, pipe->data + place * size, bytes);
        request->done += bytes;
        request->produced++;
        __atomic_store_n(&pipe->head.emptied, request->produced, __ATOMIC_RELEASE);
        any = true;
    }
    engine->events += any;
    if (request->done == all) {
        msg_pipe_drop(engine, request);
        msg_rendezvous_received(engine, request);
        return;
    }
    const bool maps = msg_maps(engine, request->peer);
    if (any && maps)
        msg_poke(engine, request->peer);
    if (!maps && (any || request->found))
        request->found = !offer(engine, request);
}

// `remote` is what is known to be emptied, `produced` the fragments filled, `helped` the pipe.
void msg_pipe_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                      const struct msg_packet *packet)
{
    uint32_t emptied = packet->header.sequence;
    if (request->mode == MODE_FILL) {
        if (emptied <= request->produced && emptied > request->remote)
            request->remote = emptied;
        return;
    }
    if (request->mode == MODE_HELP && !emptied) {
        // The share was given up, which this side has not seen yet.
        msg_rendezvous_leave(engine, request);
        request->mode = MODE_NONE;
    }
    if (request->mode != MODE_NONE || emptied)
        return;
    memcpy(&request->helped, packet->payload, sizeof request->helped);
    if (!msg_map_words(engine, peer, packet, &request->helped, msg_pipe_memory(&engine->tuning),
                       &request->far))
        return;
    request->total = packet->header.bytes;
    request->done = request->produced = 0;
    request->remote = 0;
    request->mode = MODE_FILL;
    msg_rendezvous_join(engine, request);
}

static bool put_fragment(struct msg_engine *engine, struct msg_request *request, uint64_t place,
                         uint64_t bytes)
{
    uint64_t size = fragment_bytes(engine, request->peer), flag = request->produced + 1;
    uint8_t packed[PACKED];
    const void *from = (const char *)request->data.address + request->done;
    if (!msg_is_plain(request)) {
        request->status.error = msg_get_bytes(request, request->done, packed, bytes);
        from = packed;
    }
    if (request->status.error)
        return false;
    struct msg_piece pieces[2] = {{from, offsetof(struct pipe, data) + place * size, bytes},
                                  {&flag, msg_pipe_line(place), sizeof flag}};
    return msg_put(engine, request->peer, &request->helped, pieces, 2);
}

void msg_pipe_fill(struct msg_engine *engine, struct msg_request *request)
{
    struct pipe *pipe = request->far;
    uint64_t size = fragment_bytes(engine, request->peer);
    bool any = false;
    for (int n = 0; n < FRAGMENTS && request->done < request->total; n++) {
        uint64_t emptied =
            pipe ? __atomic_load_n(&pipe->head.emptied, __ATOMIC_ACQUIRE) : request->remote;
        if (request->produced - emptied >= FRAGMENTS)
            break;
        uint64_t left = request->total - request->done, bytes = left < size ? left : size;
        uint64_t place = request->produced % FRAGMENTS;
        if (pipe) {
            request->status.error =
                msg_get_bytes(request, request->done, pipe->data + place * size, bytes);
            if (request->status.error)
                break;
            __atomic_store_n(&pipe->head.fragment[place].flag, request->produced + 1,
                             __ATOMIC_RELEASE);
        } else if (!put_fragment(engine, request, place, bytes)) {
            break;
        }
        request->done += bytes;
        request->produced++;
        any = true;
    }
    engine->events += any;
    if (any && pipe)
        msg_poke(engine, request->peer);
    if (request->done < request->total && !request->status.error)
        return;
    msg_count(engine, request->peer, request->done);
    msg_rendezvous_leave(engine, request);
    msg_unannounce(engine, request);
    msg_finish(request, request->status.error);
}
