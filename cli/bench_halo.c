// SPDX-License-Identifier: Apache-2.0
// A rank of `leat bench halo`: runs slices of exchanges between two ranks, as bench/halo_slice.h
// says.

#include "bench_halo.h"

#include "../bench/halo_slice.h"
#include "core/region.h"
#include "leat/halo.h"

#include <errno.h>
#include <stdlib.h>

struct rank {
    leat_job *job;
    int rank;
    enum leat_mode mode;
    uint32_t *index;
    leat_region *region, *flag_here, *flag_there;
    float *x;
    leat_plan *plan;
    leat_halo *halo;
    volatile float sink;
    uint64_t flags; /* raised so far, the same on both sides */
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
    options = (leat_region_options){
        .size = sizeof options, .bytes = LEAT_SIGNAL_BYTES, .name = "bench.flag"};
    error = leat_region_alloc(rank->job, &options, &rank->flag_here);
    options = (leat_region_options){
        .size = sizeof options, .name = "bench.flag", .owner = 1 - rank->rank};
    return error ? error : leat_region_register(rank->job, &options, &rank->flag_there);
}

static int open_halo(struct rank *rank, uint32_t atoms)
{
    slice_index(atoms, rank->index);
    leat_list send = {
        .rank = 1 - rank->rank, .count = atoms, .index = rank->index, .shift_nm = {1, 2, 3}};
    leat_list receive = {.rank = 1 - rank->rank, .count = atoms};
    const leat_lists lists = {.size = sizeof lists,
                              .home_count = 2 * atoms,
                              .send_count = 1,
                              .recv_count = 1,
                              .sends = &send,
                              .receives = &receive};
    int error = leat_plan_lists(rank->job, &lists, &rank->plan);
    const leat_field field = {
        .place = {rank->region, 0}, .element = LEAT_F32, .components = 3, .shifted = 1, .zones = 2};
    const leat_halo_options options = {
        .size = sizeof options, .mode = rank->mode, .field_count = 1, .fields = &field};
    return error ? error : leat_halo_open(rank->job, rank->plan, &options, &rank->halo);
}

// A flag back and forth, the way every exchange's signal goes; nanoseconds one way.
static double flag_ns(struct rank *rank)
{
    enum { ROUNDS = 2000 };
    struct leat_signal *here = (struct leat_signal *)rank->flag_here->address;
    struct leat_signal *there = (struct leat_signal *)rank->flag_there->address;
    uint64_t start = rank->flags, begin = leat_now_ns();
    rank->flags += ROUNDS;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (rank->rank == 0)
            leat_signal_raise(there, start + i);
        if (leat_signal_wait(rank->job, here, start + i, 1 - rank->rank,
                             begin + rank->job->timeout_ns, NULL))
            return 0;
        if (rank->rank == 1)
            leat_signal_raise(there, start + i);
    }
    return (double)(leat_now_ns() - begin) / (2.0 * ROUNDS);
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

static int serve(struct rank *rank, const char *directory)
{
    struct slice_pipes pipes;
    uint32_t atoms, iterations;
    int error = 0;
    if (slice_open(directory, "leat", rank->rank, &pipes))
        return leat_fail(-EIO, "cannot open the benchmark's pipes in %s", directory);
    while (!error && slice_next(&pipes, &atoms, &iterations)) {
        double ns = 0, flag = 0;
        error = open_halo(rank, atoms);
        if (!error) {
            flag = flag_ns(rank);
            error = run_slice(rank, atoms, iterations, &ns);
        }
        leat_halo_free(rank->halo);
        leat_plan_free(rank->plan);
        rank->halo = NULL;
        rank->plan = NULL;
        if (!error)
            slice_answer(&pipes, ns, flag);
    }
    return error;
}

int bench_halo_rank(const char *directory, enum leat_mode mode)
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
        error = serve(&rank, directory);
    leat_close(rank.job, error ? leat_error_detail() : NULL);
    free(rank.index);
    return error;
}
