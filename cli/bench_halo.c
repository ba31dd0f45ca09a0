// SPDX-License-Identifier: Apache-2.0
// A rank of `leat bench halo`: runs slices of exchanges between two ranks, as bench/halo_slice.h
// says.

#define _GNU_SOURCE
#include "../bench/bind.h"
#include "bench_halo.h"

#include "../bench/halo_pulse.h"
#include "bench_flag.h"
#include "core/error.h"
#include "core/job.h"
#include "leat/halo.h"

#include <errno.h>
#include <stdlib.h>

struct rank {
    leat_job *job;
    int rank;
    enum leat_mode mode;
    uint32_t *index;
    leat_region *region;
    struct bench_flag flag;
    float *x;
    leat_plan *plan;
    leat_halo *halo;
    volatile float sink;
};

static int open_region(struct rank *rank)
{
    leat_region_options options = {.size = sizeof options,
                                   .bytes = 12 * sizeof(float) * SLICE_ATOMS_MAX};
    leat_region_info info = {.size = sizeof info};
    int error = leat_region_alloc(rank->job, &options, &rank->region);
    if (error)
        return error;
    leat_region_info_get(rank->region, &info);
    rank->x = info.address;
    return 0;
}

static int open_halo(struct rank *rank, uint32_t atoms)
{
    int error = pulse_plan(rank->job, rank->rank, atoms, rank->index, &rank->plan);
    const leat_field field = {
        .place = {rank->region, 0}, .element = LEAT_F32, .components = 3, .shifted = 1, .zones = 2};
    const leat_halo_options options = {
        .size = sizeof options, .mode = rank->mode, .field_count = 1, .fields = &field};
    return error ? error : leat_halo_open(rank->job, rank->plan, &options, &rank->halo);
}

struct consumer {
    struct rank *rank;
    uint32_t atoms;
    uint32_t zone; /* resident: the loop's own parity, since the host's view comes at its end */
};

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct consumer *consumer = user;
    struct rank *rank = consumer->rank;
    size_t zone = (consumer->zone + step) & 1;
    (void)block_count;
    if (block == 0)
        rank->sink =
            rank->sink + slice_consume(rank->x + 3 * (2 + zone) * consumer->atoms, consumer->atoms);
    return 0;
}

static int run_slice(struct rank *rank, uint32_t atoms, uint32_t iterations, double *ns)
{
    // The first exchange of a halo is 1, and odd ones land in the second zone.
    struct consumer consumer = {.rank = rank, .atoms = atoms, .zone = 1};
    const leat_step step = {.size = sizeof step,
                            .forward_field = 0,
                            .reverse_field = -1,
                            .consume = consume,
                            .user = &consumer};
    int error = leat_barrier(rank->job);
    uint64_t begin = leat_now_ns();
    if (!error)
        error = leat_halo_run(rank->halo, &step, iterations, NULL);
    *ns = (double)(leat_now_ns() - begin) / iterations;
    return error;
}

static int measure(struct rank *rank, const struct slice_command *command, double *ns)
{
    const char *wrong = NULL;
    if (strcmp(command->what, "flag") == 0)
        return bench_flag_measure(&rank->flag, rank->job, ns);
    if (!slice_is_halo(command, &wrong))
        return leat_fail(-EINVAL, "%s", wrong);
    int error = open_halo(rank, (uint32_t)command->amount);
    if (!error)
        error = run_slice(rank, (uint32_t)command->amount, (uint32_t)command->count, ns);
    leat_halo_free(rank->halo);
    leat_plan_free(rank->plan);
    rank->halo = NULL;
    rank->plan = NULL;
    return error;
}

static int serve(struct rank *rank, const char *directory, const char *side)
{
    struct slice_pipes pipes;
    struct slice_command command;
    int error = 0;
    slice_bind(rank->rank, 2);
    if (slice_open(directory, side, rank->rank, &pipes))
        return leat_fail(-EIO, "cannot open the benchmark's pipes in %s", directory);
    while (!error && slice_next(&pipes, &command)) {
        double values[SLICE_VALUES_MAX] = {0};
        error = measure(rank, &command, values);
        slice_answer(&pipes, error ? leat_error_detail() : NULL, values, 1);
    }
    return error;
}

int bench_halo_rank(const char *directory, const char *side, enum leat_mode mode)
{
    struct rank rank = {.mode = mode};
    leat_job_info info = {.size = sizeof info};
    int error = leat_open(NULL, &rank.job);
    if (error)
        return error;
    leat_job_info_get(rank.job, &info);
    rank.rank = info.rank;
    rank.index = malloc(sizeof(uint32_t) * SLICE_ATOMS_MAX);
    error = rank.index ? open_region(&rank) : leat_fail(-ENOMEM, "no memory for an index map");
    if (!error)
        error = serve(&rank, directory, side);
    leat_close(rank.job, error ? leat_error_detail() : NULL);
    free(rank.index);
    return error;
}
