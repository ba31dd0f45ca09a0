// SPDX-License-Identifier: Apache-2.0
// Messages at every threshold of the engine, received into as many bytes, fewer, or more; expected
// or not; and in order whatever their ways.
//
// Each case runs over several networks, once before rings are granted and once by ring. Advantage:
// exhaustive over the thresholds. Disadvantage: two ranks, one message at a time.

#include "support/crowd.h"
#include "support/crowd_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct way {
    const char *name;
    struct memory_options net;
};

#define QUEUE_AND_DELAY .rank_count = 3, .queue_packets = 32, .delay_ns = 500, .seed = 7

static const struct way ways[] = {
    {"puts, gets later", {QUEUE_AND_DELAY, .finish_later = MEMORY_ALL}},
    {"puts, gets at once", {QUEUE_AND_DELAY}},
    {"puts, no gets", {QUEUE_AND_DELAY, .no_get = MEMORY_ALL}},
    {"puts, memory cannot be shown", {QUEUE_AND_DELAY, .no_expose = MEMORY_ALL}},
    {"mapped", {QUEUE_AND_DELAY, .map = true, .map_exposed = MEMORY_ALL}},
    {"mapped rings, copies", {QUEUE_AND_DELAY, .map = true}},
    {"mapped rings, no puts", {QUEUE_AND_DELAY, .map = true, .no_put = MEMORY_ALL}},
    {"mapped rings, no copies",
     {QUEUE_AND_DELAY, .map = true, .no_get = MEMORY_ALL, .no_put = MEMORY_ALL}},
    {"mapped rings, memory cannot be shown",
     {QUEUE_AND_DELAY, .map = true, .no_expose = MEMORY_ALL}},
};

#define WAYS (sizeof ways / sizeof ways[0])

static struct crowd *begin(const struct way *way, bool by_ring)
{
    struct msg_tuning tuning = crowd_tuning();
    if (!by_ring)
        tuning.promote_after = UINT32_MAX;
    struct crowd *crowd = crowd_new(&way->net, &tuning);
    for (int rank = 0; rank < 3; rank++)
        crowd_rank(crowd, rank);
    // Enough for a ring to be granted.
    for (int n = 0; n < 6; n++) {
        crowd_send(crowd, 0, 1, (struct crowd_message){.tag = 1, .bytes = 8});
        crowd_receive(crowd, 1, 0, (struct crowd_message){.tag = 1, .bytes = 8});
        crowd_settle(crowd);
    }
    struct msg_counts counts = {0};
    crowd_add_counts(crowd, &counts);
    assert_int_equal(counts.promoted, by_ring ? 1 : 0);
    return crowd;
}

static void end(struct crowd *crowd, const char *name)
{
    crowd_drain(crowd);
    const char *failure = crowd_failure(crowd);
    if (failure)
        fail_msg("%s: %s", name, failure);
    assert_int_equal(crowd->judged, crowd->sent);
    char *misuse = crowd_free(crowd);
    if (misuse)
        fail_msg("%s, at the end: %s", name, misuse);
}

// One message; everything that follows from it happens.
static void one(struct crowd *crowd, struct crowd_message message, uint64_t room, bool expected,
                const char *name)
{
    struct crowd_message wanted = message;
    wanted.bytes = room;
    if (expected) {
        crowd_receive(crowd, 1, 0, wanted);
        crowd_settle(crowd);
    }
    crowd_send(crowd, 0, 1, message);
    crowd_settle(crowd);
    if (!expected) {
        crowd_receive(crowd, 1, 0, wanted);
        crowd_settle(crowd);
    }
    crowd_collect(crowd, 0);
    crowd_collect(crowd, 1);
    const char *failure = crowd_failure(crowd);
    if (!failure && (crowd_rank(crowd, 0)->sends || crowd_rank(crowd, 1)->receive))
        failure = "not finished";
    if (failure)
        fail_msg("%s, %llu bytes%s%s into %llu, %s: %s", name, (unsigned long long)message.bytes,
                 message.synchronous ? ", synchronous" : "", message.strided ? ", strided" : "",
                 (unsigned long long)room, expected ? "expected" : "unexpected", failure);
}

static void all_rooms(struct crowd *crowd, struct crowd_message message, const char *name)
{
    uint64_t size = message.bytes;
    const uint64_t room[] = {size, size + 1, size ? size - 1 : 0, size / 2, 0};
    for (size_t r = 0; r < sizeof room / sizeof room[0]; r++)
        for (int expected = 0; expected < 2; expected++)
            one(crowd, message, room[r], expected, name);
}

