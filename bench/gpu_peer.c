// SPDX-License-Identifier: Apache-2.0
// Serves slices for the peers of the GPU halo benchmark; told in the header.

#define _GNU_SOURCE
#include "gpu_peer.h"

#include "bind.h"

enum { WARM_UP = 8, VERIFY_ROUNDS = 3 };

// ---- graphs ----

// What cannot be captured or replayed is no reason to end: other slices want no graph.
static int capture(struct gpu_peer *peer)
{
    cudaGraph_t graph = NULL;
    cudaStream_t stream = peer->halo.stream;
    if (gpu_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cannot begin to capture a graph"))
        return GPU_CANNOT;
    const int failed = peer->enqueue(peer, 0, GPU_GRAPH_COUNT);
    const int ended = gpu_ok(cudaStreamEndCapture(stream, &graph), "cannot capture exchanges");
    int cannot = failed || ended ||
                 gpu_ok(cudaGraphInstantiate(&peer->graph, graph, 0), "cannot instantiate a graph");
    if (graph)
        cudaGraphDestroy(graph);
    if (!cannot)
        cannot = gpu_ok(cudaGraphUpload(peer->graph, stream), "cannot upload a graph");
    cudaGetLastError(); // a later launch would be blamed for it
    return cannot ? GPU_CANNOT : 0;
}

static void drop_graph(struct gpu_peer *peer)
{
    if (peer->graph)
        cudaGraphExecDestroy(peer->graph);
    peer->graph = NULL;
}

// ---- exchanges ----

static int finish(struct gpu_peer *peer)
{
    if (gpu_ok(cudaStreamSynchronize(peer->halo.stream), "exchanges failed"))
        return GPU_FAILED;
    return peer->look ? peer->look(peer) : 0;
}

// How many exchanges `count` of them are, in whole graphs where there is one.
static uint32_t whole_count(const struct gpu_peer *peer, uint32_t count)
{
    return peer->graph ? (count + GPU_GRAPH_COUNT - 1) / GPU_GRAPH_COUNT * GPU_GRAPH_COUNT : count;
}

static int enqueue(struct gpu_peer *peer, uint64_t first, uint32_t count)
{
    if (!peer->graph)
        return peer->enqueue(peer, first, count);
    for (uint32_t i = 0; i < count; i += GPU_GRAPH_COUNT)
        if (gpu_ok(cudaGraphLaunch(peer->graph, peer->halo.stream), "cannot launch a graph"))
            return GPU_FAILED;
    return 0;
}

// Nothing of the slice before is under way at either rank when begin() runs.
static int begin(struct gpu_peer *peer)
{
    drop_graph(peer);
    int error = peer->barrier(peer);
    if (!error && peer->begin)
        error = peer->begin(peer);
    if (!error && peer->halo.slice.graph)
        error = capture(peer);
    if (!error)
        error = gpu_ok(cudaStreamSynchronize(peer->halo.stream), "preparing failed");
    return error ? error : peer->barrier(peer);
}

static int verify_once(struct gpu_peer *peer, uint64_t first, uint32_t stamp)
{
    const uint32_t count = whole_count(peer, 1);
    int error = gpu_halo_fill(&peer->halo, stamp);
    if (!error)
        error = peer->barrier(peer);
    if (!error)
        error = enqueue(peer, first, count);
    if (!error)
        error = finish(peer);
    if (!error)
        error = gpu_halo_check(&peer->halo, (int)((first + count - 1) & 1), stamp, count);
    return error ? error : peer->barrier(peer);
}

static bool is_verified(struct gpu_peer *peer, const char *what)
{
    for (int i = 0; i < peer->verified_count; i++)
        if (strcmp(peer->verified[i], what) == 0)
            return true;
    if (peer->verified_count < (int)(sizeof peer->verified / sizeof *peer->verified))
        snprintf(peer->verified[peer->verified_count++], sizeof *peer->verified, "%s", what);
    return false;
}

// Home, map and zones are as the last fill left them: a slice of another size fills again.
static int verify(struct gpu_peer *peer, const char *what)
{
    int error = 0;
    const int rounds = is_verified(peer, what) ? 1 : VERIFY_ROUNDS;
    for (int round = 0; !error && round < rounds; round++)
        error = verify_once(peer, (uint64_t)round * whole_count(peer, 1), (uint32_t)round + 1);
    return error;
}

static int run_slice(struct gpu_peer *peer, const char *what, double *ns)
{
    int error = begin(peer);
    if (!error)
        error = verify(peer, what);
    if (!error)
        error = begin(peer);
    const uint32_t warm_up = whole_count(peer, WARM_UP);
    const uint32_t timed = whole_count(peer, peer->halo.slice.count);
    if (!error)
        error = enqueue(peer, 0, warm_up);
    if (!error)
        error = finish(peer);
    if (!error)
        error = peer->barrier(peer);
    const uint64_t begin_ns = slice_now_ns();
    if (!error)
        error = enqueue(peer, warm_up, timed);
    if (!error)
        error = gpu_ok(cudaStreamSynchronize(peer->halo.stream), "exchanges failed");
    *ns = (double)(slice_now_ns() - begin_ns) / timed;
    return error ? error : finish(peer);
}

// ---- commands ----

// A rank that failed leaves the other waiting, so both end: the other by its deadlines.
static int answer(struct gpu_peer *peer, struct slice_pipes *pipes,
                  const struct slice_command *command)
{
    const char *wrong = NULL;
    char key[24];
    double ns = -1;
    if (gpu_slice_parse(command, &peer->halo.slice, &wrong))
        return slice_answer(pipes, wrong, NULL, 0);
    snprintf(key, sizeof key, "%.15s%u", command->what, peer->halo.slice.atoms);
    alarm(GPU_SLICE_S);
    int error = run_slice(peer, key, &ns);
    drop_graph(peer);
    alarm(0);
    if (error)
        ns = -1;
    if (error == GPU_FAILED)
        fprintf(stderr, "rank %d cannot go on after %s of %u atoms\n", peer->halo.rank,
                command->what, peer->halo.slice.atoms);
    if (slice_answer(pipes, NULL, &ns, 1))
        return GPU_FAILED;
    return error == GPU_CANNOT ? 0 : error;
}

int gpu_peer_each(struct gpu_peer *peer, uint64_t first, uint32_t count,
                  int (*exchange)(struct gpu_peer *peer, int zone))
{
    int error = 0;
    for (uint64_t i = first; !error && i < first + count; i++)
        error = exchange(peer, (int)(i & 1));
    return error;
}

int gpu_peer_take(struct gpu_peer *peer, int zone)
{
    struct gpu_halo *halo = &peer->halo;
    if (halo->slice.reverse)
        return gpu_halo_accumulate(halo, zone);
    return halo->slice.consume ? gpu_halo_consume(halo, zone) : 0;
}

int gpu_peer_serve(struct gpu_peer *peer, const char *directory, const char *side)
{
    struct slice_pipes pipes;
    struct slice_command command;
    slice_bind(peer->halo.rank, 2);
    if (slice_open(directory, side, peer->halo.rank, &pipes)) {
        fprintf(stderr, "cannot open the benchmark's pipes in %s\n", directory);
        return 1;
    }
    while (slice_next(&pipes, &command))
        if (answer(peer, &pipes, &command))
            return 1;
    return 0;
}
