// SPDX-License-Identifier: Apache-2.0
// The books of transport nvshmem, with a library in NVSHMEM's place: what a rank gives out of its
// heap, how large that is, where a peer's region is found, and why the path is not taken.

#define _GNU_SOURCE
#include "transport/nvshmem.c"

#include "support/splitmix.h"

#include <setjmp.h>
#include <stdarg.h>
/* After the headers that it needs. */
#include <cmocka.h>

#define FAKE_BYTES (UINT64_C(1) << 20)
#define PIECES     64

static char *fake_there; /* where rank 1's heap is stored to from here; NULL: nowhere */

static void *fake_address(const void *here, int rank)
{
    (void)here;
    return rank == 1 ? fake_there : NULL;
}

static int fake_clear(int gpu, void *address, uint64_t bytes, char *why, size_t size)
{
    (void)gpu;
    (void)why;
    (void)size;
    memset(address, 0, bytes);
    return 0;
}

static const struct nvshmem_library fake_library = {.address = fake_address, .clear = fake_clear};

struct fake {
    leat_job *job;
    struct nvshmem nvshmem;
};

static void begin(struct fake *fake)
{
    const leat_options options = {.size = sizeof options, .arena_bytes = 64 << 20};
    assert_int_equal(leat_open(&options, &fake->job), 0);
    fake->nvshmem = (struct nvshmem){.library = &fake_library, .heap_bytes = FAKE_BYTES};
    fake->nvshmem.heap = malloc(FAKE_BYTES);
    fake->nvshmem.free = malloc(sizeof *fake->nvshmem.free);
    assert_true(fake->nvshmem.heap && fake->nvshmem.free);
    memset(fake->nvshmem.heap, 0x55, FAKE_BYTES);
    *fake->nvshmem.free = (struct span){.end = FAKE_BYTES};
    fake->job->arena.head->symmetric = (uint64_t)(uintptr_t)fake->nvshmem.heap;
    fake->job->nvshmem = &fake->nvshmem;
}

// All that was given out has come back as one piece.
static void end(struct fake *fake)
{
    assert_non_null(fake->nvshmem.free);
    assert_int_equal(fake->nvshmem.free->begin, 0);
    assert_int_equal(fake->nvshmem.free->end, FAKE_BYTES);
    assert_int_equal(fake->nvshmem.used_bytes, 0);
    free(fake->nvshmem.free);
    free(fake->nvshmem.heap);
    fake->job->nvshmem = NULL;
    leat_close(fake->job, NULL);
}

static void test_pieces_of_the_heap_are_zero_and_never_overlap(void **state)
{
    (void)state;
    struct fake fake;
    struct {
        unsigned char *at;
        uint64_t bytes;
    } piece[PIECES] = {{0}};
    uint64_t random = 7;
    begin(&fake);
    for (int round = 0; round < 4000; round++) {
        const size_t i = splitmix_next(&random) % PIECES;
        if (piece[i].at) {
            for (uint64_t b = 0; b < piece[i].bytes; b++)
                assert_int_equal(piece[i].at[b], i + 1);
            leat_nvshmem_free(fake.job, piece[i].at, piece[i].bytes);
            piece[i].at = NULL;
            continue;
        }
        void *made = NULL;
        piece[i].bytes = splitmix_next(&random) % 20000;
        if (leat_nvshmem_alloc(fake.job, piece[i].bytes, &made))
            continue;
        piece[i].at = made;
        assert_int_equal((piece[i].at - (unsigned char *)fake.nvshmem.heap) % HEAP_ALIGN, 0);
        for (uint64_t b = 0; b < piece[i].bytes; b++)
            assert_int_equal(piece[i].at[b], 0);
        memset(piece[i].at, (int)i + 1, piece[i].bytes);
    }
    for (size_t i = 0; i < PIECES; i++)
        if (piece[i].at)
            leat_nvshmem_free(fake.job, piece[i].at, piece[i].bytes);
    end(&fake);
}

