// SPDX-License-Identifier: Apache-2.0
// Exchanges in CUDA graphs: captured once, replayed many times with new values, mixed with plain
// ones. One rank a GPU, since ranks that share one meet on the host for every exchange.

#ifdef LEAT_HAVE_CUDA

#define _GNU_SOURCE
#include "multi/device_halo.h"

#include <cuda_runtime_api.h>

#define REPLAYS 100

// ALONE acknowledges by itself, X and F each other; READ is where a graph copies X to between the
// two, since a peer may store the next coordinates as soon as forces are back.
enum { ALONE, X, F, READ, FIELDS };

struct play {
    struct graph graph;
    uint64_t plain_before; // exchanges before the capture
    uint64_t first_epoch;
};

struct replay {
    struct bound bound;
    cudaStream_t stream;
    cudaGraphExec_t alone, both;
    uint64_t step;
};

static bool cuda_held(struct rank_thread *self, cudaError_t error, const char *what)
{
    return rank_check(self, error == cudaSuccess, "%s: %s", what, cudaGetErrorString(error));
}

static bool bind(struct replay *replay, struct rank_thread *self)
{
    const struct play *play = self->user;
    leat_device_info info = {.size = sizeof info};
    struct bound *bound = &replay->bound;
    *replay = (struct replay){.bound = {.self = self, .field_count = FIELDS}};
    for (int f = 0; f < FIELDS; f++)
        bound->field[f] = (leat_field){.element = LEAT_F32, .components = 3};
    bound->field[ALONE].shifted = 1;
    bound->field[X].acknowledged_by = F + 1;
    bound->field[F].acknowledged_by = X + 1;
    if (!rank_check(self, !leat_device_info_get(self->job, &info), "%s", leat_error_detail()))
        return false;
    replay->stream = info.stream;
    bound->plan = graph_plan(self, &play->graph);
    return cuda_held(self, cudaSetDevice(info.number), "choosing the GPU") && bound->plan &&
           make_room(bound, box_info(bound->plan).element_count) &&
           open_halo(bound, LEAT_MODE_FUSED, play->first_epoch);
}

static bool plain(struct replay *replay, const struct graph *graph)
{
    struct bound *bound = &replay->bound;
    uint64_t step = replay->step++;
    return forward(bound, graph, ALONE, step) && forward(bound, graph, X, step) &&
           reverse(bound, graph, F, step);
}

static uint64_t field_bytes(const struct bound *bound, int f)
{
    return (uint64_t)bound->info.element_count * element_bytes(&bound->field[f]);
}

static bool read_coordinates(struct replay *replay)
{
    struct bound *bound = &replay->bound;
    leat_region_info to = {.size = sizeof to}, from = {.size = sizeof from};
    leat_region_info_get(bound->region[READ], &to);
    leat_region_info_get(bound->region[X], &from);
    return cuda_held(bound->self,
                     cudaMemcpyAsync(to.address, from.address, field_bytes(bound, X),
                                     cudaMemcpyDeviceToDevice, replay->stream),
                     "a copy in a capture");
}

static bool capture(struct replay *replay, bool both, cudaGraphExec_t *exec)
{
    struct rank_thread *self = replay->bound.self;
    leat_halo *halo = replay->bound.halo;
    cudaGraph_t graph = NULL;
    if (!cuda_held(self, cudaStreamBeginCapture(replay->stream, cudaStreamCaptureModeThreadLocal),
                   "beginning a capture"))
        return false;
    int error = leat_halo_exchange(halo, both ? X : ALONE, LEAT_FORWARD);
    if (!error && both && read_coordinates(replay))
        error = leat_halo_exchange(halo, F, LEAT_REVERSE);
    bool held = rank_check(self, !error, "an exchange in a capture: %s", leat_error_detail());
    held &= cuda_held(self, cudaStreamEndCapture(replay->stream, &graph), "ending a capture");
    if (held)
        held = cuda_held(self, cudaGraphInstantiate(exec, graph, 0), "making a graph");
    cudaGraphDestroy(graph);
    return held;
}

