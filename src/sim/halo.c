// SPDX-License-Identifier: Apache-2.0
// The halo exchange of a decomposed box; see halo.h.
//
// Algorithm: a step is a list of rounds, each a set of messages to one side and from the other; a
// round begins when the one before has come. Forwarded, there are six rounds of a message; with one
// hop two rounds of up to seven. Advantage: both kinds, and both ways, are one loop. Disadvantage:
// a rank waits for all of a round, also for what nothing depends on.

#include "sim/halo.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>

#define DIMENSIONS  3
#define TAGS_A_STEP 32
#define TAG_STEPS   1024 /* after so many, tags come again */
#define REQUESTS    (2 * SIM_HALO_WAYS)

struct halo_rank {
    leat_request request[REQUESTS];
    int step, round;
    bool begun;
};

struct run {
    const struct sim_halo *halo;
    struct halo_rank *rank;
    uint64_t place_bytes; /* of a message, in the hollow buffers */
    int wrong;
};

static int rounds_of(const struct sim_halo *halo)
{
    return halo->onehop ? 2 : 2 * DIMENSIONS;
}

static int at_displacement(const struct sim_halo *halo, int rank, int way, int sign)
{
    const int *grid = halo->grid;
    int at[DIMENSIONS] = {rank / grid[2] / grid[1], rank / grid[2] % grid[1], rank % grid[2]};
    for (int d = 0; d < DIMENSIONS; d++)
        if (way >> d & 1)
            at[d] = (at[d] + sign + grid[d]) % grid[d];
    return (at[0] * grid[1] + at[1]) * grid[2] + at[2];
}

// Elements that a rank receives by message `way` of the coordinates: with one hop those of that
// displacement, forwarded those of all that end with dimension `way`, z first.
static uint64_t elements_of(const struct sim_halo *halo, int rank, int way)
{
    const uint32_t *ghost = halo->ghost + (size_t)rank * SIM_HALO_WAYS;
    if (halo->onehop)
        return ghost[way];
    uint64_t sum = 0;
    // Dimensions go z, y, x, which are bits 2, 1, 0: the last one that was crossed is the lowest.
    for (int i = 1; i < SIM_HALO_WAYS; i++)
        if ((i & -i) == way)
            sum += ghost[i];
    return sum;
}

// The messages of a round, as a set of ways.
static uint32_t ways_of(const struct sim_halo *halo, int round)
{
    if (halo->onehop)
        return ((1u << SIM_HALO_WAYS) - 1) & ~1u;
    int dimension = round < DIMENSIONS ? DIMENSIONS - 1 - round : round - DIMENSIONS;
    return 1u << (1 << dimension);
}

static bool is_back(const struct sim_halo *halo, int round)
{
    return round >= rounds_of(halo) / 2;
}

static uint64_t bytes_of(const struct sim_halo *halo, int rank, int way)
{
    return elements_of(halo, rank, way) * halo->element_bytes;
}

static uint64_t most_bytes(const struct sim_halo *halo)
{
    int ranks = halo->grid[0] * halo->grid[1] * halo->grid[2];
    uint64_t most = 1;
    for (int rank = 0; rank < ranks; rank++)
        for (int way = 1; way < SIM_HALO_WAYS; way++) {
            bool sent = halo->onehop || (way & (way - 1)) == 0;
            uint64_t bytes = sent ? bytes_of(halo, rank, way) : 0;
            most = bytes > most ? bytes : most;
        }
    return (most + 63) / 64 * 64;
}

uint64_t sim_halo_hollow(const struct sim_halo *halo)
{
    return SIM_HALO_WAYS * most_bytes(halo);
}

// ---- Running ----

static int start_round(struct sim_job *job, const struct run *run, int index)
{
    const struct sim_halo *halo = run->halo;
    struct halo_rank *own = &run->rank[index];
    char *send = sim_hollow_send(&job->fabric, index);
    char *receive = sim_hollow_receive(&job->fabric, index);
    bool back = is_back(halo, own->round);
    uint32_t ways = ways_of(halo, own->round);
    int error = 0;
    for (int way = 1; !error && way < SIM_HALO_WAYS; way++) {
        if (!(ways >> way & 1))
            continue;
        // Coordinates come from above and go below; forces the other way.
        int above = at_displacement(halo, index, way, 1),
            below = at_displacement(halo, index, way, -1);
        uint64_t in = bytes_of(halo, index, way), out = bytes_of(halo, below, way);
        int tag = own->step % TAG_STEPS * TAGS_A_STEP + (back ? SIM_HALO_WAYS : 0) + way;
        uint64_t place = (uint64_t)way * run->place_bytes;
        leat_data to = {.address = send + place, .bytes = back ? in : out};
        leat_data from = {.address = receive + place, .bytes = back ? out : in};
        if (from.bytes)
            error = leat_recv(job->rank[index].comm, from, back ? below : above, tag, NULL,
                              &own->request[2 * way]);
        if (!error && to.bytes)
            error = leat_send(job->rank[index].comm, to, back ? above : below, tag, 0,
                              &own->request[2 * way + 1]);
    }
    return error;
}

