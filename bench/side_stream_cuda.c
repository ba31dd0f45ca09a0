// SPDX-License-Identifier: Apache-2.0
// A CUDA stream of leat's side of the halo benchmark, or none, for its CPU device.
//
// Advantage: the consumer is the peers' own. Disadvantage: graphs know of one stream only, so ranks
// that share a GPU have none.

#include "gpu_halo.h"
#include "side_stream.h"

#include <stdlib.h>

int side_stream_open(struct side_stream *at, void *stream, int device)
{
    at->stream = stream;
    if (!stream) {
        at->sink = calloc(1, sizeof *at->sink);
        return at->sink ? 0 : -1;
    }
    return gpu_ok(cudaSetDevice(device), "cannot choose the GPU") ||
                   gpu_ok(cudaMalloc((void **)&at->sink, sizeof *at->sink), "cannot allocate") ||
                   gpu_load()
               ? -1
               : 0;
}

void side_stream_close(struct side_stream *at)
{
    side_stream_drop_graph(at);
    if (at->stream)
        cudaFree(at->sink);
    else
        free(at->sink);
    at->sink = NULL;
}

int side_stream_consume(const struct side_stream *at, const float *ghosts, uint64_t count)
{
    if (at->stream) {
        // The kernel reads 16 bytes at once, and ghosts begin anywhere.
        const uintptr_t before = ((uintptr_t)ghosts & 15) / sizeof *ghosts;
        return gpu_consume(at->stream, ghosts - before, (uint32_t)(count + before), at->sink);
    }
    float sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ghosts[i];
    *(volatile float *)at->sink = sum;
    return 0;
}

int side_stream_capture_begin(struct side_stream *at)
{
    if (!at->stream) {
        fprintf(stderr, "graphs: the CPU device has none\n");
        return -1;
    }
    return gpu_ok(cudaStreamBeginCapture(at->stream, cudaStreamCaptureModeThreadLocal),
                  "cannot begin to capture a graph");
}

int side_stream_capture_end(struct side_stream *at, int failed)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    int error = gpu_ok(cudaStreamEndCapture(at->stream, &graph), "cannot capture exchanges");
    if (!error && !failed)
        error = gpu_ok(cudaGraphInstantiate(&ready, graph, 0), "cannot instantiate a graph");
    if (graph)
        cudaGraphDestroy(graph);
    at->graph = ready;
    return error || failed ? -1 : gpu_ok(cudaGraphUpload(ready, at->stream), "cannot upload");
}

int side_stream_replay(const struct side_stream *at)
{
    return gpu_ok(cudaGraphLaunch(at->graph, at->stream), "cannot launch a graph");
}

void side_stream_drop_graph(struct side_stream *at)
{
    if (at->graph)
        cudaGraphExecDestroy(at->graph);
    at->graph = NULL;
}
