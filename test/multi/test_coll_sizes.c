// SPDX-License-Identifier: Apache-2.0
// Sizes at the ends: every mix of zeros in an all-to-all, products beyond 2^31 and 2^32, and what
// no address space holds.

#define _GNU_SOURCE
#include "coll_case.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct coll_network plain = {.map = true, .ring_limit = 8};

static void finish(struct coll_job *job, leat_request *request)
{
    coll_job_run(job, request, job->rank_count);
    for (int rank = 0; rank < job->rank_count; rank++)
        if (request[rank].status.error)
            fail_msg("rank %d: %s", rank, leat_error_detail());
}

// ---- Zeros ----

// Bit from * 3 + to of `mix`: something is sent there.
static void one_mix(struct coll_job *job, unsigned mix)
{
    leat_request request[3];
    uint64_t send_counts[3][3], receive_counts[3][3];
    uint8_t send[3][12], receive[3][12];
    memset(receive, CASE_POISON, sizeof receive);
    for (int rank = 0; rank < 3; rank++) {
        for (int other = 0; other < 3; other++) {
            send_counts[rank][other] = mix >> (rank * 3 + other) & 1 ? 1 + (uint64_t)other : 0;
            receive_counts[rank][other] = mix >> (other * 3 + rank) & 1 ? 1 + (uint64_t)rank : 0;
        }
        memset(send[rank], 16 * rank, sizeof send[rank]);
        leat_collective_options options = {.size = sizeof options,
                                           .kind = LEAT_ALLTOALL,
                                           .send = send[rank],
                                           .receive = receive[rank],
                                           .type = LEAT_BYTE,
                                           .send_counts = send_counts[rank],
                                           .receive_counts = receive_counts[rank]};
        if (leat_collective(job->comm[rank], &options, &request[rank]))
            fail_msg("mix %u, rank %d: %s", mix, rank, leat_error_detail());
    }
    finish(job, request);
    for (int rank = 0; rank < 3; rank++) {
        size_t at = 0;
        for (int other = 0; other < 3; other++)
            for (uint64_t i = 0; i < receive_counts[rank][other]; i++)
                assert_int_equal(receive[rank][at++], 16 * other);
        while (at < sizeof receive[rank])
            assert_int_equal(receive[rank][at++], CASE_POISON);
    }
}

static void every_mix_of_zero_counts_completes(void **state)
{
    (void)state;
    struct coll_job job;
    coll_job_open(&job, 3, 12, &plain);
    for (unsigned mix = 0; mix < 512; mix++)
        one_mix(&job, mix);
    coll_job_close(&job);
}

static void nothing_at_all_needs_no_memory(void **state)
{
    (void)state;
    struct coll_job job;
    leat_request request[3];
    const uint64_t zeros[3] = {0};
    coll_job_open(&job, 3, 13, &plain);
    for (enum leat_collective_kind kind = LEAT_BROADCAST; kind < LEAT_COLLECTIVE_COUNT; kind++)
        for (int sizes = 0; sizes < 2; sizes++) {
            for (int rank = 0; rank < 3; rank++) {
                leat_collective_options options = {.size = sizeof options,
                                                   .kind = kind,
                                                   .type = LEAT_DOUBLE,
                                                   .root = 1,
                                                   .send_counts = sizes ? zeros : NULL,
                                                   .receive_counts = sizes ? zeros : NULL};
                if (leat_collective(job.comm[rank], &options, &request[rank]))
                    fail_msg("%s: %s", coll_kind_name(kind), leat_error_detail());
            }
            finish(&job, request);
        }
    coll_job_close(&job);
}

// ---- Beyond 32 bits ----

#define WINDOW ((size_t)2 << 20)

static uint8_t *reserve(size_t bytes)
{
    uint8_t *memory =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

// Makes every window of the address space the same memory, so that gigabytes cost two megabytes.
static void repeat(uint8_t *memory, size_t bytes, int seed)
{
    int fd = memfd_create("window", 0);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)WINDOW) == 0);
    for (size_t at = 0; at < bytes; at += WINDOW)
        assert_true(mmap(memory + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                         0) == memory + at);
    close(fd);
    memset(memory, seed, WINDOW);
}

static uint8_t *repeated(size_t bytes, int seed)
{
    bytes = (bytes + WINDOW - 1) / WINDOW * WINDOW;
    uint8_t *memory = reserve(bytes);
    repeat(memory, bytes, seed);
    return memory;
}

static void release(uint8_t *memory, size_t bytes)
{
    munmap(memory, (bytes + WINDOW - 1) / WINDOW * WINDOW);
}

static void a_broadcast_of_more_than_4_gib_arrives(void **state)
{
    (void)state;
    const size_t count = ((size_t)1 << 29) + 3, bytes = count * 8;
    struct coll_job job;
    leat_request request[2];
    uint8_t *memory[2] = {repeated(bytes, 0), repeated(bytes, CASE_POISON)};
    coll_job_open(&job, 2, 14, &plain);
    for (size_t i = 0; i < WINDOW; i++)
        memory[0][i] = (uint8_t)(i * 131 >> 4);
    for (int rank = 0; rank < 2; rank++) {
        leat_collective_options options = {.size = sizeof options,
                                           .kind = LEAT_BROADCAST,
                                           .receive = memory[rank],
                                           .count = count,
                                           .type = LEAT_DOUBLE};
        assert_int_equal(leat_collective(job.comm[rank], &options, &request[rank]), 0);
    }
    finish(&job, request);
    assert_memory_equal(memory[0], memory[1], WINDOW);
    coll_job_close(&job);
    for (int rank = 0; rank < 2; rank++)
        release(memory[rank], bytes);
}

