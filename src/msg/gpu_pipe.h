/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A staging pipe as both of its users see it: gpu_pipe.c on one host, gpu_far.c between hosts.
 *
 * Its head and fragments lie in the receiver's area. Pieces of a message are numbered from 0; piece
 * n passes through fragment n % MSG_PIPE_FRAGMENTS, and all but the last have request->stamp bytes.
 * request->done is what copies (or gets) were begun for, request->produced counts the pieces that
 * are over. Advantage: one count of copies for both. Disadvantage: requests' fields mean what this
 * says only while they are in a mode of these files.
 */
#ifndef LEAT_MSG_GPU_PIPE_H
#define LEAT_MSG_GPU_PIPE_H

#include "msg/gpu.h"
#include "msg/rendezvous.h"

#define MSG_GPU_PAGE          4096
#define MSG_GPU_FRAGMENT_MOST (256 << 10)
#define MSG_GPU_FAILED        (UINT64_C(1) << 63) /* in a flag: the sender could not fill it */

/* A pipe of the own area for a receive (request->near). 1; 0: all are taken; -ENOBUFS: there are
 * none. */
int msg_gpu_pipe_take(struct msg_engine *engine, struct msg_request *request);
void msg_gpu_pipe_give(struct msg_gpu *gpu, struct msg_request *request);
uint32_t msg_gpu_pipe_index(const struct msg_gpu *gpu, const struct msg_request *request);
uint8_t *msg_gpu_fragment(void *head, uint64_t size, uint64_t number);

/* Pieces that were begun. */
static inline uint64_t msg_gpu_begun(const struct msg_request *request)
{
    return (request->done + request->stamp - 1) / request->stamp;
}
static inline uint64_t msg_gpu_piece_bytes(const struct msg_request *request, uint64_t number)
{
    uint64_t left = msg_wanted(request) - number * request->stamp;
    return left < request->stamp ? left : request->stamp;
}
/* Begins the copy of a piece from (out) or to a fragment. False: not now. */
bool msg_gpu_piece_start(struct msg_engine *engine, struct msg_request *request, uint8_t *fragment,
                         uint64_t number, bool out);
/* Whether the oldest copy is over; notes its error. */
bool msg_gpu_piece_over(struct msg_engine *engine, struct msg_request *request);
/* The sender's copy of a piece that is needed here has failed. */
void msg_gpu_piece_failed(struct msg_engine *engine, struct msg_request *request);
/* The peer is lost, and what is under way is to end. */
bool msg_gpu_was_lost(struct msg_engine *engine, const struct msg_request *request);

#endif
