// SPDX-License-Identifier: Apache-2.0
// Each thing that has to hold in a plan, broken in turn, is noticed and named.

#include "core/error.h"
#include "halo/plan.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Rank 0 of 4 in a grid of 1 x 2 x 2: four home elements, two ghosts across z, three across y.
struct sample {
    uint32_t index[6];
    uint8_t zone[9];
    leat_pulse pulse[2];
    struct leat_plan plan;
};

static void fill(struct sample *s)
{
    *s = (struct sample){
        .index = {0, 2, 1, 3, 4, 5},
        .zone = {0, 0, 0, 0, 4, 4, 2, 2, 6},
        .pulse = {{.dimension = 2,
                   .direction = -1,
                   .send_rank = 1,
                   .recv_rank = 1,
                   .send_count = 2,
                   .recv_count = 2,
                   .dependent_start = 2,
                   .recv_offset = 4,
                   .shift_nm = {0, 0, 3}},
                  {.dimension = 1,
                   .direction = -1,
                   .send_rank = 2,
                   .recv_rank = 2,
                   .send_count = 4,
                   .recv_count = 3,
                   .dependent_start = 2,
                   .recv_offset = 6,
                   .shift_nm = {0, 3, 0}}},
        .plan = {.rank = 0, .rank_count = 4, .pulse_count = 2, .home_count = 4, .element_count = 9},
    };
    s->pulse[0].index = s->index;
    s->pulse[1].index = s->index + 2;
    s->plan.pulse = s->pulse;
    s->plan.index = s->index;
    s->plan.zone = s->zone;
}

static void expect_fault(const struct sample *s, const char *words)
{
    leat_fail(0, "poison");
    assert_int_equal(leat_plan_check(&s->plan), -EPROTO);
    if (!strstr(leat_error_detail(), words))
        fail_msg("\"%s\" not in \"%s\"", words, leat_error_detail());
}

static void test_a_sound_plan_passes(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    assert_int_equal(leat_plan_check(&s.plan), 0);
}

static void test_a_plan_without_pulses_passes(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.plan.pulse_count = 0;
    s.plan.element_count = 4;
    assert_int_equal(leat_plan_check(&s.plan), 0);
}

static void test_dimension_and_direction_are_checked(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[1].dimension = 3;
    expect_fault(&s, "pulse 1 has dimension 3");
    fill(&s);
    s.pulse[0].dimension = -1;
    expect_fault(&s, "pulse 0 has dimension -1");
    fill(&s);
    s.pulse[0].direction = 0;
    expect_fault(&s, "pulse 0 has direction 0");
}

static void test_ranks_are_checked(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[1].send_rank = 4;
    expect_fault(&s, "pulse 1 sends to rank 4");
    fill(&s);
    s.pulse[0].recv_rank = -1;
    expect_fault(&s, "receives 2 from rank -1");
    fill(&s);
    s.pulse[0].recv_rank = -2;
    expect_fault(&s, "receives from rank -2");
}

static void test_shifts_are_checked(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[0].shift_nm[1] = NAN;
    expect_fault(&s, "pulse 0 has shift");
}

static void test_an_element_is_sent_once_in_a_pulse(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.index[1] = 0;
    expect_fault(&s, "entry 1 of pulse 0 sends element 0 again");
    fill(&s);
    s.index[5] = 3;
    expect_fault(&s, "entry 3 of pulse 1 sends element 3 again");
}

static void test_nothing_is_sent_before_it_is_there(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.index[1] = 4;
    expect_fault(&s, "entry 1 of pulse 0 sends element 4, but only 4");
    fill(&s);
    s.index[5] = 6;
    expect_fault(&s, "entry 3 of pulse 1 sends element 6, but only 6");
}

static void test_the_dependent_part_is_that_of_ghosts(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[1].dependent_start = 4;
    expect_fault(&s, "dependent entries of pulse 1 begin at 4, but entry 2 is element 4");
    fill(&s);
    s.pulse[0].dependent_start = 1;
    expect_fault(&s, "dependent entries of pulse 0 begin at 1, but entry 1 is element 2");
}

static void test_received_elements_follow_one_another(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[1].recv_offset = 5;
    expect_fault(&s, "pulse 1 receives 3 elements at 5, expected at 6");
    fill(&s);
    s.pulse[1].recv_count = 4;
    expect_fault(&s, "at most 9 elements");
    fill(&s);
    s.pulse[1].recv_count = 2;
    expect_fault(&s, "9 elements, but home elements and pulses make 8");
}

static void test_counts_near_the_end_of_32_bits_do_not_wrap(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.pulse[1].recv_count = UINT32_MAX - 2;
    expect_fault(&s, "pulse 1 receives 4294967293 elements");
}

static void test_zones_tell_ghosts_from_home_elements(void **state)
{
    (void)state;
    struct sample s;
    fill(&s);
    s.zone[3] = 4;
    expect_fault(&s, "element 3 of 4 home elements has zone 4");
    fill(&s);
    s.zone[4] = 0;
    expect_fault(&s, "element 4 of 4 home elements has zone 0");
    fill(&s);
    s.zone[8] = 8;
    expect_fault(&s, "element 8 of 4 home elements has zone 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_plan_passes),
        cmocka_unit_test(test_a_plan_without_pulses_passes),
        cmocka_unit_test(test_dimension_and_direction_are_checked),
        cmocka_unit_test(test_ranks_are_checked),
        cmocka_unit_test(test_shifts_are_checked),
        cmocka_unit_test(test_an_element_is_sent_once_in_a_pulse),
        cmocka_unit_test(test_nothing_is_sent_before_it_is_there),
        cmocka_unit_test(test_the_dependent_part_is_that_of_ghosts),
        cmocka_unit_test(test_received_elements_follow_one_another),
        cmocka_unit_test(test_counts_near_the_end_of_32_bits_do_not_wrap),
        cmocka_unit_test(test_zones_tell_ghosts_from_home_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
