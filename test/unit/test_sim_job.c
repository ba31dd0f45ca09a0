// SPDX-License-Identifier: Apache-2.0
// Simulated jobs: times of single messages by hand, what is dead, and one endpoint among stubs.

#include "unit/sim_parts.h"

#include "sim/measure.h"
#include "sim/stubs.h"

#include <errno.h>
#include <math.h>

static const char text[] = SIM_TORUS_TEXT
    "sides = 8 6 4\naxes = X Y Z\nwrap = X Y Z\ntni_gb_per_s = 4.7\nnode_gb_per_s = 16\n"
    "piggyback_bytes = 16\ndescriptor_push = yes\ndescriptor_fetch_ns = 500\ncommand_ns = 60\n";

static double half_ns(const struct sim_machine *machine, int node, uint64_t bytes)
{
    const int32_t place[2] = {0, node};
    struct sim_job_options options = {.machine = machine, .place = place, .place_count = 2};
    struct sim_job job;
    double ns = -1;
    if (sim_job_open(&job, &options) || sim_pingpong_run(&job, 0, 1, bytes, &ns))
        fail_msg("%s", leat_error_detail());
    sim_job_close(&job);
    return ns;
}

// 180 ns of software on each side and 910 of hardware, a slot of 40 bytes through the link, and the
// copy of 8 bytes at the receiver.
static void test_small(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(text, &machine);
    double hand = 180 + 910 + 180 + 40 / 4.7 + 8 / 5.4;
    assert_true(fabs(half_ns(&machine, 1, 8) - hand) < 2);
    // (0,0,2), (0,2,2), (4,3,2): 2, 4 and 9 links.
    assert_true(fabs(half_ns(&machine, 2, 8) - hand - 100) < 2);
    assert_true(fabs(half_ns(&machine, 2 * 4 + 2, 8) - hand - 300) < 2);
    assert_true(fabs(half_ns(&machine, (4 * 6 + 3) * 4 + 2, 8) - hand - 800) < 2);
    sim_machine_end(&machine);
}

// Announced: never faster than its bytes through a link, and at most some latencies longer.
static void test_large(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(text, &machine);
    for (uint64_t bytes = 1 << 20; bytes <= 16 << 20; bytes *= 4) {
        double ns = half_ns(&machine, 1, bytes), least = (double)bytes / 4.7 + 910;
        assert_true(ns >= least && ns < least + 6000);
    }
    sim_machine_end(&machine);
}

static int open_with(const char *more, const int *side, struct sim_machine *machine,
                     struct sim_job *job)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", text, more);
    must_parse(whole, machine);
    struct sim_job_options options = {.machine = machine, .side_count = 3};
    memcpy(options.side, side, sizeof options.side);
    return sim_job_open(job, &options);
}

static void test_dead(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_job job;
    const int whole[3] = {8, 6, 4}, part[3] = {4, 6, 4};
    assert_int_equal(open_with("dead_node = 5 1 2\n", whole, &machine, &job), -EHOSTUNREACH);
    assert_non_null(strstr(leat_error_detail(), "(5,1,2)"));
    assert_non_null(strstr(leat_error_detail(), "test.machine:"));
    sim_machine_end(&machine);
    // A smaller job is moved past it.
    if (open_with("dead_node = 1 1 2\n", part, &machine, &job))
        fail_msg("%s", leat_error_detail());
    struct sim_collective what = {.kind = LEAT_BROADCAST, .bytes = 1000, .algorithm = "chain"};
    struct sim_measured measured = {.wrong = -1};
    assert_int_equal(sim_collective_run(&job, &what, &measured), 0);
    assert_int_equal(measured.wrong, 0);
    sim_job_close(&job);
    sim_machine_end(&machine);
    // A link that is dead costs time, no data.
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        if (open_with(i ? "dead_link = 0 0 0 +Z\n" : "", whole, &machine, &job))
            fail_msg("%s", leat_error_detail());
        assert_int_equal(sim_collective_run(&job, &what, &measured), 0);
        assert_int_equal(measured.wrong, 0);
        seconds[i] = measured.seconds;
        sim_job_close(&job);
        sim_machine_end(&machine);
    }
    assert_true(seconds[1] > seconds[0]);
}

static void test_stubs(void **state)
{
    (void)state;
    struct msg_tuning tuning = msg_tuning_usual();
    tuning.budget_bytes = 16 << 20;
    tuning.eager_bytes = 4 << 10;
    tuning.share_bytes = UINT32_MAX;
    tuning.ring_limit = 20;
    tuning.handle_limit = 64;
    struct sim_stubs_result few, many, all;
    // More rounds than a ring has slots, so that credits come back.
    if (sim_stubs_run(&tuning, 200, 8, 300, &few) || sim_stubs_run(&tuning, 20000, 8, 3, &many))
        fail_msg("%s", leat_error_detail());
    assert_int_equal(few.rings_in, 20);
    assert_int_equal(many.rings_in, 20);
    assert_int_equal(few.rings_out, 20);
    assert_int_equal(few.messages, 199 * 300);
    assert_int_equal(many.messages, 19999 * 3);
    assert_true(many.peak_bytes <= many.budget_bytes);
    // 64 bytes a peer more, and what slabs round up to.
    assert_in_range(many.used_bytes - few.used_bytes, 1, 80 * 19800);
    tuning.ring_limit = 150;
    tuning.budget_bytes = 64 << 20;
    assert_int_equal(sim_stubs_run(&tuning, 151, 96, 4, &all), 0);
    assert_int_equal(all.rings_in, 150);
    assert_true(all.used_bytes > 150ULL * all.ring_each_bytes);
    assert_int_equal(sim_stubs_run(&tuning, 151, 97, 4, &all), -EINVAL);
    assert_int_equal(sim_stubs_run(&tuning, 1, 8, 4, &all), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_dead), cmocka_unit_test(test_stubs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