static bool launch(struct replay *replay, cudaGraphExec_t exec)
{
    struct rank_thread *self = replay->bound.self;
    return cuda_held(self, cudaGraphLaunch(exec, replay->stream), "launching a graph") &&
           rank_check(self, !leat_device_wait(self->job, -1), "%s", leat_error_detail());
}

static bool replay_alone(struct replay *replay, const struct graph *graph)
{
    struct bound *bound = &replay->bound;
    uint64_t step = replay->step++;
    fill_home(bound, ALONE, step);
    poison(bound, ALONE);
    return bring(bound, ALONE, bound->info.element_count, true) && launch(replay, replay->alone) &&
           bring(bound, ALONE, bound->info.element_count, false) &&
           check_ghosts(bound, graph, ALONE, step);
}

static bool replay_both(struct replay *replay, const struct graph *graph)
{
    struct bound *bound = &replay->bound;
    uint64_t step = replay->step++;
    fill_home(bound, X, step);
    fill_returned(bound, graph, F, step);
    if (!bring(bound, X, bound->info.home_count, true) ||
        !bring(bound, F, bound->info.element_count, true) || !launch(replay, replay->both) ||
        !bring(bound, READ, bound->info.element_count, false) ||
        !bring(bound, F, bound->info.home_count, false))
        return false;
    memcpy(bound->data[X], bound->data[READ], field_bytes(bound, X));
    return check_ghosts(bound, graph, X, step) && check_sums(bound, graph, F, step);
}

// Replays of one graph, of the other, and plain exchanges after either.
static void body(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct replay replay;
    bool held = bind(&replay, self);
    for (uint64_t i = 0; held && i < play->plain_before; i++)
        held = plain(&replay, &play->graph);
    held = held && capture(&replay, false, &replay.alone) && capture(&replay, true, &replay.both);
    for (int i = 0; held && i < REPLAYS; i++)
        held = replay_alone(&replay, &play->graph);
    for (int i = 0; held && i < 5; i++)
        held = plain(&replay, &play->graph);
    for (int i = 0; held && i < REPLAYS; i++)
        held = replay_both(&replay, &play->graph) &&
               (i % 7 || replay_alone(&replay, &play->graph)) &&
               (i % 11 || plain(&replay, &play->graph));
    if (replay.alone)
        cudaGraphExecDestroy(replay.alone);
    if (replay.both)
        cudaGraphExecDestroy(replay.both);
    if (held)
        unbind(&replay.bound);
}

static const char *device = "cuda";
static int rank_count;

static void run(uint64_t plain_before, uint64_t first_epoch)
{
    for (int p = 0; p < 2; p++) {
        struct play play = {.plain_before = plain_before, .first_epoch = first_epoch};
        graph_ring(&play.graph, rank_count);
        device_run(&(struct device_job){.device = device,
                                        .packets = protocols[p],
                                        .timeout_s = 5,
                                        .rank_count = rank_count},
                   body, &play);
    }
}

static void test_captured_before_any_other_exchange(void **state)
{
    (void)state;
    run(0, 0);
}

static void test_captured_after_plain_exchanges(void **state)
{
    (void)state;
    run(3, 0);
}

static void test_replayed_while_counters_wrap(void **state)
{
    (void)state;
    run(2, UINT64_MAX - 50);
}

// Argument: one GPU, as LEAT_DEVICE names it; else up to two of all.
int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    int missing = device_missing(device);
    if (missing)
        return missing;
    int count = 1;
    if (!strcmp(device, "cuda") && cudaGetDeviceCount(&count) != cudaSuccess)
        count = 1;
    rank_count = count < 2 ? 1 : 2;
    // Two ranks of four GPUs have GPUs 0 and 2: nobody shares one.
    printf("%d rank(s) on %d GPU(s)\n", rank_count, count);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captured_before_any_other_exchange),
        cmocka_unit_test(test_captured_after_plain_exchanges),
        cmocka_unit_test(test_replayed_while_counters_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
    printf("skipped: this build has no CUDA device\n");
    return 77;
}

#endif
