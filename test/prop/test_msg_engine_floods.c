// SPDX-License-Identifier: Apache-2.0
// Messages that nobody has asked for yet, more than memory allows: senders wait, nothing is lost,
// nothing overtakes, the pools stay within the budget; and a later tag is found behind them.
//
// LEAT_LONG=1 makes a million messages. Advantage: every bound of the engine is reached, none of
// them by luck. Disadvantage: requests are the caller's, so a long run takes its memory too.

#include "support/crowd.h"
#include "support/crowd_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct flood {
    int senders;
    uint32_t count; /* of each sender */
    uint64_t bytes;
    bool map;
    bool asleep; /* the receiver makes no progress meanwhile */
    uint32_t promote_after;
    uint64_t extra_bytes; /* beyond the smallest budget */
};

static uint32_t scaled(uint32_t few, uint32_t many)
{
    return getenv("LEAT_LONG") ? many : few;
}

static struct crowd *begin(const struct flood *flood)
{
    struct msg_tuning tuning = crowd_tuning();
    tuning.promote_after = flood->promote_after;
    struct memory_options net = {.rank_count = flood->senders + 1,
                                 .seed = 5,
                                 .queue_packets = 64,
                                 .delay_ns = 300,
                                 .map = flood->map,
                                 .map_exposed = flood->map ? MEMORY_ALL : MEMORY_NONE};
    tuning.budget_bytes = crowd_smallest_budget(&net, &tuning) + flood->extra_bytes;
    struct crowd *crowd = crowd_new(&net, &tuning);
    for (int rank = 0; rank < net.rank_count; rank++)
        crowd_rank(crowd, rank);
    return crowd;
}

static void no_failure(struct crowd *crowd)
{
    const char *failure = crowd_failure(crowd);
    if (failure)
        fail_msg("%s", failure);
}

static void end(struct crowd *crowd)
{
    crowd_drain(crowd);
    no_failure(crowd);
    assert_int_equal(crowd->judged, crowd->sent);
    char *misuse = crowd_free(crowd);
    if (misuse)
        fail_msg("at the end: %s", misuse);
}

static void send_all(struct crowd *crowd, const struct flood *flood)
{
    for (uint32_t n = 0; n < flood->count; n++)
        for (int from = 1; from <= flood->senders; from++) {
            crowd_send(crowd, from, 0, (struct crowd_message){.tag = 1, .bytes = flood->bytes});
            if (n % 16 == 0)
                crowd_progress(crowd, from);
        }
}

static void receive_all(struct crowd *crowd, const struct flood *flood)
{
    for (uint32_t n = 0; n < flood->count && !crowd_failure(crowd); n++) {
        for (int from = 1; from <= flood->senders; from++)
            crowd_receive(
                crowd, 0, n % 3 ? from : LEAT_ANY_RANK,
                (struct crowd_message){.tag = n % 2 ? 1 : LEAT_ANY_TAG, .bytes = flood->bytes});
        if (n % 64 == 0) {
            crowd_settle(crowd);
            crowd_collect(crowd, 0);
        }
    }
}

static void run_flood(const struct flood *flood)
{
    struct crowd *crowd = begin(flood);
    send_all(crowd, flood);
    for (int n = 0; flood->asleep && n < 2000; n++)
        for (int from = 1; from <= flood->senders; from++)
            crowd_progress(crowd, from);
    crowd_settle(crowd);
    no_failure(crowd);
    const struct msg_engine *engine = crowd_rank(crowd, 0)->engine;
    uint64_t all = (uint64_t)flood->senders * flood->count, kept = engine->matcher.unexpected_count;
    assert_true(kept > 0 && kept < all); // some are here, the rest with their senders
    assert_true(engine->pools.peak <= crowd->tuning.budget_bytes);
    receive_all(crowd, flood);
    end(crowd);
}

static void test_flood_by_queue(void **state)
{
    (void)state;
    run_flood(&(struct flood){.senders = 1,
                              .count = scaled(20000, 1000000),
                              .bytes = 64,
                              .promote_after = UINT32_MAX,
                              .extra_bytes = 200 << 10});
}

static void test_flood_by_ring(void **state)
{
    (void)state;
    for (int map = 0; map < 2; map++)
        run_flood(&(struct flood){.senders = 1,
                                  .count = scaled(20000, 1000000),
                                  .bytes = 64,
                                  .map = map,
                                  .promote_after = 3,
                                  .extra_bytes = 200 << 10});
}

