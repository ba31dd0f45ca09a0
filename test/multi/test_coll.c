// SPDX-License-Identifier: Apache-2.0
// Every collective with every algorithm: 1 to 33 ranks, any root, in place, few and many elements.

#include "coll_case.h"

static const struct coll_network networks[] = {
    {.map = true, .ring_limit = 64, .delay_ns = 0},
    {.map = false, .ring_limit = 3, .delay_ns = 500, .finish_later = MEMORY_SOME},
    {.map = true, .ring_limit = 1, .delay_ns = 200, .no_get = MEMORY_SOME, .refuse_permille = 30},
};

// Calls `kind` with all of its algorithms, and with none named.
static void all_algorithms(struct coll_job *job, struct coll_case test)
{
    int count;
    const char *const *name = msg_algorithms(test.kind, &count);
    case_run(job, &test);
    for (int i = 0; i < count; i++) {
        // Trees of gather and scatter are for blocks of one size.
        if (test.uneven && i && (test.kind == LEAT_GATHER || test.kind == LEAT_SCATTER))
            continue;
        test.algorithm = name[i];
        case_run(job, &test);
    }
}

static bool takes_sizes(enum leat_collective_kind kind)
{
    return (kind >= LEAT_GATHER && kind <= LEAT_ALLTOALL) || kind == LEAT_REDUCE_SCATTER;
}

static void every_count(struct coll_job *job, struct coll_case test)
{
    const uint64_t counts[] = {0, 1, 3, (uint64_t)job->rank_count + 2, 200};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        test.count = counts[i];
        test.values = (enum case_values)((i + (unsigned)job->rank_count) % VALUES_COUNT);
        test.root = (int)coll_job_random(job, (uint64_t)job->rank_count);
        test.in_place = i & 1;
        all_algorithms(job, test);
        test.in_place = !test.in_place;
        test.values = (enum case_values)((i + 2u) % VALUES_COUNT);
        all_algorithms(job, test);
    }
}

static void kind_at_all_sizes(enum leat_collective_kind kind, bool uneven)
{
    struct coll_job job;
    for (int ranks = 1; ranks <= 33; ranks = ranks < 9 ? ranks + 1 : ranks + 8) {
        coll_job_open(&job, ranks, 100 + (uint64_t)ranks + 1000 * (uint64_t)kind,
                      &networks[ranks % 3]);
        every_count(&job, (struct coll_case){.kind = kind, .uneven = uneven});
        if (uneven && kind != LEAT_REDUCE_SCATTER)
            every_count(&job, (struct coll_case){.kind = kind, .uneven = true, .offsets = true});
        coll_job_close(&job);
    }
}

#define KIND(name, kind)                                                                           \
    static void name##_is_exact(void **state)                                                      \
    {                                                                                              \
        (void)state;                                                                               \
        kind_at_all_sizes(kind, false);                                                            \
    }
#define UNEVEN(name, kind)                                                                         \
    static void name##_with_a_size_a_rank_is_exact(void **state)                                   \
    {                                                                                              \
        (void)state;                                                                               \
        kind_at_all_sizes(kind, true);                                                             \
    }

KIND(barrier, LEAT_BARRIER)
KIND(broadcast, LEAT_BROADCAST)
KIND(reduce, LEAT_REDUCE)
KIND(allreduce, LEAT_ALLREDUCE)
KIND(gather, LEAT_GATHER)
KIND(scatter, LEAT_SCATTER)
KIND(allgather, LEAT_ALLGATHER)
KIND(alltoall, LEAT_ALLTOALL)
KIND(scan, LEAT_SCAN)
KIND(exclusive_scan, LEAT_EXCLUSIVE_SCAN)
KIND(reduce_scatter, LEAT_REDUCE_SCATTER)
UNEVEN(gather, LEAT_GATHER)
UNEVEN(scatter, LEAT_SCATTER)
UNEVEN(allgather, LEAT_ALLGATHER)
UNEVEN(alltoall, LEAT_ALLTOALL)
UNEVEN(reduce_scatter, LEAT_REDUCE_SCATTER)

// ---- Over libfabric ----

static void every_collective_over_libfabric_is_exact(void **state)
{
    (void)state;
    static const int most[] = {2, 3, 5, 8};
    struct coll_job job;
    for (unsigned i = 0; i < sizeof most / sizeof *most; i++) {
        coll_job_open(&job, most[i], 300 + i, &networks[0]);
        for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++)
            every_count(&job,
                        (struct coll_case){.kind = kind, .uneven = i % 2 && takes_sizes(kind)});
        coll_job_close(&job);
    }
}

static void collectives_of_33_ranks_over_libfabric_are_exact(void **state)
{
    (void)state;
    struct coll_job job;
    coll_job_open(&job, 33, 33, &networks[0]);
    for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++)
        for (uint64_t count = 1; count <= 9; count += 8)
            case_run(&job, &(struct coll_case){.kind = kind, .count = count, .root = 32});
    coll_job_close(&job);
}

// 1,000 elements to the last rank: where others have crashed.
static void a_reduction_in_place_over_libfabric_is_exact(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks += ranks - 1) {
        struct coll_job job;
        coll_job_open(&job, ranks, (uint64_t)ranks, &networks[0]);
        for (enum case_values values = 0; values < VALUES_COUNT; values++)
            all_algorithms(&job, (struct coll_case){.kind = LEAT_REDUCE,
                                                    .values = values,
                                                    .root = ranks - 1,
                                                    .count = 1000,
                                                    .in_place = true});
        coll_job_close(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier_is_exact),
        cmocka_unit_test(broadcast_is_exact),
        cmocka_unit_test(reduce_is_exact),
        cmocka_unit_test(allreduce_is_exact),
        cmocka_unit_test(gather_is_exact),
        cmocka_unit_test(scatter_is_exact),
        cmocka_unit_test(allgather_is_exact),
        cmocka_unit_test(alltoall_is_exact),
        cmocka_unit_test(scan_is_exact),
        cmocka_unit_test(exclusive_scan_is_exact),
        cmocka_unit_test(reduce_scatter_is_exact),
        cmocka_unit_test(gather_with_a_size_a_rank_is_exact),
        cmocka_unit_test(scatter_with_a_size_a_rank_is_exact),
        cmocka_unit_test(allgather_with_a_size_a_rank_is_exact),
        cmocka_unit_test(alltoall_with_a_size_a_rank_is_exact),
        cmocka_unit_test(reduce_scatter_with_a_size_a_rank_is_exact),
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(every_collective_over_libfabric_is_exact),
        cmocka_unit_test(collectives_of_33_ranks_over_libfabric_are_exact),
        cmocka_unit_test(a_reduction_in_place_over_libfabric_is_exact),
    };
    const char *all = getenv("LEAT_LONG");
    return coll_over_fabric() && !(all && !strcmp(all, "1"))
               ? cmocka_run_group_tests_name("collectives over libfabric", over_fabric, NULL, NULL)
               : cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
