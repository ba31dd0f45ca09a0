// SPDX-License-Identifier: Apache-2.0
// Messages of a schedule: single ones, streams cut into chunks, exchanges that combine.
//
// Algorithm: a stream keeps up to COLL_SLOTS messages under way, in order, so that the copy of one
// chunk and the combining of another overlap where ranks run at the same time. A receive whose
// values are to be combined goes straight to its target when that is free, and else through a slot
// of the buffer. Advantage: one loop serves every algorithm, and data is combined while it is still
// in the cache. Disadvantage: a chunk a message costs the start of one each time.
//
// Sizes are checked at every receive: a message of another size than this rank expects can only
// come from a call that does not fit this one.

#include "msg/coll.h"

#include "core/error.h"
#include "msg/gpu.h"
#include "msg/op.h"

#include <errno.h>
#include <string.h>

static uint32_t context_of(const struct msg_schedule *schedule)
{
    return schedule->comm->context | 1;
}

static int tag_of(const struct msg_schedule *schedule, int lane)
{
    return (int)((schedule->number << 3 | (uint32_t)lane) & 0x7fffffff);
}

static void start_send(struct msg_schedule *schedule, int slot, int peer, int lane,
                       const void *from, uint64_t bytes, bool direct)
{
    schedule->active |= COLL_BIT(slot);
    // A send leaves its data alone.
    leat_data data = {.address = (void *)(uintptr_t)from, .bytes = bytes};
    // What is announced is read once it is matched, so it is synchronous.
    msg_start_send(schedule->engine, &schedule->slot[slot], NULL, context_of(schedule), data,
                   msg_comm_job_rank(schedule->comm, peer), tag_of(schedule, lane), direct);
}

void coll_send(struct msg_schedule *schedule, int slot, int peer, int lane, const void *from,
               uint64_t bytes)
{
    start_send(schedule, slot, peer, lane, from, bytes, false);
}

void coll_send_direct(struct msg_schedule *schedule, int slot, int peer, int lane, const void *from,
                      uint64_t bytes)
{
    start_send(schedule, slot, peer, lane, from, bytes, true);
}

void coll_receive(struct msg_schedule *schedule, int slot, int peer, int lane, void *to,
                  uint64_t bytes)
{
    schedule->active |= COLL_BIT(slot);
    msg_start_receive(schedule->engine, &schedule->slot[slot], NULL, context_of(schedule),
                      (leat_data){.address = to, .bytes = bytes},
                      msg_comm_job_rank(schedule->comm, peer), tag_of(schedule, lane));
}

static const char *call_name(const struct msg_schedule *schedule)
{
    return coll_kind_name((enum leat_collective_kind)schedule->call.kind);
}

// Notes why a finished request ends the collective.
static void check(struct msg_schedule *schedule, const struct msg_request *request)
{
    int error = request->status.error;
    bool receive = request->kind == REQUEST_RECEIVE;
    if (receive && (error == -EMSGSIZE || (!error && request->total != request->data.bytes)))
        error = leat_fail(
            -EPROTO,
            "%s, collective %u of the communicator: rank %d expected %llu bytes from rank %d and "
            "got %llu; all ranks have to call it with the same kind, count, type, "
            "operation and root, in the same order of collectives",
            call_name(schedule), schedule->number,
            msg_comm_job_rank(schedule->comm, schedule->rank),
            (unsigned long long)request->data.bytes, (int)request->peer,
            (unsigned long long)request->total);
    else if (error && error != -ECANCELED)
        leat_fail(error, "%s, collective %u of the communicator, at rank %d: %s rank %d %s (%s)",
                  call_name(schedule), schedule->number,
                  msg_comm_job_rank(schedule->comm, schedule->rank),
                  receive ? "receiving from" : "sending to", (int)request->peer,
                  error == -ECONNRESET ? "has died or left the job" : "failed", strerror(-error));
    if (!schedule->error) {
        schedule->error = error;
        schedule->failed_peer = request->peer;
    }
}

bool coll_finished_slow(struct msg_schedule *schedule, uint64_t mask)
{
    uint64_t left = schedule->active & mask;
    while (left) {
        int slot = __builtin_ctzll(left);
        left &= left - 1;
        struct msg_request *request = &schedule->slot[slot];
        if (!msg_finished(request))
            continue;
        schedule->active &= ~COLL_BIT(slot);
        if (request->status.error ||
            (request->kind == REQUEST_RECEIVE && request->total != request->data.bytes))
            check(schedule, request);
    }
    return !(schedule->active & mask) && !schedule->error;
}

// ---- Streams ----

