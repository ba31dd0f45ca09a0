/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data in memory of GPUs: found by address, moved by copies of the rank's device.
 *
 * A request's data is looked at when it starts: where the driver says that the address is of a
 * GPU, no load or store of the engine may touch it. Small messages go through a bounce buffer that
 * the device copies at full speed, so they take the ways of all others; larger ones are announced,
 * and copied from GPU to GPU where one rank reaches both, else through pinned pipes (gpu_pipe.c).
 * Copies that take time are started and looked at again; only what is small is waited for.
 * Advantage: rings, matching, budget and errors are the same for all memory. Disadvantage: a small
 * message costs a copy by the driver at each side, some microseconds.
 *
 * Where the job's device is no GPU there is no struct msg_gpu, and nobody asks anything.
 */
#ifndef LEAT_MSG_GPU_H
#define LEAT_MSG_GPU_H

#include "msg/internal.h"

#include "device/copies.h"

/* The largest message of a GPU's memory that is not announced. */
#define MSG_GPU_EAGER 4096

#define MSG_GPU_PIPES 2
/* The pool of staging has to have room for it beside a pipe. */
#define MSG_GPU_LEAST (112 << 10)

struct gpu_table;
struct msg_gpu_far;
struct msg_gpu_views;

struct msg_gpu {
    struct msg_engine *engine;
    struct device *device;
    const struct copies_ops *ops;
    struct copies_lane *lane; /* NULL until memory of a GPU was met */
    int number;               /* of the rank's GPU */

    /* What small copies pass through: [used, bounce_bytes) is free. */
    uint8_t *bounce;
    uint64_t bounce_bytes, used;
    char *to; /* the last piece written, which is not on its way yet, as it may grow */
    uint64_t from, bytes;
    bool unsettled; /* pieces are on their way */
    int error;      /* of small copies, that nobody has been told of */
    int broken;     /* of copies with tickets: it stays */
    char why[240];  /* what the device said of the last one */

    void *lent; /* memory of the GPU for one collective's buffer, once one has asked for it */
    bool lent_out;

    /* Copies of the lane, in order: those started, and of these the ones known to be over. */
    uint16_t started, passed;

    /* gpu_share.c's: what this rank has named to others, and what it has mapped of theirs. */
    struct gpu_table *table;
    struct msg_token table_token;
    struct msg_gpu_views *views;

    struct msg_gpu_far *far; /* gpu_far.c's, made at its first message */

    /* gpu_pipe.c's. */
    void *area; /* this rank's, made at the first message that needs it */
    struct msg_token area_token;
    uint64_t fragment_bytes;
    uint32_t area_taken; /* bits: pipes in use */
    bool area_pinned;
    uint64_t far_uses;
    struct {
        void *address;
        uint64_t bytes, used; /* the oldest goes */
        bool pinned;
    } far_area[8]; /* peers', pinned here too */
};

/* ---- gpu.c ---- */
/* Nothing where the job's device is no GPU. */
int msg_gpu_open(struct msg_engine *engine);
/* Waits for what is on its way. */
void msg_gpu_close(struct msg_engine *engine);
/* Keeps what the device has just said of an error, for who is told of it later; the error. */
int msg_gpu_note(struct msg_gpu *gpu, int error);
/* Whether data lies in memory of a GPU: 1, 0, or an error where leat cannot use it (-ERANGE: the
 * allocation ends before the data does; -ENOTSUP, -EIO: CUDA says why). */
int msg_gpu_look(struct msg_engine *engine, const leat_data *data);

/* Copies bytes of a request's data to memory of the host, done on return. */
int msg_gpu_read(struct msg_gpu *gpu, const leat_data *data, uint64_t offset, void *to,
                 uint64_t bytes);
/* The other way; `from` may be changed on return, the bytes are there after msg_gpu_settle. */
void msg_gpu_write(struct msg_gpu *gpu, const leat_data *data, uint64_t offset, const void *from,
                   uint64_t bytes);
/* 0, or the first error of what was written. */
int msg_gpu_settle(struct msg_gpu *gpu);

