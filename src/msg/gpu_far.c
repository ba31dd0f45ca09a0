// SPDX-License-Identifier: Apache-2.0
// Announced messages with memory of a GPU at one end or both, between hosts.
//
// The path of a byte: the sender's GPU copies it into a piece of pinned staging, which the network
// has registered once; a put of 40 bytes tells the receiver where it is; the receiver reads it by
// a get into a fragment of its own pipe (gpu_pipe.c), and its GPU copies it out. Where the receiver
// is memory of the host in one piece, the get is the last step; where the sender is, the first, and
// the sender takes no part. Up to eight pieces are under way at a time, so copy, network and copy
// overlap.
//
// Algorithm: the receiver takes a pipe, tells the sender where its head is, and from then on how
// many pieces it has read, by which the sender's staging is free again. FINISH ends both. Who holds
// staging has a receiver that holds a pipe, so rings of ranks that send to one another end. Floor:
// the slower of the two copies (some 50 GB/s of PCIe, 5 to 10 us each) and the network, and one
// piece more for the first and the last. Advantage: memory is bounded whatever the number of peers,
// nothing is copied by a core, and a get's end says that its bytes are there. Disadvantage: a round
// trip more than a put would take, and as many receivers that stand still as there are stagings
// stall the rank's other sends of this kind.

#include "msg/gpu_pipe.h"

#include <errno.h>
#include <string.h>

#define STAGINGS      2
#define PAGE          MSG_GPU_PAGE
#define FRAGMENTS     MSG_PIPE_FRAGMENTS
#define STAGING_LEAST (1 << 20) // of the pool, so that pipes (pipe.c) have room beside it

struct gpu_staging {
    struct msg_token head; // of the receiver's pipe
    uint64_t emptied;      // pieces that it has read
    bool taken;
};

struct gpu_pull {
    struct msg_transfer transfer[FRAGMENTS];
    uint64_t got, told; // pieces that have come, and that the sender knows of
};

struct msg_gpu_far {
    uint8_t *memory; // the stagings', NULL: not yet
    struct msg_token token;
    uint64_t piece_bytes;
    bool refused; // by the driver or the network: it is not tried again
    struct gpu_staging staging[STAGINGS];
    struct gpu_pull pull[MSG_GPU_PIPES];
};

static struct msg_gpu_far *far_of(struct msg_engine *engine)
{
    struct msg_gpu *gpu = engine->gpu;
    if (!gpu->far)
        gpu->far = msg_alloc(&engine->pools, POOL_STAGING, sizeof *gpu->far);
    return gpu->far;
}

static uint64_t memory_bytes(const struct msg_gpu_far *far)
{
    return STAGINGS * FRAGMENTS * far->piece_bytes;
}

static void free_memory(struct msg_gpu *gpu)
{
    struct msg_gpu_far *far = gpu->far;
    gpu->ops->free(gpu->device, far->memory, memory_bytes(far));
    msg_discharge(&gpu->engine->pools, POOL_STAGING, memory_bytes(far));
    far->memory = NULL;
}

// At the first send of this kind. One registration serves all peers.
static bool make_memory(struct msg_engine *engine, int rank)
{
    struct msg_gpu *gpu = engine->gpu;
    struct msg_gpu_far *far = far_of(engine);
    uint64_t limit = engine->pools.pool[POOL_STAGING].limit;
    if (!far || far->memory || far->refused)
        return far && far->memory;
    uint64_t piece = limit / 4 / (STAGINGS * FRAGMENTS) / PAGE * PAGE;
    far->piece_bytes = piece > MSG_GPU_FRAGMENT_MOST ? MSG_GPU_FRAGMENT_MOST : piece;
    if (limit < STAGING_LEAST || msg_charge(&engine->pools, POOL_STAGING, memory_bytes(far)))
        return false;
    void *memory;
    if (gpu->ops->alloc(gpu->device, gpu->number, memory_bytes(far), &memory)) {
        msg_discharge(&engine->pools, POOL_STAGING, memory_bytes(far));
        far->refused = true;
        return false;
    }
    far->memory = memory;
    if (engine->net->ops->expose(engine->net, rank, memory, memory_bytes(far), &far->token)) {
        free_memory(gpu);
        far->refused = true;
        return false;
    }
    return true;
}

