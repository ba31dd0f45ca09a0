// SPDX-License-Identifier: Apache-2.0
// Memory that is held back (device/held.h): when it is taken again, by whom, and what goes back.

#include "device/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char place[8];

static void add(struct held *held, int where, uint64_t bytes, void *address)
{
    struct held_block *block = calloc(1, sizeof *block);
    assert_non_null(block);
    *block = (struct held_block){.place = where, .bytes = bytes, .address = address};
    held_add(held, block);
}

static size_t drop(struct held_block *cut)
{
    size_t count = 0;
    for (struct held_block *next; cut; cut = next, count++) {
        next = cut->next;
        free(cut);
    }
    return count;
}

static void test_taken_only_once_all_have_seen_the_free(void **state)
{
    (void)state;
    struct held held = {0};
    add(&held, 0, 1024, &place[0]);
    add(&held, 0, 1024, &place[1]);
    assert_null(held_take(&held, 0, 1024, UINT64_MAX - 1)); // in use
    held_free(&held, &place[0], false);
    assert_int_equal(held.frees, 1);
    assert_null(held_take(&held, 0, 1024, 0));
    held_free(&held, &place[1], false);
    assert_ptr_equal(held_take(&held, 0, 1024, 1), &place[0]); // not the second
    assert_null(held_take(&held, 0, 1024, 1));
    assert_ptr_equal(held_take(&held, 0, 1024, 2), &place[1]);
    held_free(&held, &place[0], false);
    assert_null(held_take(&held, 0, 1024, 2)); // its latest free counts
    assert_int_equal(drop(held_cut(&held, 0, true)), 2);
}

static void test_sizes_and_places(void **state)
{
    (void)state;
    struct held held = {0};
    const uint64_t bytes[] = {4096, 1024, 2048, 8192};
    for (int b = 0; b < 4; b++)
        add(&held, 1, bytes[b], &place[b]);
    add(&held, HELD_PINNED, 1024, &place[4]);
    for (int b = 0; b < 5; b++)
        held_free(&held, &place[b], false);
    assert_null(held_take(&held, 0, 1024, 9));
    assert_null(held_take(&held, 1, 512 - 1, 9)); // all are more than twice as large
    assert_null(held_take(&held, 1, 8193, 9));
    assert_ptr_equal(held_take(&held, 1, 1025, 9), &place[2]); // the smallest that fits
    assert_ptr_equal(held_take(&held, 1, 1025, 9), NULL);      // 4096 is too large
    assert_ptr_equal(held_take(&held, 1, 2048, 9), &place[0]);
    assert_ptr_equal(held_take(&held, HELD_PINNED, 512, 9), &place[4]);
    assert_int_equal(drop(held_cut(&held, 9, false)), 2); // 1024 and 8192
    assert_int_equal(drop(held_cut(&held, 9, true)), 3);
    assert_null(held.blocks);
}

static void test_freed_for_good(void **state)
{
    (void)state;
    struct held held = {0};
    add(&held, 0, 512, &place[0]);
    held_free(&held, &place[0], true);
    assert_null(held_take(&held, 0, 512, UINT64_MAX - 1));
    assert_null(held_cut(&held, UINT64_MAX - 1, false));
    assert_int_equal(drop(held_cut(&held, 0, true)), 1);
}

static void test_removed(void **state)
{
    (void)state;
    struct held held = {0};
    for (int b = 0; b < 3; b++)
        add(&held, 0, 512, &place[b]);
    assert_null(held_remove(&held, &place[3]));
    for (int b = 1; b <= 3; b++) {
        struct held_block *block = held_remove(&held, &place[b % 3]);
        assert_ptr_equal(block->address, &place[b % 3]);
        free(block);
    }
    assert_null(held.blocks);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_int_equal(held_round(0), 512);
    assert_int_equal(held_round(1), 512);
    assert_int_equal(held_round(512), 512);
    assert_int_equal(held_round(513), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_only_once_all_have_seen_the_free),
        cmocka_unit_test(test_sizes_and_places),
        cmocka_unit_test(test_freed_for_good),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
