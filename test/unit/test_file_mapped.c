// SPDX-License-Identifier: Apache-2.0
// Pages of the page cache, mapped and registered: memory of the host in place of a GPU's, and
// registered pages that keep what they held, as pinned ones do.

#define _GNU_SOURCE
#include "support/fake_copies.h"
#include "support/file_stage.h"

#include "device/copies.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define MIB        (UINT64_C(1) << 20)
#define FILE_BYTES (24 * MIB + 4567)
#define PINS       256

struct pinned {
    char *map, *kept;
    uint64_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct pinned pinned[PINS];
    int pins, unpins, maps, unmaps;
    int pin_error, map_error;
    uint64_t truncate_to; /* by the first pin; 0: not */
    const char *path;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct fake_copies fake;
static struct copies_ops table;
static const struct copies_ops *under;
static struct file_system_calls calls;

// ---- The device ----

static int pin(struct device *device, void *address, uint64_t bytes, bool read_only)
{
    (void)device;
    (void)read_only;
    if (world.pin_error)
        return leat_fail(world.pin_error, "registering is off today");
    pthread_mutex_lock(&world.lock);
    struct pinned *at = world.pinned;
    while (at->map)
        at++;
    assert_true(at < world.pinned + PINS);
    *at = (struct pinned){address, malloc(bytes), bytes};
    assert_non_null(at->kept);
    memcpy(at->kept, address, bytes);
    if (world.pins++ == 0 && world.truncate_to)
        assert_int_equal(truncate(world.path, (off_t)world.truncate_to), 0);
    pthread_mutex_unlock(&world.lock);
    return 0;
}

static void unpin(struct device *device, void *address, uint64_t bytes)
{
    (void)device;
    pthread_mutex_lock(&world.lock);
    struct pinned *at = world.pinned;
    while (at < world.pinned + PINS && (at->map != address || at->bytes != bytes))
        at++;
    assert_true(at < world.pinned + PINS);
    memset(at->kept, 0xee, bytes); // a copy that is not over shows
    free(at->kept);
    *at = (struct pinned){0};
    world.unpins++;
    pthread_mutex_unlock(&world.lock);
}

// From what the pages held when they were registered; the mapping itself is never read.
static int copy(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    const char *at = from;
    pthread_mutex_lock(&world.lock);
    for (int i = 0; i < PINS; i++) {
        const struct pinned *pinned = &world.pinned[i];
        if (pinned->map && at >= pinned->map && at + bytes <= pinned->map + pinned->bytes) {
            from = pinned->kept + (at - pinned->map);
            break;
        }
    }
    pthread_mutex_unlock(&world.lock);
    return under->copy(lane, to, from, bytes);
}

static void *map(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    assert_int_equal(protection, PROT_READ);
    if (world.map_error) {
        errno = world.map_error;
        return MAP_FAILED;
    }
    __atomic_fetch_add(&world.maps, 1, __ATOMIC_RELAXED);
    return file_system_real.mmap(address, bytes, protection, flags, fd, offset);
}

static int unmap(void *address, size_t bytes)
{
    __atomic_fetch_add(&world.unmaps, 1, __ATOMIC_RELAXED);
    return file_system_real.munmap(address, bytes);
}

// ---- Before and after a test ----

static void equip(struct stage *stage)
{
    fake_copies_begin(&fake, stage->job, stage->buffer, STAGE_BYTES + 4096, 3);
    under = fake.ops.copies;
    table = *under;
    table.pin = pin;
    table.unpin = unpin;
    table.copy = copy;
    fake.ops.copies = &table;
    calls = file_system_real;
    calls.mmap = map;
    calls.munmap = unmap;
    stage->job->file_system = &calls;
    world.pins = world.unpins = world.maps = world.unmaps = 0;
    world.pin_error = world.map_error = 0;
    world.truncate_to = 0;
    world.path = stage->path;
}

static int begin_with(void **state, const char *threads)
{
    setenv("LEAT_FILE_TASK", "1M", 1);
    setenv("LEAT_FILE_BUFFER", "64K", 1);
    setenv("LEAT_FILE_THREADS", threads, 1);
    setenv("LEAT_FILE_MAPPED_CHUNK", "4M", 1);
    int error = stage_begin(state);
    if (error)
        return error;
    equip(*state);
    stage_fill(*state, FILE_BYTES);
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, "2");
}

static int begin_alone(void **state)
{
    return begin_with(state, "1");
}

static int end(void **state)
{
    int error = stage_end(state);
    fake_copies_forget();
    return error || world.pins != world.unpins || world.maps != world.unmaps || fake_copies_lost();
}

static leat_file *open_as(const struct stage *stage, const char *require)
{
    const leat_file_options options = {.size = sizeof options, .direct = "off", .require = require};
    return stage_open(stage, &options);
}

