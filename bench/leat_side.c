// SPDX-License-Identifier: Apache-2.0
// leat's side of the halo benchmark with ranks as threads, on GPUs or on the CPU device: opens one
// job, and serves slices of exchanges in one mode.
// usage: PROGRAM DIRECTORY SIDE DEVICE MODE SETUP KIND, started by `leat bench halo`; SETUP is
// pulse, 1d, 2d or 3d, KIND forwarded or onehop.
//
// A halo stays open while slices of its size follow one another. Every slice is verified before it
// is timed, and warmed up. What cannot be opened is answered; what fails under way ends all ranks.
// Advantage: a mode that breaks its GPU's context breaks no other. Disadvantage: a process a mode.

#define _GNU_SOURCE
#include "bind.h"
#include "leat_side.h"

#include "core/error.h"
#include "halo/halo_internal.h"

#include <errno.h>
#include <stdlib.h>

enum { WARM_UP = 8, VERIFY_ROUNDS = 3, TIMEOUT_S = 10 };

static const char *const mode_names[] = {"fused", "host", "stream", "pulse", "resident"};
static const char *const setup_names[] = {"pulse", "1d", "2d", "3d"};
static const char *const kind_names[] = {"forwarded", "onehop"};

static _Noreturn void give_up(const struct side_rank *rank, const char *what, int error)
{
    fprintf(stderr, "leat, %s, rank %d: %s: %s (%s)\n", mode_names[rank->side->mode], rank->rank,
            what, leat_error_detail(), strerror(-error));
    _exit(1);
}

static void meet(struct side_rank *rank)
{
    pthread_barrier_wait(&rank->side->barrier);
}

// ---- opening for a slice ----

static void close_slice(struct side_rank *rank)
{
    side_stream_drop_graph(&rank->stream);
    leat_halo_free(rank->halo);
    leat_plan_free(rank->plan);
    leat_region_free(rank->field);
    leat_region_free(rank->staging);
    free(rank->expected);
    rank->halo = NULL;
    rank->plan = NULL;
    rank->field = rank->staging = NULL;
    rank->expected = NULL;
    rank->verified = false;
}

static int open_region(struct side_rank *rank, enum leat_memory memory, size_t bytes,
                       leat_region **region, float **address)
{
    const leat_region_options options = {.size = sizeof options, .bytes = bytes, .memory = memory};
    leat_region_info info = {.size = sizeof info};
    int error = leat_region_alloc(rank->job, &options, region);
    if (error)
        return error;
    leat_region_info_get(*region, &info);
    *address = info.address;
    return 0;
}

static int open_regions(struct side_rank *rank)
{
    const size_t element = (size_t)rank->slice.components * sizeof(float);
    const size_t all = ((size_t)rank->info.element_count + side_ghost_count(rank)) * element;
    rank->expected = malloc((size_t)rank->info.element_count * element);
    if (!rank->expected)
        return leat_fail(-ENOMEM, "no memory for what is expected");
    int error = open_region(rank, LEAT_MEMORY_DEVICE, all, &rank->field, &rank->device);
    return error ? error : open_region(rank, LEAT_MEMORY_HOST, all, &rank->staging, &rank->host);
}

static int open_halo(struct side_rank *rank)
{
    const bool reverse = rank->slice.reverse;
    const leat_field field = {.place = {rank->field, 0},
                              .element = LEAT_F32,
                              .components = rank->slice.components,
                              .shifted = !reverse,
                              .zones = reverse ? 1 : 2};
    const leat_halo_options options = {
        .size = sizeof options, .mode = rank->side->mode, .field_count = 1, .fields = &field};
    return leat_halo_open(rank->job, rank->plan, &options, &rank->halo);
}

static int open_slice(struct side_rank *rank, const struct gpu_slice *slice)
{
    const struct gpu_slice *old = &rank->slice;
    const bool same = rank->halo && old->atoms == slice->atoms &&
                      old->components == slice->components && old->reverse == slice->reverse &&
                      old->graph == slice->graph;
    if (!same)
        close_slice(rank);
    rank->slice = *slice;
    if (same)
        return 0;
    if (slice->graph &&
        (rank->shares_device || rank->side->mode == LEAT_MODE_RESIDENT || slice->reverse))
        return leat_fail(-ENOTSUP, "graphs are for forward exchanges of one rank a GPU, enqueued "
                                   "one by one");
    int error = side_make_plan(rank);
    if (error)
        return error;
    if ((error = open_regions(rank)) != 0)
        give_up(rank, "cannot allocate", error);
    return open_halo(rank);
}

// ---- exchanges ----

// On the CPU device a resident loop calls this in every block, which reads its neighbour's share.
static int consume_block(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct side_rank *rank = user;
    const size_t components = (size_t)rank->slice.components;
    const uint32_t ghosts = side_ghost_count(rank), reader = (block + 1) % block_count;
    const uint64_t zone = (rank->made + step + 1) & 1;
    const size_t first = (size_t)ghosts * reader / block_count;
    const size_t end = (size_t)ghosts * (reader + 1) / block_count;
    const size_t from = rank->info.home_count + zone * ghosts + first;
    return side_stream_consume(&rank->stream, rank->device + from * components,
                               (end - first) * components)
               ? -EIO
               : 0;
}

