// SPDX-License-Identifier: Apache-2.0
// The message layer's pools: nothing passes a limit, everything is counted, and slabs give distinct
// zeroed objects for as long as their pool lasts, and not one more.

#include "msg/pool.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOMY (1ull << 30)

static struct msg_pools pools_of(uint64_t limit, uint64_t budget)
{
    struct msg_pools pools = {.budget = budget};
    for (int id = 0; id < POOL_COUNT; id++)
        pools.pool[id].limit = limit;
    return pools;
}

static void assert_nothing_used(const struct msg_pools *pools)
{
    assert_int_equal(pools->used, 0);
    for (int id = 0; id < POOL_COUNT; id++)
        assert_int_equal(pools->pool[id].used, 0);
}

static void test_an_allocation_is_zeroed_and_counted_with_what_the_heap_takes(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, ROOMY);
    for (uint64_t bytes = 0; bytes < 400000; bytes += bytes < 600 ? 1 : 1021) {
        unsigned char *memory = msg_alloc(&pools, POOL_WORK, bytes);
        assert_non_null(memory);
        for (uint64_t i = 0; i < bytes; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xa5, (size_t)bytes); // what is given next has to be zeroed again
        assert_true(pools.used >= malloc_usable_size(memory) + sizeof(size_t));
        assert_int_equal(pools.pool[POOL_WORK].used, pools.used);
        msg_free(&pools, POOL_WORK, memory, bytes);
        assert_nothing_used(&pools);
    }
}

static void test_a_pool_is_filled_to_its_limit_and_not_beyond(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(10 * msg_heap_bytes(1000), ROOMY);
    void *memory[10];
    for (int i = 0; i < 10; i++)
        assert_non_null(memory[i] = msg_alloc(&pools, POOL_RINGS, 1000));
    assert_int_equal(pools.pool[POOL_RINGS].used, pools.pool[POOL_RINGS].limit);
    assert_null(msg_alloc(&pools, POOL_RINGS, 0));
    assert_int_equal(msg_charge(&pools, POOL_RINGS, 1), -ENOBUFS);
    void *other = msg_alloc(&pools, POOL_STAGING, 1000); // room of its own
    assert_non_null(other);
    msg_free(&pools, POOL_STAGING, other, 1000);
    msg_free(&pools, POOL_RINGS, memory[9], 1000);
    assert_non_null(memory[9] = msg_alloc(&pools, POOL_RINGS, 1000));
    for (int i = 0; i < 10; i++)
        msg_free(&pools, POOL_RINGS, memory[i], 1000);
    assert_nothing_used(&pools);
}

static void test_the_budget_holds_where_the_limits_would_not(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, 1000);
    assert_int_equal(msg_charge(&pools, POOL_QUEUE, 600), 0);
    assert_int_equal(msg_charge(&pools, POOL_PEERS, 401), -ENOBUFS);
    assert_int_equal(pools.pool[POOL_PEERS].used, 0);
    assert_int_equal(msg_charge(&pools, POOL_PEERS, 400), 0);
    assert_null(msg_alloc(&pools, POOL_WORK, 1));
    assert_int_equal(pools.used, 1000);
}

static void test_the_peak_stays_when_memory_goes(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, ROOMY);
    assert_int_equal(msg_charge(&pools, POOL_QUEUE, 700), 0);
    msg_discharge(&pools, POOL_QUEUE, 700);
    assert_int_equal(msg_charge(&pools, POOL_BYTES, 300), 0);
    assert_int_equal(pools.pool[POOL_QUEUE].peak, 700);
    assert_int_equal(pools.pool[POOL_BYTES].peak, 300);
    assert_int_equal(pools.peak, 700);
    assert_int_equal(msg_charge(&pools, POOL_BYTES, ROOMY), -ENOBUFS);
    assert_int_equal(pools.peak, 700); // what was refused was never there
}

static void test_sizes_that_would_wrap_are_refused(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(UINT64_MAX - 4096, UINT64_MAX - 4096);
    assert_int_equal(msg_charge(&pools, POOL_WORK, 4096), 0);
    for (uint64_t less = 0; less < 64; less++) {
        assert_null(msg_alloc(&pools, POOL_WORK, UINT64_MAX - less));
        assert_int_equal(msg_charge(&pools, POOL_WORK, UINT64_MAX - less), -ENOBUFS);
    }
    assert_int_equal(pools.used, 4096);
    msg_free(&pools, POOL_WORK, NULL, 4096);
    assert_int_equal(pools.used, 4096);
}

