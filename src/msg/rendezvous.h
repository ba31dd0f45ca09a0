/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways of a rendezvous, shared by rendezvous.c, share.c and pipe.c.
 *
 * A request that this rank moves bytes for is in engine->rendezvous and has a mode; each round of
 * progress takes one step of it. Advantage: long copies give way to everything else between steps.
 * Disadvantage: the modes are one state machine in three files.
 */
#ifndef LEAT_MSG_RENDEZVOUS_H
#define LEAT_MSG_RENDEZVOUS_H

#include "msg/internal.h"

#include <stddef.h>

enum msg_mode {
    MODE_NONE,
    MODE_COPY,         /* receive: chunks from mapped memory (request->far) */
    MODE_GET,          /* receive: chunks by the network's bulk_get */
    MODE_SHARE,        /* receive: as one of the two, while the sender helps */
    MODE_WANT_PIPE,    /* receive: there was no memory for a pipe yet, or no room for CLEAR */
    MODE_PIPE,         /* receive: from the pipe (request->near) */
    MODE_DONE,         /* receive: FINISH has to be sent */
    MODE_HELP,         /* send: chunks from the back */
    MODE_FILL,         /* send: into the pipe (request->far, or by put) */
    MODE_PUT,          /* send: written to the ring; the network still reads the bytes */
    MODE_GPU_COPY,     /* receive: one copy from GPU to GPU (gpu_pipe.c) */
    MODE_GPU_WANT,     /* receive: there was no staging pipe yet, or no room for CLEAR */
    MODE_GPU_PIPE,     /* receive: from a staging pipe */
    MODE_GPU_FILL,     /* send: into it */
    MODE_GPU_FAR_WANT, /* receive: as MODE_GPU_WANT, from another host (gpu_far.c) */
    MODE_GPU_PULL,     /* receive: pieces by bulk_get, through a staging pipe */
    MODE_GPU_PUSH      /* send: into own staging, until FINISH */
};

#define MSG_PIPE_FRAGMENTS 8

/* Where the bytes of a fragment are, for a receiver who reads them from the sender's staging. */
struct msg_pipe_place {
    struct msg_token token;
    uint64_t offset;
};

/* What sender and receiver of a pipe tell each other, in the receiver's memory; a line each, as
 * both write. `flag` is the number of what is in the fragment, from 1 on, written last. */
struct msg_pipe_head {
    uint64_t emptied; /* fragments */
    uint8_t line[56];
    struct {
        uint64_t flag;
        struct msg_pipe_place place; /* gpu_far.c's */
        uint8_t line[24];
    } fragment[MSG_PIPE_FRAGMENTS];
};

/* Where the flag of a fragment is in its head; what belongs to it follows. */
static inline uint64_t msg_pipe_line(uint64_t place)
{
    return offsetof(struct msg_pipe_head, fragment) +
           place * sizeof(((struct msg_pipe_head *)0)->fragment[0]);
}

_Static_assert(sizeof(struct msg_pipe_head) == (1 + MSG_PIPE_FRAGMENTS) * 64, "lines");

/* Bytes that the receive takes; a truncated message is not moved as a whole. */
static inline uint64_t msg_wanted(const struct msg_request *request)
{
    return request->total < request->data.bytes ? request->total : request->data.bytes;
}

void msg_rendezvous_join(struct msg_engine *engine, struct msg_request *request);
void msg_rendezvous_leave(struct msg_engine *engine, struct msg_request *request);
/* Copies [offset, offset + bytes) from the sender's memory. 0, 1 (under way) or an error. */
int msg_copy_chunk(struct msg_engine *engine, struct msg_request *request, uint64_t offset,
                   uint64_t bytes);
/* All bytes have come, or status.error is set; the sender knows, or need not. */
void msg_rendezvous_received(struct msg_engine *engine, struct msg_request *request);
void msg_poke(const struct msg_engine *engine, int rank);

/* ---- share.c ---- */
int msg_shares_open(struct msg_engine *engine);
void msg_shares_close(struct msg_engine *engine);
uint64_t msg_chunk_bytes(const struct msg_engine *engine, uint64_t all);
/* Asks the sender to help, if that can be. */
void msg_share_ask(struct msg_engine *engine, struct msg_request *request);
void msg_share_step(struct msg_engine *engine, struct msg_request *request);
void msg_share_help(struct msg_engine *engine, struct msg_request *request);
void msg_share_asked(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                     const struct msg_packet *packet);
void msg_share_drop(struct msg_engine *engine, struct msg_request *request);

/* ---- pipe.c ---- */
uint64_t msg_pipe_memory(const struct msg_tuning *tuning);
void msg_pipe_want(struct msg_engine *engine, struct msg_request *request);
void msg_pipe_step(struct msg_engine *engine, struct msg_request *request);
void msg_pipe_fill(struct msg_engine *engine, struct msg_request *request);
void msg_pipe_offered(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                      const struct msg_packet *packet);
void msg_pipe_drop(struct msg_engine *engine, struct msg_request *request);

#endif
