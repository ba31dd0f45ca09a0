// SPDX-License-Identifier: Apache-2.0
// Measurements on a simulated job; see measure.h.
//
// Algorithm: a program of two phases a rank: start, and note when it is over. Small data is real,
// with values that say which rank and word they are of; large data is hollow, and every byte of
// every rank's result is accounted for (phantom.h). Advantage: nothing is sampled. Disadvantage:
// looking at all results takes time that virtual time does not show.

#include "sim/measure.h"

#include "core/error.h"
#include "msg/coll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 9 // of a ping-pong; the first ones are without a ring

struct collective {
    struct sim_collective what;
    leat_collective_options options;
    uint8_t *data; // [rank_count][2][data_bytes]; NULL: hollow
    uint64_t data_bytes;
    const char *algorithm;
};

static uint64_t buffer_bytes(const struct sim_collective *what, int rank_count)
{
    return what->kind == LEAT_ALLTOALL ? what->bytes * (uint64_t)rank_count : what->bytes;
}

static bool is_hollow(const struct sim_collective *what)
{
    return what->kind != LEAT_BARRIER && what->bytes > SIM_REAL_BYTES;
}

uint64_t sim_collective_hollow(const struct sim_collective *what, int rank_count)
{
    return is_hollow(what) ? buffer_bytes(what, rank_count) : 0;
}

// ---- Data ----

static uint64_t word_of(uint64_t rank, uint64_t index)
{
    return rank * 1000003 + index * 17 + 1;
}

static uint8_t byte_of(uint64_t from, uint64_t to, uint64_t index)
{
    return (uint8_t)(from * 31 + to * 7 + index + 1);
}

static uint8_t *send_of(const struct collective *run, int rank)
{
    return run->data + (uint64_t)rank * 2 * run->data_bytes;
}

static uint8_t *receive_of(const struct collective *run, int rank)
{
    return send_of(run, rank) + run->data_bytes;
}

static void fill_real(const struct sim_job *job, const struct collective *run, int rank)
{
    uint8_t *send = send_of(run, rank), *receive = receive_of(run, rank);
    uint64_t bytes = run->what.bytes;
    memset(receive, 0xdb, run->data_bytes);
    if (run->what.kind == LEAT_ALLREDUCE)
        for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++)
            ((uint64_t *)(void *)send)[i] = word_of((uint64_t)rank, i);
    if (run->what.kind == LEAT_BROADCAST && rank == run->what.root)
        for (uint64_t i = 0; i < bytes; i++)
            receive[i] = byte_of((uint64_t)rank, 0, i);
    for (int to = 0; run->what.kind == LEAT_ALLTOALL && to < job->rank_count; to++)
        for (uint64_t i = 0; i < bytes; i++)
            send[(uint64_t)to * bytes + i] = byte_of((uint64_t)rank, (uint64_t)to, i);
}

static int fill_hollow(struct sim_job *job, const struct collective *run, int rank)
{
    struct sim_rank *endpoint = &job->fabric.rank[rank];
    uint64_t bytes = buffer_bytes(&run->what, job->rank_count);
    struct sim_range all = {0, bytes, sim_phantom_hash((uint64_t)rank), 0};
    bool broadcast = run->what.kind == LEAT_BROADCAST;
    bool has = !broadcast || rank == run->what.root;
    int error = sim_store_write(&endpoint->receive, 0, bytes, &all, broadcast && has, 0);
    if (!error)
        error = sim_store_write(&endpoint->send, 0, bytes, &all, !broadcast, 0);
    return error ? leat_fail(error, "no memory to say what rank %d sends", rank) : 0;
}

// Whether what a rank has received is right.
static bool right_real(const struct sim_job *job, const struct collective *run, int rank)
{
    const uint8_t *receive = receive_of(run, rank);
    uint64_t bytes = run->what.bytes, ranks = (uint64_t)job->rank_count;
    const uint64_t *word = (const void *)receive;
    if (run->what.kind == LEAT_ALLREDUCE) {
        for (uint64_t i = 0; i < bytes / sizeof *word; i++)
            if (word[i] != ranks * (ranks - 1) / 2 * 1000003 + ranks * (i * 17 + 1))
                return false;
        return true;
    }
    uint64_t blocks = run->what.kind == LEAT_ALLTOALL ? ranks : 1;
    for (uint64_t block = 0; block < blocks; block++)
        for (uint64_t i = 0; i < bytes; i++)
            if (receive[block * bytes + i] != (blocks > 1
                                                   ? byte_of(block, (uint64_t)rank, i)
                                                   : byte_of((uint64_t)run->what.root, 0, i)))
                return false;
    return true;
}

