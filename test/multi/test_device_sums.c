// SPDX-License-Identifier: Apache-2.0
// Sums of random numbers on the way back have the same bits in two runs, in every mode, with both
// protocols, and on every device. test/gpu/test_device_sums.c is the same on GPUs.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multi/device_halo.h"

#ifndef SUMS_DEVICE
#define SUMS_DEVICE "cpu"
#endif

enum { F32, F64, FIELDS };

#define POINTS 150
#define STEPS  3 /* the sums of one are what the next adds to */

static const char *device = SUMS_DEVICE;

struct sums {
    float f32[BOX_RANKS][3 * POINTS];
    double f64[BOX_RANKS][2 * POINTS];
};

struct play {
    struct box box;
    enum leat_mode mode;
    struct sums sums;
};

// The same numbers for the same place in every run; many sizes, so that order shows.
static void fill(const struct bound *bound, struct ranks_random *random, int f, uint32_t from)
{
    for (uint32_t i = from; i < bound->info.element_count; i++)
        for (int c = 0; c < bound->field[f].components; c++)
            set(bound, f, i, c,
                (ranks_random_real(random) - 0.5) * (double)(1u << ranks_random_word(random) % 20));
}

static bool add_up(struct bound *bound, struct ranks_random *random)
{
    for (int step = 0; step < STEPS; step++)
        for (int f = 0; f < FIELDS; f++) {
            fill(bound, random, f, step ? bound->info.home_count : 0);
            if (!bring(bound, f, bound->info.element_count, true) ||
                !exchange(bound, f, LEAT_REVERSE) ||
                !bring(bound, f, bound->info.home_count, false))
                return false;
        }
    return true;
}

static void body(struct rank_thread *self)
{
    struct play *play = self->user;
    struct ranks_random random = {(uint64_t)self->rank + 1000};
    struct bound bound = {.self = self,
                          .field_count = FIELDS,
                          .field = {[F32] = {.element = LEAT_F32, .components = 3},
                                    [F64] = {.element = LEAT_F64, .components = 2}}};
    bound.plan = box_plan(self, &play->box);
    if (!bound.plan || !make_room(&bound, box_info(bound.plan).element_count) ||
        !open_halo(&bound, play->mode, 0) || !add_up(&bound, &random))
        return;
    memcpy(play->sums.f32[self->rank], bound.data[F32], sizeof play->sums.f32[0]);
    memcpy(play->sums.f64[self->rank], bound.data[F64], sizeof play->sums.f64[0]);
    unbind(&bound);
}

static struct play *add_on(const char *name, const char *packets, enum leat_plan_kind kind,
                           enum leat_mode mode)
{
    static const int cube[3] = {2, 2, 2};
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    box_fill(&play->box, cube, 0.9, POINTS, 0, 5);
    play->box.decomposition.kind = kind;
    play->mode = mode;
    device_run(&(struct device_job){.device = name, .packets = packets, .rank_count = BOX_RANKS},
               body, play);
    return play;
}

static void compare(const struct play *wanted, struct play *play, const char *packets)
{
    for (int r = 0; r < BOX_RANKS; r++) {
        for (int i = 0; i < 3 * POINTS; i++)
            if (memcmp(&wanted->sums.f32[r][i], &play->sums.f32[r][i], sizeof(float)) != 0)
                fail_msg("mode %d, packets %s, rank %d, float %d: %.9g instead of %.9g",
                         (int)play->mode, packets, r, i, (double)play->sums.f32[r][i],
                         (double)wanted->sums.f32[r][i]);
        for (int i = 0; i < 2 * POINTS; i++)
            if (memcmp(&wanted->sums.f64[r][i], &play->sums.f64[r][i], sizeof(double)) != 0)
                fail_msg("mode %d, packets %s, rank %d, double %d: %.17g instead of %.17g",
                         (int)play->mode, packets, r, i, play->sums.f64[r][i],
                         wanted->sums.f64[r][i]);
    }
    free(play);
}

static void check_kind(enum leat_plan_kind kind)
{
    struct play *wanted = add_on("cpu", "0", kind, LEAT_MODE_FUSED);
    for (int m = 0; m < GRAPH_MODES; m++)
        for (int run = 0; run < 4; run++) // twice with each protocol
            compare(wanted, add_on(device, protocols[run % 2], kind, graph_modes[m]),
                    protocols[run % 2]);
    free(wanted);
}

static void test_forwarded_sums_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    check_kind(LEAT_PLAN_FORWARDED);
}

static void test_onehop_sums_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    check_kind(LEAT_PLAN_ONEHOP);
}

// Numbers whose sums do not depend on the order would make the tests above pass whatever happens.
static void test_the_order_of_these_numbers_shows(void **state)
{
    (void)state;
    struct ranks_random random = {1000};
    int different = 0;
    for (int i = 0; i < 1000; i++) {
        float value[3];
        for (int k = 0; k < 3; k++)
            value[k] = (float)((ranks_random_real(&random) - 0.5) *
                               (double)(1u << ranks_random_word(&random) % 20));
        volatile float first = value[0] + value[1], second = value[1] + value[2];
        volatile float one = first + value[2], other = value[0] + second;
        different += one != other;
    }
    assert_true(different > 100);
}

// Argument: another device, as LEAT_DEVICE names it.
int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_of_these_numbers_shows),
        cmocka_unit_test(test_forwarded_sums_have_the_same_bits_everywhere),
        cmocka_unit_test(test_onehop_sums_have_the_same_bits_everywhere),
    };
    int missing = device_missing(device);
    return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);
}
