// SPDX-License-Identifier: Apache-2.0
// Files, and memory of the host through the page cache: counts, ends, refusals.

#define _GNU_SOURCE
#include "support/file_stage.h"

#include <fcntl.h>
#include <sys/stat.h>

static void reads_what_is_there(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 1000003);
    leat_file *file = stage_open(stage, NULL);
    stage_read_checked(stage, file, 0, 1000003, 1000003);
    stage_read_checked(stage, file, 17, 4096, 4096);
    assert_int_equal(leat_file_close(file), 0);
}

// F2
static void ends_are_short_counts(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 10000);
    leat_file *file = stage_open(stage, NULL);
    stage_read_checked(stage, file, 9000, 4096, 1000);
    stage_read_checked(stage, file, 10000, 4096, 0);
    stage_read_checked(stage, file, 1 << 20, 4096, 0);
    stage_read_checked(stage, file, 9000, 9 << 20, 1000);
    stage_read_checked(stage, file, 5, 0, 0);
    stage_read_checked(stage, file, UINT64_C(1) << 40, 9 << 20, 0);
    assert_int_equal(leat_file_close(file), 0);
}

static void writes_what_it_says(void **state)
{
    struct stage *stage = *state;
    const leat_file_options options = {.size = sizeof options,
                                       .flags = LEAT_FILE_WRITE | LEAT_FILE_CREATE |
                                                LEAT_FILE_TRUNCATE | LEAT_FILE_READ};
    leat_file *file = stage_open(stage, &options);
    stage_stamp(stage, 0, 9 << 20);
    uint64_t done = 7;
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, 9 << 20, &done));
    assert_int_equal(done, 9 << 20);
    stage_ok(leat_file_sync(file));
    stage_read_checked(stage, file, 0, 10 << 20, 9 << 20);
    assert_int_equal(leat_file_close(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_is_there, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(ends_are_short_counts, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(writes_what_it_says, stage_begin, stage_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
