// SPDX-License-Identifier: Apache-2.0
// The thread that wakes a rank for messages of other hosts ends when it is told to, also where
// something arrives in that moment. A thread that does not end is seen by the test's time limit.

#define _GNU_SOURCE
#include "transport/mixed_msg.c"

#include "support/splitmix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROUNDS = 4000, LIMIT_S = 30 };

static uint64_t wakes;

static void count_wake(struct msg_net *net, int peer)
{
    (void)net;
    (void)peer;
    __atomic_fetch_add(&wakes, 1, __ATOMIC_RELAXED);
}

static void test_it_ends_while_something_arrives(void **state)
{
    (void)state;
    const struct msg_net_ops ops = {.wake = count_wake};
    struct msg_net near = {.ops = &ops};
    uint64_t random = 7;
    alarm(LIMIT_S);
    for (int round = 0; round < ROUNDS; round++) {
        struct watch watch = {.stop_fd = -1};
        int data = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        const uint64_t one = 1;
        assert_true(data >= 0);
        assert_int_equal(watch_start(&watch, &near, data), 0);
        arm(&watch);
        const uint64_t pause_ns = splitmix_next(&random) % 60000;
        for (uint64_t end_ns = leat_now_ns() + pause_ns; leat_now_ns() < end_ns;)
            continue;
        assert_int_equal(write(data, &one, sizeof one), sizeof one);
        for (uint64_t end_ns = leat_now_ns() + pause_ns / 8; leat_now_ns() < end_ns;)
            continue;
        watch_stop(&watch);
        close(data);
    }
    alarm(0);
    assert_true(wakes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_ends_while_something_arrives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
