// SPDX-License-Identifier: Apache-2.0
// Calls: begun, waited for, given up; closing under them; several threads.

#define _GNU_SOURCE
#include "support/file_ways.h"

#include "core/signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#define FILE_BYTES UINT64_C(1200007)

static bool said(const char *words)
{
    return strstr(leat_error_detail(), words);
}

static leat_file_range range_at(const struct stage *stage, uint64_t offset, uint64_t bytes)
{
    leat_file_range range = {.file_offset = offset, .bytes = bytes, .buffer = stage_buffer(stage)};
    range.buffer.offset = offset;
    return range;
}

static leat_file_request *start(leat_file *file, leat_file_range *ranges, size_t count)
{
    const leat_file_call call = {.size = sizeof call, .ranges = ranges, .range_count = count};
    leat_file_request *request = NULL;
    stage_ok(leat_file_start(file, &call, &request));
    return request;
}

// ---- Ends ----

static void an_empty_call_is_over_at_once(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 100);
    leat_file *file = stage_open(stage, NULL);
    uint64_t done = 5;
    stage_ok(leat_file_wait(start(file, NULL, 0), 0, &done));
    assert_int_equal(done, 0);
    leat_file_range range = range_at(stage, 50, 0);
    range.done = 5;
    stage_ok(leat_file_wait(start(file, &range, 1), 0, &done));
    assert_int_equal(range.done, 0);
    stage_ok(leat_file_close(file));
}

static void a_signal_is_raised_when_the_call_is_over(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    leat_file *file = stage_open(stage, NULL);
    const leat_region_options options = {.size = sizeof options, .bytes = 128};
    leat_region *region = NULL;
    stage_ok(leat_region_alloc(stage->job, &options, &region));
    leat_file_range range = range_at(stage, 0, FILE_BYTES);
    leat_file_call call = {.size = sizeof call,
                           .ranges = &range,
                           .range_count = 1,
                           .signal = {region, 64},
                           .value = 7};
    stage_poison(stage, FILE_BYTES);
    leat_file_request *request = NULL;
    stage_ok(leat_file_start(file, &call, &request));
    const leat_event event = {.signal = {region, 64}, .at_least = 7, .from = -1};
    stage_ok(leat_wait(stage->job, &event, 1, LEAT_WAIT_ALL, -1, NULL));
    assert_int_equal(range.done, FILE_BYTES);
    stage_check(stage, 0, FILE_BYTES, FILE_BYTES);
    stage_ok(leat_file_wait(request, -1, NULL));
    call.signal.offset = 8;
    assert_int_equal(leat_file_start(file, &call, &request), -EINVAL);
    stage_ok(leat_file_close(file));
    leat_region_free(region);
}

static void in_stream_order_on_the_cpu_it_is_over_on_return(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = range_at(stage, 0, FILE_BYTES);
    const leat_file_call call = {
        .size = sizeof call, .ranges = &range, .range_count = 1, .in_stream = 1};
    stage_poison(stage, FILE_BYTES);
    leat_file_request *request = NULL;
    stage_ok(leat_file_start(file, &call, &request));
    stage_check(stage, 0, FILE_BYTES, FILE_BYTES);
    stage_ok(leat_file_wait(request, 0, NULL));
    stage_ok(leat_file_close(file));
}

// ---- Deadlines ----

static void a_wait_has_a_deadline_and_can_be_repeated(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    stage->job->file_system = faults_set(&(struct file_faults){.hold_reads = true});
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = range_at(stage, 4096, 8000);
    leat_file_request *request = start(file, &range, 1);
    assert_int_equal(leat_file_wait(request, 0, NULL), -ETIMEDOUT);
    assert_int_equal(leat_file_wait(request, 0.01, NULL), -ETIMEDOUT);
    assert_true(said(stage->path) && said("8000 bytes at offset 4096"));
    faults_release();
    uint64_t done = 0;
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, 8000);
    stage_ok(leat_file_close(file));
}