void msg_gpu_far_close(struct msg_gpu *gpu)
{
    struct msg_engine *engine = gpu->engine;
    struct msg_gpu_far *far = gpu->far;
    if (!far)
        return;
    if (far->memory) {
        if (engine->net->ops->hide)
            engine->net->ops->hide(engine->net, &far->token);
        free_memory(gpu);
    }
    msg_free(&engine->pools, POOL_STAGING, far, sizeof *far);
    gpu->far = NULL;
}

static bool is_far(const struct msg_engine *engine, int rank)
{
    return rank != engine->net->rank && !msg_maps(engine, rank);
}

uint64_t msg_gpu_far_piece(struct msg_engine *engine, const struct msg_request *request)
{
    bool far = is_far(engine, request->peer) && request->data.bytes > MSG_GPU_EAGER;
    return far && make_memory(engine, request->peer) ? engine->gpu->far->piece_bytes : 0;
}

// ---- The receiver ----

static bool is_piece(uint64_t bytes)
{
    return bytes && bytes % PAGE == 0 && bytes <= MSG_GPU_FRAGMENT_MOST;
}

bool msg_gpu_far_reaches(struct msg_engine *engine, const struct msg_request *request)
{
    if (!engine->gpu || !is_far(engine, request->peer) || request->total <= MSG_GPU_EAGER)
        return false;
    if (msg_gpu_is_token(&request->token))
        return is_piece(request->token.word[2]);
    return !msg_token_is_none(&request->token);
}

static struct gpu_pull *pull_of(struct msg_gpu *gpu, const struct msg_request *request)
{
    return &gpu->far->pull[msg_gpu_pipe_index(gpu, request)];
}

static bool offer(struct msg_engine *engine, struct msg_request *request, uint64_t got)
{
    const struct msg_gpu *gpu = engine->gpu;
    struct msg_token tokens[2] = {gpu->area_token, gpu->area_token};
    struct msg_packet packet;
    packet.header =
        (struct msg_header){.kind = WIRE_CLEAR,
                            .flags = WIRE_PIPE | WIRE_FAR,
                            .handle = request->remote,
                            .tag = (int32_t)((uint8_t *)request->near - (uint8_t *)gpu->area),
                            .bytes = msg_wanted(request),
                            .context = (uint32_t)request->stamp,
                            .sequence = (uint32_t)got};
    memcpy(packet.payload, tokens, sizeof tokens);
    return msg_control(engine, msg_peer_find(engine, request->peer), &packet, sizeof tokens);
}

static bool take_pipe(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_gpu *gpu = engine->gpu;
    int taken = far_of(engine) ? msg_gpu_pipe_take(engine, request) : -ENOBUFS;
    if (taken < 0)
        request->mode = MODE_WANT_PIPE; // slower, and in smaller memory
    if (taken <= 0)
        return false;
    *pull_of(gpu, request) = (struct gpu_pull){.got = 0};
    request->stamp = gpu->fragment_bytes;
    if (msg_gpu_is_token(&request->token) && request->stamp > request->token.word[2])
        request->stamp = request->token.word[2];
    return true;
}

void msg_gpu_far_want(struct msg_engine *engine, struct msg_request *request)
{
    if (!request->near && !take_pipe(engine, request))
        return;
    if (msg_gpu_is_token(&request->token) && !offer(engine, request, 0))
        return;
    request->mode = MODE_GPU_PULL;
    msg_add(&engine->counts.piped, 1);
    msg_add(&engine->counts.gpu_staged, 1);
    engine->events++;
}

// Where the next piece is at the sender; false: it is not there yet.
static bool find_piece(struct msg_engine *engine, struct msg_request *request, uint64_t number,
                       struct msg_pipe_place *place)
{
    const struct msg_pipe_head *pipe = request->near;
    *place = (struct msg_pipe_place){request->token, number * request->stamp};
    if (!msg_gpu_is_token(&request->token))
        return true;
    uint64_t at = number % FRAGMENTS;
    uint64_t flag = __atomic_load_n(&pipe->fragment[at].flag, __ATOMIC_ACQUIRE);
    if ((flag & ~MSG_GPU_FAILED) != number + 1)
        return false;
    if (flag & MSG_GPU_FAILED)
        msg_gpu_piece_failed(engine, request);
    *place = pipe->fragment[at].place;
    return true;
}

