// SPDX-License-Identifier: Apache-2.0
// A simulated job: opening, running, closing; see job.h.
//
// Algorithm: windows of virtual time, and in each the ranks for which something has come, one after
// the other: progress of the rank's engine until nothing moves, then its program. Advantage: a rank
// without work costs nothing. Disadvantage: the last round of progress finds nothing each time.

#include "sim/job.h"

#include "core/error.h"
#include "core/job.h"
#include "msg/coll.h"
#include "msg/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_WINDOWS 16
#define EAGER_MOST    60000 /* has to fit beside a fragment into the bulk area of a ring */
#define BUDGET_BYTES  (UINT64_C(1) << 30)
#define ROUNDS_MOST   100000 /* of one rank at one moment: then something is wrong */

struct sim_eager {
    uint32_t bytes, hop_bytes;
};

// Where a copy at the receiver takes as long as what announcing takes longer: a round trip, a get
// (whose descriptor and data are fetched), and the processors' commands for it.
static struct sim_eager eager_of(const struct sim_machine *machine)
{
    bool torus = machine->kind == SIM_TORUS;
    double first_ns = torus ? machine->torus.latency_ns
                            : machine->cluster.base_ns + 2 * machine->cluster.nvlink_ns;
    double longer_ns = 2 * first_ns + 2 * machine->descriptor_fetch_ns + 3 * machine->command_ns;
    double bytes = longer_ns * machine->copy_gb_per_s;
    double hop_bytes = torus ? 2 * machine->torus.hop_ns * machine->copy_gb_per_s : 0;
    return (struct sim_eager){(uint32_t)(bytes < EAGER_MOST ? bytes : EAGER_MOST),
                              (uint32_t)(hop_bytes < EAGER_MOST ? hop_bytes : EAGER_MOST)};
}

struct msg_tuning sim_job_tuning(const struct sim_machine *machine)
{
    struct sim_eager eager = eager_of(machine);
    return (struct msg_tuning){.budget_bytes = BUDGET_BYTES,
                               .ring_slots = 32,
                               .ring_bulk_bytes = 128 << 10,
                               .fragment_bytes = 65472,
                               .eager_bytes = eager.bytes,
                               .eager_hop_bytes = eager.hop_bytes,
                               .direct_bytes = 0,
                               .share_bytes = UINT32_MAX,
                               .chunk_bytes = 1u << 31,
                               .pipe_bytes = 32 << 10,
                               .tree_bytes = 16 << 10,
                               .chain_bytes = 64 << 10,
                               .part_bytes = 8 << 10,
                               .queue_window = 8,
                               .promote_after = 1,
                               .ring_limit = 16,
                               .handle_limit = 64};
}

// ---- Opening ----

static int count_ranks(struct sim_job *job)
{
    const struct sim_job_options *options = &job->options;
    if (options->place) {
        job->rank_count = options->place_count;
    } else if (options->machine->kind == SIM_TORUS) {
        int error =
            options->side_count
                ? sim_fold_open(&job->fold, &job->topology, options->side, options->side_count)
                : sim_fold_whole(&job->fold, &job->topology, SIM_FOLD_SIDES_MAX);
        if (error)
            return error;
        job->folded = true;
        job->rank_count = job->fold.rank_count;
    } else {
        job->rank_count = options->side_count ? 1 : job->topology.node_count;
        for (int i = 0; i < options->side_count; i++)
            job->rank_count *= options->side[i];
    }
    if (job->rank_count < 1 || job->rank_count > job->topology.node_count)
        return leat_fail(-EINVAL, "%d ranks, but %s has %d nodes", job->rank_count,
                         options->machine->name, job->topology.node_count);
    return 0;
}

static int place_ranks(struct sim_job *job)
{
    int error = sim_topology_open(&job->topology, job->options.machine);
    if (!error)
        error = count_ranks(job);
    if (error)
        return error;
    job->node = malloc((size_t)job->rank_count * sizeof *job->node);
    if (!job->node)
        return leat_fail(-ENOMEM, "no memory for the places of %d ranks", job->rank_count);
    for (int i = 0; i < job->rank_count; i++) {
        job->node[i] = job->options.place ? job->options.place[i]
                       : job->folded      ? sim_fold_node(&job->fold, i)
                                          : i;
        if (job->node[i] < 0 || job->node[i] >= job->topology.node_count)
            return leat_fail(-EINVAL, "rank %d would run on node %d of %d", i, (int)job->node[i],
                             job->topology.node_count);
        char text[SIM_NAME_BYTES];
        sim_vertex_text(&job->topology, (uint32_t)job->node[i], text, sizeof text);
        if (sim_vertex_is_dead(&job->topology, (uint32_t)job->node[i]))
            return leat_fail(-EHOSTUNREACH, "rank %d would run on node %s, which is dead", i, text);
    }
    return 0;
}

