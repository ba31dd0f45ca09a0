// SPDX-License-Identifier: Apache-2.0
// Random programs over the network in memory: a deadlock is found where there is one, and else not.
//
// Each rank runs a list of sends, synchronous sends, receives and barriers, one after the other,
// and pauses without progress; an oracle that knows nothing of engines runs the same lists with
// unlimited memory. Programs are such that their end does not depend on the order of events.
// Advantage: every delay and every order of arrival is tried. Disadvantage: waits are played, not
// waited.

#define COLL_JOB_RANKS 40
#include "coll_job.h"
#include "msg/internal.h"
#include "msg/wait.h"

#include <errno.h>

#define OPS       12
#define NEVER_TAG 77

enum op_kind { OP_SEND, OP_SYNCHRONOUS, OP_RECEIVE, OP_BARRIER, OP_PAUSE, OP_ANYBODY };

struct op {
    enum op_kind kind;
    int peer, tag;
    uint64_t bytes;
};

struct program {
    int count;
    struct op op[OPS];
};

struct player {
    int at;
    bool begun, blocked, ended, told;
    uint64_t pause;
    leat_request request;
    uint8_t *memory;
    struct msg_waiter waiter;
};

// ---- The oracle ----

struct oracle {
    int at[COLL_JOB_RANKS];
    int sent[COLL_JOB_RANKS][COLL_JOB_RANKS]; // eager and not received yet, of one tag
    int barriers[COLL_JOB_RANKS];             // called so far
    bool in_barrier[COLL_JOB_RANKS];
};

static bool wants_from(const struct program *program, const struct oracle *oracle, int rank,
                       int from)
{
    const struct op *op = &program[rank].op[oracle->at[rank]];
    return oracle->at[rank] < program[rank].count && op->kind == OP_RECEIVE && op->peer == from;
}

// Goes on by one operation of a rank; false: it stands.
static bool oracle_step(const struct program *program, struct oracle *oracle, int ranks, int rank)
{
    const struct op *op = &program[rank].op[oracle->at[rank]];
    if (oracle->at[rank] >= program[rank].count || op->kind == OP_ANYBODY)
        return false;
    if (op->kind == OP_SEND)
        oracle->sent[rank][op->peer]++;
    if (op->kind == OP_RECEIVE) {
        if (!oracle->sent[op->peer][rank])
            return false;
        oracle->sent[op->peer][rank]--;
    }
    if (op->kind == OP_SYNCHRONOUS) {
        // All of one sender are in order, so the eager ones before it come first.
        if (oracle->sent[rank][op->peer] || !wants_from(program, oracle, op->peer, rank))
            return false;
        oracle->at[op->peer]++;
    }
    if (op->kind == OP_BARRIER) {
        if (!oracle->in_barrier[rank]) {
            oracle->in_barrier[rank] = true;
            oracle->barriers[rank]++;
        }
        for (int r = 0; r < ranks; r++)
            if (oracle->barriers[r] < oracle->barriers[rank])
                return false;
        oracle->in_barrier[rank] = false;
    }
    oracle->at[rank]++;
    return true;
}

// Whether every rank stands in an operation for ever.
static bool oracle_deadlock(const struct program *program, int ranks)
{
    static struct oracle oracle;
    memset(&oracle, 0, sizeof oracle);
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < ranks; rank++)
            moved |= oracle_step(program, &oracle, ranks, rank);
    }
    for (int rank = 0; rank < ranks; rank++)
        if (oracle.at[rank] >= program[rank].count)
            return false;
    return true;
}

// ---- The programs ----

static void add(struct program *program, struct op op)
{
    if (program->count < OPS)
        program->op[program->count++] = op;
}

