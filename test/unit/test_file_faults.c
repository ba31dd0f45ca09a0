// SPDX-License-Identifier: Apache-2.0
// System calls that fail, are interrupted or do less than they were asked, on every way.

#define _GNU_SOURCE
#include "support/file_ways.h"

#include <fcntl.h>

#define FILE_BYTES UINT64_C(1200007)
#define FAULT_AT   (UINT64_C(4096) * 130)

typedef void way_test(const struct way *way, struct stage *stage);

static void each_way(struct stage *stage, const struct file_faults *faults, way_test *test)
{
    for (size_t i = 0; i < file_way_count; i++) {
        struct fake_copies fake;
        stage_fill(stage, FILE_BYTES);
        way_begin(&file_ways[i], stage, &fake, faults);
        test(&file_ways[i], stage);
        way_end(&file_ways[i], stage, &fake);
    }
}

static bool said(const char *words)
{
    return strstr(leat_error_detail(), words);
}

// ---- F4: interrupted, and short ----

static void read_all(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    stage_read_checked(stage, file, 4097, 300000, 300000);
    stage_read_checked(stage, file, FILE_BYTES - 5, 300000, 5);
    way_check_bytes(way, file, FILE_BYTES + 300000 + 5);
    assert_true(faults_calls() > FILE_BYTES / 8192);
    stage_ok(leat_file_close(file));
}

static void read_all_of_it(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES + 10, FILE_BYTES);
    stage_read_checked(stage, file, 4097, 900000, 900000);
    way_check_bytes(way, file, FILE_BYTES + 900000);
    stage_ok(leat_file_close(file));
}

static void interrupted_and_short_reads_go_on(void **state)
{
    // The page cache has no blocks; a device's short transfers end at them.
    const struct file_faults faults = {.interrupt_every = 3, .most_bytes = 4096};
    each_way(*state, &faults, read_all);
}

static void write_all(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
    uint64_t done = 0;
    stage_stamp(stage, 0, FILE_BYTES);
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    way_check_written(way, file, FILE_BYTES, FILE_BYTES % 4096);
    stage_ok(leat_file_close(file));
    stage_check_file(stage, FILE_BYTES);
}

static void interrupted_and_short_writes_go_on(void **state)
{
    const struct file_faults faults = {.interrupt_every = 3, .most_bytes = 4096};
    each_way(*state, &faults, write_all);
}

// ---- Deadlines ----

static struct {
    leat_file_request *request;
    uint64_t calls, first, last; /* of the system; when the request had last moved by then */
} seen;

static void look_at_request(uint64_t offset)
{
    (void)offset;
    seen.last = __atomic_load_n(&seen.request->moved_ns, __ATOMIC_RELAXED);
    seen.first = seen.calls++ ? seen.first : seen.last;
}

// A task of many short transfers has moved with each of them, not with the last one.
static void move_slowly(const struct way *way, struct stage *stage, int flags)
{
    const bool writing = flags & LEAT_FILE_WRITE;
    leat_file_range range = {.bytes = 16384, .buffer = stage_buffer(stage)};
    const leat_file_call call = {.size = sizeof call,
                                 .operation = writing ? LEAT_FILE_OP_WRITE : LEAT_FILE_OP_READ,
                                 .ranges = &range,
                                 .range_count = 1};
    leat_file *file = way_open(way, stage, flags);
    memset(&seen, 0, sizeof seen);
    stage_ok(leat_file_start(file, &call, &seen.request));
    faults_release();
    stage_ok(leat_file_wait(seen.request, -1, NULL));
    assert_int_equal(range.done, 16384);
    if (strcmp(way->path, "buffered") == 0) {
        assert_int_equal(seen.calls, 32);
        assert_true(seen.last > seen.first);
    }
    stage_ok(leat_file_close(file));
}

static void read_slowly(const struct way *way, struct stage *stage)
{
    move_slowly(way, stage, LEAT_FILE_READ);
}

static void write_slowly(const struct way *way, struct stage *stage)
{
    move_slowly(way, stage, LEAT_FILE_WRITE);
}

static void every_short_transfer_has_moved(void **state)
{
    struct file_faults faults = {.most_bytes = 512, .hold_transfers = true};
    faults.before_read = look_at_request;
    each_way(*state, &faults, read_slowly);
    faults.before_read = NULL;
    faults.before_write = look_at_request;
    each_way(*state, &faults, write_slowly);
}