static int open_engines(struct sim_job *job, const struct msg_tuning *tuning)
{
    // Communicators are asked for by job, of which they need no more than this.
    struct leat_job *stand_in = calloc(1, sizeof *stand_in);
    if (!stand_in)
        return leat_fail(-ENOMEM, "no memory for a job");
    int error = 0;
    for (int i = 0; !error && i < job->rank_count; i++) {
        struct sim_job_rank *rank = &job->rank[i];
        error = msg_engine_open(sim_fabric_net(&job->fabric, i), tuning, &rank->engine);
        stand_in->msg = rank->engine;
        if (!error)
            error = leat_comm_split(stand_in, NULL, &rank->comm);
        if (!error && coll_of(rank->comm)->temp_bytes < job->fabric.temp_bytes)
            coll_of(rank->comm)->temp_bytes = job->fabric.temp_bytes;
    }
    free(stand_in);
    return error;
}

int sim_job_open(struct sim_job *job, const struct sim_job_options *options)
{
    *job = (struct sim_job){.options = *options};
    struct msg_tuning tuning =
        options->tuning ? *options->tuning : sim_job_tuning(options->machine);
    int error = place_ranks(job);
    if (!error) {
        job->rank = calloc((size_t)job->rank_count, sizeof *job->rank);
        if (!job->rank)
            error = leat_fail(-ENOMEM, "no memory for %d ranks", job->rank_count);
    }
    if (!error)
        error = sim_fabric_open(&job->fabric, &job->topology, job->node, job->rank_count,
                                options->hollow_bytes, msg_ring_bytes(&tuning),
                                (uint64_t)tuning.ring_slots * MSG_SLOT_BYTES);
    if (!error) {
        job->fabric.fold = job->folded ? &job->fold : NULL;
        // Trees that sum take a sixteenth of the buffer as a chunk at most.
        job->fabric.temp_bytes = 16ULL * tuning.tree_bytes;
        error = open_engines(job, &tuning);
    }
    if (error)
        sim_job_close(job);
    return error;
}

void sim_job_close(struct sim_job *job)
{
    for (int i = 0; job->rank && i < job->rank_count; i++)
        msg_engine_close(job->rank[i].engine);
    if (job->fabric.rank)
        sim_fabric_close(&job->fabric);
    free(job->rank);
    free(job->node);
    sim_topology_close(&job->topology);
    *job = (struct sim_job){.rank_count = 0};
}

// ---- Running ----

// Whether another round could move anything before something else comes.
static bool may_move(const struct msg_engine *engine, const struct sim_rank *endpoint)
{
    for (const struct msg_schedule *at = engine->schedules; at; at = at->next)
        if (at->seen != engine->finished)
            return true; // it has finished something itself
    return engine->todo_head || engine->rendezvous_count != endpoint->net.gets ||
           endpoint->arrived || engine->holding;
}

// Has the engine look at the rings that were put to. What came before the peer's SWITCH did is kept
// for the next time.
static bool look_at_rings(struct msg_engine *engine, struct sim_rank *endpoint)
{
    uint32_t kept = 0, count = endpoint->news_count;
    if (count > SIM_NEWS) {
        for (uint32_t i = 0; i < endpoint->block_count; i++)
            endpoint->block[i].news = false;
        endpoint->news_count = 0;
        msg_rings_progress(engine);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct sim_block *block = &endpoint->block[endpoint->news[i]];
        uint32_t place = 1;
        while (place <= engine->ring_in_count &&
               (!engine->ring_in[place] || (char *)engine->ring_in[place]->slots != block->memory))
            place++;
        block->news = place <= engine->ring_in_count &&
                      msg_peer_at(engine, engine->ring_in[place]->peer)->in_state < IN_OPEN;
        if (block->news)
            endpoint->news[kept++] = endpoint->news[i];
        else if (place <= engine->ring_in_count)
            msg_ring_progress(engine, place);
    }
    endpoint->news_count = kept;
    return count > kept;
}

