// SPDX-License-Identifier: Apache-2.0
// A stream where there is no CUDA: what is put into it has happened when the call returns.
//
// Advantage: nothing to build against. Disadvantage: one thread reads all ghosts.

#include "side_stream.h"

#include <stdio.h>
#include <stdlib.h>

static int refuse(const char *what)
{
    fprintf(stderr, "%s: this build has no CUDA\n", what);
    return -1;
}

int side_stream_open(struct side_stream *at, void *stream, int device)
{
    if (stream || device >= 0)
        return refuse("a stream of a GPU");
    at->sink = calloc(1, sizeof *at->sink);
    return at->sink ? 0 : refuse("no memory");
}

void side_stream_close(struct side_stream *at)
{
    free(at->sink);
    at->sink = NULL;
}

int side_stream_consume(const struct side_stream *at, const float *ghosts, uint64_t count)
{
    float sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ghosts[i];
    *(volatile float *)at->sink = sum;
    return 0;
}

int side_stream_capture_begin(struct side_stream *at)
{
    (void)at;
    return refuse("graphs");
}

int side_stream_capture_end(struct side_stream *at, int failed)
{
    (void)at;
    (void)failed;
    return refuse("graphs");
}

int side_stream_replay(const struct side_stream *at)
{
    (void)at;
    return refuse("graphs");
}

void side_stream_drop_graph(struct side_stream *at)
{
    (void)at;
}
