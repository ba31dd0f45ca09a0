// SPDX-License-Identifier: Apache-2.0
// Announced messages with memory of a GPU at one end or both.
//
// Algorithm: where one rank reaches both ends (threads of a process) the receiver starts one copy
// from GPU to GPU and looks at it again. Elsewhere on a host it offers a pipe: fragments of pinned
// memory that sender and receiver have mapped. The sender starts copies into all that are empty,
// and publishes each with its number + 1 once its copy is over; the receiver starts copies out of
// those, and gives each back once that is over. An end in memory of the host copies at once.
// Advantage: several copies are under way at each side, memory is bounded, and nobody waits.
// Disadvantage: every byte crosses the host's memory twice.
//
// Between hosts see gpu_far.c.

#include "msg/gpu_pipe.h"

#include "core/job.h"

#include <errno.h>
#include <string.h>

#define FRAGMENTS     MSG_PIPE_FRAGMENTS
#define PAGE          MSG_GPU_PAGE
#define FRAGMENT_MOST MSG_GPU_FRAGMENT_MOST
#define FAILED        MSG_GPU_FAILED

_Static_assert(MSG_GPU_PIPES * sizeof(struct msg_pipe_head) <= PAGE, "the heads are on one page");
_Static_assert(sizeof(((struct msg_request *)0)->ticket) == FRAGMENTS * sizeof(uint16_t),
               "a ticket a fragment");

// The heads of all pipes on the first page of the area, then their fragments; both sides find them
// so.
static uint64_t area_size(uint64_t fragment)
{
    return 2 * PAGE + MSG_GPU_PIPES * FRAGMENTS * fragment;
}

static uint8_t *area_begin(void *area)
{
    return (uint8_t *)(((uintptr_t)area + PAGE - 1) / PAGE * PAGE);
}

uint8_t *msg_gpu_fragment(void *head, uint64_t size, uint64_t number)
{
    uint8_t *begin = (uint8_t *)((uintptr_t)head / PAGE * PAGE);
    uint64_t index = (uint64_t)((uint8_t *)head - begin) / sizeof(struct msg_pipe_head);
    return begin + PAGE + (index * FRAGMENTS + number % FRAGMENTS) * size;
}

static bool direct(const struct msg_engine *engine, int rank)
{
    return engine->job && (engine->job->segment->head->threads || rank == engine->net->rank);
}

struct msg_token msg_gpu_token(struct msg_engine *engine, const struct msg_request *request)
{
    struct msg_token token;
    bool reached = !request->data.layout && direct(engine, request->peer);
    if (!request->data.layout && !reached &&
        msg_gpu_show(engine, request->peer, request->data.address, &token))
        return token;
    return (struct msg_token){{UINT64_MAX - 1,
                               reached ? (uint64_t)(uintptr_t)request->data.address : 0,
                               msg_gpu_far_piece(engine, request)}};
}

// Where the sender's memory is for copies of this rank's GPU.
static void *reach(struct msg_engine *engine, const struct msg_request *request)
{
    if (direct(engine, request->peer) && request->token.word[0] == UINT64_MAX - 1)
        return (void *)(uintptr_t)request->token.word[1];
    return msg_gpu_seen(engine, request->peer, &request->token, request->total);
}

bool msg_gpu_choose(struct msg_engine *engine, struct msg_request *request)
{
    bool from_gpu = msg_gpu_is_token(&request->token);
    if (!from_gpu && !request->gpu)
        return false;
    request->mode = MODE_WANT_PIPE;
    if (from_gpu && request->gpu && !request->data.layout)
        request->far = reach(engine, request);
    if (request->far) {
        request->mode = MODE_GPU_COPY;
        msg_add(&engine->counts.direct, 1);
        msg_add(&engine->counts.gpu_direct, 1);
    } else if (engine->gpu && msg_maps(engine, request->peer)) {
        request->mode = MODE_GPU_WANT;
    } else if (msg_gpu_far_reaches(engine, request)) {
        request->mode = MODE_GPU_FAR_WANT;
    }
    return true;
}

// ---- From GPU to GPU ----

// `found`: the copy is under way.
void msg_gpu_step_copy(struct msg_engine *engine, struct msg_request *request)
{
    uint64_t bytes = msg_wanted(request);
    int error;
    if (!request->found) {
        error = msg_gpu_start(engine->gpu, request->data.address, request->far, bytes,
                              &request->ticket[0]);
        if (error == -EAGAIN)
            return;
        request->found = !error;
    } else {
        error = msg_gpu_passed(engine->gpu, request->ticket[0]);
        if (!error)
            return;
        error = error < 0 ? error : 0;
        request->found = 0;
    }
    engine->events++;
    if (request->found)
        return;
    if (!request->status.error)
        request->status.error = error;
    if (!request->status.error)
        msg_count(engine, request->peer, bytes);
    request->done = bytes;
    request->mode = MODE_DONE;
}

