// SPDX-License-Identifier: Apache-2.0
// The matcher's bins stay short whatever waits and however alike the keys are, and what has room is
// foretold for several messages too.

#include "msg/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 100000

static struct msg_envelope tagged(int tag)
{
    return (struct msg_envelope){.context = 2, .source = 3, .tag = tag, .bytes = 8};
}

static uint32_t longest_unexpected_bin(const struct msg_matcher *matcher)
{
    uint32_t longest = 0;
    for (uint32_t bin = 0; bin < 1u << matcher->unexpected_bits; bin++) {
        uint32_t length = 0;
        for (uint32_t at = matcher->unexpected_bin[bin].head; at; length++) {
            const struct msg_unexpected *message = msg_slab_at(&matcher->headers, at);
            at = message->bin_next;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

static uint32_t longest_posted_bin(const struct msg_matcher *matcher)
{
    uint32_t longest = 0;
    for (uint32_t bin = 0; bin < 1u << matcher->posted_bits; bin++) {
        uint32_t length = 0;
        const struct msg_request *at = matcher->posted_bin[bin].head;
        for (; at; at = at->bin_next)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void open_roomy(struct msg_matcher *matcher, struct msg_pools *pools)
{
    *pools = (struct msg_pools){.budget = 64 << 20};
    pools->pool[POOL_HEADERS].limit = pools->pool[POOL_BYTES].limit = 32 << 20;
    msg_match_open(matcher, pools);
}

// Were a bin to grow with what waits, taking the newest first would walk all of it each time.
static void test_many_unexpected_messages_taken_in_reversed_order(void **state)
{
    (void)state;
    static struct msg_pools pools;
    static struct msg_matcher matcher;
    open_roomy(&matcher, &pools);
    for (int tag = 0; tag < MANY; tag++) {
        struct msg_envelope envelope = tagged(tag);
        assert_null(msg_match_arrival(&matcher, &envelope));
        struct msg_unexpected *message = msg_match_add(&matcher, &envelope);
        assert_non_null(message);
        uint64_t bytes = (uint64_t)tag;
        assert_int_equal(msg_match_store(&matcher, message, &bytes, sizeof bytes), 0);
    }
    assert_true(longest_unexpected_bin(&matcher) <= 8);
    for (int tag = MANY - 1; tag >= 0; tag--) {
        struct msg_unexpected *message = msg_match_find(&matcher, 2, 3, tag);
        assert_non_null(message);
        assert_int_equal(message->envelope.tag, tag);
        uint32_t cell = 0;
        const void *piece = NULL;
        uint64_t bytes;
        assert_int_equal(msg_match_piece(&matcher, message, &cell, &piece), sizeof bytes);
        memcpy(&bytes, piece, sizeof bytes);
        assert_int_equal(bytes, tag);
        msg_match_take(&matcher, message);
        msg_match_drop(&matcher, message);
    }
    msg_match_close(&matcher);
    assert_int_equal(pools.used, 0);
}

static void test_many_posted_receives_matched_in_reversed_order(void **state)
{
    (void)state;
    static struct msg_pools pools;
    static struct msg_matcher matcher;
    open_roomy(&matcher, &pools);
    struct msg_request *request = calloc(MANY, sizeof *request);
    assert_non_null(request);
    for (int tag = 0; tag < MANY; tag++) {
        request[tag].context = 2;
        request[tag].peer = 3;
        request[tag].tag = tag;
        msg_match_post(&matcher, &request[tag]);
    }
    assert_true(longest_posted_bin(&matcher) <= 8);
    for (int tag = MANY - 1; tag >= 0; tag--) {
        struct msg_envelope envelope = tagged(tag);
        assert_ptr_equal(msg_match_arrival(&matcher, &envelope), &request[tag]);
    }
    assert_int_equal(matcher.posted_count, 0);
    msg_match_close(&matcher);
    assert_int_equal(pools.used, 0);
    free(request);
}

// Ranks, tags and communicators that differ little, as those of real programs do.
static void test_keys_alike_are_spread_over_the_bins(void **state)
{
    (void)state;
    static struct msg_pools pools;
    static struct msg_matcher matcher;
    static const int32_t strides[][3] = {{1, 1, 1},     {2, 1, 0},        {0, 1, 16},
                                         {0, 64, 4096}, {2, 1024, 65536}, {0, 16, 1 << 20}};
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
        open_roomy(&matcher, &pools);
        for (int i = 0; i < 32; i++) {
            for (int j = 0; j < 64; j++) {
                struct msg_envelope envelope = {.context = (uint32_t)(strides[s][0] * i),
                                                .source = strides[s][1] * j,
                                                .tag = strides[s][2] * i};
                assert_null(msg_match_arrival(&matcher, &envelope));
                assert_non_null(msg_match_add(&matcher, &envelope));
            }
        }
        assert_true(longest_unexpected_bin(&matcher) <= 12);
        msg_match_close(&matcher);
    }
}

// Longer bins are better than no envelopes.
static void test_bins_leave_most_of_a_small_pool_to_envelopes(void **state)
{
    (void)state;
    static struct msg_pools pools;
    static struct msg_matcher matcher;
    enum { LIMIT = 40000 };
    pools = (struct msg_pools){.budget = 64 << 20};
    pools.pool[POOL_HEADERS].limit = LIMIT;
    msg_match_open(&matcher, &pools);
    struct msg_request *request = calloc(MANY, sizeof *request);
    assert_non_null(request);
    for (int tag = 0; tag < MANY; tag++) {
        request[tag].context = 2;
        request[tag].peer = 3;
        request[tag].tag = tag;
        msg_match_post(&matcher, &request[tag]);
    }
    assert_true(matcher.posted_bits > 6);
    assert_true(pools.used <= LIMIT / 8);
    struct msg_envelope envelope = {.context = 1};
    uint64_t count = 0;
    do
        assert_null(msg_match_arrival(&matcher, &envelope));
    while (msg_match_add(&matcher, &envelope) && ++count);
    assert_true(count * sizeof(struct msg_unexpected) > LIMIT * 3 / 4 - 8192);
    envelope = tagged(MANY - 1);
    assert_ptr_equal(msg_match_arrival(&matcher, &envelope), &request[MANY - 1]);
    msg_match_close(&matcher);
    assert_int_equal(pools.used, 0);
    free(request);
}

// However bins grow meanwhile.
static void test_room_for_several_messages_is_room_for_each(void **state)
{
    (void)state;
    enum { SEVERAL = 40 };
    for (uint64_t limit = 10000; limit < 120000; limit += 3001) {
        static struct msg_pools pools;
        static struct msg_matcher matcher;
        static const uint8_t bytes[480];
        pools = (struct msg_pools){.budget = 1 << 20};
        pools.pool[POOL_HEADERS].limit = limit % 2 ? 1 << 16 : limit / 2;
        pools.pool[POOL_BYTES].limit = limit % 2 ? limit : 1 << 18;
        msg_match_open(&matcher, &pools);
        int tag = 0, refused = 0;
        while (!refused) {
            bool room = msg_match_has_room_for(&matcher, SEVERAL, sizeof bytes);
            for (int i = 0; i < SEVERAL && !refused; i++) {
                struct msg_envelope envelope = tagged(tag++);
                struct msg_unexpected *message = msg_match_add(&matcher, &envelope);
                refused = !message || msg_match_store(&matcher, message, bytes, sizeof bytes);
            }
            assert_int_equal(refused, !room);
        }
        assert_false(msg_match_has_room_for(&matcher, UINT64_MAX / 2, UINT64_MAX));
        assert_false(msg_match_has_room_for(&matcher, 1, UINT64_MAX));
        msg_match_close(&matcher);
        assert_int_equal(pools.used, 0);
    }
}

// Where one budget is less than the limits, bins may not take what a message was promised.
static void test_bins_take_no_room_that_was_promised(void **state)
{
    (void)state;
    for (uint64_t budget = 15000; budget < 45000; budget += 61) {
        static struct msg_pools pools;
        static struct msg_matcher matcher;
        static const uint8_t bytes[100];
        pools = (struct msg_pools){.budget = budget};
        pools.pool[POOL_HEADERS].limit = pools.pool[POOL_BYTES].limit = 1 << 16;
        msg_match_open(&matcher, &pools);
        for (int tag = 0, refused = 0; !refused; tag++) {
            // Without bytes for the first, a page of cells and more bins are due with the same one.
            uint64_t length = tag ? sizeof bytes : 0;
            bool room = msg_match_has_room(&matcher, length);
            struct msg_envelope envelope = tagged(tag);
            struct msg_unexpected *message = msg_match_add(&matcher, &envelope);
            refused = !message || msg_match_store(&matcher, message, bytes, length);
            assert_int_equal(refused, !room);
        }
        msg_match_close(&matcher);
        assert_int_equal(pools.used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_unexpected_messages_taken_in_reversed_order),
        cmocka_unit_test(test_many_posted_receives_matched_in_reversed_order),
        cmocka_unit_test(test_keys_alike_are_spread_over_the_bins),
        cmocka_unit_test(test_bins_leave_most_of_a_small_pool_to_envelopes),
        cmocka_unit_test(test_bins_take_no_room_that_was_promised),
        cmocka_unit_test(test_room_for_several_messages_is_room_for_each),
    };
    return cmocka_run_group_tests_name("msg_bins", tests, NULL, NULL);
}
