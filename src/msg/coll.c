// SPDX-License-Identifier: Apache-2.0
// Collectives: starting, keeping back, moving on, ending.
//
// Algorithm: a call is checked, gets the next number of its communicator and a schedule, and runs
// as far as it can at once; progress runs all schedules on. The communicator's own schedule serves
// the common case of one collective at a time without an allocation. Where there is no memory for a
// further one, its arguments stay in the caller's request, in order, until another has ended.
// Advantage: no call fails or blocks for want of memory that others hold. Disadvantage: a schedule
// that waits is looked at by every progress.
//
// Why this cannot lock up: at every rank the oldest unfinished collective of a communicator has a
// schedule (the communicator's own is free then, or it holds it), so of all ranks' collectives the
// one with the lowest number runs at all ranks that have called it.

#include "msg/coll.h"

#include "core/error.h"
#include "msg/gpu.h"
#include "msg/op.h"
#include "msg/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t msg_collective_reserve_bytes(void)
{
    return sizeof(struct coll_comm) + COLL_WORLD_TEMP + 8192; // and what the allocator adds
}

// ---- Memory ----

#define GPU_FROM   (UINT64_C(1) << 20)  // of a reduction, in a job on GPUs
#define GPU_CHUNK  (UINT64_C(2) << 20)  // its chunks
#define GPU_BUDGET (UINT64_C(64) << 20) // the least budget that has room for two of them

// Large reductions in a job on GPUs, wherever the buffers are: each piece costs some microseconds
// there.
static bool in_large_chunks(const struct coll_comm *own, const struct coll_call *call)
{
    const struct msg_engine *engine = own->comm.engine;
    return engine->gpu && coll_reduces(call->kind) && call->operation != LEAT_OPERATION_USER &&
           call->count >= GPU_FROM / call->element && engine->pools.budget >= GPU_BUDGET;
}

// Chunks are of whole elements; their size depends on what all ranks know only.
static uint64_t chunk_bytes(const struct coll_comm *own, const struct coll_call *call)
{
    uint64_t most = own->temp_bytes / COLL_SLOTS, element = call->element;
    if (in_large_chunks(own, call))
        most = GPU_CHUNK;
    if (element > most)
        return element;
    // Divisions show in the smallest collectives.
    return element & (element - 1) ? most - most % element : most & ~(element - 1);
}

// Bytes of buffer that a call needs, whatever the communicator has.
static uint64_t buffer_bytes(const struct coll_comm *own, const struct coll_algorithm *algorithm,
                             const struct coll_call *call)
{
    if (algorithm->buffer == BUFFER_NONE)
        return 0;
    if (algorithm->buffer == BUFFER_BLOCKS)
        return own->temp_bytes; // coll_choose sees to that
    uint64_t chunk = chunk_bytes(own, call);
    return chunk > own->temp_bytes / 2 ? 2 * chunk : own->temp_bytes;
}

#define MORE_BYTES (COLL_TREE_REQUESTS * sizeof(struct msg_request) + COLL_TREE_STATE)

// Requests and state beyond what every schedule has; false: no room.
static bool more_take(struct msg_schedule *schedule, struct msg_engine *engine,
                      const struct coll_algorithm *algorithm)
{
    schedule->slot = schedule->own_slot;
    schedule->slot_count = COLL_REQUESTS;
    schedule->state = NULL;
    if (algorithm->buffer != BUFFER_TREES)
        return true;
    schedule->slot = msg_alloc(&engine->pools, POOL_WORK, MORE_BYTES);
    if (!schedule->slot)
        return false;
    schedule->slot_count = COLL_TREE_REQUESTS;
    schedule->state = schedule->slot + COLL_TREE_REQUESTS;
    return true;
}