static void test_every_pool_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < POOL_COUNT; i++) {
        assert_non_null(msg_pool_names[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(msg_pool_names[i], msg_pool_names[j]);
    }
}

// Each object is filled with its own number, so two that overlap are seen.
static void test_a_slab_gives_distinct_zeroed_objects_that_stay_in_place(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 4, 40, 48, 96, 128, 1000, 4096, 5000, 20000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct msg_pools pools = pools_of(ROOMY, ROOMY);
        struct msg_slab slab;
        msg_slab_open(&slab, &pools, POOL_PEERS, sizes[s]);
        assert_nothing_used(&pools);
        enum { COUNT = 300 };
        uint32_t index[COUNT];
        unsigned char *at[COUNT];
        for (int i = 0; i < COUNT; i++) {
            index[i] = msg_slab_take(&slab);
            assert_int_not_equal(index[i], 0);
            at[i] = msg_slab_at(&slab, index[i]);
            assert_int_equal((uintptr_t)at[i] % 8, 0);
            for (uint32_t b = 0; b < sizes[s]; b++)
                assert_int_equal(at[i][b], 0);
            memset(at[i], 1 + i % 251, sizes[s]);
        }
        assert_int_equal(slab.live, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_ptr_equal(msg_slab_at(&slab, index[i]), at[i]);
            for (uint32_t b = 0; b < sizes[s]; b++)
                assert_int_equal(at[i][b], 1 + i % 251);
        }
        msg_slab_close(&slab);
        assert_nothing_used(&pools);
    }
}

static void test_what_is_given_back_is_given_again_zeroed_and_without_growing(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, ROOMY);
    struct msg_slab slab;
    msg_slab_open(&slab, &pools, POOL_HEADERS, 96);
    uint32_t index[500];
    for (int i = 0; i < 500; i++)
        index[i] = msg_slab_take(&slab);
    uint64_t used = pools.used;
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < 500; i += 2) {
            memset(msg_slab_at(&slab, index[i]), 0xff, 96);
            msg_slab_give(&slab, index[i]);
        }
        for (int i = round; i < 500; i += 2) {
            index[i] = msg_slab_take(&slab);
            assert_int_not_equal(index[i], 0);
            unsigned char zero[96] = {0};
            assert_memory_equal(msg_slab_at(&slab, index[i]), zero, sizeof zero);
        }
        assert_int_equal(pools.used, used);
    }
    msg_slab_give(&slab, 0); // no object, and no harm
    assert_int_equal(slab.live, 500);
    msg_slab_close(&slab);
    assert_nothing_used(&pools);
}

static void test_a_full_pool_gives_no_object_until_one_comes_back(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(40000, ROOMY);
    struct msg_slab slab;
    msg_slab_open(&slab, &pools, POOL_BYTES, 128);
    uint32_t index, one = 0, count = 0;
    while ((index = msg_slab_take(&slab)) != 0) {
        one = index;
        count++;
        assert_true(pools.pool[POOL_BYTES].used <= 40000);
    }
    assert_true(count * 128 > 40000 - 2 * 8192); // all but the page that does not fit
    struct msg_pools before = pools;
    assert_int_equal(msg_slab_take(&slab), 0);
    assert_memory_equal(&pools, &before, sizeof pools);
    msg_slab_give(&slab, one);
    assert_int_equal(msg_slab_take(&slab), one);
    assert_int_equal(msg_slab_take(&slab), 0);
    msg_slab_close(&slab);
    assert_nothing_used(&pools);
}

// Whatever the limit and what was taken before: as many as are said to fit can be taken.
static void test_fits_says_exactly_how_many_objects_can_be_taken(void **state)
{
    (void)state;
    for (uint64_t limit = 0; limit < 150000; limit += 1009) {
        bool by_budget = limit % 2;
        struct msg_pools pools = by_budget ? pools_of(ROOMY, limit) : pools_of(limit, ROOMY);
        struct msg_slab slab;
        msg_slab_open(&slab, &pools, POOL_BYTES, limit % 3 ? 128 : 40);
        for (uint64_t i = 0; i < limit / 300; i++)
            if (!msg_slab_take(&slab))
                break;
        uint64_t low = 0, high = 100000; // fits, does not fit
        while (high - low > 1) {
            uint64_t middle = (low + high) / 2;
            struct msg_pools trial = pools;
            *(msg_slab_fits(&slab, middle, &trial) ? &low : &high) = middle;
        }
        uint64_t taken = 0;
        while (msg_slab_take(&slab))
            taken++;
        assert_int_equal(taken, low);
        struct msg_pools trial = pools;
        assert_false(msg_slab_fits(&slab, UINT64_MAX, &trial));
        assert_false(msg_slab_fits(&slab, UINT32_MAX, &trial));
        msg_slab_close(&slab);
        assert_nothing_used(&pools);
    }
}