// After an error pieces are only counted, until the sender knows that all were read.
static bool get_next(struct msg_engine *engine, struct msg_request *request, struct gpu_pull *pull)
{
    uint64_t number = msg_gpu_begun(request);
    struct msg_pipe_place place;
    if (request->done == msg_wanted(request) || number - request->produced >= FRAGMENTS ||
        !find_piece(engine, request, number, &place))
        return false;
    struct msg_transfer *transfer = &pull->transfer[number % FRAGMENTS];
    uint64_t bytes = msg_gpu_piece_bytes(request, number);
    void *to = msg_is_plain(request)
                   ? (uint8_t *)request->data.address + number * request->stamp
                   : msg_gpu_fragment(request->near, engine->gpu->fragment_bytes, number);
    transfer->finished = request->status.error ? 1 : 0;
    if (!request->status.error) {
        int error = engine->net->ops->bulk_get(engine->net, request->peer, &place.token,
                                               place.offset, to, bytes, transfer);
        if (error == -EAGAIN)
            return false;
        if (error <= 0)
            transfer->finished = (int16_t)(error ? error : 1);
        msg_count(engine, request->peer, bytes);
    }
    request->done += bytes;
    return true;
}

static void note_get(struct msg_engine *engine, struct msg_request *request, int error)
{
    if (error == -EPROTO)
        msg_peer_nonsense(engine, msg_peer_find(engine, request->peer), NULL,
                          "a piece of a message names no memory of its rank's");
    if (!request->status.error)
        request->status.error = error;
}

// The next piece has come, and goes on to where it belongs.
static bool pass_on(struct msg_engine *engine, struct msg_request *request, struct gpu_pull *pull)
{
    uint64_t number = pull->got;
    int finished = pull->transfer[number % FRAGMENTS].finished;
    if (!finished)
        return false;
    if (finished < 0)
        note_get(engine, request, finished);
    request->ticket[number % FRAGMENTS] = engine->gpu->passed;
    uint8_t *fragment = msg_gpu_fragment(request->near, engine->gpu->fragment_bytes, number);
    if (!request->status.error && !msg_is_plain(request) &&
        !msg_gpu_piece_start(engine, request, fragment, number, true))
        return false;
    pull->got++;
    return true;
}

// Whether the sender needs to know what has come: the last pieces have a place without that.
static bool waits_for_news(const struct msg_request *request, const struct gpu_pull *pull)
{
    uint64_t pieces = (msg_wanted(request) + request->stamp - 1) / request->stamp;
    return pull->told + FRAGMENTS < pieces && pull->got - pull->told >= FRAGMENTS / 4;
}

void msg_gpu_pull(struct msg_engine *engine, struct msg_request *request)
{
    struct gpu_pull *pull = pull_of(engine->gpu, request);
    bool lost = msg_gpu_was_lost(engine, request), moved = false;
    while (request->produced < pull->got && msg_gpu_piece_over(engine, request)) {
        request->produced++;
        moved = true;
    }
    while (pull->got < msg_gpu_begun(request) && pass_on(engine, request, pull))
        moved = true;
    while (!lost && get_next(engine, request, pull))
        moved = true;
    engine->events += moved;
    bool all = request->done == msg_wanted(request);
    if (msg_gpu_is_token(&request->token) && waits_for_news(request, pull) &&
        offer(engine, request, pull->got))
        pull->told = pull->got;
    if ((!all && !lost) || request->produced < msg_gpu_begun(request))
        return;
    msg_gpu_pipe_give(engine->gpu, request);
    request->mode = MODE_DONE;
    engine->events++;
}

// ---- The sender ----