static struct msg_schedule *schedule_take(struct coll_comm *own,
                                          const struct coll_algorithm *algorithm,
                                          const struct coll_call *call)
{
    struct msg_engine *engine = own->comm.engine;
    uint64_t buffer = buffer_bytes(own, algorithm, call);
    struct msg_schedule *schedule;
    void *lent = algorithm->buffer == BUFFER_CHUNKS && in_large_chunks(own, call) &&
                         msg_gpu_has(engine->gpu, call->receive)
                     ? msg_gpu_lend(engine->gpu, COLL_SLOTS * GPU_CHUNK)
                     : NULL;
    const uint64_t lent_bytes = COLL_SLOTS * GPU_CHUNK;
    if (lent)
        buffer = 0;
    bool reserve = !own->reserve_taken && buffer <= own->temp_bytes;
    uint64_t bytes = reserve ? 0 : sizeof *schedule + buffer;
    schedule = reserve ? &own->reserve : msg_alloc(&engine->pools, POOL_WORK, bytes);
    if (!schedule && lent)
        msg_gpu_take_back(engine->gpu);
    if (!schedule)
        return NULL;
    if (!more_take(schedule, engine, algorithm)) {
        if (lent)
            msg_gpu_take_back(engine->gpu);
        if (!reserve)
            msg_free(&engine->pools, POOL_WORK, schedule, bytes);
        return NULL;
    }
    schedule->extra_bytes = bytes;
    schedule->temp = own->temp;
    if (reserve)
        own->reserve_taken = true;
    else
        schedule->temp = buffer ? (uint8_t *)(schedule + 1) : NULL;
    schedule->lent = lent;
    if (lent) {
        schedule->temp = lent;
        buffer = lent_bytes;
    }
    if (buffer) {
        schedule->chunk = chunk_bytes(own, call);
        schedule->slots = schedule->chunk <= buffer / COLL_SLOTS
                              ? COLL_SLOTS
                              : (uint32_t)(buffer / schedule->chunk);
    }
    return schedule;
}

static void schedule_give(struct msg_schedule *schedule)
{
    struct coll_comm *own = coll_of(schedule->comm);
    struct msg_pools *pools = &schedule->engine->pools;
    own->running--;
    if (schedule->lent)
        msg_gpu_take_back(schedule->engine->gpu);
    if (schedule->slot != schedule->own_slot)
        msg_free(pools, POOL_WORK, schedule->slot, MORE_BYTES);
    if (schedule->extra_bytes)
        msg_free(pools, POOL_WORK, schedule, schedule->extra_bytes);
    else
        own->reserve_taken = false;
}

// ---- Running ----

// Takes back what the failed collective still wants; true once nothing is under way any more.
static bool withdrawn(struct msg_schedule *schedule)
{
    for (int slot = 0; slot < schedule->slot_count; slot++) {
        struct msg_request *request = &schedule->slot[slot];
        if (!(schedule->active & COLL_BIT(slot)))
            continue;
        bool read = request->kind == REQUEST_SEND && request->state == STATE_RENDEZVOUS &&
                    !coll_may_take_back(schedule, request->peer);
        if (msg_finished(request) || (!read && msg_drop(request) == 0))
            schedule->active &= ~COLL_BIT(slot);
    }
    return !schedule->active;
}

// Runs it as far as it goes; true: it is over, for better or worse.
static bool run(struct msg_schedule *schedule)
{
    const struct coll_algorithm *algorithm = schedule->algorithm;
    while (!schedule->error && algorithm->phase[schedule->phase]) {
        if (algorithm->phase[schedule->phase](schedule) == COLL_WAITING) {
            if (!schedule->error)
                return false;
            break;
        }
        schedule->phase++;
        schedule->point = 0;
    }
    if (!schedule->error && schedule->engine->gpu)
        schedule->error = msg_gpu_take_error(schedule->engine->gpu);
    if (!schedule->error)
        return coll_finished(schedule, COLL_ALL);
    coll_failed(schedule);
    return withdrawn(schedule);
}

// The first time. What it has read where others lay it they may have taken back, and have then said
// before why.
static bool run_first(struct msg_schedule *schedule)
{
    struct msg_engine *engine = schedule->engine;
    uint64_t fetched = engine->counts.direct;
    if (!run(schedule))
        return false;
    if (!schedule->error && engine->counts.direct != fetched) {
        msg_queue_progress(engine);
        if (coll_is_broken(schedule->comm, schedule->number)) {
            schedule->error = coll_of(schedule->comm)->broken_error;
            schedule->failed_peer = coll_of(schedule->comm)->broken_rank;
        }
    }
    return true;
}