static void test_fits_adds_up_over_slabs_of_one_budget(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, 60000);
    struct msg_slab slab[2];
    msg_slab_open(&slab[0], &pools, POOL_HEADERS, 96);
    msg_slab_open(&slab[1], &pools, POOL_BYTES, 128);
    struct msg_pools trial = pools;
    assert_true(msg_slab_fits(&slab[0], 300, &trial));
    trial = pools;
    assert_true(msg_slab_fits(&slab[1], 300, &trial));
    assert_false(msg_slab_fits(&slab[0], 300, &trial));
    assert_nothing_used(&pools); // asking takes nothing
    msg_slab_close(&slab[0]);
    msg_slab_close(&slab[1]);
}

static void test_a_chain_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(40000, ROOMY);
    struct msg_slab slab;
    msg_slab_open(&slab, &pools, POOL_BYTES, 128);
    uint32_t last = 0, count = 0;
    uint32_t first = msg_slab_take_chain(&slab, 200, &last);
    assert_int_not_equal(first, 0);
    for (uint32_t at = first, next; at; at = next) {
        memcpy(&next, msg_slab_at(&slab, at), sizeof next);
        assert_true(next || at == last);
        count++;
    }
    assert_int_equal(count, 200);
    assert_int_equal(slab.live, 200);
    struct msg_pools before = pools;
    uint32_t other = 77;
    assert_int_equal(msg_slab_take_chain(&slab, 200, &other), 0);
    assert_int_equal(msg_slab_take_chain(&slab, UINT32_MAX, &other), 0);
    assert_int_equal(msg_slab_take_chain(&slab, 0, &other), 0);
    assert_int_equal(other, 77);
    assert_memory_equal(&pools, &before, sizeof pools);
    msg_slab_give_chain(&slab, first, last, 200);
    assert_int_equal(slab.live, 0);
    assert_int_not_equal(msg_slab_take_chain(&slab, 200, &last), 0);
    assert_int_equal(pools.used, before.used);
    msg_slab_close(&slab);
    assert_nothing_used(&pools);
}

// With 8 bytes a record left for the index that finds it, a peer in use costs 64 bytes.
static void test_a_hundred_thousand_records_cost_little_more_than_themselves(void **state)
{
    (void)state;
    struct msg_pools pools = pools_of(ROOMY, ROOMY);
    struct msg_slab slab;
    msg_slab_open(&slab, &pools, POOL_PEERS, 48);
    for (int i = 0; i < 100000; i++)
        assert_int_not_equal(msg_slab_take(&slab), 0);
    assert_true(pools.pool[POOL_PEERS].peak <= 49 * 100000);
    msg_slab_close(&slab);
    assert_nothing_used(&pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_allocation_is_zeroed_and_counted_with_what_the_heap_takes),
        cmocka_unit_test(test_a_pool_is_filled_to_its_limit_and_not_beyond),
        cmocka_unit_test(test_the_budget_holds_where_the_limits_would_not),
        cmocka_unit_test(test_the_peak_stays_when_memory_goes),
        cmocka_unit_test(test_sizes_that_would_wrap_are_refused),
        cmocka_unit_test(test_every_pool_has_a_name_of_its_own),
        cmocka_unit_test(test_a_slab_gives_distinct_zeroed_objects_that_stay_in_place),
        cmocka_unit_test(test_what_is_given_back_is_given_again_zeroed_and_without_growing),
        cmocka_unit_test(test_a_full_pool_gives_no_object_until_one_comes_back),
        cmocka_unit_test(test_fits_says_exactly_how_many_objects_can_be_taken),
        cmocka_unit_test(test_fits_adds_up_over_slabs_of_one_budget),
        cmocka_unit_test(test_a_chain_is_taken_whole_or_not_at_all),
        cmocka_unit_test(test_a_hundred_thousand_records_cost_little_more_than_themselves),
    };
    return cmocka_run_group_tests_name("msg_pool", tests, NULL, NULL);
}
