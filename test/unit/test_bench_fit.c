// SPDX-License-Identifier: Apache-2.0
// Thresholds of `leat bench p2p --tune` out of made-up times: one behaviour a test.
//
// Advantage: times without noise, so that the right answer is known. Disadvantage: the source is
// included, since the command is no library.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../cli/bench_fit.c"

#define KIB(n) (UINT64_C(n) << 10)

enum { SIZES = 10 }; // 512 to 256 KiB

// Each way's time is `start` + `each` * KiB, its middle half that and the part `spread` around it.
struct way_time {
    double start, each;
};

static void make(struct bench_fit_size size[SIZES], struct way_time ring, struct way_time alone,
                 struct way_time shared, double spread)
{
    const struct way_time time[WAY_COUNT] = {ring, alone, shared};
    for (int i = 0; i < SIZES; i++) {
        uint64_t bytes = UINT64_C(512) << i;
        size[i] = (struct bench_fit_size){.bytes = bytes};
        for (int way = 0; way < WAY_COUNT; way++) {
            double ns = time[way].start + time[way].each * (double)bytes / 1024;
            if ((way == WAY_RING && bytes > BENCH_RING_MOST) ||
                (way == WAY_SHARED && bytes < BENCH_SHARE_LEAST))
                continue;
            size[i].ns[way].quarter = ns * (1 - spread);
            size[i].ns[way].median = ns;
            size[i].ns[way].three_quarters = ns * (1 + spread);
        }
    }
}

static void assert_threshold(const struct bench_threshold *got, uint64_t value, uint64_t lowest,
                             uint64_t highest, bool told)
{
    assert_int_equal(got->value, value);
    assert_int_equal(got->lowest, lowest);
    assert_int_equal(got->highest, highest);
    assert_int_equal(got->told, told);
}

// Ring and announced meet between 8 and 16 KiB, alone and shared between 32 and 64.
static const struct way_time ring = {100, 100}, alone = {1000, 20}, shared = {1500, 8};

static void clear_crossings_are_found(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, ring, alone, shared, 0.001);
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(32), KIB(32));
    assert_threshold(&found.eager, KIB(8), KIB(8), KIB(8), true);
    assert_threshold(&found.share, KIB(64), KIB(64), KIB(64), true);
}

static void what_the_spread_covers_is_a_range_and_nothing_moves_within(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, ring, alone, shared, 0.001);
    // At 4 and 8 KiB the ring and announced cannot be told apart.
    for (int i = 3; i <= 4; i++)
        for (int way = 0; way < WAY_COUNT; way++)
            size[i].ns[way].quarter = 1;
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(4), KIB(64));
    assert_threshold(&found.eager, KIB(4), KIB(2), KIB(8), true);
    assert_int_equal(found.share.value, KIB(64));
}

static void without_evidence_the_settings_stay(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, ring, alone, shared, 0.95);
    struct bench_thresholds found = bench_fit(size, SIZES, 20000, KIB(48));
    assert_threshold(&found.eager, 20000, 256, KIB(32), false);
    assert_threshold(&found.share, KIB(48), KIB(4), KIB(512), false);
}

static void a_setting_between_two_sizes_stays_when_it_chooses_right(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, ring, alone, shared, 0.001);
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(8) + 1, KIB(64) - 1);
    assert_threshold(&found.eager, KIB(8) + 1, KIB(8), KIB(8) + 1, true);
    assert_threshold(&found.share, KIB(64) - 1, KIB(64) - 1, KIB(64), true);
}

static void one_odd_size_moves_nothing(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, (struct way_time){100, 10}, (struct way_time){1000, 20}, shared, 0.001);
    // 1 KiB by ring is a little slower than announced for once.
    size[1].ns[WAY_RING].median = size[1].ns[WAY_ALONE].median * 1.05;
    size[1].ns[WAY_RING].quarter = size[1].ns[WAY_RING].median * 0.99;
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(32), KIB(64));
    assert_int_equal(found.eager.value, KIB(32));
    assert_true(found.eager.told);
}

static void ways_that_never_win_are_left(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, (struct way_time){5000, 100}, alone, (struct way_time){9000, 90}, 0.001);
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(32), KIB(32));
    assert_threshold(&found.eager, 256, 256, 256, true);
    assert_threshold(&found.share, KIB(512), KIB(512), KIB(512), true);
}

// Below the ring's limit nobody shares, whatever the share threshold says.
static void the_share_threshold_is_free_where_rings_carry(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, (struct way_time){100, 1}, alone, (struct way_time){500, 2}, 0.001);
    struct bench_thresholds found = bench_fit(size, SIZES, KIB(32), KIB(32));
    assert_threshold(&found.share, KIB(32), KIB(4), KIB(64), true);
}

static void sizes_that_no_ring_carries_say_nothing_of_rings(void **state)
{
    (void)state;
    struct bench_fit_size size[SIZES];
    make(size, ring, alone, shared, 0.001);
    struct bench_thresholds found = bench_fit(size + 8, SIZES - 8, KIB(16), KIB(32));
    assert_threshold(&found.eager, KIB(16), KIB(16), KIB(16), false);
}

static void nothing_measured_changes_nothing(void **state)
{
    (void)state;
    struct bench_thresholds found = bench_fit(NULL, 0, KIB(16), KIB(32));
    assert_int_equal(found.eager.value, KIB(16));
    assert_int_equal(found.share.value, KIB(32));
    assert_false(found.eager.told || found.share.told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_crossings_are_found),
        cmocka_unit_test(what_the_spread_covers_is_a_range_and_nothing_moves_within),
        cmocka_unit_test(without_evidence_the_settings_stay),
        cmocka_unit_test(a_setting_between_two_sizes_stays_when_it_chooses_right),
        cmocka_unit_test(one_odd_size_moves_nothing),
        cmocka_unit_test(ways_that_never_win_are_left),
        cmocka_unit_test(the_share_threshold_is_free_where_rings_carry),
        cmocka_unit_test(sizes_that_no_ring_carries_say_nothing_of_rings),
        cmocka_unit_test(nothing_measured_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
