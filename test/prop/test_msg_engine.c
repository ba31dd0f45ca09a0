// SPDX-License-Identifier: Apache-2.0
// The message engine under random traffic, over networks in memory that delay, reorder and refuse
// what a network may.
//
// Every byte, every status and the order of each pair is checked, that no pool passes its limit,
// and that nothing is left at the end. LEAT_LONG=1 makes ten times as many seeds. Advantage: all
// ways of a message cross one another. Disadvantage: a dozen ranks; test_msg_engine_scale.c has
// more.

#include "support/crowd_traffic.h"
#include "support/crowd_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct msg_counts run_seeds(const struct traffic *traffic, uint64_t seeds)
{
    if (getenv("LEAT_LONG"))
        seeds *= 10;
    struct msg_counts counts = {0};
    char failure[512];
    for (uint64_t seed = 1; seed <= seeds; seed++)
        if (!traffic_run(traffic, seed, &counts, failure))
            fail_msg("%s", failure);
    print_message("%s: inlined %llu, bulk %llu, queued %llu, direct %llu, shared %llu, piped %llu, "
                  "held %llu, found %llu, rings given back %llu\n",
                  traffic->name, (unsigned long long)counts.inlined,
                  (unsigned long long)counts.bulk, (unsigned long long)counts.queued,
                  (unsigned long long)counts.direct, (unsigned long long)counts.shared,
                  (unsigned long long)counts.piped, (unsigned long long)counts.held,
                  (unsigned long long)counts.found, (unsigned long long)counts.given_back);
    return counts;
}

static struct traffic few_ranks(const char *name)
{
    return (struct traffic){
        .name = name,
        .net = {.rank_count = 12, .queue_packets = 32, .delay_ns = 1000, .late_permille = 10},
        .tuning = crowd_tuning(),
        .steps = 6000,
        .partners = 3,
        .largest = CROWD_LARGEST,
        .large_permille = 30};
}

static void test_over_puts(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("puts");
    traffic.net.finish_later = MEMORY_SOME;
    traffic.net.put_limit = 8;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.inlined && counts.bulk && counts.queued && counts.direct);
}

static void test_over_mapped_memory(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("mapped");
    traffic.net.map = true;
    traffic.net.map_exposed = MEMORY_ALL;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.inlined && counts.bulk && counts.queued && counts.direct && counts.shared);
}

static void test_over_mapped_rings_and_copies(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("mapped rings");
    traffic.net.map = true;
    traffic.net.no_get = traffic.net.no_put = traffic.net.no_expose = MEMORY_SOME;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.direct && counts.shared && counts.piped);
}

static void test_over_a_network_that_refuses(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("refusals");
    traffic.net.refuse_permille = 200;
    traffic.net.late_permille = 100;
    traffic.net.finish_later = MEMORY_ALL;
    traffic.net.no_get = traffic.net.no_put = traffic.net.no_expose = MEMORY_SOME;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.direct && counts.piped);
}

static void test_without_direct_copies(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("pipes");
    traffic.net.no_expose = MEMORY_ALL;
    traffic.net.put_limit = 3;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.piped && !counts.direct);
}

// One ring, hardly any room for what is unexpected, a queue of a few packets.
static void test_with_hardly_any_memory(void **state)
{
    (void)state;
    struct traffic traffic = few_ranks("little memory");
    traffic.net.rank_count = 5;
    traffic.net.queue_packets = 6;
    traffic.steps = 8000;
    traffic.tuning.budget_bytes = 0;
    traffic.unexpected_bytes = 8192; // a page of envelopes, and one of bytes
    traffic.tuning.ring_limit = 1;
    traffic.tuning.handle_limit = 4;
    traffic.tuning.queue_window = 2;
    struct msg_counts counts = run_seeds(&traffic, 3);
    assert_true(counts.held && counts.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_puts),
        cmocka_unit_test(test_over_mapped_memory),
        cmocka_unit_test(test_over_mapped_rings_and_copies),
        cmocka_unit_test(test_over_a_network_that_refuses),
        cmocka_unit_test(test_without_direct_copies),
        cmocka_unit_test(test_with_hardly_any_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
