// SPDX-License-Identifier: Apache-2.0
// Calls of collectives: many at a time, too little memory, calls that do not fit, wrong arguments,
// a peer that dies.

#include "coll_case.h"

#include "msg/internal.h"

#include <errno.h>

static const struct coll_network plain = {.map = true, .ring_limit = 8};
static const struct coll_network delayed = {.map = false, .ring_limit = 2, .delay_ns = 400};

static uint64_t work_used(const struct coll_job *job, int rank)
{
    return job->job[rank]->msg->pools.pool[POOL_WORK].used;
}

// ---- Several at a time ----

#define FLIGHT 40

static struct coll_case nth_case(const struct coll_job *job, int i)
{
    enum leat_collective_kind kind = (enum leat_collective_kind)(i % LEAT_COLLECTIVE_COUNT);
    bool sizes = (kind >= LEAT_GATHER && kind <= LEAT_ALLTOALL) || kind == LEAT_REDUCE_SCATTER;
    return (struct coll_case){.kind = kind,
                              .values = (enum case_values)(i / 3 % VALUES_COUNT),
                              .root = i % job->rank_count,
                              .count = (uint64_t)(i * 17 % 300),
                              .in_place = i / 5 & 1,
                              .uneven = sizes && i / 7 & 1};
}

static void start_many(struct coll_job *job)
{
    static struct case_memory memory[FLIGHT][COLL_JOB_RANKS];
    static leat_request request[FLIGHT][COLL_JOB_RANKS];
    for (int i = 0; i < FLIGHT; i++) {
        struct coll_case test = nth_case(job, i);
        case_start(job, &test, memory[i], request[i]);
    }
    for (int i = 0; i < FLIGHT; i++)
        coll_job_run(job, request[i], job->rank_count);
    for (int i = 0; i < FLIGHT; i++) {
        struct coll_case test = nth_case(job, i);
        case_finish(job, &test, memory[i], request[i]);
    }
}

static void many_collectives_at_a_time_are_exact(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++) {
        struct coll_job job;
        coll_job_open(&job, ranks, (uint64_t)ranks, ranks & 1 ? &plain : &delayed);
        uint64_t before = work_used(&job, 0);
        start_many(&job);
        assert_int_equal(work_used(&job, 0), before);
        coll_job_close(&job);
    }
}

// The pool holds nothing but the communicator's own schedule.
static void without_memory_they_run_one_after_the_other(void **state)
{
    (void)state;
    struct coll_job job;
    coll_job_open(&job, 3, 5, &delayed);
    for (int rank = 0; rank < 3; rank++) {
        struct msg_pool *work = &job.job[rank]->msg->pools.pool[POOL_WORK];
        work->limit = work->used + (rank == 1 ? sizeof(struct msg_schedule) + 64 : 0);
    }
    start_many(&job);
    for (int rank = 0; rank < 3; rank++) {
        const struct msg_pool *work = &job.job[rank]->msg->pools.pool[POOL_WORK];
        assert_true(work->peak <= work->limit);
    }
    coll_job_close(&job);
}

// The caller may ask for two communicators' collectives in one order here and in another there.
static void communicators_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct coll_job job;
    coll_job_open(&job, 2, 9, &plain);
    leat_comm *other[2];
    leat_request request[4];
    for (int rank = 0; rank < 2; rank++) {
        struct msg_engine *engine = job.job[rank]->msg;
        // As leat_comm_split makes it, which blocks.
        struct coll_comm *own = msg_alloc(&engine->pools, POOL_WORK, sizeof *own + 4096);
        assert_non_null(own);
        *own = (struct coll_comm){.comm = {.engine = engine,
                                           .next = engine->comms,
                                           .context = 2,
                                           .rank = rank,
                                           .rank_count = 2},
                                  .own_bytes = sizeof *own + 4096,
                                  .temp_bytes = 4096,
                                  .temp = (uint8_t *)(own + 1)};
        engine->comms = other[rank] = &own->comm;
        engine->pools.pool[POOL_WORK].limit = engine->pools.pool[POOL_WORK].used;
    }
    leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leat_collective(i ? other[0] : job.comm[0], &barrier, &request[i]), 0);
        assert_int_equal(leat_collective(i ? job.comm[1] : other[1], &barrier, &request[2 + i]), 0);
    }
    coll_job_run(&job, request, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(request[i].status.error, 0);
    coll_job_close(&job);
}

static void a_barrier_holds_everybody(void **state)
{
    (void)state;
    struct coll_job job;
    for (int late = 0; late < 5; late++) {
        leat_request request[5];
        leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
        coll_job_open(&job, 5, (uint64_t)late, &plain);
        for (int rank = 0; rank < 5; rank++)
            if (rank != late)
                assert_int_equal(leat_collective(job.comm[rank], &barrier, &request[rank]), 0);
        for (int i = 0; i < 1000; i++)
            coll_job_step(&job);
        for (int rank = 0; rank < 5; rank++)
            if (rank != late)
                assert_false(msg_finished(msg_request_of(&request[rank])));
        assert_int_equal(leat_collective(job.comm[late], &barrier, &request[late]), 0);
        coll_job_run(&job, request, 5);
        coll_job_close(&job);
    }
}

static void one_that_waits_says_for_whom(void **state)
{
    (void)state;
    struct coll_job job;
    leat_request request;
    char text[200];
    leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    coll_job_open(&job, 4, 1, &plain);
    assert_int_equal(leat_collective(job.comm[2], &barrier, &request), 0);
    for (int i = 0; i < 100; i++)
        coll_job_step(&job);
    msg_collective_describe(msg_request_of(&request), text, sizeof text);
    assert_non_null(strstr(text, "barrier (dissemination) waits for rank 1 to send"));
    coll_job_close(&job);
}