static void test_a_full_heap_names_what_makes_it_larger(void **state)
{
    (void)state;
    struct fake fake;
    void *all = NULL, *more = &fake;
    begin(&fake);
    assert_int_equal(leat_nvshmem_alloc(fake.job, FAKE_BYTES, &all), 0);
    assert_int_equal(leat_nvshmem_alloc(fake.job, 1, &more), -ENOMEM);
    assert_ptr_equal(more, &fake);
    assert_non_null(strstr(leat_error_detail(), "NVSHMEM_SYMMETRIC_SIZE"));
    leat_nvshmem_free(fake.job, all, FAKE_BYTES);
    assert_int_equal(leat_nvshmem_alloc(fake.job, UINT64_MAX, &more), -ENOMEM);
    end(&fake);
}

static void test_the_heap_is_what_the_user_gave_less_nvshmems_own(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } given[] = {
        {"128M", UINT64_C(64) << 20},
        {"2g", (UINT64_C(2) << 30) - HEAP_OWN},
        {"1073741824", (UINT64_C(1) << 30) - HEAP_OWN},
        {"1.5G", (UINT64_C(3) << 29) - HEAP_OWN},
        {"1M", UINT64_C(1) << 19},
        {"much", HEAP_BYTES},
        {"-3", HEAP_BYTES},
        {"", HEAP_BYTES},
        {NULL, HEAP_BYTES},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i].text)
            setenv("NVSHMEM_SYMMETRIC_SIZE", given[i].text, 1);
        else
            unsetenv("NVSHMEM_SYMMETRIC_SIZE");
        assert_int_equal(heap_bytes(), given[i].bytes);
    }
}

// A region lies elsewhere in its owner's heap than what is at the same place of ours.
static void test_a_peers_region_is_found_by_its_place_in_the_heap(void **state)
{
    (void)state;
    struct fake fake;
    static char there[2048];
    begin(&fake);
    struct leat_region view = {.job = fake.job, .bytes = 32};
    view.remote = fake.job->arena.head->symmetric + 1024;
    assert_ptr_equal(leat_nvshmem_symmetric(&view, 16), fake.nvshmem.heap + 1040);
    fake_there = there;
    fake.job->rank = 1; // whose own heap is not asked for
    assert_true(leat_nvshmem_stores(fake.job, 1));
    fake.job->rank = 0;
    assert_true(leat_nvshmem_stores(fake.job, 1));
    fake.nvshmem.puts = true;
    assert_false(leat_nvshmem_stores(fake.job, 1));
    fake.nvshmem.puts = false;
    fake_there = NULL;
    assert_false(leat_nvshmem_stores(fake.job, 1));
    end(&fake);
}

static int no_region(struct device *device, uint64_t bytes, void **address)
{
    (void)device;
    (void)bytes;
    *address = NULL;
    return -ENOMEM;
}

static void test_the_path_says_why_it_is_not_taken(void **state)
{
    (void)state;
    char why[LEAT_DETAIL_BYTES], reason[LEAT_REASON];
    leat_job *jobs[2];
    leat_options options = {.size = sizeof options, .arena_bytes = 64 << 20, .thread_ranks = 2};
    assert_int_equal(leat_open(&options, jobs), 0);
    why_not(jobs[0], why, sizeof why);
    assert_non_null(strstr(why, "CPU device"));
    const struct device_ops *own = jobs[0]->device->ops;
    struct device_ops ops = *own;
    ops.region_alloc = no_region;
    jobs[0]->device->ops = &ops;
    why_not(jobs[0], why, sizeof why);
    assert_non_null(strstr(why, "threads"));
    assert_int_equal(can_reach(jobs[0], 1, REGION_DEVICE, reason), -EHOSTUNREACH);
    assert_string_equal(reason, why);
    assert_int_equal(can_reach(jobs[0], 1, REGION_ARENA, reason), -EHOSTUNREACH);
    jobs[0]->device->ops = own;
    leat_close(jobs[0], NULL);
    leat_close(jobs[1], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_of_the_heap_are_zero_and_never_overlap),
        cmocka_unit_test(test_a_full_heap_names_what_makes_it_larger),
        cmocka_unit_test(test_the_heap_is_what_the_user_gave_less_nvshmems_own),
        cmocka_unit_test(test_a_peers_region_is_found_by_its_place_in_the_heap),
        cmocka_unit_test(test_the_path_says_why_it_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