static void begin(struct msg_schedule *schedule, leat_comm *comm, struct msg_request *request,
                  const struct coll_algorithm *algorithm, const struct coll_call *call,
                  uint32_t number)
{
    schedule->comm = comm;
    schedule->engine = comm->engine;
    schedule->request = request;
    schedule->algorithm = algorithm;
    schedule->call = *call;
    schedule->rank = comm->rank;
    schedule->rank_count = comm->rank_count;
    schedule->number = number;
    schedule->phase = 0;
    schedule->point = 0;
    schedule->error = 0;
    schedule->failed_peer = -1;
    schedule->active = 0;
    schedule->seen = UINT64_MAX;
    request->schedule = schedule;
    coll_of(comm)->running++;
}

static void end(struct msg_schedule *schedule)
{
    struct msg_request *request = schedule->request;
    leat_comm *comm = schedule->comm;
    int error = schedule->error;
    uint32_t kind = schedule->call.kind, number = schedule->number;
    int peer = schedule->failed_peer;
    coll_words_end(schedule);
    schedule_give(schedule);
    if (request) {
        request->schedule = NULL;
        // For what is said of it later.
        request->handle = kind;
        request->context = number;
        request->peer = peer;
        msg_finish(request, error);
    } else {
        coll_comm_release(comm); // it was freed before its last collective had ended
    }
}

// ---- Keeping back ----

// The request is the caller's and idle meanwhile, so the call lies in members that only messages
// use.
static void park(struct coll_comm *own, struct msg_request *request, const struct coll_call *call,
                 uint32_t number)
{
    request->data = (leat_data){.address = call->receive, .bytes = call->count};
    request->bin_next = (void *)(uintptr_t)call->send;
    request->bin_previous = (void *)(uintptr_t)call->user;
    request->stamp = (uintptr_t)call->send_counts;
    request->total = (uintptr_t)call->send_offsets;
    request->done = (uintptr_t)call->receive_counts;
    request->schedule = (void *)(uintptr_t)call->receive_offsets;
    request->tag = call->root;
    request->context = number;
    request->handle = (uint32_t)call->kind | (uint32_t)call->type << 8 |
                      (uint32_t)call->operation << 16 | (uint32_t)call->algorithm << 24;
    request->found = call->in_place;
    request->synchronous = call->ordered;
    request->next = NULL;
    if (own->parked)
        own->parked_last->next = request;
    else
        own->parked = request;
    own->parked_last = request;
}

static struct coll_call parked_call(const struct msg_request *request)
{
    struct coll_call call = {
        .kind = request->handle & 0xff,
        .type = request->handle >> 8 & 0xff,
        .operation = request->handle >> 16 & 0xff,
        .algorithm = (uint8_t)(request->handle >> 24),
        .in_place = request->found,
        .ordered = request->synchronous,
        .root = request->tag,
        .count = request->data.bytes,
        .send = (void *)request->bin_next,
        .receive = request->data.address,
        .user = (void *)request->bin_previous,
        .send_counts = (const void *)(uintptr_t)request->stamp,
        .send_offsets = (const void *)(uintptr_t)request->total,
        .receive_counts = (const void *)(uintptr_t)request->done,
        .receive_offsets = (const void *)request->schedule,
    };
    call.element = coll_element_bytes(&call);
    return call;
}

// The communicator is broken: it fails before it has begun.
static void end_broken(const struct coll_comm *own, struct msg_request *request, uint32_t kind,
                       uint32_t number)
{
    request->schedule = NULL;
    request->handle = kind;
    request->context = number;
    request->peer = own->broken_rank;
    msg_finish(request, own->broken_error);
}