static int run_resident(struct side_rank *rank, uint64_t count, bool consume)
{
    const bool calls = consume && !rank->slice.reverse && !rank->stream.stream;
    const leat_step step = {.size = sizeof step,
                            .forward_field = rank->slice.reverse ? -1 : 0,
                            .reverse_field = rank->slice.reverse ? 0 : -1,
                            .consume = calls ? consume_block : NULL,
                            .user = rank};
    leat_halo_info info = {.size = sizeof info};
    leat_halo_info_get(rank->halo, &info);
    rank->made = info.exchanges;
    return leat_halo_run(rank->halo, &step, count, NULL);
}

static int exchange(struct side_rank *rank)
{
    if (rank->side->mode == LEAT_MODE_RESIDENT)
        return run_resident(rank, 1, false);
    return leat_halo_exchange(rank->halo, 0, rank->slice.reverse ? LEAT_REVERSE : LEAT_FORWARD);
}

static int consume(struct side_rank *rank)
{
    const size_t components = (size_t)rank->slice.components;
    leat_halo_info info = {.size = sizeof info};
    leat_halo_info_get(rank->halo, &info);
    const size_t first = (size_t)rank->info.home_count + info.ghost_shift[0];
    return side_stream_consume(&rank->stream, rank->device + first * components,
                               side_ghost_count(rank) * components)
               ? leat_fail(-EIO, "the consumer failed")
               : 0;
}

static int exchange_and_consume(struct side_rank *rank)
{
    int error = exchange(rank);
    return !error && rank->slice.consume && !rank->slice.reverse ? consume(rank) : error;
}

static int run_exchanges(struct side_rank *rank, uint32_t count)
{
    int error = 0;
    if (rank->side->mode == LEAT_MODE_RESIDENT)
        return run_resident(rank, count, rank->slice.consume);
    if (rank->stream.graph) {
        for (uint32_t i = 0; !error && i < count; i += GPU_GRAPH_COUNT)
            error = side_stream_replay(&rank->stream) ? leat_fail(-EIO, "no replay") : 0;
        return error;
    }
    for (uint32_t i = 0; !error && i < count; i++)
        error = exchange_and_consume(rank);
    return error;
}

// Both zones are verified: exchanges land in them by turns.
static void verify(struct side_rank *rank)
{
    for (uint32_t round = 0; round < VERIFY_ROUNDS; round++) {
        int error = side_fill(rank, round + 1);
        if (error)
            give_up(rank, "cannot write stamps", error);
        error = rank->stream.graph ? run_exchanges(rank, GPU_GRAPH_COUNT) : exchange(rank);
        if (!error)
            error = leat_device_wait(rank->job, -1);
        if (error)
            give_up(rank, "a stamped exchange failed", error);
        if ((error = side_check(rank)) != 0)
            give_up(rank, "a stamped exchange is wrong", error);
        meet(rank);
    }
}

// Exchanges that are captured are not made: the device's own count goes on with the replays.
static int capture(struct side_rank *rank)
{
    if (!rank->slice.graph || rank->stream.graph)
        return 0;
    if (side_stream_capture_begin(&rank->stream))
        return leat_fail(-ENOTSUP, "no graph can be captured");
    int error = 0;
    for (int i = 0; !error && i < GPU_GRAPH_COUNT; i++)
        error = exchange_and_consume(rank);
    if (side_stream_capture_end(&rank->stream, error))
        return error ? error : leat_fail(-ENOTSUP, "no graph can be captured");
    return 0;
}

// ---- slices ----

// What only one rank has to say is everybody's answer, lest the others wait for it.
static int agree(struct side_rank *rank, int error)
{
    struct side *side = rank->side;
    rank->verdict = error;
    meet(rank);
    for (int i = 0; !error && i < side->rank_count; i++)
        if (side->rank[i].verdict)
            error = leat_fail(-EREMOTEIO, "rank %d cannot", i);
    meet(rank);
    return error;
}

// What this device or build cannot do is found before anything moves.
static int prepare(struct side_rank *rank, const struct gpu_slice *slice)
{
    int error = open_slice(rank, slice);
    if (!error && slice->consume && rank->side->mode == LEAT_MODE_RESIDENT && rank->stream.stream &&
        !rank->halo->stamp)
        error = halo_run_reads(rank->halo, 0);
    return error ? error : capture(rank);
}

struct times {
    double ns;
    leat_stats before, after;
};