// Offsets and counts that only 64 bits hold; few bytes of it are touched.
static void blocks_beyond_4_gib_are_found(void **state)
{
    (void)state;
    const uint64_t counts[3] = {2, 0, 3};
    const uint64_t offsets[3] = {0, 1, ((uint64_t)1 << 30) + 5}; // doubles: 8 GiB
    const size_t bytes = (((size_t)1 << 30) + 16) * 8;
    struct coll_job job;
    leat_request request[3];
    double send[3] = {1.5, 2.5, 3.5};
    double *memory[3];
    coll_job_open(&job, 3, 15, &plain);
    for (int rank = 0; rank < 3; rank++) {
        memory[rank] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(memory[rank] != MAP_FAILED);
        leat_collective_options options = {.size = sizeof options,
                                           .kind = LEAT_ALLGATHER,
                                           .send = send,
                                           .receive = memory[rank],
                                           .count = counts[rank],
                                           .type = LEAT_DOUBLE,
                                           .receive_counts = counts,
                                           .receive_offsets = offsets,
                                           .algorithm = "ring"};
        assert_int_equal(leat_collective(job.comm[rank], &options, &request[rank]), 0);
    }
    finish(&job, request);
    for (int rank = 0; rank < 3; rank++) {
        assert_memory_equal(memory[rank], send, 16);
        assert_memory_equal(memory[rank] + offsets[2], send, 24);
        assert_true(memory[rank][2] == 0 && memory[rank][offsets[2] + 3] == 0);
        munmap(memory[rank], bytes);
    }
    coll_job_close(&job);
}

// Each block is below 2 GiB, all of them together are not.
static void a_gather_of_more_than_4_gib_is_put_in_place(void **state)
{
    (void)state;
    const size_t block = (size_t)1500 << 20; // a multiple of a window
    struct coll_job job;
    leat_request request[3];
    uint8_t *memory = reserve(3 * block), *send[3];
    coll_job_open(&job, 3, 16, &plain);
    for (int rank = 0; rank < 3; rank++) {
        send[rank] = repeated(block, 1 + rank);
        repeat(memory + (size_t)rank * block, block, CASE_POISON);
        leat_collective_options options = {.size = sizeof options,
                                           .kind = LEAT_GATHER,
                                           .send = send[rank],
                                           .receive = memory,
                                           .count = block / 4,
                                           .type = LEAT_FLOAT,
                                           .root = 1};
        assert_int_equal(leat_collective(job.comm[rank], &options, &request[rank]), 0);
    }
    finish(&job, request);
    coll_job_close(&job);
    for (int rank = 0; rank < 3; rank++) {
        assert_memory_equal(memory + (size_t)rank * block, send[rank], WINDOW);
        release(send[rank], block);
    }
    release(memory, 3 * block);
}

static void more_than_an_address_space_is_refused(void **state)
{
    (void)state;
    struct coll_job job;
    coll_job_open(&job, 3, 17, &plain);
    const uint64_t counts[3] = {1, UINT64_MAX, 1}, offsets[3] = {0, 1, UINT64_MAX};
    const uint64_t ones[3] = {1, 1, 1};
    double value[8];
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLGATHER,
                                       .send = value,
                                       .receive = value + 4,
                                       .count = UINT64_MAX / 8,
                                       .type = LEAT_DOUBLE};
    assert_int_equal(leat_collective(job.comm[0], &options, NULL), -EOVERFLOW);
    assert_non_null(strstr(leat_error_detail(), "allgather: 2305843009213693951 elements of 8"));
    options.count = 1;
    options.receive_counts = counts;
    assert_int_equal(leat_collective(job.comm[0], &options, NULL), -EOVERFLOW);
    options.receive_counts = ones;
    options.receive_offsets = offsets;
    assert_int_equal(leat_collective(job.comm[0], &options, NULL), -EOVERFLOW);
    coll_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mix_of_zero_counts_completes),
        cmocka_unit_test(nothing_at_all_needs_no_memory),
        cmocka_unit_test(a_broadcast_of_more_than_4_gib_arrives),
        cmocka_unit_test(blocks_beyond_4_gib_are_found),
        cmocka_unit_test(a_gather_of_more_than_4_gib_is_put_in_place),
        cmocka_unit_test(more_than_an_address_space_is_refused),
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(every_mix_of_zero_counts_completes),
        cmocka_unit_test(nothing_at_all_needs_no_memory),
        cmocka_unit_test(blocks_beyond_4_gib_are_found),
        cmocka_unit_test(more_than_an_address_space_is_refused),
    };
    return coll_over_fabric()
               ? cmocka_run_group_tests_name("sizes over libfabric", over_fabric, NULL, NULL)
               : cmocka_run_group_tests_name("sizes of collectives", tests, NULL, NULL);
}
