// SPDX-License-Identifier: Apache-2.0
// Calls in the order of a stream: one that a thread of the test plays.

#define _GNU_SOURCE
#include "support/fake_copies.h"
#include "support/file_stage.h"

#include "device/copies.h"

#include <pthread.h>

#define FILE_BYTES UINT64_C(600007)

// The stream stands at the hold until it is released.
struct copies_hold {
    void (*begin)(void *user, int error);
    void *user;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct copies_hold hold;
    int holds, releases, refuse, error;
} stream = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static struct fake_copies fake;
static struct copies_ops table;

static int hold(struct device *device, void (*begin)(void *user, int error), void *user,
                struct copies_hold **held)
{
    (void)device;
    if (stream.refuse)
        return leat_fail(stream.refuse, "the stream takes nothing");
    pthread_mutex_lock(&stream.lock);
    stream.hold = (struct copies_hold){begin, user};
    stream.holds++;
    *held = &stream.hold;
    pthread_mutex_unlock(&stream.lock);
    return 0;
}

static void release(struct device *device, struct copies_hold *held)
{
    (void)device;
    pthread_mutex_lock(&stream.lock);
    assert_ptr_equal(held, &stream.hold);
    stream.releases++;
    pthread_cond_broadcast(&stream.change);
    pthread_mutex_unlock(&stream.lock);
}

// The stream comes to the call, and stands until it may go on.
static void *play(void *unused)
{
    (void)unused;
    if (stream.error)
        leat_fail(stream.error, "the stream has failed before the call");
    stream.hold.begin(stream.hold.user, stream.error);
    pthread_mutex_lock(&stream.lock);
    while (stream.releases < stream.holds)
        pthread_cond_wait(&stream.change, &stream.lock);
    pthread_mutex_unlock(&stream.lock);
    return NULL;
}

static int begin(void **state)
{
    setenv("LEAT_FILE_TASK", "64K", 1);
    setenv("LEAT_FILE_THREADS", "2", 1);
    int error = stage_begin(state);
    if (error)
        return error;
    struct stage *stage = *state;
    stage_fill(stage, FILE_BYTES);
    fake_copies_begin(&fake, stage->job, stage->buffer, STAGE_BYTES + 4096, 5);
    table = *fake.ops.copies;
    table.hold = hold;
    table.release = release;
    fake.ops.copies = &table;
    stream.holds = stream.releases = stream.refuse = stream.error = 0;
    return 0;
}

static int end(void **state)
{
    int error = stage_end(state);
    fake_copies_forget();
    return error || stream.holds != stream.releases;
}

static int start(const struct stage *stage, leat_file *file, leat_file_range *range,
                 leat_file_request **request)
{
    *range = (leat_file_range){.bytes = FILE_BYTES + 10, .buffer = stage_buffer(stage), .done = 77};
    const leat_file_call call = {
        .size = sizeof call, .ranges = range, .range_count = 1, .in_stream = 1};
    return leat_file_start(file, &call, request);
}

static void a_call_begins_with_the_stream_and_holds_it(void **state)
{
    struct stage *stage = *state;
    leat_file *file = stage_open(stage, NULL);
    leat_file_request *request = NULL;
    leat_file_range range;
    uint64_t done = 0;
    pthread_t thread;
    stage_poison(stage, FILE_BYTES + 10);
    stage_ok(start(stage, file, &range, &request));
    // The stream has not come to it.
    assert_int_equal(leat_file_wait(request, 0, NULL), -ETIMEDOUT);
    assert_int_equal(fake_copies_count(), 0);
    stage_check(stage, 0, 0, FILE_BYTES);
    assert_int_equal(pthread_create(&thread, NULL, play, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    // It goes on only when all is there.
    stage_check(stage, 0, FILE_BYTES, FILE_BYTES + 10);
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, FILE_BYTES);
    assert_int_equal(range.done, FILE_BYTES);
    assert_int_equal(stream.releases, 1);
    stage_ok(leat_file_close(file));
}

static void a_failed_stream_is_the_calls_error(void **state)
{
    struct stage *stage = *state;
    leat_file *file = stage_open(stage, NULL);
    leat_file_request *request = NULL;
    leat_file_range range;
    uint64_t done = 5;
    pthread_t thread;
    stage_poison(stage, FILE_BYTES + 10);
    stage_ok(start(stage, file, &range, &request));
    stream.error = -EIO;
    assert_int_equal(pthread_create(&thread, NULL, play, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(leat_file_wait(request, -1, &done), -EIO);
    assert_non_null(strstr(leat_error_detail(), "the stream has failed before the call"));
    assert_int_equal(done, 0);
    stage_check(stage, 0, 0, FILE_BYTES);
    stage_ok(leat_file_close(file));
}

static void a_failed_call_lets_the_stream_go_on(void **state)
{
    struct stage *stage = *state;
    leat_file *file = stage_open(stage, NULL);
    leat_file_request *request = NULL;
    leat_file_range range;
    pthread_t thread;
    fake_copies_fail_at(stage->buffer + 300000);
    stage_ok(start(stage, file, &range, &request));
    assert_int_equal(pthread_create(&thread, NULL, play, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(leat_file_wait(request, -1, NULL), -EIO);
    assert_int_equal(stream.releases, 1);
    stage_ok(leat_file_close(file));
}

static void a_call_of_nothing_is_over_when_its_turn_comes(void **state)
{
    struct stage *stage = *state;
    leat_file *file = stage_open(stage, NULL);
    leat_file_request *request = NULL;
    const leat_file_call call = {.size = sizeof call, .in_stream = 1};
    pthread_t thread;
    stage_ok(leat_file_start(file, &call, &request));
    assert_int_equal(leat_file_wait(request, 0, NULL), -ETIMEDOUT);
    assert_int_equal(pthread_create(&thread, NULL, play, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    stage_ok(leat_file_wait(request, 0, NULL));
    stage_ok(leat_file_close(file));
}

static void a_stream_that_refuses_leaves_nothing_behind(void **state)
{
    struct stage *stage = *state;
    leat_file *file = stage_open(stage, NULL);
    leat_file_request *request = NULL;
    leat_file_range range;
    stream.refuse = -ENOTSUP;
    assert_int_equal(start(stage, file, &range, &request), -ENOTSUP);
    assert_null(request);
    assert_non_null(strstr(leat_error_detail(), "the stream takes nothing"));
    stage_ok(leat_file_close(file));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_begins_with_the_stream_and_holds_it),
        TEST(a_failed_stream_is_the_calls_error),
        TEST(a_failed_call_lets_the_stream_go_on),
        TEST(a_call_of_nothing_is_over_when_its_turn_comes),
        TEST(a_stream_that_refuses_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