// ---- The receiver's pipes ----

static bool pin(struct msg_gpu *gpu, void *area, uint64_t fragment)
{
    return gpu->ops->pin(gpu->device, area_begin(area), area_size(fragment) - PAGE, false) == 0;
}

void msg_gpu_area_free(struct msg_gpu *gpu)
{
    struct msg_engine *engine = gpu->engine;
    for (size_t i = 0; i < sizeof gpu->far_area / sizeof gpu->far_area[0]; i++)
        if (gpu->far_area[i].pinned)
            gpu->ops->unpin(gpu->device, area_begin(gpu->far_area[i].address),
                            gpu->far_area[i].bytes);
    memset(gpu->far_area, 0, sizeof gpu->far_area);
    if (!gpu->area)
        return;
    if (gpu->area_pinned)
        gpu->ops->unpin(gpu->device, area_begin(gpu->area), area_size(gpu->fragment_bytes) - PAGE);
    engine->net->ops->free(engine->net, gpu->area, area_size(gpu->fragment_bytes));
    msg_discharge(&engine->pools, POOL_STAGING, area_size(gpu->fragment_bytes));
    gpu->area = NULL;
}

// At the first message. False: not now.
static bool make_area(struct msg_engine *engine)
{
    struct msg_gpu *gpu = engine->gpu;
    uint64_t half = engine->pools.pool[POOL_STAGING].limit / 2;
    uint64_t fragment = half / (MSG_GPU_PIPES * FRAGMENTS) / PAGE * PAGE;
    if (area_size(fragment) > half && fragment > PAGE)
        fragment -= PAGE;
    fragment = fragment < PAGE ? PAGE : fragment > FRAGMENT_MOST ? FRAGMENT_MOST : fragment;
    if (gpu->area)
        return true;
    if (msg_charge(&engine->pools, POOL_STAGING, area_size(fragment)))
        return false;
    if (engine->net->ops->alloc(engine->net, area_size(fragment), &gpu->area, &gpu->area_token)) {
        msg_discharge(&engine->pools, POOL_STAGING, area_size(fragment));
        gpu->area = NULL;
        return false;
    }
    gpu->fragment_bytes = fragment;
    gpu->area_pinned = pin(gpu, gpu->area, fragment);
    return true;
}

static bool offer(struct msg_engine *engine, struct msg_request *request)
{
    const struct msg_gpu *gpu = engine->gpu;
    struct msg_token tokens[2] = {gpu->area_token, gpu->area_token};
    uint64_t place = (uint64_t)((uint8_t *)request->near - area_begin(gpu->area));
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_CLEAR,
                                        .flags = WIRE_PIPE | WIRE_STAGED,
                                        .handle = request->remote,
                                        .tag = (int32_t)(place / sizeof(struct msg_pipe_head)),
                                        .bytes = msg_wanted(request),
                                        .sequence = (uint32_t)gpu->fragment_bytes};
    memcpy(packet.payload, tokens, sizeof tokens);
    return msg_control(engine, msg_peer_find(engine, request->peer), &packet, sizeof tokens);
}

int msg_gpu_pipe_take(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_gpu *gpu = engine->gpu;
    if (!make_area(engine))
        return -ENOBUFS;
    uint32_t index = (uint32_t)__builtin_ctz(~gpu->area_taken);
    if (index >= MSG_GPU_PIPES)
        return 0; // one that is open ends
    gpu->area_taken |= 1u << index;
    struct msg_pipe_head *pipe = (struct msg_pipe_head *)(void *)area_begin(gpu->area) + index;
    memset(pipe, 0, sizeof *pipe);
    request->near = pipe;
    request->produced = 0;
    return 1;
}

void msg_gpu_want_pipe(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_gpu *gpu = engine->gpu;
    int taken = request->near ? 1 : msg_gpu_pipe_take(engine, request);
    if (taken < 0)
        request->mode = MODE_WANT_PIPE; // slower, and in smaller memory
    if (taken <= 0)
        return;
    if (!offer(engine, request))
        return;
    request->stamp = gpu->fragment_bytes;
    request->mode = MODE_GPU_PIPE;
    msg_add(&engine->counts.piped, 1);
    msg_add(&engine->counts.gpu_staged, 1);
    engine->events++;
}

