/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the resident examples run: `leat run -n N PROGRAM` makes each rank a process, PROGRAM N makes
 * them threads of this one, as ranks with a GPU each have to be for their kernels to reach one
 * another. Either way a rank is one call of the program's function.
 */
#ifndef EXAMPLES_RANKS_H
#define EXAMPLES_RANKS_H

#include <leat/device.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* 0, or what the process exits with; leat's error is printed where it is 1. */
typedef int rank_function(leat_job *job, int rank, int rank_count);

struct rank_thread {
    pthread_t thread;
    leat_job *job;
    rank_function *run;
    int status;
};

/* Where this rank's kernels, or for host memory the program, load and store a region. */
static inline int address_of(leat_region *region, void **address)
{
    leat_region_info info = {sizeof info, NULL, 0, 0, NULL};
    int error = leat_region_info_get(region, &info);
    *address = info.address;
    return error ? 1 : 0;
}

static inline int host_memory(leat_job *job, uint64_t bytes, leat_region **region, void **address)
{
    leat_region_options options = {sizeof options, bytes, NULL, NULL, 0, LEAT_MEMORY_HOST};
    return leat_region_alloc(job, &options, region) ? 1 : address_of(*region, address);
}

/* What a region holds, where the program can read it. */
static inline int host_copy(leat_job *job, leat_region *region, uint64_t bytes, void **copy)
{
    leat_region *host;
    if (host_memory(job, bytes, &host, copy))
        return 1;
    leat_place to = {host, 0}, from = {region, 0}, none = {NULL, 0};
    return leat_copy(job, to, from, bytes, none, 0) ? 1 : 0;
}

/* Memory of this rank's device, and of its lower and upper neighbours' on a ring: `place` gets the
 * three addresses. */
static inline int show_to_neighbours(leat_job *job, uint64_t bytes, int rank, int rank_count,
                                     leat_region **region, int neighbour[2], void *place[3])
{
    leat_region_options options = {sizeof options, bytes, "shown", NULL, 0, LEAT_MEMORY_DEVICE};
    if (leat_region_alloc(job, &options, region) || address_of(*region, &place[0]))
        return 1;
    options.bytes = 0;
    for (int side = 0; side < 2; side++) {
        leat_region *view;
        neighbour[side] = options.owner = (rank + (side ? 1 : rank_count - 1)) % rank_count;
        if (leat_region_register(job, &options, &view) || address_of(view, &place[1 + side]))
            return 1;
    }
    return 0;
}

static void *run_rank(void *user)
{
    struct rank_thread *self = (struct rank_thread *)user;
    leat_job_info info = {sizeof info, 0, 0, {0, 0, 0}, 0, 0};
    self->status =
        leat_job_info_get(self->job, &info) ? 1 : self->run(self->job, info.rank, info.rank_count);
    if (self->status == 1)
        fprintf(stderr, "rank %d: %s\n", info.rank, leat_error_detail());
    leat_close(self->job, self->status ? "it has failed" : NULL);
    return NULL;
}

static inline int run_ranks(int argument_count, char **argument, rank_function *run)
{
    enum { MOST = 64 };
    leat_options options = {
        sizeof options, argument_count > 1 ? atoi(argument[1]) : 0, 0, 0, 0, 0, 0, 0};
    int count = options.thread_ranks > 1 ? options.thread_ranks : 1, status = 0;
    leat_job *jobs[MOST];
    struct rank_thread ranks[MOST];
    if (count > MOST || leat_open(&options, jobs)) {
        fprintf(stderr, "%s\n", count > MOST ? "at most 64 ranks" : leat_error_detail());
        return 1;
    }
    for (int i = 0; i < count; i++) {
        ranks[i].job = jobs[i];
        ranks[i].run = run;
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i])) {
            perror("a rank's thread");
            exit(1);
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        status = status ? status : ranks[i].status;
    }
    return status;
}

#endif