// `remote` is the offset of the pipe's head, `far` the staging, once there is one; `found`: FINISH
// has come.
void msg_gpu_far_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                         const struct msg_packet *packet)
{
    const struct msg_header *header = &packet->header;
    const struct msg_gpu_far *far = engine->gpu ? engine->gpu->far : NULL;
    struct gpu_staging *staging = request->far;
    if (request->mode == MODE_GPU_PUSH) {
        if (staging && header->sequence <= request->produced && header->sequence > staging->emptied)
            staging->emptied = header->sequence;
        return;
    }
    if (request->mode != MODE_NONE || header->sequence)
        return;
    if (!request->gpu || !far || !far->memory || !is_piece(header->context) ||
        header->context > far->piece_bytes || header->tag < 0 || !header->bytes) {
        msg_peer_nonsense(engine, peer, header, "it offers no pipe for a GPU's pieces");
        return;
    }
    memcpy(&request->helped, packet->payload, sizeof request->helped);
    request->remote = (uint32_t)header->tag;
    request->stamp = header->context;
    request->total = header->bytes;
    request->done = request->produced = 0;
    request->far = NULL;
    request->found = 0;
    request->mode = MODE_GPU_PUSH;
    msg_rendezvous_join(engine, request);
}

// From here on the tickets are where the token was.
static bool take_staging(struct msg_gpu *gpu, struct msg_request *request)
{
    for (int i = 0; i < STAGINGS; i++) {
        struct gpu_staging *staging = &gpu->far->staging[i];
        if (staging->taken)
            continue;
        staging->taken = true;
        staging->head = request->helped;
        staging->emptied = 0;
        request->far = staging;
        return true;
    }
    return false; // one that is under way ends
}

void msg_gpu_far_give(struct msg_request *request)
{
    struct gpu_staging *staging = request->far;
    if (staging)
        staging->taken = false;
    request->far = NULL;
}

static uint64_t staging_offset(const struct msg_gpu *gpu, const struct gpu_staging *staging,
                               uint64_t number)
{
    uint64_t index = (uint64_t)(staging - gpu->far->staging);
    return (index * FRAGMENTS + number % FRAGMENTS) * gpu->far->piece_bytes;
}

static bool publish(struct msg_engine *engine, const struct msg_request *request)
{
    const struct msg_gpu *gpu = engine->gpu;
    const struct gpu_staging *staging = request->far;
    uint64_t number = request->produced, at = number % FRAGMENTS;
    uint64_t flag = (number + 1) | (request->status.error ? MSG_GPU_FAILED : 0);
    struct msg_pipe_place place = {gpu->far->token, staging_offset(gpu, staging, number)};
    uint64_t line = request->remote + msg_pipe_line(at);
    struct msg_piece pieces[2] = {{&place, line + sizeof flag, sizeof place},
                                  {&flag, line, sizeof flag}};
    return msg_put(engine, request->peer, &staging->head, pieces, 2);
}

static bool fill_next(struct msg_engine *engine, struct msg_request *request)
{
    const struct gpu_staging *staging = request->far;
    uint64_t number = msg_gpu_begun(request);
    if (request->done == request->total || number - staging->emptied >= FRAGMENTS)
        return false;
    uint8_t *piece = engine->gpu->far->memory + staging_offset(engine->gpu, staging, number);
    if (!msg_gpu_piece_start(engine, request, piece, number, false))
        return false;
    request->done += msg_gpu_piece_bytes(request, number);
    return true;
}

void msg_gpu_push(struct msg_engine *engine, struct msg_request *request)
{
    bool ends = request->found || msg_gpu_was_lost(engine, request), moved = false;
    if (!ends && !request->far && !take_staging(engine->gpu, request))
        return;
    while (request->produced < msg_gpu_begun(request) && msg_gpu_piece_over(engine, request) &&
           (ends || publish(engine, request))) {
        request->produced++;
        moved = true;
    }
    while (!ends && fill_next(engine, request))
        moved = true;
    engine->events += moved;
    if (!ends || request->produced < msg_gpu_begun(request))
        return;
    engine->events++;
    msg_gpu_far_give(request);
    msg_rendezvous_leave(engine, request);
    msg_unannounce(engine, request);
    msg_finish(request, request->status.error);
}