uint32_t msg_gpu_pipe_index(const struct msg_gpu *gpu, const struct msg_request *request)
{
    const struct msg_pipe_head *first = (const struct msg_pipe_head *)(void *)area_begin(gpu->area);
    return (uint32_t)((const struct msg_pipe_head *)request->near - first);
}

void msg_gpu_pipe_give(struct msg_gpu *gpu, struct msg_request *request)
{
    gpu->area_taken &= ~(1u << msg_gpu_pipe_index(gpu, request));
    request->near = NULL;
}

bool msg_gpu_piece_over(struct msg_engine *engine, struct msg_request *request)
{
    if (!request->gpu)
        return true;
    uint16_t ticket = request->ticket[request->produced % FRAGMENTS];
    int passed = msg_gpu_passed(engine->gpu, ticket);
    if (passed < 0 && !request->status.error)
        request->status.error = passed;
    return passed != 0;
}

bool msg_gpu_piece_start(struct msg_engine *engine, struct msg_request *request, uint8_t *fragment,
                         uint64_t number, bool out)
{
    struct msg_gpu *gpu = engine->gpu;
    uint16_t *ticket = &request->ticket[number % FRAGMENTS];
    uint64_t offset = number * request->stamp, bytes = msg_gpu_piece_bytes(request, number);
    char *at = (char *)request->data.address + offset;
    int error = 0;
    if (!request->gpu && out)
        msg_layout_write(&request->data, offset, fragment, bytes);
    else if (!request->gpu)
        msg_layout_read(&request->data, offset, fragment, bytes);
    if (!request->gpu)
        return true;
    *ticket = gpu->passed; // for what is over at once
    if (request->data.layout && out)
        msg_gpu_write(gpu, &request->data, offset, fragment, bytes);
    else if (request->data.layout)
        error = msg_gpu_read(gpu, &request->data, offset, fragment, bytes);
    else if (out)
        error = msg_gpu_start(gpu, at, fragment, bytes, ticket);
    else
        error = msg_gpu_start(gpu, fragment, at, bytes, ticket);
    if (error == -EAGAIN)
        return false;
    if (error && !request->status.error)
        request->status.error = error;
    return true;
}

void msg_gpu_piece_failed(struct msg_engine *engine, struct msg_request *request)
{
    if (request->status.error)
        return;
    leat_fail(-EIO, "the GPU of rank %d could not copy the message out", (int)request->peer);
    request->status.error = msg_gpu_note(engine->gpu, -EIO);
}

static bool step_out(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_pipe_head *pipe = request->near;
    uint64_t number = msg_gpu_begun(request), left = msg_wanted(request) - request->done;
    if (!left || number - request->produced >= FRAGMENTS)
        return false;
    uint64_t flag = __atomic_load_n(&pipe->fragment[number % FRAGMENTS].flag, __ATOMIC_ACQUIRE);
    if ((flag & ~FAILED) != number + 1)
        return false;
    if (flag & FAILED)
        msg_gpu_piece_failed(engine, request);
    uint8_t *fragment = msg_gpu_fragment(pipe, request->stamp, number);
    if (!msg_gpu_piece_start(engine, request, fragment, number, true))
        return false;
    request->done += msg_gpu_piece_bytes(request, number);
    return true;
}

bool msg_gpu_was_lost(struct msg_engine *engine, const struct msg_request *request)
{
    return request->status.error && msg_rank_is_lost(engine, request->peer);
}

// `produced` counts the fragments that were given back.
void msg_gpu_step_pipe(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_pipe_head *pipe = request->near;
    bool any = false;
    for (;;) {
        bool some = false;
        while (request->produced < msg_gpu_begun(request) && msg_gpu_piece_over(engine, request)) {
            request->produced++;
            __atomic_store_n(&pipe->emptied, request->produced, __ATOMIC_RELEASE);
            some = any = true;
        }
        while (!msg_gpu_was_lost(engine, request) && step_out(engine, request))
            some = true;
        engine->events += some;
        if (!some || request->gpu)
            break;
    }
    bool ended = request->done == msg_wanted(request) || msg_gpu_was_lost(engine, request);
    if (ended && request->produced == msg_gpu_begun(request)) {
        msg_gpu_pipe_give(engine->gpu, request);
        msg_rendezvous_received(engine, request);
    } else if (any) {
        msg_poke(engine, request->peer);
    }
}

// ---- The sender's side ----

