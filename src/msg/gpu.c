// SPDX-License-Identifier: Apache-2.0
// Copies to and from memory of a GPU for small messages, and the tickets of large ones.
//
// Algorithm: what is written is gathered in a bounce buffer of pinned memory, pieces that continue
// one another as one copy, and is waited for once, before the request ends; what is read passes
// through the same buffer and is waited for at once. Copies that take time get a number and a mark
// of the lane, which works in order. Advantage: a message that comes in many fragments waits for
// the GPU once. Disadvantage: bytes pass through one more place, and who waits does nothing else.

#include "msg/gpu.h"

#include "core/job.h"
#include "device/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MARKS        64 /* copies under way, and one for what is waited for at once */
#define BOUNCE_LEAST (16 << 10)
#define BOUNCE_MOST  (64 << 10)

int msg_gpu_open(struct msg_engine *engine)
{
    struct leat_job *job = engine->job;
    const struct copies_ops *ops = job ? job->device->ops->copies : NULL;
    if (!ops || !ops->on_gpu)
        return 0;
    struct msg_gpu *gpu = msg_alloc(&engine->pools, POOL_STAGING, sizeof *gpu);
    if (!gpu)
        return leat_fail(-ENOMEM, "no memory to tell a GPU's buffers from the host's");
    leat_device_info info = {.size = sizeof info, .number = -1};
    job->device->ops->info(job->device, &info);
    gpu->engine = engine;
    gpu->device = job->device;
    gpu->ops = ops;
    gpu->number = info.number < 0 ? 0 : info.number;
    engine->gpu = gpu;
    return 0;
}

static void free_bounce(struct msg_gpu *gpu)
{
    if (!gpu->bounce)
        return;
    gpu->ops->free(gpu->device, gpu->bounce, gpu->bounce_bytes);
    msg_discharge(&gpu->engine->pools, POOL_STAGING, gpu->bounce_bytes);
    gpu->bounce = NULL;
}

void msg_gpu_close(struct msg_engine *engine)
{
    struct msg_gpu *gpu = engine->gpu;
    if (!gpu)
        return;
    if (gpu->lane) {
        msg_gpu_settle(gpu);
        if (gpu->started != gpu->passed)
            gpu->ops->passed(gpu->lane, gpu->started % MARKS, true);
        msg_gpu_share_close(gpu);
        gpu->ops->close(gpu->lane);
    }
    // A rank that only receives into the host's memory has no lane, but these.
    msg_gpu_area_free(gpu);
    msg_gpu_far_close(gpu);
    if (gpu->lent)
        gpu->device->ops->region_free(gpu->device, gpu->lent);
    free_bounce(gpu);
    msg_free(&engine->pools, POOL_STAGING, gpu, sizeof *gpu);
    engine->gpu = NULL;
}

int msg_gpu_note(struct msg_gpu *gpu, int error)
{
    if (error < 0)
        snprintf(gpu->why, sizeof gpu->why, "%s", leat_error_detail());
    return error;
}

static void note(struct msg_gpu *gpu, int error)
{
    if (error < 0 && !gpu->error)
        gpu->error = msg_gpu_note(gpu, error);
}

// When the first memory of a GPU is met.
static int open_lane(struct msg_gpu *gpu)
{
    struct msg_pools *pools = &gpu->engine->pools;
    uint64_t bytes = pools->pool[POOL_STAGING].limit / 16 / BOUNCE_LEAST * BOUNCE_LEAST;
    void *bounce = NULL;
    bytes = bytes < BOUNCE_LEAST ? BOUNCE_LEAST : bytes > BOUNCE_MOST ? BOUNCE_MOST : bytes;
    if (!gpu->bounce) {
        if (msg_charge(pools, POOL_STAGING, bytes))
            return leat_fail(-ENOBUFS,
                             "the pool of staging has no %llu bytes for copies to a GPU; raise "
                             "LEAT_MSG_BUDGET",
                             (unsigned long long)bytes);
        int error = gpu->ops->alloc(gpu->device, gpu->number, bytes, &bounce);
        if (error) {
            msg_discharge(pools, POOL_STAGING, bytes);
            return error;
        }
        gpu->bounce = bounce;
        gpu->bounce_bytes = bytes;
    }
    return gpu->ops->open(gpu->device, gpu->number, MARKS + 1, COPIES_POLL, &gpu->lane);
}

int msg_gpu_look(struct msg_engine *engine, const leat_data *data)
{
    struct msg_gpu *gpu = engine->gpu;
    struct copies_found found;
    void *at = data->address;
    if (!gpu || !data->bytes)
        return 0;
    if (data->layout && (!msg_layout_piece(data, 0, &at) || !at))
        return 0;
    if (!gpu->ops->on_gpu(gpu->device, at))
        return 0;
    uint64_t bytes = data->layout ? 1 : data->bytes;
    int error = gpu->ops->find(gpu->device, at, bytes, &found);
    if (!error && !gpu->lane)
        error = open_lane(gpu);
    return error ? msg_gpu_note(gpu, error) : 1;
}

// ---- What is waited for ----

static void push(struct msg_gpu *gpu)
{
    if (!gpu->bytes)
        return;
    note(gpu, gpu->ops->copy(gpu->lane, gpu->to, gpu->bounce + gpu->from, gpu->bytes));
    gpu->bytes = 0;
    gpu->unsettled = true;
}

static void await_lane(struct msg_gpu *gpu)
{
    int error = gpu->ops->mark(gpu->lane, MARKS);
    note(gpu, error ? error : gpu->ops->passed(gpu->lane, MARKS, true));
}