// Begins a communicator's parked collectives, in order, as far as there is memory.
static void unpark(struct coll_comm *own)
{
    while (own->parked) {
        struct msg_request *request = own->parked;
        if (coll_is_broken(&own->comm, request->context)) {
            own->parked = request->next;
            end_broken(own, request, request->handle & 0xff, request->context);
            continue;
        }
        struct coll_call call = parked_call(request);
        const struct coll_algorithm *algorithm = coll_choose(&own->comm, &call);
        struct msg_schedule *schedule = schedule_take(own, algorithm, &call);
        if (!schedule)
            return;
        own->parked = request->next;
        begin(schedule, &own->comm, request, algorithm, &call, request->context);
        if (run_first(schedule)) {
            end(schedule);
        } else {
            schedule->next = own->comm.engine->schedules;
            own->comm.engine->schedules = schedule;
        }
    }
}

// Nothing that it could wait for has happened: the fixed-function path waits for other things, and
// one that has failed for messages that can be taken back.
static bool stands_still(struct msg_schedule *schedule)
{
    uint64_t seen = schedule->seen;
    schedule->seen = schedule->engine->finished;
    return seen == schedule->seen && !schedule->error &&
           schedule->algorithm->phase[0] != coll_words;
}

void msg_collective_progress(struct msg_engine *engine)
{
    bool ended = false;
    struct msg_schedule **link = &engine->schedules;
    while (*link) {
        struct msg_schedule *schedule = *link;
        if (stands_still(schedule) || !run(schedule)) {
            link = &schedule->next;
            continue;
        }
        *link = schedule->next;
        end(schedule);
        ended = true;
    }
    if (!ended && !engine->tellers)
        return;
    if (engine->world && coll_of(engine->world)->parked)
        unpark(coll_of(engine->world));
    for (leat_comm *comm = engine->comms; comm; comm = comm->next)
        if (coll_of(comm)->parked)
            unpark(coll_of(comm));
}

void msg_collective_abandon(struct msg_engine *engine, const leat_comm *comm)
{
    struct msg_schedule **link = &engine->schedules;
    while (*link) {
        struct msg_schedule *schedule = *link;
        if (comm && schedule->comm != comm) {
            link = &schedule->next;
            continue;
        }
        schedule->request = NULL;
        schedule->error = -ECANCELED;
        // What a live peer is still moving cannot be taken back: progress ends it later.
        if (comm && !withdrawn(schedule)) {
            link = &schedule->next;
            continue;
        }
        leat_comm *of = schedule->comm;
        *link = schedule->next;
        schedule_give(schedule);
        if (!comm)
            coll_comm_release(of);
    }
}

// ---- The call ----

static int start(leat_comm *comm, const struct coll_call *call, struct msg_request *request,
                 bool blocking)
{
    struct coll_comm *own = coll_of(comm);
    const struct coll_algorithm *algorithm = coll_choose(comm, call);
    uint32_t number = comm->collectives++ & 0x3fffffff;
    if (coll_is_broken(comm, number)) {
        end_broken(own, request, call->kind, number);
        return 0;
    }
    struct msg_schedule *schedule = own->parked ? NULL : schedule_take(own, algorithm, call);
    if (!schedule && !own->parked && !comm->engine->schedules)
        return leat_fail(-ENOBUFS,
                         "%s: the pool of work has no room for a buffer of %" PRIu64
                         " bytes (elements of %" PRIu64 "); raise LEAT_MSG_BUDGET",
                         coll_kind_name((enum leat_collective_kind)call->kind),
                         buffer_bytes(own, algorithm, call), call->element);
    if (!schedule) {
        park(own, request, call, number);
        return 0;
    }
    begin(schedule, comm, request, algorithm, call, number);
    if (run_first(schedule) || (blocking && coll_words_spin(schedule) && run(schedule))) {
        end(schedule);
    } else {
        schedule->next = comm->engine->schedules;
        comm->engine->schedules = schedule;
    }
    return 0;
}

