// SPDX-License-Identifier: Apache-2.0
// Data that passes in chunks: much larger than the buffer, elements larger than a chunk, and a
// buffer of the smallest size.

#include "coll_case.h"

#include <errno.h>

static const struct coll_network mapped = {.map = true, .ring_limit = 8};
static const struct coll_network unmapped = {
    .map = false, .ring_limit = 2, .delay_ns = 300, .finish_later = MEMORY_SOME};

static void all_algorithms(struct coll_job *job, struct coll_case test)
{
    int count;
    const char *const *name = msg_algorithms(test.kind, &count);
    for (int i = 0; i < count; i++) {
        test.algorithm = name[i];
        case_run(job, &test);
    }
}

// Counts that are no multiple of a chunk, and elements that do not divide one.
static void all_kinds(struct coll_job *job, uint64_t bytes)
{
    for (enum leat_collective_kind kind = LEAT_BROADCAST; kind < LEAT_COLLECTIVE_COUNT; kind++)
        for (unsigned i = 0; i < 4; i++) {
            struct coll_case test = {.kind = kind,
                                     .values =
                                         (enum case_values)((i + (unsigned)kind) % VALUES_COUNT),
                                     .root = (int)i % job->rank_count,
                                     .in_place = i & 1};
            test.count = bytes / case_element[test.values] + 1;
            if (kind == LEAT_GATHER || kind == LEAT_SCATTER || kind == LEAT_ALLGATHER ||
                kind == LEAT_ALLTOALL || kind == LEAT_REDUCE_SCATTER)
                test.count /= (uint64_t)job->rank_count;
            all_algorithms(job, test);
        }
}

static void data_larger_than_the_buffer_is_exact(void **state)
{
    (void)state;
    const int ranks[] = {2, 3, 4, 7};
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct coll_job job;
        coll_job_open(&job, ranks[i], i, i & 1 ? &unmapped : &mapped);
        all_kinds(&job, 300000);
        coll_job_close(&job);
    }
}

// As a communicator has it that was made when memory was short.
static void the_smallest_buffer_gives_the_same(void **state)
{
    (void)state;
    const int ranks[] = {2, 5};
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct coll_job job;
        coll_job_open(&job, ranks[i], 50 + i, &mapped);
        for (int rank = 0; rank < ranks[i]; rank++)
            coll_of(job.comm[rank])->temp_bytes = COLL_LEAST_TEMP;
        all_kinds(&job, 20000);
        coll_job_close(&job);
    }
}

// ---- Elements larger than a chunk, and than the buffer ----

#define COUNT 3

static uint64_t element_bytes;

static void add_bytes(void *user, const void *in, void *inout, uint64_t count)
{
    (void)user;
    for (uint64_t i = 0; i < count * element_bytes; i++)
        ((uint8_t *)inout)[i] = (uint8_t)(((uint8_t *)inout)[i] + ((const uint8_t *)in)[i]);
}

static uint8_t value_at(int rank, uint64_t at)
{
    return (uint8_t)case_hash((uint64_t)rank, at);
}

static uint8_t sum_at(int first, int last, uint64_t at)
{
    uint8_t sum = 0;
    for (int rank = first; rank <= last; rank++)
        sum = (uint8_t)(sum + value_at(rank, at));
    return sum;
}

static void check_huge(enum leat_collective_kind kind, const char *algorithm, int ranks, int rank,
                       const uint8_t *receive)
{
    int last = kind == LEAT_SCAN ? rank : kind == LEAT_EXCLUSIVE_SCAN ? rank - 1 : ranks - 1;
    if ((kind == LEAT_REDUCE && rank != 0) || last < 0)
        return;
    for (uint64_t i = 0; i < COUNT * element_bytes; i++)
        if (receive[i] != sum_at(0, last, i))
            fail_msg("%s (%s) of %d ranks, rank %d, byte %llu: got %u, expected %u",
                     coll_kind_name(kind), algorithm, ranks, rank, (unsigned long long)i,
                     receive[i], sum_at(0, last, i));
}