// 1: all of the round is through; 0: not yet.
static int look(struct halo_rank *own)
{
    for (int i = 0; i < REQUESTS; i++) {
        const struct msg_request *request = msg_request_of(&own->request[i]);
        if (request->kind == REQUEST_NONE)
            continue;
        if (!msg_finished(request))
            return 0;
        if (request->status.error)
            return request->status.error;
    }
    return 1;
}

// What came by the round has to be of whom it was to come from.
static void check(struct sim_job *job, struct run *run, int index)
{
    const struct sim_halo *halo = run->halo;
    const struct halo_rank *own = &run->rank[index];
    struct sim_store *store = &job->fabric.rank[index].receive;
    bool back = is_back(halo, own->round);
    uint32_t ways = ways_of(halo, own->round);
    for (int way = 1; way < SIM_HALO_WAYS; way++) {
        if (!(ways >> way & 1))
            continue;
        int from = at_displacement(halo, index, way, back ? -1 : 1);
        uint64_t bytes = bytes_of(halo, back ? from : index, way);
        uint64_t place = (uint64_t)way * run->place_bytes;
        struct sim_range range;
        if (bytes && (sim_store_read(store, place, place + bytes, &range, 1) != 1 ||
                      range.from != place || range.to != place + bytes || range.shift != 0 ||
                      range.sum != sim_phantom_hash((uint64_t)from)))
            run->wrong++;
        // A message that does not come next time leaves a hole.
        if (bytes && sim_store_write(store, place, place + bytes, NULL, 0, 0))
            run->wrong++;
    }
}

static int step(struct sim_job *job, int index, void *user)
{
    struct run *run = user;
    const struct sim_halo *halo = run->halo;
    struct halo_rank *own = &run->rank[index];
    if (own->begun) {
        int through = look(own);
        if (through <= 0)
            return through;
        check(job, run, index);
        own->begun = false;
        own->round++;
        if (own->round == rounds_of(halo) / 2)
            sim_spend(&job->fabric.rank[index],
                      (uint64_t)(halo->home[index] * halo->element_ns * 1000));
        if (own->round == rounds_of(halo)) {
            own->round = 0;
            own->step++;
        }
    }
    if (own->step == halo->steps) {
        job->rank[index].done = true;
        job->rank[index].end_ps = sim_job_now_ps(job, index);
        return 0;
    }
    for (int i = 0; i < REQUESTS; i++)
        own->request[i] = (leat_request){0};
    own->begun = true;
    int error = start_round(job, run, index);
    return error ? error : 1;
}

static int fill(struct sim_job *job, int rank, uint64_t bytes)
{
    struct sim_rank *endpoint = &job->fabric.rank[rank];
    struct sim_range range = {0, bytes, sim_phantom_hash((uint64_t)rank), 0};
    int error = sim_store_write(&endpoint->send, 0, bytes, &range, 1, 0);
    if (!error)
        error = sim_store_write(&endpoint->receive, 0, bytes, NULL, 0, 0);
    return error ? leat_fail(error, "no memory to say what rank %d sends", rank) : 0;
}

int sim_halo_run(struct sim_job *job, const struct sim_halo *halo, struct sim_measured *measured)
{
    struct run run = {.halo = halo, .place_bytes = most_bytes(halo)};
    if (halo->grid[0] * halo->grid[1] * halo->grid[2] != job->rank_count)
        return leat_fail(-EINVAL, "a grid of %dx%dx%d, but %d ranks", halo->grid[0], halo->grid[1],
                         halo->grid[2], job->rank_count);
    run.rank = calloc((size_t)job->rank_count, sizeof *run.rank);
    int error = run.rank
                    ? 0
                    : leat_fail(-ENOMEM, "no memory for the requests of %d ranks", job->rank_count);
    for (int rank = 0; !error && rank < job->rank_count; rank++)
        error = fill(job, rank, SIM_HALO_WAYS * run.place_bytes);
    if (!error)
        error = sim_job_run(job, step, &run);
    if (!error) {
        uint64_t begin_ps = UINT64_MAX, end_ps = 0;
        for (int i = 0; i < job->rank_count; i++) {
            const struct sim_job_rank *rank = &job->rank[i];
            begin_ps = rank->begin_ps < begin_ps ? rank->begin_ps : begin_ps;
            end_ps = rank->end_ps > end_ps ? rank->end_ps : end_ps;
        }
        *measured = (struct sim_measured){.seconds = (double)(end_ps - begin_ps) * 1e-12,
                                          .wrong = run.wrong,
                                          .algorithm = halo->onehop ? "onehop" : "forwarded"};
    }
    free(run.rank);
    return error;
}