static void test_every_size_into_every_room(void **state)
{
    (void)state;
    for (size_t w = 0; w < WAYS; w++)
        for (int by_ring = 0; by_ring < 2; by_ring++) {
            struct crowd *crowd = begin(&ways[w], by_ring);
            uint64_t limit[16];
            int count = crowd_limits(&crowd->tuning, limit);
            all_rooms(crowd, (struct crowd_message){.tag = 1}, ways[w].name);
            for (int k = 0; k < 3 * count; k++)
                for (int kind = 0; kind < 4; kind++)
                    all_rooms(crowd,
                              (struct crowd_message){.tag = 1,
                                                     .bytes = limit[k / 3] + (uint64_t)(k % 3) - 1,
                                                     .synchronous = kind & 1,
                                                     .strided = kind & 2},
                              ways[w].name);
            end(crowd, ways[w].name);
        }
}

// Small, eager and announced messages of one sender, received in the order in which they were sent.
static void test_order_is_kept_across_ways(void **state)
{
    (void)state;
    static const uint64_t size[] = {0, 8, 100, 90000, 2999, 16, 5000, 480, 20000, 3001, 1};
    for (size_t w = 0; w < WAYS; w++)
        for (int how = 0; how < 4; how++) {
            struct crowd *crowd = begin(&ways[w], how & 1);
            for (int n = 0; n < 300; n++) {
                uint64_t bytes = size[(uint64_t)n * 7 % (sizeof size / sizeof size[0])];
                struct crowd_message message = {.tag = 2, .bytes = bytes};
                if (how & 2)
                    crowd_receive(crowd, 1, n % 2 ? 0 : LEAT_ANY_RANK, message);
                crowd_send(crowd, 0, 1, message);
                if (n % 10 == 0)
                    crowd_step(crowd);
            }
            for (int n = 0; !(how & 2) && n < 300; n++) {
                uint64_t bytes = size[(uint64_t)n * 7 % (sizeof size / sizeof size[0])];
                crowd_receive(crowd, 1, n % 2 ? 0 : LEAT_ANY_RANK,
                              (struct crowd_message){.tag = 2, .bytes = bytes});
                if (n % 10 == 0)
                    crowd_step(crowd);
            }
            end(crowd, ways[w].name);
        }
}

static void test_synchronous_send_ends_with_its_match(void **state)
{
    (void)state;
    for (size_t w = 0; w < WAYS; w++)
        for (int by_ring = 0; by_ring < 2; by_ring++) {
            struct crowd *crowd = begin(&ways[w], by_ring);
            const uint64_t size[] = {0, 8, 400, 2000, 50000};
            for (size_t s = 0; s < sizeof size / sizeof size[0]; s++) {
                struct crowd_message message = {.tag = 3, .bytes = size[s], .synchronous = true};
                crowd_send(crowd, 0, 1, message);
                crowd_settle(crowd);
                crowd_collect(crowd, 0);
                assert_non_null(crowd_rank(crowd, 0)->sends); // nobody has matched it
                crowd_receive(crowd, 1, 0, message);
                crowd_settle(crowd);
                crowd_collect(crowd, 0);
                assert_null(crowd_rank(crowd, 0)->sends);
            }
            end(crowd, ways[w].name);
        }
}

static void test_a_probe_takes_out_only_what_it_should(void **state)
{
    (void)state;
    const uint64_t size[] = {0, 8, 400, 2000, 50000};
    for (size_t w = 0; w < WAYS; w++) {
        struct crowd *crowd = begin(&ways[w], true);
        for (size_t s = 0; s < sizeof size / sizeof size[0]; s++) {
            struct crowd_message message = {.tag = 4, .bytes = size[s]};
            struct crowd_message other = {.tag = 5, .bytes = 3};
            assert_false(crowd_probe(crowd, 1, 0, message, false));
            crowd_send(crowd, 0, 1, other);
            crowd_send(crowd, 0, 1, message);
            crowd_settle(crowd);
            assert_false(crowd_probe(crowd, 1, 2, message, false));
            assert_true(crowd_probe(crowd, 1, 0, message, false));
            assert_true(crowd_probe(crowd, 1, LEAT_ANY_RANK, message, false));
            assert_true(crowd_probe(crowd, 1, 0, message, true));
            assert_false(crowd_probe(crowd, 1, 0, message, true));
            crowd_receive(crowd, 1, 0, other);
            crowd_settle(crowd);
        }
        end(crowd, ways[w].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_into_every_room),
        cmocka_unit_test(test_order_is_kept_across_ways),
        cmocka_unit_test(test_synchronous_send_ends_with_its_match),
        cmocka_unit_test(test_a_probe_takes_out_only_what_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
