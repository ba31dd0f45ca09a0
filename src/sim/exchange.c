// SPDX-License-Identifier: Apache-2.0
// The exchange with neighbours; see exchange.h.
//
// Algorithm: all receives, then all sends, then waiting for them. The block for direction d comes
// from place d of the sender's buffer and arrives at place d ^ 1 of the receiver's, where it says
// whose it is and from where. Advantage: a block that went astray is found. Disadvantage: looking
// at the results is not in the time.

#include "sim/exchange.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>

struct exchange {
    uint64_t bytes;
    leat_request *request; // [rank_count][2 * SIM_DIRECTIONS]
};

// The neighbour in direction 2 * side (up) or 2 * side + 1 (down); -1: none.
static int neighbour(const struct sim_fold *fold, int rank, int direction)
{
    int at[SIM_FOLD_SIDES_MAX], side = direction / 2, size = fold->side[side];
    if (size < 2)
        return -1;
    sim_fold_coordinates(fold, rank, at);
    int to = at[side] + (direction % 2 ? -1 : 1);
    if ((to < 0 || to >= size) && !fold->wrap[side])
        return -1;
    at[side] = (to + size) % size;
    return sim_fold_rank(fold, at);
}

static int begin(struct sim_job *job, struct exchange *run, int index)
{
    struct sim_job_rank *rank = &job->rank[index];
    leat_request *request = run->request + (size_t)index * 2 * SIM_DIRECTIONS;
    char *send = sim_hollow_send(&job->fabric, index);
    char *receive = sim_hollow_receive(&job->fabric, index);
    int error = 0;
    for (int i = 0; !error && i < 2 * SIM_DIRECTIONS; i++) {
        bool sends = i >= SIM_DIRECTIONS;
        int direction = i % SIM_DIRECTIONS, peer = neighbour(&job->fold, index, direction);
        if (peer < 0)
            continue;
        leat_data data = {.address = (sends ? send : receive) + (uint64_t)direction * run->bytes,
                          .bytes = run->bytes};
        error = sends ? leat_send(rank->comm, data, peer, direction, 0, &request[i])
                      : leat_recv(rank->comm, data, peer, direction ^ 1, NULL, &request[i]);
    }
    return error;
}

static int step(struct sim_job *job, int index, void *user)
{
    struct exchange *run = user;
    struct sim_job_rank *rank = &job->rank[index];
    leat_request *request = run->request + (size_t)index * 2 * SIM_DIRECTIONS;
    if (rank->phase == 0) {
        int error = begin(job, run, index);
        rank->phase = 1;
        return error ? error : 1;
    }
    for (int i = 0; i < 2 * SIM_DIRECTIONS; i++) {
        const struct msg_request *one = msg_request_of(&request[i]);
        if (one->kind == REQUEST_NONE)
            continue;
        if (!msg_finished(one))
            return 0;
        if (one->status.error)
            return one->status.error;
    }
    rank->done = true;
    rank->end_ps = sim_job_now_ps(job, index);
    return 0;
}

static int fill(struct sim_job *job, int rank, uint64_t bytes)
{
    struct sim_rank *endpoint = &job->fabric.rank[rank];
    uint64_t all = sim_exchange_hollow(bytes);
    struct sim_range range = {0, all, sim_phantom_hash((uint64_t)rank), 0};
    int error = sim_store_write(&endpoint->send, 0, all, &range, 1, 0);
    if (!error)
        error = sim_store_write(&endpoint->receive, 0, all, NULL, 0, 0);
    return error ? leat_fail(error, "no memory to say what rank %d sends", rank) : 0;
}

static bool is_right(const struct sim_job *job, int rank, uint64_t bytes)
{
    const struct sim_store *store = &job->fabric.rank[rank].receive;
    for (int direction = 0; direction < SIM_DIRECTIONS; direction++) {
        int from = neighbour(&job->fold, rank, direction);
        uint64_t place = (uint64_t)direction * bytes, source = (uint64_t)(direction ^ 1) * bytes;
        struct sim_range range;
        uint32_t count = sim_store_read(store, place, place + bytes, &range, 1);
        if (from < 0 && !count)
            continue;
        if (from < 0 || count != 1 || range.from != place || range.to != place + bytes ||
            range.sum != sim_phantom_hash((uint64_t)from) || range.shift != source - place)
            return false;
    }
    return true;
}

static void read_times(const struct sim_job *job, uint64_t bytes, struct sim_measured *measured)
{
    uint64_t begin_ps = UINT64_MAX, end_ps = 0;
    *measured = (struct sim_measured){.algorithm = "neighbours"};
    for (int i = 0; i < job->rank_count; i++) {
        const struct sim_job_rank *rank = &job->rank[i];
        begin_ps = rank->begin_ps < begin_ps ? rank->begin_ps : begin_ps;
        end_ps = rank->end_ps > end_ps ? rank->end_ps : end_ps;
        measured->wrong += !is_right(job, i, bytes);
    }
    measured->seconds = (double)(end_ps - begin_ps) * 1e-12;
}

int sim_exchange_run(struct sim_job *job, uint64_t bytes, struct sim_measured *measured)
{
    struct exchange run = {.bytes = bytes};
    if (!job->folded)
        return leat_fail(
            -EINVAL,
            "%s is no torus, so nobody knows who the neighbours are; take another operation",
            job->options.machine->name);
    run.request = calloc((size_t)job->rank_count * 2 * SIM_DIRECTIONS, sizeof *run.request);
    int error = run.request
                    ? 0
                    : leat_fail(-ENOMEM, "no memory for the requests of %d ranks", job->rank_count);
    for (int rank = 0; !error && rank < job->rank_count; rank++)
        error = fill(job, rank, bytes);
    if (!error)
        error = sim_job_run(job, step, &run);
    if (!error)
        read_times(job, bytes, measured);
    free(run.request);
    return error;
}

struct sim_bound sim_bound_exchange(const struct sim_job *job, uint64_t bytes)
{
    int streams = 0, channel = 1;
    for (int side = 0; side < SIM_FOLD_SIDES_MAX; side++) {
        int size = job->fold.side[side];
        // Inside there are both neighbours; of two ranks without a ring each has one.
        if (size > 1)
            streams += size > 2 || job->fold.wrap[side] ? 2 : 1;
        if (size == 2 && job->fold.wrap[side] && !job->fold.doubled[side])
            channel = 2;
    }
    return sim_bound_loads(job, streams * (double)bytes, streams * (double)bytes,
                           channel * (double)bytes);
}