// ---- F16: errors, with their offset ----

static void read_to_error(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    uint64_t done = 0;
    stage_poison(stage, FILE_BYTES);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EIO);
    if (done != FAULT_AT)
        fail_msg("%s: %llu bytes", way->name, (unsigned long long)done);
    if (!said("at offset 532480") || !said(stage->path))
        fail_msg("%s: %s", way->name, leat_error_detail());
    for (uint64_t i = 0; i < done; i++)
        assert_int_equal(stage->buffer[stage->shift + i], stage_byte(i));
    way_check_bytes(way, file, done);
    stage_read_checked(stage, file, 0, FAULT_AT, FAULT_AT);
    stage_ok(leat_file_close(file));
}

static void a_read_error_names_its_offset(void **state)
{
    const struct file_faults faults = {.read_error = EIO, .read_at = FAULT_AT};
    each_way(*state, &faults, read_to_error);
}

static void write_to_error(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE);
    uint64_t done = 0;
    stage_stamp(stage, 0, FILE_BYTES);
    assert_int_equal(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done), -ENOSPC);
    if (done != FAULT_AT)
        fail_msg("%s: %llu bytes", way->name, (unsigned long long)done);
    if (!said("at offset 532480") || !said("free some space"))
        fail_msg("%s: %s", way->name, leat_error_detail());
    stage_ok(leat_file_close(file));
}

static void a_full_device_is_an_error_with_the_count(void **state)
{
    const struct file_faults faults = {.write_error = ENOSPC, .write_at = FAULT_AT};
    each_way(*state, &faults, write_to_error);
}

// The system's "try again" is an error as others are; the path is not to blame.
static void read_to_again(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    uint64_t done = 0;
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EAGAIN);
    assert_int_equal(done, FAULT_AT);
    if (!said("at offset 532480") || !said("temporarily unavailable"))
        fail_msg("%s: %s", way->name, leat_error_detail());
    leat_file_range range[2];
    for (int i = 0; i < 2; i++) {
        range[i] = (leat_file_range){.file_offset = FAULT_AT + (uint64_t)i * 9000,
                                     .bytes = 100,
                                     .buffer = stage_buffer(stage)};
    }
    const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = 2};
    leat_file_request *request = NULL;
    stage_ok(leat_file_start(file, &call, &request));
    assert_int_equal(leat_file_wait(request, -1, &done), -EAGAIN);
    assert_int_equal(done, 0);
    way_check_bytes(way, file, FAULT_AT);
    stage_ok(leat_file_close(file));
}

static void write_to_again(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE);
    uint64_t done = 0;
    assert_int_equal(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EAGAIN);
    assert_int_equal(done, FAULT_AT);
    assert_true(said("at offset 532480"));
    stage_ok(leat_file_close(file));
}

static void the_systems_eagain_comes_back(void **state)
{
    const struct file_faults faults = {
        .read_error = EAGAIN, .read_at = FAULT_AT, .write_error = EAGAIN, .write_at = FAULT_AT};
    each_way(*state, &faults, write_to_again);
    const struct file_faults reads = {.read_error = EAGAIN, .read_at = FAULT_AT};
    each_way(*state, &reads, read_to_again);
}

// Of several ranges, each has its own count, and the lowest offset is named.
static void ranges_to_error(const struct way *way, struct stage *stage)
{
    enum { EACH = 300000 };
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    leat_file_range range[4];
    for (int i = 0; i < 4; i++) {
        range[i] = (leat_file_range){.file_offset = (uint64_t)i * EACH,
                                     .bytes = EACH,
                                     .buffer = stage_buffer(stage),
                                     .done = 99};
        range[i].buffer.offset = (uint64_t)i * EACH;
    }
    const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = 4};
    leat_file_request *request = NULL;
    uint64_t done = 0;
    stage_ok(leat_file_start(file, &call, &request));
    assert_int_equal(leat_file_wait(request, -1, &done), -EIO);
    assert_true(said("at offset 532480"));
    assert_int_equal(range[0].done, EACH);
    assert_int_equal(range[1].done, FAULT_AT - EACH);
    assert_int_equal(range[2].done, 0);
    assert_int_equal(range[3].done, 0);
    assert_int_equal(done, FAULT_AT);
    stage_ok(leat_file_close(file));
}