/* The bytes of a request, wherever they lie: to and from memory of the host. */
static inline void msg_put_bytes(const struct msg_request *request, uint64_t offset,
                                 const void *from, uint64_t bytes)
{
    if (request->gpu)
        msg_gpu_write(request->engine->gpu, &request->data, offset, from, bytes);
    else
        msg_layout_write(&request->data, offset, from, bytes);
}
static inline int msg_get_bytes(const struct msg_request *request, uint64_t offset, void *to,
                                uint64_t bytes)
{
    if (request->gpu)
        return msg_gpu_read(request->engine->gpu, &request->data, offset, to, bytes);
    msg_layout_read(&request->data, offset, to, bytes);
    return 0;
}

/* Starts a copy between any two addresses. 0; -EAGAIN: too many are under way; or an error. */
int msg_gpu_start(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes,
                  uint16_t *ticket);
/* 1: that copy is over, 0: not yet, or an error. */
int msg_gpu_passed(struct msg_gpu *gpu, uint16_t ticket);

/* Whether an address is of a GPU. */
bool msg_gpu_has(struct msg_gpu *gpu, const void *address);
/* Between two addresses of GPUs, done on return; the error is noted. */
void msg_gpu_move(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes);

/* inout = in OP inout by the device, done on return; the error is noted. */
void msg_gpu_reduce(struct msg_gpu *gpu, unsigned operation, unsigned type, const void *in,
                    void *inout, uint64_t count);
/* Memory of the GPU, the same size at every call, for one at a time; NULL: there is none. */
void *msg_gpu_lend(struct msg_gpu *gpu, uint64_t bytes);
void msg_gpu_take_back(struct msg_gpu *gpu);

/* ---- gpu_coll.c: for collectives, whose addresses may be of either kind; done on return ---- */
void msg_gpu_copy(struct msg_gpu *gpu, void *to, const void *from, uint64_t bytes);
struct coll_call;
void msg_gpu_combine(struct msg_gpu *gpu, const struct coll_call *call, const void *in, void *inout,
                     uint64_t bytes);
void msg_gpu_combine_alone(struct msg_gpu *gpu, const struct coll_call *call, void *values,
                           uint64_t bytes);
/* The largest element of a caller's own operation. */
uint64_t msg_gpu_element_most(const struct msg_gpu *gpu);
/* The error of such calls so far; it is told once. */
int msg_gpu_take_error(struct msg_gpu *gpu);

/* ---- gpu_pipe.c: announced messages with a GPU's memory at one end or both ---- */
/* The token of such a message at its sender. */
struct msg_token msg_gpu_token(struct msg_engine *engine, const struct msg_request *request);
static inline bool msg_gpu_is_token(const struct msg_token *token)
{
    return token->word[0] == UINT64_MAX - 1 || token->word[0] == UINT64_MAX - 2;
}
/* Chooses the way of an announced message; false: as any other. */
bool msg_gpu_choose(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_step_copy(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_want_pipe(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_step_pipe(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_fill(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                     const struct msg_packet *packet);
/* Copies to or from the request's data are under way. */
bool msg_gpu_busy(const struct msg_request *request);
void msg_gpu_drop(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_area_free(struct msg_gpu *gpu);

/* ---- gpu_far.c: the same between hosts ---- */
/* Bytes of the pieces in which this rank could stage a send for its peer; 0: it cannot. */
uint64_t msg_gpu_far_piece(struct msg_engine *engine, const struct msg_request *request);
/* Whether what was announced can be read in pieces. */
bool msg_gpu_far_reaches(struct msg_engine *engine, const struct msg_request *request);
void msg_gpu_far_want(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_pull(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_push(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_far_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                         const struct msg_packet *packet);
/* A send does not need its staging any more. */
void msg_gpu_far_give(struct msg_request *request);
void msg_gpu_far_close(struct msg_gpu *gpu);

/* ---- gpu_share.c ---- */
/* Names memory of this rank's to another process of the host; false: that cannot be. */
bool msg_gpu_show(struct msg_engine *engine, int rank, const void *address,
                  struct msg_token *token);
/* Where copies of this rank reach what such a token names; NULL: they do not. */
void *msg_gpu_seen(struct msg_engine *engine, int rank, const struct msg_token *token,
                   uint64_t bytes);
void msg_gpu_share_close(struct msg_gpu *gpu);

#endif