// ---- Calls that do not fit ----

static int64_t send_words[64], receive_words[4][64];

static leat_collective_options words(enum leat_collective_kind kind, int rank, uint64_t count)
{
    return (leat_collective_options){.size = sizeof(leat_collective_options),
                                     .kind = kind,
                                     .send = kind == LEAT_BROADCAST ? NULL : send_words,
                                     .receive = receive_words[rank],
                                     .count = count,
                                     .type = LEAT_INT64,
                                     .operation = LEAT_SUM};
}

static void run_two(struct coll_job *job, const leat_collective_options options[2], int error[2])
{
    leat_request request[2];
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(leat_collective(job->comm[rank], &options[rank], &request[rank]), 0);
    coll_job_run(job, request, 2);
    for (int rank = 0; rank < 2; rank++)
        error[rank] = request[rank].status.error;
}

static void other_counts_are_named(void **state)
{
    (void)state;
    struct coll_job job;
    int error[2];
    coll_job_open(&job, 2, 3, &plain);
    leat_collective_options allreduce[2] = {words(LEAT_ALLREDUCE, 0, 4),
                                            words(LEAT_ALLREDUCE, 1, 6)};
    run_two(&job, allreduce, error);
    assert_int_equal(error[0], -EPROTO);
    assert_int_equal(error[1], -EPROTO);
    const char *detail = leat_error_detail();
    assert_non_null(strstr(detail, "allreduce"));
    assert_non_null(strstr(detail, "rank 0"));
    assert_non_null(strstr(detail, "rank 1"));
    assert_non_null(strstr(detail, "32"));
    assert_non_null(strstr(detail, "48"));
    // The next one is not disturbed.
    allreduce[1].count = 4;
    run_two(&job, allreduce, error);
    assert_int_equal(error[0], 0);
    assert_int_equal(error[1], 0);
    coll_job_close(&job);
}

static void other_kinds_are_named(void **state)
{
    (void)state;
    struct coll_job job;
    leat_request request[2];
    coll_job_open(&job, 2, 3, &plain);
    const leat_collective_options broadcast = words(LEAT_BROADCAST, 0, 5);
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    assert_int_equal(leat_collective(job.comm[0], &broadcast, &request[0]), 0);
    assert_int_equal(leat_collective(job.comm[1], &barrier, &request[1]), 0);
    coll_job_run(&job, &request[1], 1);
    assert_int_equal(request[1].status.error, -EPROTO);
    assert_non_null(strstr(leat_error_detail(), "barrier"));
    assert_non_null(strstr(leat_error_detail(), "expected 0 bytes from rank 0 and got 40"));
    coll_job_close(&job);
}

// ---- A peer that dies ----

static void a_dead_peer_ends_it(void **state)
{
    (void)state;
    for (enum leat_collective_kind kind = LEAT_BARRIER; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        if (kind == LEAT_SCAN || kind == LEAT_EXCLUSIVE_SCAN)
            continue; // rank 0 waits for nobody
        struct coll_job job;
        leat_request request;
        coll_job_open(&job, 2, 3, &plain);
        leat_collective_options options = words(kind, 0, 6);
        options.root = kind == LEAT_BROADCAST || kind == LEAT_SCATTER;
        if (kind == LEAT_SCATTER)
            options.send = NULL;
        assert_int_equal(leat_collective(job.comm[0], &options, &request), 0);
        struct msg_engine *engine = job.job[0]->msg;
        msg_progress(engine, 1);
        memory_fabric_kill(job.fabric, 1);
        msg_peer_lost(engine, msg_peer_make(engine, 1));
        for (int i = 0; i < 10; i++)
            msg_progress(engine, (uint64_t)i + 2);
        assert_true(msg_finished(msg_request_of(&request)));
        if (request.status.error != -ECONNRESET)
            fail_msg("%s: %d", coll_kind_name(kind), request.status.error);
        assert_int_equal(msg_request_of(&request)->peer, 1);
        assert_null(engine->schedules);
        assert_int_equal(engine->matcher.posted_count, 0);
        coll_job_close(&job);
    }
}

// ---- Freed while something runs ----

static void an_engine_ends_with_collectives_under_way(void **state)
{
    (void)state;
    struct coll_job job;
    leat_request request[3 * LEAT_COLLECTIVE_COUNT];
    coll_job_open(&job, 3, 4, &plain);
    for (int i = 0; i < 3 * LEAT_COLLECTIVE_COUNT; i++) {
        leat_collective_options options =
            words((enum leat_collective_kind)(i % LEAT_COLLECTIVE_COUNT), 1, 2);
        assert_int_equal(leat_collective(job.comm[1], &options, &request[i]), 0);
    }
    for (int i = 0; i < 50; i++)
        coll_job_step(&job);
    coll_job_close(&job); // a leak or a use of freed memory is for the sanitizer to see
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_collectives_at_a_time_are_exact),
        cmocka_unit_test(without_memory_they_run_one_after_the_other),
        cmocka_unit_test(communicators_do_not_wait_for_each_other),
        cmocka_unit_test(a_barrier_holds_everybody),
        cmocka_unit_test(one_that_waits_says_for_whom),
        cmocka_unit_test(other_counts_are_named),
        cmocka_unit_test(other_kinds_are_named),
        cmocka_unit_test(a_dead_peer_ends_it),
        cmocka_unit_test(an_engine_ends_with_collectives_under_way),
    };
    return cmocka_run_group_tests_name("calls of collectives", tests, NULL, NULL);
}