static bool right_hollow(const struct sim_job *job, const struct collective *run, int rank,
                         uint64_t sum_of_all)
{
    const struct sim_store *store = &job->fabric.rank[rank].receive;
    uint64_t bytes = run->what.bytes;
    if (run->what.kind != LEAT_ALLTOALL)
        return sim_store_is(store, bytes,
                            run->what.kind == LEAT_ALLREDUCE
                                ? sum_of_all
                                : sim_phantom_hash((uint64_t)run->what.root));
    for (uint64_t from = 0; from < (uint64_t)job->rank_count; from++) {
        struct sim_range range;
        if (sim_store_read(store, from * bytes, (from + 1) * bytes, &range, 1) != 1 ||
            range.from != from * bytes || range.to != (from + 1) * bytes ||
            range.sum != sim_phantom_hash(from) || range.shift != ((uint64_t)rank - from) * bytes)
            return false;
    }
    return true;
}

// ---- Running ----

static int step(struct sim_job *job, int index, void *user)
{
    struct collective *run = user;
    struct sim_job_rank *rank = &job->rank[index];
    if (rank->phase == 0) {
        leat_collective_options options = run->options;
        bool broadcast = run->what.kind == LEAT_BROADCAST;
        if (run->what.kind != LEAT_BARRIER) {
            options.receive = run->data ? (void *)receive_of(run, index)
                                        : sim_hollow_receive(&job->fabric, index);
            options.send = broadcast   ? NULL
                           : run->data ? (void *)send_of(run, index)
                                       : sim_hollow_send(&job->fabric, index);
        }
        rank->phase = 1;
        int error = leat_collective(rank->comm, &options, &rank->request);
        return error ? error : 1;
    }
    const struct msg_request *request = msg_request_of(&rank->request);
    if (!msg_finished(request))
        return 0;
    rank->done = true;
    rank->end_ps = sim_job_now_ps(job, index);
    return request->status.error;
}

static int open_run(struct sim_job *job, const struct sim_collective *what, struct collective *run)
{
    bool words = what->kind == LEAT_ALLREDUCE;
    *run = (struct collective){.what = *what};
    if (words && what->bytes % sizeof(uint64_t))
        return leat_fail(-EINVAL, "allreduce adds words of 64 bits: %llu bytes are no whole number",
                         (unsigned long long)what->bytes);
    run->options = (leat_collective_options){.size = sizeof run->options,
                                             .kind = what->kind,
                                             .count = what->kind == LEAT_BARRIER ? 0
                                                      : words                    ? what->bytes / 8
                                                                                 : what->bytes,
                                             .type = words ? LEAT_UINT64 : LEAT_BYTE,
                                             .operation = words ? LEAT_SUM : LEAT_BITWISE_OR,
                                             .root = what->root,
                                             .algorithm = what->algorithm};
    if (is_hollow(what)) {
        int error = 0;
        for (int rank = 0; !error && rank < job->rank_count; rank++)
            error = fill_hollow(job, run, rank);
        return error;
    }
    run->data_bytes = buffer_bytes(what, job->rank_count);
    run->data = calloc((size_t)job->rank_count * 2, run->data_bytes + 8);
    if (!run->data)
        return leat_fail(-ENOMEM, "no memory for the data of %d ranks", job->rank_count);
    for (int rank = 0; rank < job->rank_count; rank++)
        fill_real(job, run, rank);
    return 0;
}

static const char *algorithm_of(struct sim_job *job, const struct collective *run)
{
    struct coll_call call;
    leat_collective_options options = run->options;
    uint8_t data[2][8];
    // Any addresses will do: nothing is moved.
    if (run->what.kind != LEAT_BARRIER)
        options.receive = data[0];
    if (run->what.kind != LEAT_BARRIER && run->what.kind != LEAT_BROADCAST)
        options.send = data[1];
    if (coll_check(job->rank[0].comm, &options, &call))
        return "unknown";
    return coll_choose(job->rank[0].comm, &call)->name;
}

