// SPDX-License-Identifier: Apache-2.0
// A rank dies in a collective: all others get an error that names it, or the right result.
//
// Over the network in memory: every kind by every algorithm, killed after a random number of steps,
// where only those that talk to the dead rank can find out by themselves; no rank may stand still.
// Advantage: who waits for the dead through others only is in it, and a seed repeats it.
// Disadvantage: the network in memory has no processes that end (test_coll_killed.c).

#define COLL_JOB_RANKS 70
#include "coll_case.h"
#include "msg/internal.h"

#include <errno.h>

static const struct coll_network mapped = {.map = true, .ring_limit = 8, .delay_ns = 200};
static const struct coll_network delayed = {.map = false, .ring_limit = 2, .delay_ns = 400};

static int step_survivor(struct coll_job *job, int victim)
{
    int rank = (int)coll_job_random(job, (uint64_t)job->rank_count);
    if (rank == victim)
        return rank;
    job->now_ns += coll_job_random(job, 50);
    msg_progress(job->job[rank]->msg, job->now_ns);
    // Only peers in use are asked after, as in every wait.
    if (coll_job_random(job, 20) == 0)
        msg_check_peers(job->job[rank]->msg);
    return rank;
}

static void run_survivors(struct coll_job *job, leat_request *request, int victim, const char *what)
{
    int rank = 0;
    for (long steps = 0; rank < job->rank_count; steps++) {
        if (rank == victim || msg_finished(msg_request_of(&request[rank]))) {
            rank++;
            continue;
        }
        if (steps > 20000L * job->rank_count) {
            char text[200];
            msg_collective_describe(msg_request_of(&request[rank]), text, sizeof text);
            fail_msg("%s: rank %d stands still: %s", what, rank, text);
        }
        step_survivor(job, victim);
    }
}

static void call(struct coll_job *job, const struct coll_case *test, struct case_memory *memory,
                 leat_request *request, int rank)
{
    leat_collective_options options;
    case_make(test, &memory[rank], job->rank_count, rank);
    case_options(test, &memory[rank], job->rank_count, rank, &options);
    assert_int_equal(leat_collective(job->comm[rank], &options, &request[rank]), 0);
}

// All call in random order, the victim perhaps, and it dies after some steps.
static void call_and_kill(struct coll_job *job, const struct coll_case *test,
                          struct case_memory *memory, leat_request *request, int victim)
{
    int first = (int)coll_job_random(job, (uint64_t)job->rank_count);
    bool calls = coll_job_random(job, 4) != 0;
    for (int i = 0; i < job->rank_count; i++) {
        int rank = (first + i) % job->rank_count;
        if (rank != victim || calls)
            call(job, test, memory, request, rank);
        for (uint64_t steps = coll_job_random(job, 4); steps; steps--)
            coll_job_step(job);
    }
    uint64_t most = (uint64_t)job->rank_count * 30;
    for (uint64_t steps = coll_job_random(job, most); steps; steps--) {
        job->now_ns += coll_job_random(job, 50);
        coll_job_step(job);
    }
    memory_fabric_kill(job->fabric, victim);
    if (!calls)
        case_make(test, &memory[victim], job->rank_count, victim);
}

static void check_survivors(const struct coll_job *job, const struct coll_case *test,
                            const struct case_memory *memory, const leat_request *request,
                            int victim, const char *what)
{
    for (int rank = 0; rank < job->rank_count; rank++) {
        const struct msg_request *done = msg_request_of((leat_request *)(uintptr_t)&request[rank]);
        if (rank == victim)
            continue;
        if (done->status.error == 0)
            case_compare(test, &memory[rank], job->rank_count, rank);
        else if (done->status.error != -ECONNRESET || done->peer != victim)
            fail_msg("%s: rank %d: error %d because of rank %d", what, rank, done->status.error,
                     (int)done->peer);
    }
}