static void the_jobs_time_out_counts_from_the_last_byte(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    stage->job->timeout_ns = 50000000;
    stage->job->file_system = faults_set(&(struct file_faults){.hold_reads = true});
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = range_at(stage, 0, FILE_BYTES);
    leat_file_request *request = start(file, &range, 1);
    uint64_t before = leat_now_ns();
    assert_int_equal(leat_file_wait(request, -1, NULL), -ETIMEDOUT);
    assert_true(leat_now_ns() - before >= 50000000);
    faults_release();
    stage_ok(leat_file_wait(request, 10, NULL));
    stage_ok(leat_file_close(file));
}

// A blocking call that nobody can wait for again ends by itself; closing waits for it.
static void a_blocking_call_that_is_late_is_left_alone(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    stage->job->timeout_ns = 20000000;
    stage->job->file_system = faults_set(&(struct file_faults){.hold_reads = true});
    leat_file *file = stage_open(stage, NULL);
    file->here = false; // as where a server is behind the file
    uint64_t done = 5;
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -ETIMEDOUT);
    assert_int_equal(done, 0);
    faults_release();
    stage_ok(leat_file_close(file));
    assert_int_equal(stage->buffer[0], stage_byte(0));
    assert_int_equal(stage->buffer[FILE_BYTES - 1], stage_byte(FILE_BYTES - 1));
}

// ---- Closing ----

static void *release_soon(void *user)
{
    struct leat_file *file = user;
    // As soon as somebody waits for the file to be quiet, or a little later.
    pthread_mutex_lock(&file->lock);
    pthread_mutex_unlock(&file->lock);
    faults_release();
    return NULL;
}

static void closing_waits_for_calls(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    stage->job->file_system = faults_set(&(struct file_faults){.hold_reads = true});
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = range_at(stage, 0, FILE_BYTES);
    stage_poison(stage, FILE_BYTES);
    leat_file_request *request = start(file, &range, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_soon, file), 0);
    stage_ok(leat_file_close(file));
    stage_check(stage, 0, FILE_BYTES, FILE_BYTES);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uint64_t done = 0;
    stage_ok(leat_file_wait(request, 0, &done));
    assert_int_equal(done, FILE_BYTES);
}

static void a_job_that_closes_leaves_files_that_can_only_be_closed(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = range_at(stage, 0, FILE_BYTES);
    stage_poison(stage, FILE_BYTES);
    leat_file_request *request = start(file, &range, 1);
    leat_close(stage->job, NULL);
    stage_check(stage, 0, FILE_BYTES, FILE_BYTES);
    uint64_t done = 5;
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, 10, &done), -ESHUTDOWN);
    assert_int_equal(done, 0);
    assert_int_equal(leat_file_sync(file), -EBADF);
    leat_file_info info = {.size = sizeof info};
    assert_int_equal(leat_file_info_get(file, NULL, &info), -ESHUTDOWN);
    stage_ok(leat_file_wait(request, 0, &done));
    assert_int_equal(done, FILE_BYTES);
    stage_ok(leat_file_close(file));
    stage_ok(leat_open(NULL, &stage->job));
}

// ---- F6: many large requests ----

static void many_requests_are_complete_or_an_error(void **state)
{
    enum { CALLS = 256, EACH = 131072 };
    static leat_file_range range[CALLS];
    static leat_file_request *request[CALLS];
    struct stage *stage = *state;
    stage_fill(stage, (uint64_t)CALLS * EACH);
    leat_file *file = stage_open(stage, NULL);
    stage_poison(stage, (uint64_t)CALLS * EACH);
    for (int i = 0; i < CALLS; i++) {
        range[i] = range_at(stage, (uint64_t)(i * 101 % CALLS) * EACH, EACH);
        request[i] = start(file, &range[i], 1);
    }
    for (int i = 0; i < CALLS; i++) {
        uint64_t done = 0;
        stage_ok(leat_file_wait(request[i], -1, &done));
        assert_int_equal(done, EACH);
    }
    stage_check(stage, 0, (uint64_t)CALLS * EACH, (uint64_t)CALLS * EACH);
    stage_ok(leat_file_close(file));
}