static leat_file_info info_of(leat_file *file, const struct stage *stage, uint64_t bytes,
                              enum leat_file_operation operation)
{
    leat_file_info info = {.size = sizeof info};
    leat_file_range range = {.bytes = bytes, .buffer = stage_buffer(stage)};
    const leat_file_call question = {
        .size = sizeof question, .operation = operation, .ranges = &range, .range_count = 1};
    stage_ok(leat_file_info_get(file, &question, &info));
    return info;
}

static uint64_t went(leat_file *file, const struct stage *stage, enum file_row row)
{
    return info_of(file, stage, FILE_BYTES, LEAT_FILE_OP_READ).path[row].bytes;
}

static void reason_has(leat_file *file, const struct stage *stage, uint64_t bytes,
                       const char *words)
{
    leat_file_info info = info_of(file, stage, bytes, LEAT_FILE_OP_READ);
    if (!strstr(info.path[FILE_MAPPED].reason, words))
        fail_msg("\"%s\" is not in \"%s\"", words, info.path[FILE_MAPPED].reason);
}

// ---- Bytes and counts ----

static void one_lane_maps_at_a_time(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    reason_has(file, stage, FILE_BYTES, "whose pages the GPU copies itself");
    for (int i = 0; i < 4; i++)
        stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    assert_true(world.pins >= 4);
    assert_int_equal(went(file, stage, FILE_MAPPED), 4 * FILE_BYTES);
    stage_ok(leat_file_close(file));
}

static void a_lane_alone_maps_all(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    assert_int_equal(went(file, stage, FILE_MAPPED), FILE_BYTES);
    // Chunks of 4 MiB, and smaller ones towards the end.
    assert_in_range(world.pins, 6, 12);
    stage_ok(leat_file_close(file));
}

static void required_it_carries_anything(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, "mapped");
    uint64_t sum = 0;
    static const struct {
        uint64_t offset, bytes, count;
    } reads[] = {
        {0, 1, 1},
        {4095, 2, 2},
        {4097, 3000001, 3000001},
        {MIB - 1, 2 * MIB + 2, 2 * MIB + 2},
        {FILE_BYTES - 5, 3 * MIB, 5},
        {0, FILE_BYTES + 7, FILE_BYTES},
        {FILE_BYTES, MIB, 0},
        {FILE_BYTES + 99, 5, 0},
        {7, 0, 0},
    };
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        stage_read_checked(stage, file, reads[i].offset, reads[i].bytes, reads[i].count);
        sum += reads[i].count;
    }
    assert_int_equal(went(file, stage, FILE_MAPPED), sum);
    assert_int_equal(went(file, stage, FILE_BUFFERED), 0);
    stage_ok(leat_file_close(file));
}

// ---- What changes meanwhile ----
// One lane: others would have read some of what is cut off before it is, and count that by right.

static void a_file_that_shrinks_gives_a_short_count(void **state)
{
    struct stage *stage = *state;
    const uint64_t size = 5 * MIB + 321;
    uint64_t done = 0;
    leat_file *file = open_as(stage, NULL);
    world.truncate_to = size;
    stage_poison(stage, FILE_BYTES);
    stage_ok(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, size);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(stage->buffer[i], stage_byte(i));
    assert_int_equal(world.pins > 0, 1);
    stage_ok(leat_file_close(file));
}

static void a_file_that_shrinks_below_what_is_registered(void **state)
{
    struct stage *stage = *state;
    uint64_t done = 0;
    leat_file *file = open_as(stage, NULL);
    world.truncate_to = 1000;
    stage_ok(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, 1000);
    stage_ok(leat_file_close(file));
}

static void a_file_that_grows_is_read_on(void **state)
{
    struct stage *stage = *state;
    const uint64_t bytes = FILE_BYTES + 3 * MIB;
    uint64_t done = 0;
    leat_file *file = open_as(stage, NULL);
    world.truncate_to = bytes; // with zeros
    stage_poison(stage, bytes + MIB);
    stage_ok(leat_file_read(file, stage_buffer(stage), 0, bytes + MIB, &done));
    assert_int_equal(done, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(stage->buffer[i], i < FILE_BYTES ? stage_byte(i) : 0);
    for (uint64_t i = bytes; i < bytes + MIB; i++)
        assert_int_equal(stage->buffer[i], STAGE_POISON);
    stage_ok(leat_file_close(file));
}

// ---- Refusals ----

static void what_cannot_be_registered_is_read(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    world.pin_error = -ENOTSUP;
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    reason_has(file, stage, FILE_BYTES, "registering is off today");
    assert_int_equal(went(file, stage, FILE_BUFFERED), FILE_BYTES);
    stage_ok(leat_file_close(file));
    file = open_as(stage, "mapped");
    uint64_t done = 1;
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -ENOTSUP);
    assert_int_equal(done, 0);
    assert_non_null(strstr(leat_error_detail(), "registering is off today"));
    stage_ok(leat_file_close(file));
}

