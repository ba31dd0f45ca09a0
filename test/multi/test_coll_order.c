// SPDX-License-Identifier: Apache-2.0
// The order of combining: the same bits in all repeats, at all ranks, for every root; rules of NaN.

#include "coll_case.h"

#include <math.h>

#define MOST 3000

static const struct coll_network networks[] = {
    {.map = true, .ring_limit = 64},
    {.map = false, .ring_limit = 3, .delay_ns = 700, .finish_later = MEMORY_SOME},
    {.map = true, .ring_limit = 1, .delay_ns = 2000, .no_get = MEMORY_SOME, .refuse_permille = 50},
};

// Sums of these depend on the order in nearly every element.
static double term(int rank, uint64_t i)
{
    uint64_t hash = case_hash((uint64_t)rank, i);
    double value = (double)(hash >> 11) * 0x1p-53 - 0.5;
    return ldexp(value, (int)(hash & 31));
}

static double send_values[COLL_JOB_RANKS][MOST], received[COLL_JOB_RANKS][MOST];

static void sum(struct coll_job *job, enum leat_collective_kind kind, uint64_t count, int root,
                const char *algorithm)
{
    leat_request request[COLL_JOB_RANKS];
    for (int rank = 0; rank < job->rank_count; rank++) {
        for (uint64_t i = 0; i < count; i++)
            send_values[rank][i] = term(rank, i);
        memset(received[rank], CASE_POISON, sizeof received[rank]);
        leat_collective_options options = {
            .size = sizeof options,
            .kind = kind,
            .send = send_values[rank],
            .receive = received[rank],
            .count = kind == LEAT_REDUCE_SCATTER ? count / (uint64_t)job->rank_count : count,
            .type = LEAT_DOUBLE,
            .operation = LEAT_SUM,
            .root = root,
            .algorithm = algorithm};
        if (leat_collective(job->comm[rank], &options, &request[rank]))
            fail_msg("%s", leat_error_detail());
        for (uint64_t steps = coll_job_random(job, 5); steps; steps--)
            coll_job_step(job);
    }
    coll_job_run(job, request, job->rank_count);
    for (int rank = 0; rank < job->rank_count; rank++)
        assert_int_equal(request[rank].status.error, 0);
}

static void repeats(enum leat_collective_kind kind, int ranks, uint64_t count,
                    const char *algorithm)
{
    static double first[COLL_JOB_RANKS][MOST];
    for (uint64_t repeat = 0; repeat < 6; repeat++) {
        struct coll_job job;
        coll_job_open(&job, ranks, 1000 + repeat, &networks[repeat % 3]);
        sum(&job, kind, count, 0, algorithm);
        if (!repeat)
            memcpy(first, received, sizeof first);
        for (int rank = 0; rank < ranks; rank++)
            if (memcmp(received[rank], first[rank], sizeof first[rank]) != 0)
                fail_msg("%s (%s) of %d ranks: repeat %d gives rank %d other bits",
                         coll_kind_name(kind), algorithm ? algorithm : "chosen", ranks, (int)repeat,
                         rank);
        coll_job_close(&job);
    }
}

static void float_sums_are_the_same_in_every_order_of_arrival(void **state)
{
    (void)state;
    const int ranks[] = {2, 3, 5, 8, 13};
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++) {
            if (!coll_reduces((unsigned)kind))
                continue;
            int count;
            const char *const *name = msg_algorithms(kind, &count);
            for (int j = -1; j < count; j++)
                repeats(kind, ranks[i], 700, j < 0 ? NULL : name[j]);
        }
}

static void all_ranks_agree(int ranks)
{
    int algorithms;
    const char *const *name = msg_algorithms(LEAT_ALLREDUCE, &algorithms);
    struct coll_job job;
    coll_job_open(&job, ranks, (uint64_t)ranks, &networks[ranks % 3]);
    for (int i = 0; i < algorithms; i++) {
        sum(&job, LEAT_ALLREDUCE, 300, 0, name[i]);
        for (int rank = 1; rank < ranks; rank++)
            if (memcmp(received[rank], received[0], sizeof received[0]) != 0)
                fail_msg("%s of %d ranks: ranks 0 and %d differ", name[i], ranks, rank);
    }
    coll_job_close(&job);
}