void coll_out_open(struct coll_out *out, int first, int lane, int peer, const void *from,
                   uint64_t bytes, uint64_t chunk)
{
    out->next = from;
    out->left = bytes;
    out->chunk = chunk && chunk < bytes ? chunk : bytes;
    out->started = out->finished = 0;
    out->peer = peer;
    out->first = (uint8_t)first;
    out->lane = (uint8_t)lane;
}

bool coll_out_move(struct msg_schedule *schedule, struct coll_out *out, uint64_t ready)
{
    while (out->finished < out->started &&
           coll_finished(schedule, COLL_BIT(out->first + out->finished % COLL_SLOTS)))
        out->finished++;
    while (out->left && out->started - out->finished < COLL_SLOTS) {
        uint64_t bytes = out->left < out->chunk ? out->left : out->chunk;
        if (ready < bytes)
            break;
        coll_send(schedule, out->first + (int)(out->started % COLL_SLOTS), out->peer, out->lane,
                  out->next, bytes);
        out->started++;
        out->next += bytes;
        out->left -= bytes;
        ready -= bytes;
    }
    return coll_out_ended(out) && !schedule->error;
}

void coll_in_open(struct coll_in *in, int first, int lane, int peer, void *to, uint64_t bytes,
                  uint64_t chunk)
{
    in->next = to;
    in->left = bytes;
    in->chunk = chunk && chunk < bytes ? chunk : bytes;
    in->posted = in->taken = 0;
    in->peer = peer;
    in->first = (uint8_t)first;
    in->lane = (uint8_t)lane;
}

// Messages that may be under way: a slot each where they go through the buffer.
static uint64_t window_of(const struct msg_schedule *schedule, const struct coll_in *in)
{
    return in->next ? COLL_SLOTS : schedule->slots;
}

static void post(struct msg_schedule *schedule, struct coll_in *in)
{
    uint64_t slots = window_of(schedule, in);
    while (in->left && in->posted - in->taken < slots) {
        uint64_t some = in->left < in->chunk ? in->left : in->chunk;
        uint64_t place = in->posted % slots;
        coll_receive(schedule, in->first + (int)place, in->peer, in->lane,
                     in->next ? in->next : schedule->temp + place * schedule->chunk, some);
        in->posted++;
        in->next = in->next ? in->next + some : NULL;
        in->left -= some;
    }
}

uint8_t *coll_in_next(struct msg_schedule *schedule, struct coll_in *in, uint64_t *bytes)
{
    post(schedule, in);
    if (in->taken == in->posted)
        return NULL;
    int slot = in->first + (int)(in->taken % window_of(schedule, in));
    if (!coll_finished(schedule, COLL_BIT(slot)))
        return NULL;
    *bytes = schedule->slot[slot].data.bytes;
    return schedule->slot[slot].data.address;
}

void coll_in_take(struct coll_in *in)
{
    in->taken++;
}

// ---- Combining ----