static void what_cannot_be_mapped_is_read(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    world.map_error = ENODEV;
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    reason_has(file, stage, FILE_BYTES, "cannot be mapped: No such device");
    stage_ok(leat_file_close(file));
}

static void failed_copies_are_an_error(void **state)
{
    struct stage *stage = *state;
    uint64_t done = 1;
    leat_file *file = open_as(stage, "mapped");
    fake_copies_fail_at(stage->buffer + 100);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EIO);
    assert_int_equal(done, 0);
    stage_ok(leat_file_close(file));
}

static void what_it_is_not_for_is_said(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    reason_has(file, stage, 15 * MIB, "shorter than 16 MiB");
    leat_file_info info = info_of(file, stage, FILE_BYTES, LEAT_FILE_OP_WRITE);
    assert_string_equal(info.path[FILE_MAPPED].reason, "reads only");
    uint64_t cached = 0;
    int fd = open(stage->path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fsync(fd), 0); // dirty pages stay
    close(fd);
    stage_ok(leat_file_drop(file, 0, 0));
    if (!leat_file_cached(file, 0, 0, &cached) && cached < FILE_BYTES / 2)
        reason_has(file, stage, FILE_BYTES, "is in the page cache");
    const leat_file_options past = {.size = sizeof past, .direct = "on"};
    leat_file *direct = stage_open(stage, &past);
    reason_has(direct, stage, FILE_BYTES, "direct (LEAT_FILE_DIRECT) is on");
    stage_ok(leat_file_close(direct));
    fake_copies_forget(); // memory of the host from here on
    reason_has(file, stage, FILE_BYTES, "the buffer is the host's");
    stage_ok(leat_file_close(file));
}

static int begin_many(void **state)
{
    return begin_with(state, "4");
}

static void many_threads_read_instead(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    reason_has(file, stage, FILE_BYTES, "4 threads (LEAT_FILE_THREADS) read faster");
    stage_ok(leat_file_close(file));
}

// ---- The caller's part ----

static int threads_of_process(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

// To memory of a GPU and from it.
static void a_call_of_one_task_wakes_no_thread(void **state)
{
    struct stage *stage = *state;
    const leat_file_options options = {
        .size = sizeof options, .flags = LEAT_FILE_READ | LEAT_FILE_WRITE, .direct = "off"};
    leat_file *file = stage_open(stage, &options);
    int before = threads_of_process();
    for (uint64_t bytes = 1; bytes < 200000; bytes = bytes * 3 + 1)
        stage_read_checked(stage, file, 4096 * 3 + 1, bytes, bytes);
    stage_stamp(stage, 0, 200000);
    uint64_t done = 0;
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, 200000, &done));
    assert_int_equal(done, 200000);
    assert_int_equal(threads_of_process(), before);
    stage_check_file(stage, FILE_BYTES);
    stage_ok(leat_file_close(file));
}

struct reader {
    struct stage stage;
    leat_file *file;
    pthread_t thread;
    int wrong;
};

static void *read_often(void *user)
{
    struct reader *reader = user;
    for (int i = 0; i < 50 && !reader->wrong; i++) {
        uint64_t done = 0, bytes = 5000 + (uint64_t)i * 40000;
        memset(reader->stage.buffer, STAGE_POISON, bytes);
        reader->wrong =
            leat_file_read(reader->file, stage_buffer(&reader->stage), 77, bytes, &done);
        for (uint64_t at = 0; at < bytes && !reader->wrong; at++)
            reader->wrong = done != bytes || reader->stage.buffer[at] != stage_byte(77 + at);
    }
    return NULL;
}

static void callers_do_not_wait_for_one_another(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL);
    struct reader reader[3];
    for (int i = 0; i < 3; i++) {
        reader[i] = (struct reader){.stage = *stage, .file = file};
        reader[i].stage.buffer += (uint64_t)i * (STAGE_BYTES / 4);
        assert_int_equal(pthread_create(&reader[i].thread, NULL, read_often, &reader[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(reader[i].thread, NULL), 0);
        assert_int_equal(reader[i].wrong, 0);
    }
    stage_ok(leat_file_close(file));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_lane_maps_at_a_time),
        cmocka_unit_test_setup_teardown(a_lane_alone_maps_all, begin_alone, end),
        TEST(required_it_carries_anything),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_gives_a_short_count, begin_alone, end),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_below_what_is_registered, begin_alone,
                                        end),
        TEST(a_file_that_grows_is_read_on),
        TEST(what_cannot_be_registered_is_read),
        TEST(what_cannot_be_mapped_is_read),
        TEST(failed_copies_are_an_error),
        TEST(what_it_is_not_for_is_said),
        cmocka_unit_test_setup_teardown(many_threads_read_instead, begin_many, end),
        cmocka_unit_test_setup_teardown(a_call_of_one_task_wakes_no_thread, begin_many, end),
        cmocka_unit_test_setup_teardown(callers_do_not_wait_for_one_another, begin_many, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