int sim_collective_run(struct sim_job *job, const struct sim_collective *what,
                       struct sim_measured *measured)
{
    struct collective run;
    int error = open_run(job, what, &run);
    if (!error)
        error = sim_job_run(job, step, &run);
    if (!error) {
        uint64_t begin_ps = UINT64_MAX, end_ps = 0, sum = 0;
        *measured = (struct sim_measured){.algorithm = algorithm_of(job, &run)};
        if (what->kind == LEAT_ALLREDUCE)
            sum = sim_phantom_all((uint64_t)job->rank_count);
        for (int i = 0; i < job->rank_count; i++) {
            const struct sim_job_rank *rank = &job->rank[i];
            begin_ps = rank->begin_ps < begin_ps ? rank->begin_ps : begin_ps;
            end_ps = rank->end_ps > end_ps ? rank->end_ps : end_ps;
            if (what->kind != LEAT_BARRIER &&
                !(run.data ? right_real(job, &run, i) : right_hollow(job, &run, i, sum)))
                measured->wrong++;
        }
        measured->seconds = (double)(end_ps - begin_ps) * 1e-12;
    }
    free(run.data);
    return error;
}

// ---- Ping-pong ----

struct pingpong {
    int from, to;
    uint64_t bytes;
    uint8_t *data[2];
    uint64_t round_ps[ROUNDS];
    uint64_t last_ps;
};

static int pingpong_step(struct sim_job *job, int index, void *user)
{
    struct pingpong *run = user;
    struct sim_job_rank *rank = &job->rank[index];
    if (index != run->from && index != run->to) {
        rank->done = true;
        return 0;
    }
    if (rank->phase && !msg_finished(msg_request_of(&rank->request)))
        return 0;
    if (rank->phase && msg_request_of(&rank->request)->status.error)
        return msg_request_of(&rank->request)->status.error;
    bool first = index == run->from;
    uint64_t now_ps = sim_job_now_ps(job, index);
    if (first && rank->phase && rank->phase % 2 == 0)
        run->round_ps[rank->phase / 2 - 1] = now_ps - run->last_ps;
    if (first && rank->phase % 2 == 0)
        run->last_ps = now_ps;
    if (rank->phase == 2 * ROUNDS) {
        rank->done = true;
        return 0;
    }
    leat_data data = {.address = run->data[!first], .bytes = run->bytes};
    bool sends = (rank->phase++ % 2 == 0) == first;
    int error =
        sends ? leat_send(rank->comm, data, first ? run->to : run->from, 0, 0, &rank->request)
              : leat_recv(rank->comm, data, first ? run->to : run->from, 0, NULL, &rank->request);
    return error ? error : 1;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int sim_pingpong_run(struct sim_job *job, int from, int to, uint64_t bytes, double *half_ns)
{
    struct pingpong run = {.from = from, .to = to, .bytes = bytes};
    int error = 0;
    for (int i = 0; i < 2; i++)
        run.data[i] = malloc(bytes + 1);
    if (!run.data[0] || !run.data[1])
        error =
            leat_fail(-ENOMEM, "no memory for messages of %llu bytes", (unsigned long long)bytes);
    for (uint64_t i = 0; !error && i < bytes; i++)
        run.data[0][i] = byte_of(1, 2, i);
    if (!error)
        memset(run.data[1], 0xdb, bytes);
    if (!error)
        error = sim_job_run(job, pingpong_step, &run);
    for (uint64_t i = 0; !error && i < bytes; i++)
        if (run.data[1][i] != byte_of(1, 2, i))
            error = leat_fail(-EBADMSG, "byte %llu of %llu came back wrong", (unsigned long long)i,
                              (unsigned long long)bytes);
    if (!error) {
        qsort(run.round_ps, ROUNDS, sizeof *run.round_ps, by_size);
        uint64_t median_ps = run.round_ps[ROUNDS / 2];
        *half_ns = (double)median_ps * 0.5e-3;
    }
    free(run.data[0]);
    free(run.data[1]);
    return error;
}