static void an_allreduce_gives_all_ranks_the_same_bits(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 33; ranks += ranks < 10 ? 1 : 5)
        all_ranks_agree(ranks);
}

static void a_reduction_gives_every_root_the_same_bits(void **state)
{
    (void)state;
    static double first[MOST];
    for (int ranks = 2; ranks <= 13; ranks++) {
        struct coll_job job;
        coll_job_open(&job, ranks, (uint64_t)ranks, &networks[ranks % 3]);
        for (int root = 0; root < ranks; root++) {
            sum(&job, LEAT_REDUCE, 200, root, NULL);
            if (!root)
                memcpy(first, received[0], sizeof first);
            if (memcmp(received[root], first, sizeof first) != 0)
                fail_msg("%d ranks: root %d gets other bits than root 0", ranks, root);
        }
        coll_job_close(&job);
    }
}

// Once over memory, then over libfabric.
static void float_sums_over_libfabric_have_the_same_bits(void **state)
{
    (void)state;
    static double first[COLL_JOB_RANKS][MOST];
    for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        if (!coll_reduces((unsigned)kind))
            continue;
        for (uint64_t repeat = 0; repeat < 3; repeat++) {
            struct coll_job job;
            setenv("LEAT_PATHS", repeat ? "require:fabric" : "auto", 1);
            coll_job_open(&job, 5, 40 + repeat, &networks[0]);
            sum(&job, kind, 700, 2, NULL);
            if (!repeat)
                memcpy(first, received, sizeof first);
            assert_memory_equal(received, first, 5 * sizeof first[0]);
            coll_job_close(&job);
        }
    }
}

static void an_allreduce_over_libfabric_gives_all_ranks_the_same_bits(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks = 2 * ranks + 1)
        all_ranks_agree(ranks);
}

// ---- NaN and zeros ----

#define QUIET UINT64_C(0x7ff8000000000000)

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double nan_of(int rank)
{
    uint64_t bits =
        rank & 1 ? UINT64_C(0xfff0000000000001) + (uint64_t)rank : QUIET + (uint64_t)rank;
    double value;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

// Element r of `count` has its NaN at rank r % (ranks + 1); the last of those is without.
static double with_nan(int rank, int ranks, uint64_t i)
{
    return (int)(i % (uint64_t)(ranks + 1)) == rank ? nan_of(rank) : (double)(rank * 7 % 5);
}

static double extreme(int last, int ranks, uint64_t i, bool largest)
{
    double result = with_nan(0, ranks, i);
    for (int rank = 1; rank <= last; rank++) {
        double value = with_nan(rank, ranks, i);
        if (isnan(value) || isnan(result))
            result = NAN;
        else if (largest ? value > result : value < result)
            result = value;
    }
    return result;
}

static void extremes(struct coll_job *job, enum leat_collective_kind kind, bool largest,
                     const char *algorithm)
{
    leat_request request[COLL_JOB_RANKS];
    int ranks = job->rank_count;
    uint64_t count = 2 * (uint64_t)ranks + 3;
    for (int rank = 0; rank < ranks; rank++) {
        for (uint64_t i = 0; i < count; i++)
            send_values[rank][i] = with_nan(rank, ranks, i);
        leat_collective_options options = {.size = sizeof options,
                                           .kind = kind,
                                           .send = send_values[rank],
                                           .receive = received[rank],
                                           .count = count,
                                           .type = LEAT_DOUBLE,
                                           .operation = largest ? LEAT_MAXIMUM : LEAT_MINIMUM,
                                           .root = ranks / 2,
                                           .algorithm = algorithm};
        assert_int_equal(leat_collective(job->comm[rank], &options, &request[rank]), 0);
    }
    coll_job_run(job, request, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        int last = kind == LEAT_SCAN ? rank : kind == LEAT_EXCLUSIVE_SCAN ? rank - 1 : ranks - 1;
        if (last < 0 || (kind == LEAT_REDUCE && rank != ranks / 2))
            continue;
        for (uint64_t i = 0; i < count; i++) {
            double want = extreme(last, ranks, i, largest);
            if (bits_of(received[rank][i]) != (isnan(want) ? QUIET : bits_of(want)))
                fail_msg("%s of %d ranks, rank %d, element %d: %llx, expected %g",
                         coll_kind_name(kind), ranks, rank, (int)i,
                         (unsigned long long)bits_of(received[rank][i]), want);
        }
    }
}

static void nans_of(int ranks)
{
    const enum leat_collective_kind kinds[] = {LEAT_REDUCE, LEAT_ALLREDUCE, LEAT_SCAN,
                                               LEAT_EXCLUSIVE_SCAN};
    struct coll_job job;
    coll_job_open(&job, ranks, (uint64_t)ranks, &networks[ranks % 3]);
    for (unsigned i = 0; i < 8; i++) {
        int count;
        const char *const *name = msg_algorithms(kinds[i / 2], &count);
        for (int j = -1; j < count; j++)
            extremes(&job, kinds[i / 2], i & 1, j < 0 ? NULL : name[j]);
    }
    coll_job_close(&job);
}

static void a_nan_at_any_rank_gives_the_quiet_nan(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++)
        nans_of(ranks);
}