static void huge_elements(struct coll_job *job, enum leat_collective_kind kind,
                          const char *algorithm, bool in_place, int commutative)
{
    uint64_t bytes = COUNT * element_bytes;
    leat_user_operation user = {add_bytes, NULL, element_bytes, commutative};
    leat_request request[COLL_JOB_RANKS];
    uint8_t *send[COLL_JOB_RANKS], *receive[COLL_JOB_RANKS];
    for (int rank = 0; rank < job->rank_count; rank++) {
        send[rank] = malloc(bytes);
        receive[rank] = malloc(bytes);
        assert_true(send[rank] && receive[rank]);
        for (uint64_t i = 0; i < bytes; i++)
            send[rank][i] = value_at(rank, i);
        memset(receive[rank], CASE_POISON, bytes);
        bool here = in_place && (kind != LEAT_REDUCE || rank == 0);
        if (here)
            memcpy(receive[rank], send[rank], bytes);
        leat_collective_options options = {.size = sizeof options,
                                           .kind = kind,
                                           .send = here ? LEAT_IN_PLACE : send[rank],
                                           .receive = receive[rank],
                                           .count = COUNT,
                                           .operation = LEAT_OPERATION_USER,
                                           .user = &user,
                                           .algorithm = algorithm};
        if (leat_collective(job->comm[rank], &options, &request[rank]))
            fail_msg("%s", leat_error_detail());
    }
    coll_job_run(job, request, job->rank_count);
    for (int rank = 0; rank < job->rank_count; rank++) {
        assert_int_equal(request[rank].status.error, 0);
        check_huge(kind, algorithm, job->rank_count, rank, receive[rank]);
        free(send[rank]);
        free(receive[rank]);
    }
}

static void elements_larger_than_a_chunk_are_exact(void **state)
{
    (void)state;
    const uint64_t sizes[] = {COLL_WORLD_TEMP / 4 + 1, COLL_WORLD_TEMP / 2 + 3,
                              COLL_WORLD_TEMP + 5};
    const enum leat_collective_kind kinds[] = {LEAT_REDUCE, LEAT_ALLREDUCE, LEAT_SCAN,
                                               LEAT_EXCLUSIVE_SCAN};
    struct coll_job job;
    for (int ranks = 2; ranks <= 4; ranks++) {
        coll_job_open(&job, ranks, (uint64_t)ranks, &mapped);
        for (unsigned i = 0; i < 3 * sizeof kinds / sizeof *kinds; i++) {
            element_bytes = sizes[i % 3];
            int count;
            const char *const *name = msg_algorithms(kinds[i / 3], &count);
            for (int j = 0; j < count; j++)
                huge_elements(&job, kinds[i / 3], name[j], (i + (unsigned)j) & 1, j & 1);
        }
        coll_job_close(&job);
    }
}

// One element larger than all the memory there may be.
static void an_element_that_cannot_be_buffered_is_refused(void **state)
{
    (void)state;
    struct coll_job job;
    leat_request request;
    coll_job_open(&job, 2, 1, &mapped);
    leat_user_operation user = {add_bytes, NULL, UINT64_C(1) << 40, 1};
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_REDUCE,
                                       .send = &job,
                                       .receive = &request,
                                       .count = 1,
                                       .operation = LEAT_OPERATION_USER,
                                       .user = &user};
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(leat_collective(job.comm[rank], &options, &request), -ENOBUFS);
    assert_non_null(strstr(leat_error_detail(), "LEAT_MSG_BUDGET"));
    coll_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_larger_than_the_buffer_is_exact),
        cmocka_unit_test(the_smallest_buffer_gives_the_same),
        cmocka_unit_test(elements_larger_than_a_chunk_are_exact),
        cmocka_unit_test(an_element_that_cannot_be_buffered_is_refused),
    };
    return cmocka_run_group_tests_name("large collectives", tests, NULL, NULL);
}
