// SPDX-License-Identifier: Apache-2.0
// Wrong arguments of collectives are named, before anything is sent.

#include "coll_case.h"

#include <errno.h>

static const struct coll_network plain = {.map = true, .ring_limit = 8};
static int32_t send_values[16], receive_values[16];

static leat_collective_options call(enum leat_collective_kind kind)
{
    return (leat_collective_options){.size = sizeof(leat_collective_options),
                                     .kind = kind,
                                     .send = kind == LEAT_BROADCAST ? NULL : send_values,
                                     .receive = receive_values,
                                     .count = 2,
                                     .type = LEAT_INT32,
                                     .operation = LEAT_SUM};
}

static struct coll_job job;

static int open_job(void **state)
{
    (void)state;
    coll_job_open(&job, 4, 1, &plain);
    return 0;
}

static int close_job(void **state)
{
    (void)state;
    coll_job_close(&job);
    return 0;
}

// At rank 2 of 4; nothing may have been started, with a request or without.
static void refused(leat_collective_options options, const char *why)
{
    leat_request request;
    uint32_t before = job.comm[2]->collectives;
    memset(&request, CASE_POISON, sizeof request);
    assert_int_equal(leat_collective(job.comm[2], &options, NULL), -EINVAL);
    if (!strstr(leat_error_detail(), why))
        fail_msg("\"%s\" does not say \"%s\"", leat_error_detail(), why);
    assert_int_equal(leat_collective(job.comm[2], &options, &request), -EINVAL);
    assert_int_equal(job.comm[2]->collectives, before);
    assert_null(job.job[2]->msg->schedules);
}

static void missing_arguments_are_named(void **state)
{
    (void)state;
    leat_collective_options options = call(LEAT_ALLREDUCE);
    assert_int_equal(leat_collective(NULL, &options, NULL), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "comm is NULL"));
    assert_int_equal(leat_collective(job.comm[2], NULL, NULL), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "options is NULL"));
    options.size = 0;
    refused(options, "leat_collective_options.size is 0");
}

static void what_is_no_kind_type_or_operation_is_named(void **state)
{
    (void)state;
    leat_collective_options options = call(LEAT_COLLECTIVE_COUNT);
    refused(options, "kind 11");
    options = call(LEAT_GATHER);
    options.type = LEAT_TYPE_COUNT;
    refused(options, "gather: type 11");
    options = call(LEAT_REDUCE);
    options.type = LEAT_FLOAT;
    options.operation = LEAT_BITWISE_AND;
    refused(options, "reduce: bitwise and is no operation for values of type float");
    options = call(LEAT_SCAN);
    options.operation = LEAT_OPERATION_USER;
    refused(options, "scan: LEAT_OPERATION_USER needs `user`");
}

static void a_root_outside_is_named(void **state)
{
    (void)state;
    const enum leat_collective_kind kinds[] = {LEAT_BROADCAST, LEAT_REDUCE, LEAT_GATHER,
                                               LEAT_SCATTER};
    for (int i = 0; i < 4; i++) {
        leat_collective_options options = call(kinds[i]);
        options.root = 4;
        refused(options, "root 4 is not in the communicator, which has ranks 0 to 3");
        options.root = -1;
        refused(options, "root -1");
    }
    leat_collective_options options = call(LEAT_ALLREDUCE);
    options.root = 99; // not looked at
    options.count = 0;
    assert_int_equal(leat_collective(job.comm[2], &options, NULL), 0);
}

static void missing_buffers_are_named(void **state)
{
    (void)state;
    for (enum leat_collective_kind kind = LEAT_BROADCAST; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        leat_collective_options options = call(kind);
        options.root = 2;
        options.receive = NULL;
        refused(options, "`receive` is NULL at rank 2");
        if (kind == LEAT_BROADCAST)
            continue;
        options = call(kind);
        options.root = 2;
        options.send = NULL;
        refused(options, "`send` is NULL at rank 2");
        options.send = receive_values;
        refused(options, "give LEAT_IN_PLACE");
    }
}

static void in_place_beside_the_root_is_named(void **state)
{
    (void)state;
    const enum leat_collective_kind kinds[] = {LEAT_REDUCE, LEAT_GATHER, LEAT_SCATTER};
    for (int i = 0; i < 3; i++) {
        leat_collective_options options = call(kinds[i]);
        options.root = 1;
        options.send = LEAT_IN_PLACE;
        refused(options, "LEAT_IN_PLACE is for the root, 1, not for rank 2");
    }
}

static void a_broadcast_takes_no_second_buffer(void **state)
{
    (void)state;
    leat_collective_options options = call(LEAT_BROADCAST);
    options.send = send_values;
    refused(options, "leave `send` NULL");
}

static void sizes_that_contradict_are_named(void **state)
{
    (void)state;
    const uint64_t counts[4] = {1, 2, 3, 4}, others[4] = {1, 2, 5, 4};
    leat_collective_options options = call(LEAT_ALLGATHER);
    options.receive_counts = counts;
    refused(options, "rank 2 sends itself 2 elements and receives 3 from itself");
    options = call(LEAT_ALLTOALL);
    options.send_counts = counts;
    options.receive_counts = others;
    refused(options, "all-to-all: rank 2 sends itself 3 elements and receives 5");
    options = call(LEAT_REDUCE_SCATTER);
    options.receive_counts = counts;
    options.receive_offsets = counts;
    refused(options, "leave receive_offsets NULL");
    options = call(LEAT_GATHER);
    options.root = 2;
    options.receive_counts = counts;
    options.count = 3;
    options.algorithm = "binomial";
    refused(options, "takes blocks of one size only");
}

static void an_unknown_algorithm_lists_those_there_are(void **state)
{
    (void)state;
    leat_collective_options options = call(LEAT_ALLREDUCE);
    options.algorithm = "quick";
    refused(options, "allreduce has no algorithm \"quick\"; there are: recursive-doubling, "
                     "recursive-halving, ring");
    options = call(LEAT_BARRIER);
    options.algorithm = "ring";
    refused(options, "there are: dissemination");
}

// Members that an older program does not know count as zero.
static void a_shorter_structure_is_taken(void **state)
{
    (void)state;
    leat_collective_options options = call(LEAT_ALLREDUCE);
    options.size = offsetof(leat_collective_options, algorithm);
    options.algorithm = "no such";
    options.count = 0;
    assert_int_equal(leat_collective(job.comm[2], &options, NULL), 0);
}

static void algorithms_are_listed(void **state)
{
    (void)state;
    for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        int count = 0;
        const char *const *name = msg_algorithms(kind, &count);
        assert_true(count >= 1 && name[0][0]);
    }
    int count = 7;
    assert_null(msg_algorithms(LEAT_COLLECTIVE_COUNT, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_arguments_are_named),
        cmocka_unit_test(what_is_no_kind_type_or_operation_is_named),
        cmocka_unit_test(a_root_outside_is_named),
        cmocka_unit_test(missing_buffers_are_named),
        cmocka_unit_test(in_place_beside_the_root_is_named),
        cmocka_unit_test(a_broadcast_takes_no_second_buffer),
        cmocka_unit_test(sizes_that_contradict_are_named),
        cmocka_unit_test(an_unknown_algorithm_lists_those_there_are),
        cmocka_unit_test(a_shorter_structure_is_taken),
        cmocka_unit_test(algorithms_are_listed),
    };
    return cmocka_run_group_tests_name("refused collectives", tests, open_job, close_job);
}