static void a_nan_over_libfabric_gives_the_quiet_nan(void **state)
{
    (void)state;
    nans_of(2);
    nans_of(5);
}

static void minus_zero_is_less_than_zero_at_any_rank(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        for (int odd = 0; odd < ranks; odd++) {
            struct coll_job job;
            leat_request request[COLL_JOB_RANKS];
            double value[COLL_JOB_RANKS][2], result[COLL_JOB_RANKS][2];
            coll_job_open(&job, ranks, 1, &networks[0]);
            for (int largest = 0; largest < 2; largest++) {
                for (int rank = 0; rank < ranks; rank++) {
                    value[rank][0] = rank == odd ? -0.0 : 0.0;
                    value[rank][1] = rank == odd ? 0.0 : -0.0;
                    leat_collective_options options = {.size = sizeof options,
                                                       .kind = LEAT_ALLREDUCE,
                                                       .send = value[rank],
                                                       .receive = result[rank],
                                                       .count = 2,
                                                       .type = LEAT_DOUBLE,
                                                       .operation =
                                                           largest ? LEAT_MAXIMUM : LEAT_MINIMUM};
                    assert_int_equal(leat_collective(job.comm[rank], &options, &request[rank]), 0);
                }
                coll_job_run(&job, request, ranks);
                for (int rank = 0; rank < ranks; rank++)
                    for (int i = 0; i < 2; i++)
                        assert_int_equal(bits_of(result[rank][i]), bits_of(largest ? 0.0 : -0.0));
            }
            coll_job_close(&job);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_sums_are_the_same_in_every_order_of_arrival),
        cmocka_unit_test(an_allreduce_gives_all_ranks_the_same_bits),
        cmocka_unit_test(a_reduction_gives_every_root_the_same_bits),
        cmocka_unit_test(a_nan_at_any_rank_gives_the_quiet_nan),
        cmocka_unit_test(minus_zero_is_less_than_zero_at_any_rank),
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(an_allreduce_over_libfabric_gives_all_ranks_the_same_bits),
        cmocka_unit_test(a_nan_over_libfabric_gives_the_quiet_nan),
        cmocka_unit_test(float_sums_over_libfabric_have_the_same_bits),
    };
    return coll_over_fabric()
               ? cmocka_run_group_tests_name("order over libfabric", over_fabric, NULL, NULL)
               : cmocka_run_group_tests_name("order of combining", tests, NULL, NULL);
}
