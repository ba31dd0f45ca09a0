// SPDX-License-Identifier: Apache-2.0
// Collectives with buffers in memory of GPUs: their copies and combinations.
//
// Algorithm: algorithms of collectives move addresses about and never look behind them, so all that
// is needed is here: a copy that may have either kind of memory at either end, and a combination
// that brings what lies on a GPU into the bounce buffer, piece by piece, combines it there by the
// same loops as ever, and writes it back. Advantage: every algorithm, type and caller's operation
// works, with the same bits as in memory of the host; a device with kernels for it combines where
// the values are. Disadvantage: a kernel or copy is waited for at every piece.

#include "msg/gpu.h"

#include "msg/coll.h"
#include "msg/op.h"

#include <errno.h>
#include <string.h>

// Two operands of the host at a time, and as much again for what is read and written.
#define QUARTER(gpu) ((gpu)->bounce_bytes / 4)

static leat_data plain(const void *address, uint64_t bytes)
{
    return (leat_data){.address = (void *)(uintptr_t)address, .bytes = bytes};
}

static void note(struct msg_gpu *gpu, int error)
{
    if (error && !gpu->error)
        gpu->error = error;
}

// Nothing is read or written after a failure: the bounce buffer may be missing.
static void read_now(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    leat_data data = plain(from, bytes);
    if (gpu->lane && !gpu->error)
        note(gpu, msg_gpu_read(gpu, &data, 0, to, bytes));
}

static void write_now(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    leat_data data = plain(to, bytes);
    if (!gpu->lane || gpu->error)
        return;
    msg_gpu_write(gpu, &data, 0, from, bytes);
    note(gpu, msg_gpu_settle(gpu));
}

// Towards the beginning, so that a piece is read before what follows it is written over it.
static void move_pieces(struct msg_gpu *gpu, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t done = 0; !gpu->error && done < bytes; done += QUARTER(gpu)) {
        uint64_t some = bytes - done < QUARTER(gpu) ? bytes - done : QUARTER(gpu);
        note(gpu, msg_gpu_settle(gpu));
        gpu->used = QUARTER(gpu);
        read_now(gpu, gpu->bounce, from + done, some);
        write_now(gpu, to + done, gpu->bounce, some);
    }
}

void msg_gpu_copy(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    bool to_gpu = msg_gpu_has(gpu, to), from_gpu = msg_gpu_has(gpu, from);
    bool overlap = (uintptr_t)from - (uintptr_t)to < bytes;
    if (to_gpu && from_gpu && overlap && gpu->lane)
        move_pieces(gpu, to, from, bytes);
    else if (to_gpu && from_gpu)
        msg_gpu_move(gpu, to, from, bytes);
    else if (to_gpu)
        write_now(gpu, to, from, bytes);
    else if (from_gpu)
        read_now(gpu, to, from, bytes);
    else
        memmove(to, from, bytes);
}

// ---- Combinations ----

uint64_t msg_gpu_element_most(const struct msg_gpu *gpu)
{
    return gpu->bounce ? QUARTER(gpu) : 4096;
}

static void combine_piece(struct msg_gpu *gpu, const struct coll_call *call, const uint8_t *in,
                          uint8_t *inout, uint64_t bytes, bool in_gpu, bool inout_gpu)
{
    // Reads and writes use what follows.
    uint8_t *a = gpu->bounce, *b = gpu->bounce + QUARTER(gpu);
    const uint8_t *x = in;
    uint8_t *y = inout;
    note(gpu, msg_gpu_settle(gpu));
    gpu->used = 2 * QUARTER(gpu);
    if (in_gpu) {
        read_now(gpu, a, in, bytes);
        x = a;
    }
    if (inout_gpu) {
        read_now(gpu, b, inout, bytes);
        y = b;
    }
    if (gpu->error)
        return;
    msg_combine((enum leat_operation)call->operation, (enum leat_type)call->type, call->user, x, y,
                bytes / call->element);
    if (inout_gpu)
        write_now(gpu, inout, b, bytes);
}

// By the device itself: values of the host are put where it reads them, as many as there is room
// for.
static void combine_there(struct msg_gpu *gpu, const struct coll_call *call, const uint8_t *in,
                          uint8_t *inout, uint64_t bytes, bool in_gpu)
{
    uint64_t most = in_gpu ? bytes : gpu->bounce_bytes / call->element * call->element;
    for (uint64_t done = 0; !gpu->error && done < bytes; done += most) {
        uint64_t some = bytes - done < most ? bytes - done : most;
        note(gpu, msg_gpu_settle(gpu));
        if (!in_gpu)
            memcpy(gpu->bounce, in + done, some);
        if (!gpu->error)
            msg_gpu_reduce(gpu, call->operation, call->type, in_gpu ? in + done : gpu->bounce,
                           inout + done, some / call->element);
    }
}

void msg_gpu_combine(struct msg_gpu *gpu, const struct coll_call *call, const void *in, void *inout,
                     uint64_t bytes)
{
    bool in_gpu = msg_gpu_has(gpu, in), inout_gpu = msg_gpu_has(gpu, inout);
    const uint8_t *x = in;
    uint8_t *y = inout;
    if (!in_gpu && !inout_gpu) {
        msg_combine((enum leat_operation)call->operation, (enum leat_type)call->type, call->user,
                    in, inout, bytes / call->element);
        return;
    }
    if (!gpu->lane)
        return;
    if (inout_gpu && gpu->ops->combine && call->operation != LEAT_OPERATION_USER &&
        ((uintptr_t)in | (uintptr_t)inout) % call->element == 0) {
        combine_there(gpu, call, in, inout, bytes, in_gpu);
        return;
    }
    uint64_t most = QUARTER(gpu) / call->element * call->element;
    if (!most)
        note(gpu, -E2BIG); // asked for before the call began, but for pieces of that size
    for (uint64_t done = 0; most && !gpu->error && done < bytes; done += most) {
        uint64_t some = bytes - done < most ? bytes - done : most;
        combine_piece(gpu, call, x + done, y + done, some, in_gpu, inout_gpu);
    }
}

void msg_gpu_combine_alone(struct msg_gpu *gpu, const struct coll_call *call, void *values,
                           uint64_t bytes)
{
    enum leat_operation operation = (enum leat_operation)call->operation;
    enum leat_type type = (enum leat_type)call->type;
    uint8_t *at = values;
    if (!msg_gpu_has(gpu, values)) {
        msg_combine_alone(operation, type, values, bytes / call->element);
        return;
    }
    if (operation == LEAT_OPERATION_USER || !gpu->lane)
        return; // nothing to be done with one value
    uint8_t *piece = gpu->bounce;
    uint64_t most = QUARTER(gpu) / call->element * call->element;
    for (uint64_t done = 0; !gpu->error && done < bytes; done += most) {
        uint64_t some = bytes - done < most ? bytes - done : most;
        note(gpu, msg_gpu_settle(gpu));
        gpu->used = 2 * QUARTER(gpu);
        read_now(gpu, piece, at + done, some);
        if (!gpu->error)
            msg_combine_alone(operation, type, piece, some / call->element);
        write_now(gpu, at + done, piece, some);
    }
}