// So that copies to the peer's pipes need no buffer of the driver's. Where it fails they are
// slower.
static void pin_far(struct msg_gpu *gpu, void *area, uint64_t fragment)
{
    size_t places = sizeof gpu->far_area / sizeof gpu->far_area[0], oldest = 0;
    for (size_t i = 0; i < places; i++) {
        if (gpu->far_area[i].address == area) {
            gpu->far_area[i].used = ++gpu->far_uses;
            return;
        }
        if (gpu->far_area[i].used < gpu->far_area[oldest].used)
            oldest = i;
    }
    if (gpu->far_area[oldest].pinned) {
        if (gpu->started != gpu->passed)
            return; // some copy may still need it
        gpu->ops->unpin(gpu->device, area_begin(gpu->far_area[oldest].address),
                        gpu->far_area[oldest].bytes);
    }
    gpu->far_area[oldest].address = area;
    gpu->far_area[oldest].bytes = area_size(fragment) - PAGE;
    gpu->far_area[oldest].used = ++gpu->far_uses;
    gpu->far_area[oldest].pinned = pin(gpu, area, fragment);
}

// `remote` is not needed any more, `produced` the fragments published, `far` the pipe's head.
void msg_gpu_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                     const struct msg_packet *packet)
{
    uint64_t fragment = packet->header.sequence;
    struct msg_token token;
    void *area;
    memcpy(&token, packet->payload, sizeof token);
    if (request->mode != MODE_NONE)
        return;
    if (!fragment || fragment % PAGE || fragment > FRAGMENT_MOST || packet->header.tag < 0 ||
        packet->header.tag >= MSG_GPU_PIPES) {
        msg_peer_nonsense(engine, peer, &packet->header, "it offers no pipe of a GPU's");
        return;
    }
    if (!msg_map_words(engine, peer, packet, &token, area_size(fragment), &area) || !area)
        return;
    if (request->gpu && !request->data.layout)
        pin_far(engine->gpu, area, fragment);
    request->far = (struct msg_pipe_head *)(void *)area_begin(area) + packet->header.tag;
    request->stamp = fragment;
    request->total = packet->header.bytes;
    request->done = request->produced = 0;
    request->mode = MODE_GPU_FILL;
    msg_rendezvous_join(engine, request);
}

static bool step_in(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_pipe_head *pipe = request->far;
    uint64_t number = msg_gpu_begun(request), left = request->total - request->done;
    if (!left || number - __atomic_load_n(&pipe->emptied, __ATOMIC_ACQUIRE) >= FRAGMENTS)
        return false;
    uint8_t *fragment = msg_gpu_fragment(pipe, request->stamp, number);
    if (!msg_gpu_piece_start(engine, request, fragment, number, false))
        return false;
    request->done += msg_gpu_piece_bytes(request, number);
    return true;
}

static void publish(struct msg_request *request)
{
    struct msg_pipe_head *pipe = request->far;
    uint64_t flag = (request->produced + 1) | (request->status.error ? FAILED : 0);
    __atomic_store_n(&pipe->fragment[request->produced % FRAGMENTS].flag, flag, __ATOMIC_RELEASE);
    request->produced++;
}

void msg_gpu_fill(struct msg_engine *engine, struct msg_request *request)
{
    bool any = false, some = true;
    while (some) {
        some = false;
        while (request->produced < msg_gpu_begun(request) && msg_gpu_piece_over(engine, request)) {
            publish(request);
            some = any = true;
        }
        while (!msg_gpu_was_lost(engine, request) && step_in(engine, request))
            some = true;
        engine->events += some;
        some = some && !request->gpu;
    }
    if (any)
        msg_poke(engine, request->peer);
    bool ended = request->done == request->total || msg_gpu_was_lost(engine, request);
    if (!ended || request->produced < msg_gpu_begun(request))
        return;
    int error = request->status.error;
    if (!error)
        msg_count(engine, request->peer, request->total);
    msg_rendezvous_leave(engine, request);
    msg_unannounce(engine, request);
    msg_finish(request, error);
}

// ---- Ends ----

bool msg_gpu_busy(const struct msg_request *request)
{
    if (request->mode == MODE_GPU_COPY)
        return request->found;
    if (request->mode == MODE_GPU_PULL)
        return request->produced < msg_gpu_begun(request);
    return (request->mode == MODE_GPU_PIPE || request->mode == MODE_GPU_FILL ||
            request->mode == MODE_GPU_PUSH) &&
           request->gpu && request->produced < msg_gpu_begun(request);
}

void msg_gpu_drop(struct msg_engine *engine, struct msg_request *request)
{
    if (request->mode == MODE_GPU_PUSH)
        msg_gpu_far_give(request);
    else if (request->mode != MODE_GPU_COPY && request->near)
        msg_gpu_pipe_give(engine->gpu, request);
}
