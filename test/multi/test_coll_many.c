// SPDX-License-Identifier: Apache-2.0
// Collectives of a thousand ranks: exact, and each rank talks to few others.

#define COLL_JOB_RANKS 1000
#include "coll_case.h"

static const struct coll_network network = {.map = true, .ring_limit = 4, .delay_ns = 100};
static struct coll_job job;

static int open_job(void **state)
{
    (void)state;
    coll_job_open(&job, COLL_JOB_RANKS, 8, &network);
    return 0;
}

static int close_job(void **state)
{
    (void)state;
    coll_job_close(&job);
    return 0;
}

static void run(struct coll_case test)
{
    static struct case_memory memory[COLL_JOB_RANKS];
    static leat_request request[COLL_JOB_RANKS];
    case_start(&job, &test, memory, request);
    coll_job_run(&job, request, job.rank_count);
    case_finish(&job, &test, memory, request);
}

static void trees_and_rounds_are_exact(void **state)
{
    (void)state;
    run((struct coll_case){.kind = LEAT_BARRIER});
    run((struct coll_case){.kind = LEAT_BROADCAST, .count = 9, .root = 999});
    run((struct coll_case){.kind = LEAT_REDUCE, .count = 9, .values = VALUES_ORDERED, .root = 517});
    run((struct coll_case){.kind = LEAT_ALLREDUCE, .count = 9, .values = VALUES_ORDERED});
    run((struct coll_case){.kind = LEAT_SCAN, .count = 3, .values = VALUES_ORDERED});
    run((struct coll_case){
        .kind = LEAT_EXCLUSIVE_SCAN, .count = 3, .values = VALUES_INT64_MAXIMUM});
    run((struct coll_case){.kind = LEAT_ALLGATHER, .count = 1});
    run((struct coll_case){.kind = LEAT_GATHER, .count = 2, .root = 3, .algorithm = "binomial"});
    run((struct coll_case){.kind = LEAT_SCATTER, .count = 2, .root = 998, .algorithm = "binomial"});
}

// After all of them: the logarithm of the ranks, for each pattern of partners.
static void a_rank_talks_to_few_others(void **state)
{
    (void)state;
    for (int rank = 0; rank < job.rank_count; rank++) {
        uint32_t peers = job.job[rank]->msg->peers.live;
        if (peers > 90)
            fail_msg("rank %d has %u peers of %d in use", rank, peers, job.rank_count);
    }
}

static void a_linear_gather_of_all_is_exact(void **state)
{
    (void)state;
    run((struct coll_case){.kind = LEAT_GATHER, .count = 2, .root = 3});
    run((struct coll_case){.kind = LEAT_SCATTER, .count = 2, .root = 998});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_and_rounds_are_exact),
        cmocka_unit_test(a_rank_talks_to_few_others),
        cmocka_unit_test(a_linear_gather_of_all_is_exact),
    };
    return cmocka_run_group_tests_name("collectives of 1,000 ranks", tests, open_job, close_job);
}
