// SPDX-License-Identifier: Apache-2.0
// A rank's threads: each runs each round once, and what they write is there afterwards.

#include "md/team.h"

#include "leat/leat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { THREADS = 5, ROUNDS = 3000, THINGS = 97 };

struct rounds {
    uint64_t round;
    uint64_t seen[THREADS]; // rounds, as each thread counts them
    int count[THREADS];     // what it was told
    unsigned wrong;
    uint8_t done[THINGS];
};

static void one_round(void *user, int thread, int count)
{
    struct rounds *rounds = user;
    rounds->seen[thread]++;
    rounds->count[thread] = count;
    if (rounds->seen[thread] != rounds->round)
        __atomic_fetch_add(&rounds->wrong, 1, __ATOMIC_RELAXED);
    for (size_t i = md_team_share(THINGS, thread, count);
         i < md_team_share(THINGS, thread + 1, count); i++)
        rounds->done[i]++;
}

static void run(int threads, int crowded)
{
    struct md_team *team = (struct md_team *)1;
    struct rounds rounds = {0};
    assert_int_equal(md_team_create(threads, crowded, &team), 0);
    assert_int_equal(md_team_size(team), threads);
    for (rounds.round = 1; rounds.round <= ROUNDS; rounds.round++) {
        md_team_run(team, one_round, &rounds);
        for (int i = 0; i < THINGS; i++)
            assert_int_equal(rounds.done[i], (uint8_t)rounds.round);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(rounds.seen[t], t < threads ? ROUNDS : 0);
        assert_int_equal(rounds.count[t], t < threads ? threads : 0);
    }
    assert_int_equal(rounds.wrong, 0);
    md_team_free(team);
}

static void test_each_thread_runs_each_round_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= THREADS; threads += 2)
        for (int crowded = 0; crowded < 2; crowded++)
            run(threads, crowded);
}

static void test_a_team_without_work_ends(void **state)
{
    (void)state;
    struct md_team *team = NULL;
    assert_int_equal(md_team_create(3, 0, &team), 0);
    md_team_free(team);
    md_team_free(NULL);
}

static void test_no_team_is_a_team_of_one(void **state)
{
    (void)state;
    struct rounds rounds = {.round = 1};
    md_team_run(NULL, one_round, &rounds);
    assert_int_equal(rounds.seen[0], 1);
    assert_int_equal(md_team_size(NULL), 1);
}

static void test_shares_are_even_and_whole(void **state)
{
    (void)state;
    for (int count = 1; count <= 7; count++)
        for (size_t total = 0; total < 40; total++) {
            assert_int_equal(md_team_share(total, 0, count), 0);
            assert_int_equal(md_team_share(total, count, count), total);
            for (int t = 0; t < count; t++) {
                size_t own = md_team_share(total, t + 1, count) - md_team_share(total, t, count);
                assert_in_range(own, total / (size_t)count, total / (size_t)count + 1);
            }
        }
    // No overflow on the way.
    assert_int_equal(md_team_share(SIZE_MAX / 2, 3, 3), SIZE_MAX / 2);
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct md_team *team = (struct md_team *)1;
    assert_int_equal(md_team_create(0, 0, &team), -EINVAL);
    assert_ptr_equal(team, (struct md_team *)1);
    assert_true(md_team_fit(1) >= 1);
    assert_int_equal(md_team_fit(1 << 30), 1);
    assert_int_equal(md_team_is_crowd(1), 0);
    assert_int_equal(md_team_is_crowd(1 << 30), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_thread_runs_each_round_once),
        cmocka_unit_test(test_a_team_without_work_ends),
        cmocka_unit_test(test_no_team_is_a_team_of_one),
        cmocka_unit_test(test_shares_are_even_and_whole),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