// The caller's own operation is applied in the host's memory, and to whole elements.
static int check_element(struct msg_gpu *gpu, const struct coll_call *call)
{
    if (call->element <= msg_gpu_element_most(gpu) ||
        (!msg_gpu_has(gpu, call->send) && !msg_gpu_has(gpu, call->receive)))
        return 0;
    return leat_fail(-E2BIG,
                     "%s: elements of %" PRIu64 " bytes in memory of a GPU: at most %" PRIu64
                     "; have them in the host's memory, or raise LEAT_MSG_BUDGET",
                     coll_kind_name((enum leat_collective_kind)call->kind), call->element,
                     msg_gpu_element_most(gpu));
}

int leat_collective(leat_comm *comm, const leat_collective_options *options, leat_request *request)
{
    struct coll_call call;
    int error = coll_check(comm, options, &call);
    if (!error && comm->engine->gpu && call.user)
        error = check_element(comm->engine->gpu, &call);
    if (error)
        return error;
    leat_request own;
    struct msg_request *started = msg_request_of(request ? request : &own);
    started->status =
        (leat_status){.source = LEAT_ANY_RANK, .tag = LEAT_ANY_TAG, .error = 0, .bytes = 0};
    started->engine = comm->engine;
    started->comm = comm;
    started->status_to = NULL;
    started->peer = -1;
    started->kind = REQUEST_COLLECTIVE;
    started->state = STATE_PENDING;
    error = start(comm, &call, started, !request);
    if (error) {
        started->kind = REQUEST_NONE;
        started->state = STATE_FINISHED;
        return error;
    }
    if (request)
        return 0;
    error = msg_finished(started) ? started->status.error : msg_wait(started);
    if (error)
        msg_describe(started);
    return error;
}

// NULL: it is parked, or finished.
static const struct msg_schedule *schedule_of(const struct msg_request *request)
{
    const struct msg_schedule *at = request->engine->schedules;
    while (at && at->request != request)
        at = at->next;
    return at;
}

uint32_t msg_collective_number(const struct msg_request *request)
{
    const struct msg_schedule *schedule = schedule_of(request);
    return schedule ? schedule->number : request->context;
}

int msg_collective_awaits(const struct msg_request *request, int32_t *kind)
{
    const struct msg_schedule *schedule = schedule_of(request);
    *kind = (int32_t)(schedule ? schedule->call.kind : request->handle & 0xff);
    if (schedule && schedule->algorithm->phase[0] == coll_words)
        return coll_words_awaits(schedule);
    for (int slot = 0; schedule && slot < schedule->slot_count; slot++)
        if (schedule->active & COLL_BIT(slot) && !msg_finished(&schedule->slot[slot]))
            return schedule->slot[slot].peer;
    return -2;
}

void msg_collective_describe(const struct msg_request *request, char *text, size_t bytes)
{
    if (msg_finished(request)) {
        snprintf(text, bytes, "%s, collective %u of the communicator",
                 coll_kind_name((enum leat_collective_kind)request->handle), request->context);
        return;
    }
    const struct msg_schedule *schedule = schedule_of(request);
    if (!schedule) {
        snprintf(text, bytes, "a collective waits for memory that others hold");
        return;
    }
    int length = snprintf(text, bytes, "%s (%s) waits for",
                          coll_kind_name((enum leat_collective_kind)schedule->call.kind),
                          schedule->algorithm->name);
    if (length > 0 && (size_t)length < bytes && schedule->algorithm->phase[0] == coll_words) {
        coll_words_describe(schedule, text + length, bytes - (size_t)length);
        return;
    }
    const char *separator = " ";
    for (int slot = 0; slot < schedule->slot_count; slot++) {
        const struct msg_request *part = &schedule->slot[slot];
        if (!(schedule->active & COLL_BIT(slot)) || msg_finished(part))
            continue;
        if (length < 0 || (size_t)length >= bytes)
            return;
        length += snprintf(text + length, bytes - (size_t)length, "%srank %d to %s", separator,
                           (int)part->peer, part->kind == REQUEST_SEND ? "receive" : "send");
        separator = ", ";
    }
    if (*separator == ' ' && length > 0 && (size_t)length < bytes)
        snprintf(text + length, bytes - (size_t)length, " this rank to go on with it");
}