// Pairs of sends and receives in a global order cannot lock up; what is changed then may.
static void make_programs(struct coll_job *job, struct program *program)
{
    int ranks = job->rank_count, pairs = 2 + (int)coll_job_random(job, (uint64_t)ranks * 3);
    memset(program, 0, sizeof *program * (size_t)ranks);
    for (int i = 0; i < pairs; i++) {
        int from = (int)coll_job_random(job, (uint64_t)ranks);
        int to = (int)coll_job_random(job, (uint64_t)ranks);
        if (coll_job_random(job, 8) == 0)
            for (int rank = 0; rank < ranks; rank++)
                add(&program[rank], (struct op){.kind = OP_BARRIER});
        if (coll_job_random(job, 6) == 0)
            add(&program[from], (struct op){.kind = OP_PAUSE});
        if (from == to)
            continue;
        uint64_t bytes = coll_job_random(job, 3) ? coll_job_random(job, 900) : 20000;
        bool waits = coll_job_random(job, 2) || bytes > 400;
        add(&program[from], (struct op){waits ? OP_SYNCHRONOUS : OP_SEND, to, 3, bytes});
        add(&program[to], (struct op){OP_RECEIVE, from, 3, 20000});
    }
    if (coll_job_random(job, 4) == 0)
        return;
    // All that are through wait for what never comes, or for each other, or an order is changed.
    for (int rank = 0; rank < ranks; rank++) {
        int way = (int)coll_job_random(job, 4);
        if (way == 0)
            add(&program[rank], (struct op){.kind = OP_ANYBODY, .tag = NEVER_TAG});
        else if (way == 1)
            add(&program[rank], (struct op){OP_RECEIVE, (rank + 1) % ranks, 3, 20000});
        else if (way == 2)
            add(&program[rank], (struct op){OP_SYNCHRONOUS, (rank + 1) % ranks, 3, 20000});
        else
            add(&program[rank], (struct op){.kind = OP_BARRIER});
    }
}

// ---- The players ----

static void begin(struct coll_job *job, struct player *player, int rank, const struct op *op)
{
    leat_comm *comm = job->comm[rank];
    leat_data data = {.address = player->memory, .bytes = op->bytes};
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    int error = 0;
    if (op->kind == OP_SEND || op->kind == OP_SYNCHRONOUS)
        error = leat_send(comm, data, op->peer, op->tag,
                          op->kind == OP_SYNCHRONOUS ? LEAT_SEND_SYNCHRONOUS : 0, &player->request);
    else if (op->kind == OP_BARRIER)
        error = leat_collective(comm, &barrier, &player->request);
    else if (op->kind == OP_PAUSE)
        player->pause = 1 + coll_job_random(job, 200);
    else
        error = leat_recv(comm, data, op->kind == OP_ANYBODY ? LEAT_ANY_RANK : op->peer, op->tag,
                          NULL, &player->request);
    assert_int_equal(error, 0);
    player->begun = true;
    player->blocked = false;
}

// As a loop of wait.c does; the clock is looked at now and then.
static void wait_on(struct coll_job *job, struct player *player, int rank, uint64_t clock_ns)
{
    struct msg_engine *engine = job->job[rank]->msg;
    if (msg_progress(engine, job->now_ns) || msg_finished(msg_request_of(&player->request)))
        return;
    if (coll_job_random(job, 3))
        return;
    if (!player->blocked) {
        player->blocked = true;
        msg_waiter_begin(&player->waiter, engine, -1);
        player->waiter.request = msg_request_of(&player->request);
        player->waiter.begin_ns = clock_ns;
        player->waiter.deadline_ns = UINT64_MAX;
        engine->wait_serial++;
    }
    if (msg_deadlock_look(&player->waiter, clock_ns) == -EDEADLK)
        player->told = true;
}

// The waits' clock runs faster than the network's.
static void play(struct coll_job *job, const struct program *program, struct player *player,
                 uint64_t clock_ns)
{
    int rank = (int)coll_job_random(job, (uint64_t)job->rank_count);
    struct player *one = &player[rank];
    const struct op *op = &program[rank].op[one->at];
    job->now_ns += coll_job_random(job, 50);
    if (one->told)
        return;
    if (one->at >= program[rank].count) {
        // Through, and in no wait; it may still serve others.
        msg_progress(job->job[rank]->msg, job->now_ns);
        return;
    }
    if (!one->begun)
        begin(job, one, rank, op);
    if (op->kind == OP_PAUSE ? one->pause-- > 1 : !msg_finished(msg_request_of(&one->request))) {
        if (op->kind != OP_PAUSE)
            wait_on(job, one, rank, clock_ns);
        return;
    }
    if (op->kind != OP_PAUSE)
        assert_int_equal(one->request.status.error, 0);
    one->begun = false;
    one->at++;
}