static void every_range_has_its_count(void **state)
{
    const struct file_faults faults = {.read_error = EIO, .read_at = FAULT_AT};
    each_way(*state, &faults, ranges_to_error);
}

// ---- F1: direct I/O refused ----

static void read_refused(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    stage_read_checked(stage, file, 1, 300000, 300000);
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.path[FILE_ODIRECT].bytes, 0);
    assert_int_equal(info.path[FILE_BUFFERED].bytes, FILE_BYTES + 300000);
    assert_int_equal(info.path[FILE_BUFFERED].chosen, 1);
    if (strcmp(way->path, "odirect") == 0 && !strstr(info.path[FILE_ODIRECT].reason, "refused"))
        fail_msg("%s: %s", way->name, info.path[FILE_ODIRECT].reason);
    stage_ok(leat_file_close(file));
}

static void a_direct_read_that_is_refused_goes_the_other_way(void **state)
{
    const struct file_faults faults = {.direct_error = EINVAL};
    each_way(*state, &faults, read_refused);
}

static void write_refused(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
    uint64_t done = 0;
    stage_stamp(stage, 0, FILE_BYTES);
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    stage_ok(leat_file_close(file));
    stage_check_file(stage, FILE_BYTES);
    (void)way;
}

static void a_direct_write_that_is_refused_goes_the_other_way(void **state)
{
    const struct file_faults faults = {.direct_error = EINVAL};
    each_way(*state, &faults, write_refused);
}

static void open_refused(const struct way *way, struct stage *stage)
{
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    assert_int_equal(faults_direct_calls(), 0);
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.path[FILE_BUFFERED].bytes, FILE_BYTES);
    stage_ok(leat_file_close(file));
    // Who requires it is told why.
    const leat_file_options options = {.size = sizeof options, .require = "odirect"};
    assert_int_equal(leat_file_open(stage->job, stage->path, &options, &file), -ENOTSUP);
    assert_true(said("odirect") && said("Invalid argument"));
}

static void a_file_without_direct_descriptors_goes_the_other_way(void **state)
{
    const struct file_faults faults = {.direct_open_error = EINVAL};
    each_way(*state, &faults, open_refused);
}

// A descriptor that is missing for a moment is asked for again by the next call.
static void open_busy(const struct way *way, struct stage *stage)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM};
    for (int i = 0; i < 3; i++) {
        struct file_faults faults = {.direct_open_error = errors[i]};
        faults_set(&faults);
        leat_file *file = way_open(way, stage, LEAT_FILE_READ), *none = NULL;
        stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
        leat_file_info info = {.size = sizeof info};
        stage_ok(leat_file_info_get(file, NULL, &info));
        assert_int_equal(info.path[FILE_BUFFERED].bytes, FILE_BYTES);
        if (!strstr(info.path[FILE_ODIRECT].reason, strerror(errors[i])))
            fail_msg("%s", info.path[FILE_ODIRECT].reason);
        const leat_file_options options = {.size = sizeof options, .require = "odirect"};
        assert_int_equal(leat_file_open(stage->job, stage->path, &options, &none), -errors[i]);
        assert_true(said("odirect") && said(strerror(errors[i])));
        faults.direct_open_error = 0;
        faults_set(&faults);
        stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
        stage_ok(leat_file_info_get(file, NULL, &info));
        assert_int_equal(info.path[FILE_ODIRECT].bytes, FILE_BYTES);
        stage_ok(leat_file_close(file));
    }
}

static void a_descriptor_missing_for_a_moment_forbids_nothing(void **state)
{
    struct stage *stage = *state;
    struct fake_copies fake;
    for (size_t i = 0; i < file_way_count; i++)
        if (!strcmp(file_ways[i].path, "odirect") && !file_ways[i].no_ring) {
            stage_fill(stage, FILE_BYTES);
            way_begin(&file_ways[i], stage, &fake, NULL);
            open_busy(&file_ways[i], stage);
            way_end(&file_ways[i], stage, &fake);
        }
}

// A ring that can be made and not be used, as some containers have it.
static void a_ring_that_cannot_be_entered_is_left(void **state)
{
    const struct file_faults faults = {.enter_error = EPERM, .interrupt_every = 5};
    each_way(*state, &faults, read_all_of_it);
    each_way(*state, &faults, write_all);
}

