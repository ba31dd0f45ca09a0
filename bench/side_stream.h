/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leat's side of the halo benchmark asks of a device itself: a consumer, and graphs.
 *
 * Two files have it, for CUDA and without. Advantage: the side builds and is tested everywhere.
 * Disadvantage: without CUDA there are no graphs, which is answered as such.
 */
#ifndef LEAT_BENCH_SIDE_STREAM_H
#define LEAT_BENCH_SIDE_STREAM_H

#include <stdint.h>

struct side_stream {
    void *stream; /* cudaStream_t, or NULL on the CPU device */
    float *sink;  /* where a consumer would leave its result */
    void *graph;
};

/* 0 or -1 with a line on stderr, as all here. `stream` is leat_device_info's; the calling thread's
 * device becomes the one with this number (-1: the CPU device). */
int side_stream_open(struct side_stream *at, void *stream, int device);
void side_stream_close(struct side_stream *at);

/* Reads `count` floats, in stream order. What lies up to 12 bytes before them may be read too. */
int side_stream_consume(const struct side_stream *at, const float *ghosts, uint64_t count);

/* Whatever the thread puts into the stream in between becomes the graph. Ending after something
 * failed takes the stream out of its capture and makes no graph. */
int side_stream_capture_begin(struct side_stream *at);
int side_stream_capture_end(struct side_stream *at, int failed);
int side_stream_replay(const struct side_stream *at);
void side_stream_drop_graph(struct side_stream *at);

#endif
