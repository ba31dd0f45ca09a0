// SPDX-License-Identifier: Apache-2.0
// Files that are cut or grow while they are read, and whose pages come and go.

#define _GNU_SOURCE
#include "support/file_ways.h"

#include <pthread.h>

#define FILE_BYTES UINT64_C(1200007)
#define CUT_BYTES  UINT64_C(500003)

static struct {
    pthread_mutex_t lock;
    const char *path; /* NULL once it has been changed */
    uint64_t bytes;
} change = {.lock = PTHREAD_MUTEX_INITIALIZER};

// At the first read the file gets another length, before any thread has read.
static void change_length(uint64_t offset)
{
    (void)offset;
    pthread_mutex_lock(&change.lock);
    if (change.path && truncate(change.path, (off_t)change.bytes))
        abort();
    change.path = NULL;
    pthread_mutex_unlock(&change.lock);
}

static uint64_t read_changing(const struct way *way, struct stage *stage, uint64_t before,
                              uint64_t after)
{
    struct fake_copies fake;
    const struct file_faults faults = {.before_read = change_length};
    stage_fill(stage, before);
    way_begin(way, stage, &fake, &faults);
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_poison(stage, FILE_BYTES);
    pthread_mutex_lock(&change.lock);
    change.bytes = after;
    change.path = stage->path;
    pthread_mutex_unlock(&change.lock);
    uint64_t done = 0;
    stage_ok(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    stage_ok(leat_file_close(file));
    const uint64_t shift = stage->shift;
    way_end(way, stage, &fake);
    stage->shift = shift;
    return done;
}

// What the ring has under way when the file is cut was whole when it was read.
static void a_file_that_shrinks_ends_where_it_ended(void **state)
{
    struct stage *stage = *state;
    for (size_t i = 0; i < file_way_count; i++) {
        const struct way *way = &file_ways[i];
        uint64_t done = read_changing(way, stage, FILE_BYTES, CUT_BYTES);
        bool ring = strcmp(way->path, "odirect") == 0 && !way->no_ring;
        if (ring ? done < CUT_BYTES : done != CUT_BYTES)
            fail_msg("%s: %llu bytes", way->name, (unsigned long long)done);
        if (strcmp(way->path, "buffered") == 0)
            stage_check(stage, 0, done, FILE_BYTES);
        for (uint64_t at = 0; at < done; at++)
            assert_int_equal(stage->buffer[stage->shift + at], stage_byte(at));
        stage->shift = 0;
    }
}

static void a_file_that_grows_has_no_gap(void **state)
{
    struct stage *stage = *state;
    for (size_t i = 0; i < file_way_count; i++) {
        uint64_t done = read_changing(&file_ways[i], stage, CUT_BYTES, FILE_BYTES);
        if (done < CUT_BYTES || done > FILE_BYTES)
            fail_msg("%s: %llu bytes", file_ways[i].name, (unsigned long long)done);
        const unsigned char *at = stage->buffer + stage->shift;
        for (uint64_t j = 0; j < done; j++)
            assert_int_equal(at[j], j < CUT_BYTES ? stage_byte(j) : 0);
        stage->shift = 0;
    }
}

// What a file has become since it was opened is seen by the next call.
static void growth_between_calls_is_seen(void **state)
{
    struct stage *stage = *state;
    for (size_t i = 0; i < file_way_count; i++) {
        struct fake_copies fake;
        stage_fill(stage, CUT_BYTES);
        way_begin(&file_ways[i], stage, &fake, NULL);
        leat_file *file = way_open(&file_ways[i], stage, LEAT_FILE_READ);
        stage_read_checked(stage, file, 0, FILE_BYTES, CUT_BYTES);
        stage_fill(stage, FILE_BYTES);
        stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
        stage_fill(stage, 4097);
        stage_read_checked(stage, file, 0, FILE_BYTES, 4097);
        stage_ok(leat_file_close(file));
        way_end(&file_ways[i], stage, &fake);
    }
}

// What one way has written, the other reads: both see one file.
static void ways_see_what_others_have_written(void **state)
{
    struct stage *stage = *state;
    const int both = LEAT_FILE_READ | LEAT_FILE_WRITE;
    stage_fill(stage, FILE_BYTES);
    leat_file_options options = {.size = sizeof options, .flags = both, .direct = "on"};
    leat_file *direct = stage_open(stage, &options);
    options.direct = "off";
    leat_file *buffered = stage_open(stage, &options);
    static const unsigned char zeros[8192 * 3 + 77];
    uint64_t done = 0;
    for (int turn = 0; turn < 4; turn++) {
        leat_file *writer = turn % 2 ? direct : buffered, *reader = turn % 2 ? buffered : direct;
        uint64_t at = 4000 + 100000 * (uint64_t)turn;
        stage_ok(leat_file_write(writer, (leat_buffer){.address = (void *)(uintptr_t)zeros}, at,
                                 sizeof zeros, &done));
        stage_poison(stage, 40000);
        stage_ok(leat_file_read(reader, stage_buffer(stage), at - 1000, 40000, &done));
        assert_int_equal(done, 40000);
        for (uint64_t i = 0; i < 40000; i++) {
            bool zero = i >= 1000 && i < 1000 + sizeof zeros;
            assert_int_equal(stage->buffer[i], zero ? 0 : stage_byte(at - 1000 + i));
        }
    }
    stage_ok(leat_file_close(direct));
    stage_ok(leat_file_close(buffered));
}

// A call for much more than the file has, as programs that do not know its size make it.
static const leat_file_path *answer(leat_file *file, leat_file_info *info)
{
    leat_file_range range = {.bytes = UINT64_C(1) << 30, .buffer = {.address = file}};
    leat_file_call question = {.size = sizeof question, .ranges = &range, .range_count = 1};
    *info = (leat_file_info){.size = sizeof *info};
    stage_ok(leat_file_info_get(file, &question, info));
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        if (info->path[i].chosen)
            return &info->path[i];
    return NULL;
}

// Under auto, what is in memory is read from there, and what is not goes past it.
static void auto_goes_by_what_is_in_memory(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 4 << 20);
    leat_file *file = stage_open(stage, NULL);
    leat_file_info info;
    assert_string_equal(answer(file, &info)->name, "buffered");
    if (info.direct_offset_alignment)
        assert_non_null(strstr(info.path[FILE_ODIRECT].reason, "page cache"));
    stage_ok(leat_file_drop(file, 0, 0));
    uint64_t cached = 0;
    stage_ok(leat_file_cached(file, 0, 0, &cached));
    const leat_file_path *path = answer(file, &info);
    if (!info.direct_offset_alignment || cached) {
        stage_ok(leat_file_close(file));
        skip(); // memory is all there is of this file system
    }
    assert_string_equal(path->name, "odirect");
    stage_read_checked(stage, file, 0, 4 << 20, 4 << 20);
    path = answer(file, &info);
    assert_string_equal(path->name, "odirect"); // direct reads leave nothing in memory
    assert_int_equal(path->bytes, 4 << 20);
    // Small calls do not ask.
    stage_read_checked(stage, file, 0, 4096, 4096);
    answer(file, &info);
    assert_int_equal(info.path[FILE_BUFFERED].bytes, 4096);
    stage_ok(leat_file_close(file));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_begin, stage_end)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_shrinks_ends_where_it_ended),
        TEST(a_file_that_grows_has_no_gap),
        TEST(growth_between_calls_is_seen),
        TEST(ways_see_what_others_have_written),
        TEST(auto_goes_by_what_is_in_memory),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