int msg_gpu_settle(struct msg_gpu *gpu)
{
    push(gpu);
    if (gpu->unsettled)
        await_lane(gpu);
    gpu->unsettled = false;
    gpu->used = 0;
    return msg_gpu_take_error(gpu);
}

int msg_gpu_take_error(struct msg_gpu *gpu)
{
    int error = gpu->error;
    gpu->error = 0;
    return error;
}

// Keeps the error for who asks for it.
static void make_room(struct msg_gpu *gpu)
{
    if (gpu->used == gpu->bounce_bytes)
        note(gpu, msg_gpu_settle(gpu));
}

static void write_piece(struct msg_gpu *gpu, char *to, const char *from, uint64_t bytes)
{
    while (bytes) {
        make_room(gpu);
        uint64_t room = gpu->bounce_bytes - gpu->used, part = bytes < room ? bytes : room;
        if (!gpu->bytes || gpu->to + gpu->bytes != to || gpu->from + gpu->bytes != gpu->used) {
            push(gpu);
            gpu->to = to;
            gpu->from = gpu->used;
        }
        memcpy(gpu->bounce + gpu->used, from, part);
        gpu->used += part;
        gpu->bytes += part;
        to += part;
        from += part;
        bytes -= part;
    }
}

void msg_gpu_write(struct msg_gpu *gpu, const leat_data *data, uint64_t offset, const void *from,
                   uint64_t bytes)
{
    const char *next = from;
    while (bytes) {
        void *at;
        uint64_t part = msg_layout_piece(data, offset, &at);
        if (!part)
            return; // a piece function that breaks its promise
        part = part < bytes ? part : bytes;
        write_piece(gpu, at, next, part);
        next += part;
        offset += part;
        bytes -= part;
    }
}

// As much as the bounce buffer has room for.
static uint64_t read_some(struct msg_gpu *gpu, const leat_data *data, uint64_t offset, void *to,
                          uint64_t bytes)
{
    uint64_t begin = gpu->used, done = 0;
    while (done < bytes && gpu->used < gpu->bounce_bytes) {
        void *at;
        uint64_t part = msg_layout_piece(data, offset + done, &at);
        if (!part) {
            note(gpu, -EINVAL);
            return bytes;
        }
        uint64_t room = gpu->bounce_bytes - gpu->used;
        part = part < bytes - done ? part : bytes - done;
        part = part < room ? part : room;
        note(gpu, gpu->ops->copy(gpu->lane, gpu->bounce + gpu->used, at, part));
        gpu->used += part;
        done += part;
    }
    await_lane(gpu);
    memcpy(to, gpu->bounce + begin, done);
    gpu->used = begin;
    return done;
}

int msg_gpu_read(struct msg_gpu *gpu, const leat_data *data, uint64_t offset, void *to,
                 uint64_t bytes)
{
    char *next = to;
    push(gpu);
    while (bytes) {
        make_room(gpu);
        uint64_t some = read_some(gpu, data, offset, next, bytes);
        next += some;
        offset += some;
        bytes -= some;
    }
    return msg_gpu_take_error(gpu);
}

bool msg_gpu_has(struct msg_gpu *gpu, const void *address)
{
    if (!address || !gpu->ops->on_gpu(gpu->device, address))
        return false;
    if (!gpu->lane)
        note(gpu, open_lane(gpu));
    return true;
}

void msg_gpu_move(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    if (!gpu->lane)
        return; // the error was noted
    push(gpu);
    note(gpu, gpu->ops->copy(gpu->lane, to, from, bytes));
    await_lane(gpu);
}

void msg_gpu_reduce(struct msg_gpu *gpu, unsigned operation, unsigned type, const void *in,
                    void *inout, uint64_t count)
{
    note(gpu, gpu->ops->combine(gpu->lane, operation, type, in, inout, count));
    await_lane(gpu);
}

void *msg_gpu_lend(struct msg_gpu *gpu, uint64_t bytes)
{
    const struct device_ops *ops = gpu->device->ops;
    if (gpu->lent_out || !gpu->ops->combine || !ops->region_alloc)
        return NULL;
    if (!gpu->lent && ops->region_alloc(gpu->device, bytes, &gpu->lent))
        gpu->lent = NULL;
    gpu->lent_out = gpu->lent != NULL;
    return gpu->lent;
}

void msg_gpu_take_back(struct msg_gpu *gpu)
{
    gpu->lent_out = false;
}

// ---- What is looked at again ----

int msg_gpu_start(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes, uint16_t *ticket)
{
    if (gpu->broken)
        return gpu->broken;
    if ((uint16_t)(gpu->started - gpu->passed) == MARKS)
        return -EAGAIN;
    int error = gpu->ops->copy(gpu->lane, to, from, bytes);
    uint16_t next = (uint16_t)(gpu->started + 1);
    if (!error)
        error = gpu->ops->mark(gpu->lane, next % MARKS);
    if (error)
        return msg_gpu_note(gpu, error);
    gpu->started = next;
    *ticket = next;
    return 0;
}

// Which of the copies has failed nobody can say. None may go on in memory that callers get back.
static int give_up(struct msg_gpu *gpu, int error)
{
    gpu->broken = msg_gpu_note(gpu, error);
    (void)gpu->ops->passed(gpu->lane, gpu->started % MARKS, true);
    gpu->passed = gpu->started;
    return error;
}

int msg_gpu_passed(struct msg_gpu *gpu, uint16_t ticket)
{
    if (gpu->broken)
        return gpu->broken;
    while ((int16_t)(gpu->passed - ticket) < 0) {
        int over = gpu->ops->passed(gpu->lane, (uint16_t)(gpu->passed + 1) % MARKS, false);
        if (over < 0)
            return give_up(gpu, over);
        if (!over)
            return 0;
        gpu->passed++;
    }
    return 1;
}