static void skip_idle(struct coll_job *job, int steps)
{
    uint64_t next = memory_fabric_next(job->fabric);
    if (steps % (8 * job->rank_count) == 0 && next != UINT64_MAX && next > job->now_ns)
        job->now_ns = next;
}

static void check_edges(struct coll_job *job, const struct program *program,
                        const struct player *player)
{
    char text[700], edge[80];
    for (int rank = 0; rank < job->rank_count; rank++) {
        const struct op *op = &program[rank].op[player[rank].at];
        msg_deadlock_describe(job->job[rank]->msg, text, sizeof text);
        if (op->kind == OP_ANYBODY)
            snprintf(edge, sizeof edge, "rank %d waits for any rank (receive, tag 77)", rank);
        else if (op->kind == OP_BARRIER)
            snprintf(edge, sizeof edge, "rank %d waits for ", rank);
        else
            snprintf(edge, sizeof edge, "rank %d waits for rank %d (%s, tag 3)", rank, op->peer,
                     op->kind == OP_RECEIVE ? "receive" : "send");
        if (!strstr(text, edge))
            fail_msg("\"%s\" is not in \"%s\"", edge, text);
    }
}

// Whether it was a deadlock.
static bool run_programs(int ranks, uint64_t seed, const struct coll_network *network)
{
    static struct program program[COLL_JOB_RANKS];
    static struct player player[COLL_JOB_RANKS];
    struct coll_job job;
    coll_job_open(&job, ranks, seed, network);
    make_programs(&job, program);
    memset(player, 0, sizeof player);
    for (int rank = 0; rank < ranks; rank++)
        player[rank].memory = calloc(1, 20000);
    bool expected = oracle_deadlock(program, ranks);
    int told = 0, limit = ranks * (expected ? 40000 : 1500);
    for (int steps = 1; steps < limit && told < ranks; steps++) {
        play(&job, program, player, (uint64_t)steps * 20000000);
        skip_idle(&job, steps);
        told = 0;
        for (int rank = 0; rank < ranks; rank++)
            told += player[rank].told;
    }
    if (told != (expected ? ranks : 0))
        fail_msg("%d ranks, seed %llu: %s, and %d ranks were told so", ranks,
                 (unsigned long long)seed, expected ? "a deadlock" : "no deadlock", told);
    if (expected && ranks <= 6)
        check_edges(&job, program, player);
    for (int rank = 0; rank < ranks; rank++)
        msg_comms_close(job.job[rank]->msg);
    coll_job_close(&job);
    for (int rank = 0; rank < ranks; rank++)
        free(player[rank].memory);
    return expected;
}

static void verdicts_are_those_of_the_oracle(void **state)
{
    (void)state;
    static const struct coll_network networks[] = {
        {.map = true, .ring_limit = 8, .delay_ns = 200},
        {.map = false, .ring_limit = 2, .delay_ns = 2000},
        {.map = false, .ring_limit = 2, .delay_ns = 400, .refuse_permille = 200},
        {.map = false, .ring_limit = 3, .delay_ns = 400, .finish_later = MEMORY_SOME}};
    int deadlocks = 0, count = 600;
    for (int i = 0; i < count; i++)
        deadlocks += run_programs(1 + i % 7, (uint64_t)i, &networks[i % 4]);
    for (int i = 0; i < 6; i++)
        deadlocks += run_programs(40, 1000 + (uint64_t)i, &networks[i % 4]);
    // Both have to come often, or little is tried.
    assert_true(deadlocks > count / 10 && deadlocks < count * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_those_of_the_oracle),
    };
    return cmocka_run_group_tests_name("deadlocks in memory", tests, NULL, NULL);
}