static void run_rank(void *user, int index)
{
    struct sim_job *job = user;
    struct sim_job_rank *rank = &job->rank[index];
    struct sim_rank *endpoint = &job->fabric.rank[index];
    int started = 0;
    bool was_done = rank->done,
         looked = endpoint->news_count && look_at_rings(rank->engine, endpoint);
    for (int round = 0;; round++) {
        bool moved = msg_progress(rank->engine, endpoint->cpu_ps / 1000) || looked;
        // What was kept may be let in now: its SWITCH came behind it.
        looked = moved && endpoint->news_count && look_at_rings(rank->engine, endpoint);
        if (moved && (looked || may_move(rank->engine, endpoint)) && round < ROUNDS_MOST)
            continue;
        started = rank->done ? 0 : job->program(job, index, job->user);
        if (started <= 0 || round >= ROUNDS_MOST)
            break;
    }
    if (rank->done && !was_done)
        job->left--;
    if (started < 0 && !job->error) {
        job->error = started;
        job->fabric.error = started;
    }
}

static void fetch_lines(const void *memory, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 64)
        __builtin_prefetch((const char *)memory + at);
}

// What a round of progress reads.
static void fetch_rank(void *user, int index)
{
    const struct sim_job *job = user;
    const struct sim_job_rank *rank = &job->rank[index];
    const struct msg_engine *engine = rank->engine;
    const struct coll_comm *comm = coll_of(rank->comm);
    fetch_lines(engine, 0, 512);
    fetch_lines(engine, offsetof(struct msg_engine, peers), sizeof *engine);
    fetch_lines(comm, 0, offsetof(struct coll_comm, reserve.own_slot));
}

static int stuck(const struct sim_job *job)
{
    char text[200] = "it has not started anything";
    int index = 0;
    while (job->rank[index].done)
        index++;
    const struct msg_request *request = (const void *)&job->rank[index].request;
    if (request->kind == REQUEST_COLLECTIVE)
        msg_collective_describe(request, text, sizeof text);
    else if (request->kind != REQUEST_NONE)
        snprintf(text, sizeof text, "%s %d, %" PRIu64 " bytes, tag %d",
                 request->kind == REQUEST_SEND ? "a send to rank" : "a receive from rank",
                 request->peer, request->data.bytes, request->tag);
    return leat_fail(-EDEADLK, "nothing is under way, but %d of %d ranks wait; rank %d: %s",
                     job->left, job->rank_count, index, text);
}

static uint64_t jitter_ps(const struct sim_job *job, int rank)
{
    uint64_t bound = job->options.jitter_ns * 1000;
    return bound ? sim_phantom_hash(job->options.seed * 1000003 + (uint64_t)rank) % bound : 0;
}

int sim_job_run(struct sim_job *job, sim_program *program, void *user)
{
    uint64_t begin_ps = 0;
    job->program = program;
    job->user = user;
    job->left = job->rank_count;
    job->fabric.run = run_rank;
    job->fabric.fetch = fetch_rank;
    job->fabric.user = job;
    for (int i = 0; i < job->rank_count; i++)
        if (job->fabric.rank[i].cpu_ps > begin_ps)
            begin_ps = job->fabric.rank[i].cpu_ps;
    if (begin_ps < job->fabric.agenda.begin_ps)
        begin_ps = job->fabric.agenda.begin_ps;
    for (int i = 0; i < job->rank_count; i++) {
        job->rank[i].done = false;
        job->rank[i].phase = 0;
        job->rank[i].end_ps = 0;
        job->rank[i].begin_ps = begin_ps + jitter_ps(job, i);
        sim_fabric_wake(&job->fabric, i, job->rank[i].begin_ps);
    }
    for (uint64_t windows = 0; job->left && sim_fabric_step(&job->fabric); windows++)
        if (windows % WATCH_WINDOWS == 0 && job->watch && job->watch(job->watch_user, job))
            return leat_fail(-ECANCELED, "stopped");
    if (job->fabric.misuse[0])
        return leat_fail(-EPROTO, "%s", job->fabric.misuse);
    if (job->fabric.error)
        return job->fabric.error;
    return job->left ? stuck(job) : 0;
}