// ---- The file as a whole ----

static void calls_of_the_whole_file_say_what_the_system_says(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 5000);
    struct file_faults faults = {.sync_error = EIO, .resize_error = EFBIG, .close_error = EDQUOT};
    stage->job->file_system = faults_set(&faults);
    const leat_file_options options = {.size = sizeof options, .flags = LEAT_FILE_WRITE};
    leat_file *file = stage_open(stage, &options);
    assert_int_equal(leat_file_sync(file), -EIO);
    assert_int_equal(leat_file_drop(file, 0, 0), -EIO);
    assert_true(said(stage->path));
    assert_int_equal(leat_file_resize(file, 1), -EFBIG);
    assert_int_equal(leat_file_close(file), -EDQUOT);
    assert_true(said(stage->path));
    faults = (struct file_faults){.open_error = EMFILE};
    faults_set(&faults);
    file = NULL;
    assert_int_equal(leat_file_open(stage->job, stage->path, NULL, &file), -EMFILE);
    assert_true(said("ulimit") && !file);
    faults = (struct file_faults){.fstat_error = EIO};
    faults_set(&faults);
    assert_int_equal(leat_file_open(stage->job, stage->path, NULL, &file), -EIO);
    faults_set(&(struct file_faults){0});
}

static void an_interrupted_sync_goes_on(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 5000);
    const struct file_faults faults = {.sync_interrupts = 2};
    stage->job->file_system = faults_set(&faults);
    const leat_file_options options = {.size = sizeof options, .flags = LEAT_FILE_WRITE};
    leat_file *file = stage_open(stage, &options);
    stage_ok(leat_file_drop(file, 0, 0));
    faults_set(&faults);
    stage_ok(leat_file_sync(file));
    stage_ok(leat_file_close(file));
    faults_set(&(struct file_faults){0});
}

// Who only looks is not told that nothing moves.
static void a_look_says_that_the_call_is_under_way(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 5000);
    const struct file_faults faults = {.hold_reads = true};
    stage->job->file_system = faults_set(&faults);
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = {.bytes = 5000, .buffer = stage_buffer(stage)};
    const leat_file_call call = {.size = sizeof call, .ranges = &range, .range_count = 1};
    leat_file_request *request = NULL;
    uint64_t done = 77;
    stage_ok(leat_file_start(file, &call, &request));
    assert_int_equal(leat_file_wait(request, 0, &done), -ETIMEDOUT);
    assert_true(said("still under way") && !said("moved"));
    assert_int_equal(done, 77);
    faults_release();
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, 5000);
    stage_ok(leat_file_close(file));
}

// A copy to the device that fails is an error of the call, which then counts nothing of the task.
static void read_copy_fails(const struct way *way, struct stage *stage)
{
    if (!way->device)
        return;
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    uint64_t done = 0;
    fake_copies_fail_at(stage->buffer + way->shift + 600000);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EIO);
    assert_true(done <= 600000);
    assert_true(said("a copy has failed"));
    fake_copies_fail_at(NULL);
    stage_ok(leat_file_close(file));
}

static void a_copy_that_fails_is_an_error(void **state)
{
    each_way(*state, NULL, read_copy_fails);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_begin, stage_end)
    const struct CMUnitTest tests[] = {
        TEST(interrupted_and_short_reads_go_on),
        TEST(interrupted_and_short_writes_go_on),
        TEST(every_short_transfer_has_moved),
        TEST(a_read_error_names_its_offset),
        TEST(a_full_device_is_an_error_with_the_count),
        TEST(the_systems_eagain_comes_back),
        TEST(every_range_has_its_count),
        TEST(a_direct_read_that_is_refused_goes_the_other_way),
        TEST(a_direct_write_that_is_refused_goes_the_other_way),
        TEST(a_file_without_direct_descriptors_goes_the_other_way),
        TEST(a_descriptor_missing_for_a_moment_forbids_nothing),
        TEST(a_ring_that_cannot_be_entered_is_left),
        TEST(calls_of_the_whole_file_say_what_the_system_says),
        TEST(an_interrupted_sync_goes_on),
        TEST(a_look_says_that_the_call_is_under_way),
        TEST(a_copy_that_fails_is_an_error),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