static void test_flood_of_a_kibibyte(void **state)
{
    (void)state;
    for (int map = 0; map < 2; map++)
        run_flood(&(struct flood){.senders = 1,
                                  .count = scaled(4000, 200000),
                                  .bytes = 1024,
                                  .map = map,
                                  .promote_after = 3,
                                  .extra_bytes = 200 << 10});
}

static void test_flood_of_announcements(void **state)
{
    (void)state;
    for (int map = 0; map < 2; map++)
        run_flood(&(struct flood){.senders = 3,
                                  .count = scaled(500, 5000),
                                  .bytes = 9000,
                                  .map = map,
                                  .promote_after = 3,
                                  .extra_bytes = 60 << 10});
}

static void test_flood_from_many(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++)
        run_flood(&(struct flood){.senders = 31,
                                  .count = scaled(600, 32000),
                                  .bytes = how & 1 ? 1024 : 64,
                                  .map = how & 2,
                                  .promote_after = 3,
                                  .extra_bytes = 200 << 10});
}

static void test_flood_of_one_that_makes_no_progress(void **state)
{
    (void)state;
    run_flood(&(struct flood){.senders = 7,
                              .count = 1500,
                              .bytes = 64,
                              .asleep = true,
                              .promote_after = 3,
                              .extra_bytes = 60 << 10});
}

// ---- a later tag first ----

struct later {
    bool map, by_queue, strided, synchronous;
    bool posted_before; /* the receive */
    bool probed, anybody;
    uint64_t bytes; /* of the later message */
};

static void run_later(const struct later *later, uint32_t count)
{
    struct flood flood = {.senders = 2,
                          .count = count,
                          .bytes = 8,
                          .map = later->map,
                          .promote_after = later->by_queue ? UINT32_MAX : 3,
                          .extra_bytes = 0};
    struct crowd *crowd = begin(&flood);
    int from = later->anybody ? LEAT_ANY_RANK : 1;
    struct crowd_message last = {.tag = 2,
                                 .bytes = later->bytes,
                                 .synchronous = later->synchronous,
                                 .strided = later->strided};
    struct crowd_receive *receive = NULL;
    if (later->posted_before)
        receive = crowd_receive(crowd, 0, from, last);
    send_all(crowd, &flood);
    crowd_settle(crowd);
    crowd_send(crowd, 1, 0, last);
    crowd_settle(crowd);
    assert_true(crowd_rank(crowd, 0)->engine->matcher.unexpected_count < count);
    bool taken = false;
    for (int n = 0; later->probed && !taken && n < 1000; n++) {
        taken = crowd_probe(crowd, 0, from, last, true);
        crowd_step(crowd);
    }
    assert_int_equal(taken, later->probed);
    if (!receive && !later->probed)
        receive = crowd_receive(crowd, 0, from, last);
    crowd_settle(crowd);
    no_failure(crowd);
    if (receive && !msg_finished(msg_request_of(&receive->request)))
        fail_msg(
            "the later message (map %d, by_queue %d, strided %d, synchronous %d, posted_before "
            "%d, anybody %d, %llu bytes) was not found",
            later->map, later->by_queue, later->strided, later->synchronous, later->posted_before,
            later->anybody, (unsigned long long)later->bytes);
    receive_all(crowd, &flood);
    end(crowd);
}

static void test_a_later_tag_first(void **state)
{
    (void)state;
    const uint64_t size[] = {0, 8, 400, 2000, 50000};
    for (int how = 0; how < 128; how++)
        for (size_t s = 0; s < sizeof size / sizeof size[0]; s++) {
            struct later later = {.map = how & 1,
                                  .by_queue = how & 2,
                                  .strided = how & 4,
                                  .synchronous = how & 8,
                                  .posted_before = how & 16 && !(how & 32),
                                  .probed = how & 32,
                                  .anybody = how & 64,
                                  .bytes = size[s]};
            run_later(&later, 3000);
        }
}

static void test_a_million_before_it(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++)
        run_later(&(struct later){.map = how & 1, .by_queue = how & 2, .bytes = 8},
                  scaled(20000, 1000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flood_by_queue),
        cmocka_unit_test(test_flood_by_ring),
        cmocka_unit_test(test_flood_of_a_kibibyte),
        cmocka_unit_test(test_flood_of_announcements),
        cmocka_unit_test(test_flood_from_many),
        cmocka_unit_test(test_flood_of_one_that_makes_no_progress),
        cmocka_unit_test(test_a_later_tag_first),
        cmocka_unit_test(test_a_million_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