static void kill_in(const struct coll_case *test, int ranks, uint64_t seed,
                    const struct coll_network *network)
{
    static struct case_memory memory[COLL_JOB_RANKS];
    static leat_request request[COLL_JOB_RANKS];
    struct coll_job job;
    char what[120];
    coll_job_open(&job, ranks, seed, network);
    int victim = (int)coll_job_random(&job, (uint64_t)ranks);
    snprintf(what, sizeof what, "%s (%s) of %llu, %d ranks, seed %llu, rank %d is killed",
             coll_kind_name(test->kind), test->algorithm ? test->algorithm : "-",
             (unsigned long long)test->count, ranks, (unsigned long long)seed, victim);
    call_and_kill(&job, test, memory, request, victim);
    run_survivors(&job, request, victim, what);
    check_survivors(&job, test, memory, request, victim, what);
    // What comes after it fails everywhere.
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    for (int rank = 0; rank < ranks; rank++) {
        case_drop(&memory[rank]);
        if (rank != victim)
            assert_int_equal(leat_collective(job.comm[rank], &barrier, &request[rank]), 0);
    }
    run_survivors(&job, request, victim, what);
    for (int rank = 0; rank < ranks; rank++)
        if (rank != victim && request[rank].status.error != -ECONNRESET)
            fail_msg("%s: the barrier after it gives %d at rank %d", what,
                     request[rank].status.error, rank);
    coll_job_close(&job);
}

static void every_algorithm_ends_at_all_survivors(void **state)
{
    (void)state;
    static const uint64_t counts[] = {3, 700, 9000};
    uint64_t seed = 1;
    for (enum leat_collective_kind kind = LEAT_BARRIER; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        int algorithms;
        const char *const *names = msg_algorithms(kind, &algorithms);
        for (int i = 0; i < algorithms; i++)
            for (int n = 0; n < 18; n++, seed++) {
                int ranks = 2 + n % 9;
                struct coll_case test = {.kind = kind,
                                         .values = (enum case_values)(n / 2 % VALUES_COUNT),
                                         .root = (int)seed % ranks,
                                         .count = kind == LEAT_BARRIER ? 0 : counts[n / 3 % 3],
                                         .algorithm = names[i]};
                kill_in(&test, ranks, seed, n & 1 ? &mapped : &delayed);
            }
    }
}

// Where not everybody tells everybody.
static void many_ranks_hear_of_it(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct coll_case test = {.kind = LEAT_BROADCAST, .count = 4, .root = (int)seed};
        kill_in(&test, 70, seed, &mapped);
        test = (struct coll_case){.kind = LEAT_GATHER, .count = 4, .algorithm = "binomial"};
        kill_in(&test, 67, seed, &mapped);
    }
}

// What is said of a communicator that is not there yet counts once it is.
static void a_communicator_that_is_made_late_is_broken(void **state)
{
    (void)state;
    struct coll_job job;
    struct msg_packet packet = {
        .header = {.kind = WIRE_BROKEN, .context = 2, .tag = -ECONNRESET, .bytes = 1}};
    leat_request request;
    leat_comm *comm;
    const leat_comm_options duplicate = {.size = sizeof duplicate};
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    coll_job_open(&job, 1, 7, &mapped);
    msg_broken_packet(job.job[0]->msg, 0, &packet);
    assert_int_equal(leat_comm_split(job.job[0], &duplicate, &comm), 0);
    assert_int_equal(leat_collective(comm, &barrier, &request), 0);
    assert_int_equal(request.status.error, 0);
    assert_int_equal(leat_collective(comm, &barrier, &request), 0);
    assert_true(msg_finished(msg_request_of(&request)));
    assert_int_equal(request.status.error, -ECONNRESET);
    assert_int_equal(msg_request_of(&request)->peer, 0);
    coll_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_ends_at_all_survivors),
        cmocka_unit_test(many_ranks_hear_of_it),
        cmocka_unit_test(a_communicator_that_is_made_late_is_broken),
    };
    return cmocka_run_group_tests_name("deaths in collectives", tests, NULL, NULL);
}
