// SPDX-License-Identifier: Apache-2.0
// leat's side of `leat bench p2p`, `coll`, `memory` and `flood`: plain calls of msg.h under the
// loops that the peers run too (bench/msg_slice.h). Two slices are leat's own: "flag", one way of a
// flag in ns, and "budget", bytes used and at peak and the budget.

#define _GNU_SOURCE
#include "../bench/bind.h"
#include "bench.h"
#include "bench_algorithm.h"
#include "bench_flag.h"
#include "commands.h"

#include "../bench/msg_flood.h"
#include "core/error.h"
#include "leat/msg.h"

#include <errno.h>

enum { REQUESTS = 2 * SLICE_WINDOW };

struct way {
    leat_job *job;
    leat_comm *comm;
    struct bench_algorithm algorithm;
    int rank;
    bool polls;         // way_poll has been used: `never` is under way
    leat_request never; // a receive that nothing will match
    leat_request request[REQUESTS];
    leat_request *list[REQUESTS];
    struct bench_flag flag;
};

// A sender's data are not changed, but leat_data has one address for both directions.
static leat_data data_of(const void *data, size_t bytes)
{
    return (leat_data){.address = (void *)(uintptr_t)data, .bytes = bytes};
}

static int way_send(struct way *way, const void *data, size_t bytes, int peer, int tag)
{
    return leat_send(way->comm, data_of(data, bytes), peer, tag, 0, NULL);
}

static int way_receive(struct way *way, void *data, size_t bytes, int peer, int tag, int *source)
{
    leat_status status;
    int error = leat_recv(way->comm, data_of(data, bytes), peer == SLICE_ANY ? LEAT_ANY_RANK : peer,
                          tag, source ? &status : NULL, NULL);
    if (source && !error)
        *source = status.source;
    return error;
}

static int way_start_send(struct way *way, int request, const void *data, size_t bytes, int peer)
{
    return leat_send(way->comm, data_of(data, bytes), peer, SLICE_TAG_DATA, 0,
                     &way->request[request]);
}

static int way_start_receive(struct way *way, int request, void *data, size_t bytes, int peer)
{
    return leat_recv(way->comm, data_of(data, bytes), peer, SLICE_TAG_DATA, NULL,
                     &way->request[request]);
}

static int way_finish(struct way *way, int count)
{
    return leat_request_wait(way->list, (size_t)count, LEAT_WAIT_ALL, -1, NULL);
}

// Not a probe, which asks the senders that hold messages back.
static int way_poll(struct way *way)
{
    leat_request *never = &way->never;
    int error = 0;
    if (!way->polls) {
        error = leat_recv(way->comm, data_of(NULL, 0), way->rank, SLICE_TAG_ACK + 1, NULL, never);
        way->polls = !error;
    }
    if (!error)
        error = leat_request_wait(&never, 1, LEAT_WAIT_ALL, 0, NULL);
    return error == -ETIMEDOUT ? 0 : error;
}

static int collective(struct way *way, leat_collective_options options)
{
    options.size = sizeof options;
    if (way->algorithm.name && options.kind == way->algorithm.kind)
        options.algorithm = way->algorithm.name;
    return leat_collective(way->comm, &options, NULL);
}

static int way_barrier(struct way *way)
{
    return collective(way, (leat_collective_options){.kind = LEAT_BARRIER});
}

static int way_broadcast(struct way *way, void *data, size_t bytes, int root)
{
    return collective(way,
                      (leat_collective_options){
                          .kind = LEAT_BROADCAST, .receive = data, .count = bytes, .root = root});
}

static int way_sum(struct way *way, const double *from, double *to, size_t count)
{
    return collective(way, (leat_collective_options){.kind = LEAT_ALLREDUCE,
                                                     .send = from,
                                                     .receive = to,
                                                     .count = count,
                                                     .type = LEAT_DOUBLE,
                                                     .operation = LEAT_SUM});
}

static int way_other(struct way *way, const char *what, double *values, int *value_count)
{
    leat_stats stats = {.size = sizeof stats};
    if (strcmp(what, "flag") == 0) {
        *value_count = 1;
        return bench_flag_measure(&way->flag, way->job, values);
    }
    if (strcmp(what, "budget") != 0)
        return leat_fail(-EINVAL, "there is no slice \"%s\"", what);
    int error = leat_stats_read(way->job, LEAT_ALL_PEERS, &stats);
    *value_count = 3;
    values[0] = (double)stats.msg_used_bytes;
    values[1] = (double)stats.msg_peak_bytes;
    values[2] = (double)stats.msg_budget_bytes;
    return error;
}

static const char *way_wrong(struct way *way)
{
    (void)way;
    return leat_error_detail();
}

static int serve(struct way *way, const char *directory, const char *side)
{
    leat_job_info info = {.size = sizeof info};
    struct slice_pipes pipes;
    leat_job_info_get(way->job, &info);
    way->rank = info.rank;
    for (int i = 0; i < REQUESTS; i++)
        way->list[i] = &way->request[i];
    struct slice slice = {.way = way,
                          .directory = directory,
                          .side = side,
                          .rank = info.rank,
                          .rank_count = info.rank_count};
    int error = leat_comm_split(way->job, NULL, &way->comm);
    if (error)
        return error;
    slice_bind(info.rank, info.rank_count);
    if (slice_open(directory, side, info.rank, &pipes))
        return leat_fail(-EIO, "cannot open the benchmark's pipes in %s", directory);
    error = slice_serve(&slice, &pipes);
    if (slice.wrong[0])
        leat_fail(error, "%s", slice.wrong);
    if (way->polls && !error) {
        leat_request *never = &way->never;
        leat_cancel(never);
        leat_request_wait(&never, 1, LEAT_WAIT_ALL, -1, NULL); // -ECANCELED
    }
    return error;
}

int bench_msg_serve(int argc, char **argv)
{
    struct way way = {.job = NULL};
    if (argc < 3 || argc > 4 || (argc == 4 && !bench_algorithm_read(argv[3], &way.algorithm))) {
        fprintf(stderr, "leat bench msg-rank: started by leat bench itself\n");
        return EXIT_USAGE;
    }
    int error = leat_open(NULL, &way.job);
    if (!error)
        error = serve(&way, argv[1], argv[2]);
    leat_close(way.job, error ? leat_error_detail() : NULL);
    return error ? command_fail("bench", error) : EXIT_DONE;
}