void coll_copy(const struct msg_schedule *schedule, void *to, const void *from, uint64_t bytes)
{
    struct msg_memory *memory = schedule->engine->memory;
    if (!bytes || to == from)
        return;
    if (memory)
        memory->copy(memory, to, from, bytes);
    else if (schedule->engine->gpu)
        msg_gpu_copy(schedule->engine->gpu, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void coll_move(const struct msg_schedule *schedule, void *to, const void *from, uint64_t bytes)
{
    if (schedule->engine->gpu)
        msg_gpu_copy(schedule->engine->gpu, to, from, bytes);
    else
        memmove(to, from, bytes);
}

void coll_combine(const struct msg_schedule *schedule, const void *in, void *inout, uint64_t bytes)
{
    const struct coll_call *call = &schedule->call;
    enum leat_operation operation = (enum leat_operation)call->operation;
    enum leat_type type = (enum leat_type)call->type;
    struct msg_memory *memory = schedule->engine->memory;
    if (memory)
        memory->combine(memory, operation, type, call->user, in, inout, bytes / call->element);
    else if (schedule->engine->gpu)
        msg_gpu_combine(schedule->engine->gpu, call, in, inout, bytes);
    else
        msg_combine(operation, type, call->user, in, inout, bytes / call->element);
}

void coll_combine_alone(const struct msg_schedule *schedule, void *values, uint64_t bytes)
{
    const struct coll_call *call = &schedule->call;
    if (schedule->engine->gpu)
        msg_gpu_combine_alone(schedule->engine->gpu, call, values, bytes);
    else
        msg_combine_alone((enum leat_operation)call->operation, (enum leat_type)call->type, values,
                          bytes / call->element);
}

void coll_fold(struct msg_schedule *schedule, uint8_t *target, const uint8_t *own,
               uint8_t *received, uint64_t bytes, bool lower)
{
    if (received == target) {
        coll_combine(schedule, own, target, bytes);
        return;
    }
    coll_copy(schedule, target, own, bytes);
    if (lower || schedule->call.operation != LEAT_OPERATION_USER) {
        coll_combine(schedule, received, target, bytes);
        return;
    }
    coll_combine(schedule, target, received, bytes);
    coll_copy(schedule, target, received, bytes);
}

void coll_exchange_open(struct msg_schedule *schedule, int to, const void *from, uint64_t bytes,
                        int source, void *target, uint64_t target_bytes, uint64_t chunk)
{
    struct coll_exchange *exchange = &schedule->exchange;
    coll_out_open(&exchange->out, 0, 0, to, from, bytes, chunk);
    coll_in_open(&exchange->in, COLL_SLOTS, 0, source, target, target_bytes, chunk);
    exchange->target = target;
    exchange->mode = EXCHANGE_PLAIN;
}

void coll_exchange_fold(struct msg_schedule *schedule, const void *own, bool lower)
{
    struct coll_exchange *exchange = &schedule->exchange;
    exchange->mode = EXCHANGE_FOLD;
    exchange->own = own;
    exchange->lower = lower;
    if (!coll_fold_direct(schedule, exchange->target, own, lower))
        exchange->in.next = NULL;
}

void coll_exchange_replace(struct msg_schedule *schedule)
{
    schedule->exchange.mode = EXCHANGE_REPLACE;
    schedule->exchange.in.next = NULL;
}

bool coll_exchange(struct msg_schedule *schedule)
{
    struct coll_exchange *exchange = &schedule->exchange;
    uint64_t bytes;
    uint8_t *received;
    // What goes out before what has come, for which the peer does not wait; but what follows stores
    // to the peer's memory may wait for them, so receives are posted first of all.
    post(schedule, &exchange->in);
    coll_out_move(schedule, &exchange->out, exchange->out.left);
    while ((received = coll_in_next(schedule, &exchange->in, &bytes)) != NULL) {
        if (exchange->mode == EXCHANGE_REPLACE) {
            // The same chunk of what goes out has to be gone.
            coll_out_move(schedule, &exchange->out, exchange->out.left);
            if (exchange->out.finished <= exchange->in.taken)
                return false;
            coll_copy(schedule, exchange->target, received, bytes);
        } else if (exchange->mode == EXCHANGE_FOLD) {
            coll_fold(schedule, exchange->target, exchange->own, received, bytes, exchange->lower);
            exchange->own += bytes;
        }
        exchange->target += bytes;
        coll_in_take(&exchange->in);
    }
    return coll_in_ended(&exchange->in) && !schedule->error &&
           coll_out_move(schedule, &exchange->out, exchange->out.left);
}

// ---- Blocks ----

void coll_cursor_open(struct coll_cursor *cursor, const struct msg_schedule *schedule,
                      const uint64_t *counts, const uint64_t *offsets)
{
    cursor->counts = counts;
    cursor->offsets = offsets;
    cursor->count = schedule->call.count;
    cursor->element = schedule->call.element;
    cursor->at = cursor->total = 0;
    cursor->rank = 0;
    cursor->rank_count = schedule->rank_count;
    if (counts && !offsets)
        for (int rank = 0; rank < cursor->rank_count; rank++)
            cursor->total += counts[rank];
}

uint64_t coll_block_bytes(const struct coll_cursor *cursor, int rank)
{
    return (cursor->counts ? cursor->counts[rank] : cursor->count) * cursor->element;
}

uint64_t coll_block_offset(struct coll_cursor *cursor, int rank)
{
    if (!cursor->counts)
        return (uint64_t)rank * cursor->count * cursor->element;
    if (cursor->offsets)
        return cursor->offsets[rank] * cursor->element;
    // Steps go to neighbours mostly, also around the end.
    if (rank < cursor->rank && rank < cursor->rank - rank) {
        cursor->rank = 0;
        cursor->at = 0;
    } else if (rank > cursor->rank && cursor->rank_count - rank < rank - cursor->rank) {
        cursor->rank = cursor->rank_count;
        cursor->at = cursor->total;
    }
    while (cursor->rank < rank)
        cursor->at += cursor->counts[cursor->rank++];
    while (cursor->rank > rank)
        cursor->at -= cursor->counts[--cursor->rank];
    return cursor->at * cursor->element;
}

uint64_t coll_part(const struct msg_schedule *schedule, int index, int parts)
{
    uint64_t count = schedule->call.count, each = count / (uint64_t)parts,
             rest = count % (uint64_t)parts, before = (uint64_t)index;
    return (before * each + (before < rest ? before : rest)) * schedule->call.element;
}