// ---- Threads ----

struct reader {
    pthread_t thread;
    leat_file *file;
    unsigned char *to;
    uint64_t bytes;
    int number, wrong;
};

static void *read_own_part(void *user)
{
    struct reader *reader = user;
    const uint64_t begin = (uint64_t)reader->number * reader->bytes;
    for (int turn = 0; turn < 8; turn++) {
        uint64_t step = UINT64_C(7001) << turn, done = 0;
        memset(reader->to, STAGE_POISON, reader->bytes);
        for (uint64_t at = 0; at < reader->bytes; at += step) {
            uint64_t part = reader->bytes - at < step ? reader->bytes - at : step;
            const leat_buffer to = {.address = reader->to + at};
            if (leat_file_read(reader->file, to, begin + at, part, &done) || done != part)
                reader->wrong++;
        }
        for (uint64_t i = 0; i < reader->bytes; i++)
            reader->wrong += reader->to[i] != stage_byte(begin + i);
    }
    return NULL;
}

static void threads_share_a_file(void **state)
{
    enum { READERS = 4 };
    struct stage *stage = *state;
    struct reader reader[READERS];
    const uint64_t each = 1100000;
    stage_fill(stage, READERS * each);
    leat_file *file = stage_open(stage, NULL);
    for (int i = 0; i < READERS; i++) {
        reader[i] = (struct reader){
            .file = file, .to = stage->buffer + (uint64_t)i * each, .bytes = each, .number = i};
        assert_int_equal(pthread_create(&reader[i].thread, NULL, read_own_part, &reader[i]), 0);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(reader[i].thread, NULL);
        assert_int_equal(reader[i].wrong, 0);
    }
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.path[FILE_BUFFERED].bytes, 8 * READERS * each);
    stage_ok(leat_file_close(file));
}

// In the child: 0 when the call is refused, with the reason.
static int start_in_child(leat_file *file, const leat_file_call *call)
{
    leat_file_request *request = NULL;
    int error = leat_file_start(file, call, &request);
    if (!error)
        error = leat_file_wait(request, -1, NULL);
    return error == -EINVAL && strstr(leat_error_detail(), "fork") ? 0 : 1;
}

// Threads stay behind at fork: a call that needs them says so, at once.
static void a_call_after_fork_is_refused(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 100000);
    stage->job->timeout_ns = 300000000;
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range = {.bytes = 100000, .buffer = stage_buffer(stage)};
    const leat_file_call call = {.size = sizeof call, .ranges = &range, .range_count = 1};
    for (int i = 0; i < 2; i++) {
        leat_file_request *request = NULL;
        stage_ok(leat_file_start(file, &call, &request));
        stage_ok(leat_file_wait(request, -1, NULL));
        pid_t child = fork();
        if (!child)
            _exit(start_in_child(file, &call));
        int status = 1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    stage_ok(leat_file_close(file));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_begin, stage_end)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_call_is_over_at_once),
        TEST(a_signal_is_raised_when_the_call_is_over),
        TEST(in_stream_order_on_the_cpu_it_is_over_on_return),
        TEST(a_wait_has_a_deadline_and_can_be_repeated),
        TEST(the_jobs_time_out_counts_from_the_last_byte),
        TEST(a_blocking_call_that_is_late_is_left_alone),
        TEST(closing_waits_for_calls),
        TEST(a_job_that_closes_leaves_files_that_can_only_be_closed),
        TEST(many_requests_are_complete_or_an_error),
        TEST(a_call_after_fork_is_refused),
        TEST(threads_share_a_file),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
