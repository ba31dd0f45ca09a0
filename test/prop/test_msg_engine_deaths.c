// SPDX-License-Identifier: Apache-2.0
// The message engine when a rank dies in the middle of everybody's traffic, over networks in
// memory.
//
// A seed chooses what has been sent and received so far, by which ways, and what the network can
// do; then rank 3 is gone. What waits for it has to end, and the others' messages have to arrive,
// each byte of them. LEAT_LONG=1 makes twenty times as many seeds. Advantage: the death falls into
// any step of any protocol. Disadvantage: at a moment between two rounds of progress only;
// test_msg_deaths.c kills processes at any.

#include "support/crowd.h"
#include "support/crowd_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void random_step(struct crowd *crowd)
{
    static const uint64_t size[] = {0, 8, 300, 2000, 5000, 20000, 100000};
    struct crowd_message message = {.tag = (int)(crowd_random(crowd) % 2),
                                    .bytes = size[crowd_random(crowd) % 7],
                                    .synchronous = crowd_random(crowd) % 8 == 0};
    int from = (int)(crowd_random(crowd) % 4), to = (int)(crowd_random(crowd) % 4);
    if (crowd_random(crowd) % 2)
        crowd_send(crowd, from, to, message);
    else
        crowd_receive(crowd, to, from, message);
    if (crowd_random(crowd) % 3)
        crowd_step(crowd);
}

static void run_seed(uint64_t seed)
{
    const struct memory_options net = {.rank_count = 4,
                                       .seed = seed,
                                       .queue_packets = 16,
                                       .delay_ns = 500,
                                       .finish_later = seed % 2 ? MEMORY_NONE : MEMORY_SOME,
                                       .map = seed % 2,
                                       .no_expose = seed % 3 ? MEMORY_NONE : MEMORY_SOME};
    const struct msg_tuning tuning = crowd_tuning();
    struct crowd *crowd = crowd_new(&net, &tuning);
    if (seed % 5 == 0)
        crowd->unexpected_bytes = 8192; // messages are held back
    for (int step = 0; step < 300; step++)
        random_step(crowd);
    crowd_kill(crowd, 3);
    crowd_drain(crowd);
    const char *failure = crowd_failure(crowd);
    if (failure)
        fail_msg("seed %llu: %s", (unsigned long long)seed, failure);
    char *misuse = crowd_free(crowd);
    if (misuse)
        fail_msg("seed %llu: %s", (unsigned long long)seed, misuse);
}

static void test_what_waits_for_the_dead_ends(void **state)
{
    (void)state;
    uint64_t seeds = getenv("LEAT_LONG") ? 800 : 40;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_seed(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits_for_the_dead_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