static void time_slice(struct side_rank *rank, uint32_t count, struct times *times)
{
    *times = (struct times){.before = {.size = sizeof(leat_stats)},
                            .after = {.size = sizeof(leat_stats)}};
    int error = run_exchanges(rank, rank->stream.graph ? GPU_GRAPH_COUNT : WARM_UP);
    if (!error)
        error = leat_device_wait(rank->job, -1);
    leat_stats_read(rank->job, LEAT_ALL_PEERS, &times->before);
    meet(rank);
    const uint64_t begin_ns = slice_now_ns();
    if (!error)
        error = run_exchanges(rank, count);
    if (!error)
        error = leat_device_wait(rank->job, -1);
    times->ns = (double)(slice_now_ns() - begin_ns) / count;
    leat_stats_read(rank->job, LEAT_ALL_PEERS, &times->after);
    if (error)
        give_up(rank, "exchanges failed", error);
    meet(rank);
}

// Nanoseconds, pulses, ghosts, and a rank's launches and blocking waits an exchange.
static void run_slice(struct side_rank *rank, const struct gpu_slice *slice, double values[5])
{
    struct times times;
    uint32_t count = slice->count;
    values[0] = -1;
    const int own = prepare(rank, slice);
    if (own && own != -EREMOTEIO)
        fprintf(stderr, "leat, %s, rank %d, %u atoms: %s\n", mode_names[rank->side->mode],
                rank->rank, slice->atoms, leat_error_detail());
    if (agree(rank, own)) {
        close_slice(rank);
        return;
    }
    if (rank->stream.graph)
        count = (count + GPU_GRAPH_COUNT - 1) / GPU_GRAPH_COUNT * GPU_GRAPH_COUNT;
    if (!rank->verified)
        verify(rank);
    rank->verified = true;
    time_slice(rank, count, &times);
    values[0] = times.ns;
    values[1] = rank->info.pulse_count;
    values[2] = side_ghost_count(rank);
    values[3] = (double)(times.after.launches - times.before.launches) / count;
    values[4] = (double)(times.after.blocking_waits - times.before.blocking_waits) / count;
}

static void *serve(void *argument)
{
    struct side_rank *rank = argument;
    struct slice_pipes pipes;
    struct slice_command command;
    struct gpu_slice slice;
    leat_device_info device = {.size = sizeof device};
    const char *wrong = NULL;
    int error = leat_device_info_get(rank->job, &device);
    if (error || side_stream_open(&rank->stream, device.stream, device.number))
        give_up(rank, "no device", error);
    rank->shares_device = device.rank_count > 1;
    slice_bind(rank->rank, rank->side->rank_count);
    if (slice_open(rank->side->directory, rank->side->name, rank->rank, &pipes))
        give_up(rank, "cannot open the benchmark's pipes", -EIO);
    while (slice_next(&pipes, &command)) {
        double values[5] = {0};
        if (rank->rank == 0)
            alarm(GPU_SLICE_S);
        if (gpu_slice_parse(&command, &slice, &wrong) == 0)
            run_slice(rank, &slice, values), wrong = NULL;
        if (rank->rank == 0)
            alarm(0);
        slice_answer(&pipes, wrong, values, 5);
    }
    close_slice(rank);
    side_stream_close(&rank->stream);
    leat_close(rank->job, NULL);
    return NULL;
}

// ---- the process ----

static int choose(const char *const *names, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

static int read_arguments(struct side *side, char **argv)
{
    const int mode = choose(mode_names, 5, argv[4]), setup = choose(setup_names, 4, argv[5]),
              kind = choose(kind_names, 2, argv[6]);
    side->directory = argv[1];
    side->name = argv[2];
    side->mode = (enum leat_mode)mode;
    side->kind = (enum leat_plan_kind)kind;
    side->rank_count = setup < 1 ? 2 : 1 << setup;
    for (int d = 0; setup > 0 && d < 3; d++)
        side->grid[d] = d < setup ? 2 : 1;
    return mode < 0 || setup < 0 || kind < 0 ? -1 : 0;
}

static int open_job(struct side *side, const char *device)
{
    leat_job *jobs[SIDE_RANKS_MAX] = {0};
    const leat_options options = {.size = sizeof options,
                                  .thread_ranks = side->rank_count,
                                  .timeout_s = TIMEOUT_S,
                                  .device = device};
    int error = leat_open(&options, jobs);
    for (int i = 0; !error && i < side->rank_count; i++)
        side->rank[i] = (struct side_rank){.side = side, .job = jobs[i], .rank = i};
    return error;
}

int main(int argc, char **argv)
{
    static struct side side;
    if (argc != 7 || read_arguments(&side, argv)) {
        fprintf(stderr, "%s: started by leat bench halo itself\n", argv[0]);
        return 2;
    }
    alarm(GPU_OPEN_S);
    if (open_job(&side, argv[3])) {
        fprintf(stderr, "leat, %s: %s\n", argv[4], leat_error_detail());
        return 1;
    }
    alarm(0);
    pthread_barrier_init(&side.barrier, NULL, (unsigned)side.rank_count);
    for (int i = 0; i < side.rank_count; i++)
        if (pthread_create(&side.rank[i].thread, NULL, serve, &side.rank[i])) {
            fprintf(stderr, "leat, %s: cannot start a thread\n", argv[4]);
            return 1;
        }
    for (int i = 0; i < side.rank_count; i++)
        pthread_join(side.rank[i].thread, NULL);
    return 0;
}
