// SPDX-License-Identifier: Apache-2.0
// The path by cuFile, with a library over pread and pwrite in its place, and memory of the host in
// place of a GPU's.

#define _GNU_SOURCE
#include "support/fake_copies.h"
#include "support/file_stage.h"

#include <dlfcn.h>
#include <fcntl.h>

#define FILE_BYTES UINT64_C(1200007)
#define TASK_BYTES UINT64_C(262144)

static struct fake_copies fake;
static struct file_system_calls calls;

enum { OPENS, HANDLES, BUFFERS, WITHIN, COUNTS };

static void fake_counts(uint64_t counts[COUNTS])
{
    void (*ask)(uint64_t *);
    void *library = dlopen(FAKE_CUFILE "/whole/libcufile.so.0", RTLD_NOW);
    if (!library)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "fakeCufileCounts");
    assert_non_null(symbol);
    memcpy(&ask, &symbol, sizeof ask);
    ask(counts);
    dlclose(library);
}

static uint64_t fake_count(int which)
{
    uint64_t counts[COUNTS];
    fake_counts(counts);
    return counts[which];
}

// cuFile needs /proc/modules, which not every machine has.
static int open_some(const char *path, int flags, mode_t mode)
{
    bool modules = !strcmp(path, "/proc/modules");
    return file_system_real.open(modules ? "/dev/null" : path, flags, mode);
}

static int open_no_modules(const char *path, int flags, mode_t mode)
{
    if (strcmp(path, "/proc/modules"))
        return file_system_real.open(path, flags, mode);
    errno = ENOENT;
    return -1;
}

static void equip(struct stage *stage)
{
    calls = file_system_real;
    calls.open = open_some;
    stage->job->file_system = &calls;
    fake_copies_begin(&fake, stage->job, stage->buffer, STAGE_BYTES + 4096, 1);
}

// With the settings that the environment has by now.
static void reopen(struct stage *stage)
{
    leat_close(stage->job, NULL);
    stage->job = NULL;
    stage_ok(leat_open(NULL, &stage->job));
    equip(stage);
}

static int begin(void **state)
{
    static const char *const names[] = {"OPEN",  "HANDLE", "DIRECT", "BUFFER", "IO",
                                        "SHORT", "EINTR",  "NVFS",   "AT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[32];
        snprintf(name, sizeof name, "FAKE_CUFILE_%s", names[i]);
        unsetenv(name);
    }
    unsetenv("LEAT_COMPAT");
    unsetenv("LEAT_TIMEOUT");
    setenv("LEAT_FILE_TASK", "256K", 1);
    setenv("LEAT_FILE_BUFFER", "64K", 1);
    setenv("LEAT_FILE_THREADS", "3", 1);
    int error = stage_begin(state);
    if (error)
        return error;
    equip(*state);
    stage_fill(*state, FILE_BYTES);
    return fake_count(HANDLES) ? -1 : 0; // the library, for those that look for it by name
}

static int end(void **state)
{
    int error = stage_end(state);
    fake_copies_forget();
    return error || fake_count(HANDLES) || fake_count(BUFFERS) || fake_copies_lost();
}

static leat_file *open_as(const struct stage *stage, const char *compat, int flags)
{
    const leat_file_options options = {.size = sizeof options, .compat = compat, .flags = flags};
    return stage_open(stage, &options);
}

static leat_file_info info_of(leat_file *file, const struct stage *stage)
{
    leat_file_info info = {.size = sizeof info};
    leat_file_range range = {.bytes = FILE_BYTES, .buffer = stage_buffer(stage)};
    const leat_file_call question = {.size = sizeof question, .ranges = &range, .range_count = 1};
    stage_ok(leat_file_info_get(file, &question, &info));
    return info;
}

static void bytes_went(leat_file *file, const struct stage *stage, uint64_t cufile, uint64_t other)
{
    leat_file_info info = info_of(file, stage);
    assert_string_equal(info.path[FILE_CUFILE].name, "cufile");
    assert_int_equal(info.path[FILE_CUFILE].bytes, cufile);
    assert_int_equal(info.path[FILE_BUFFERED].bytes, other);
    assert_int_equal(info.path[FILE_MAPPED].bytes + info.path[FILE_ODIRECT].bytes, 0);
}

static void reason_has(leat_file *file, const struct stage *stage, const char *words)
{
    leat_file_info info = info_of(file, stage);
    if (!strstr(info.path[FILE_CUFILE].reason, words))
        fail_msg("\"%s\" is not in \"%s\"", words, info.path[FILE_CUFILE].reason);
}

static void said(const char *words)
{
    if (!strstr(leat_error_detail(), words))
        fail_msg("\"%s\" is not in \"%s\"", words, leat_error_detail());
}

// ---- Transfers ----

static void read_ends(struct stage *stage, leat_file *file)
{
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    stage_read_checked(stage, file, 4097, 300001, 300001);
    stage_read_checked(stage, file, FILE_BYTES - 70000, 300000, 70000);
    stage_read_checked(stage, file, FILE_BYTES + 5, 300000, 0);
}
#define READ_ENDS (FILE_BYTES + 300001 + 70000)

static void reads_go_by_cufile(void **state)
{
    leat_file *file = open_as(*state, NULL, LEAT_FILE_READ);
    read_ends(*state, file);
    bytes_went(file, *state, READ_ENDS, 0);
    reason_has(file, *state, "cuFile 1.19, by nvidia-fs");
    assert_true(info_of(file, *state).path[FILE_CUFILE].chosen);
    assert_int_equal(fake_count(HANDLES), 1);
    stage_ok(leat_file_close(file));
}

static void writes_go_by_cufile(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
    uint64_t done = 0;
    stage_stamp(stage, 0, FILE_BYTES);
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    stage_ok(leat_file_sync(file));
    stage_ok(leat_file_close(file));
    stage_check_file(stage, FILE_BYTES);
}

// F4
static void short_and_interrupted_transfers_go_on(void **state)
{
    setenv("FAKE_CUFILE_SHORT", "5001", 1);
    setenv("FAKE_CUFILE_EINTR", "3", 1);
    leat_file *file = open_as(*state, NULL, LEAT_FILE_READ);
    read_ends(*state, file);
    bytes_went(file, *state, READ_ENDS, 0);
    stage_ok(leat_file_close(file));
    writes_go_by_cufile(state);
}

static void small_calls_and_hosts_buffers_do_not_ask_it(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, 16383, 16383);
    assert_int_equal(fake_count(HANDLES), 0);
    stage_read_checked(stage, file, 0, 16384, 16384);
    bytes_went(file, stage, 16384, 16383);
    unsigned char *host = calloc(1, FILE_BYTES);
    assert_non_null(host);
    stage_ok(leat_file_read(file, (leat_buffer){.address = host}, 0, FILE_BYTES, NULL));
    assert_int_equal(host[FILE_BYTES - 1], stage_byte(FILE_BYTES - 1));
    free(host);
    bytes_went(file, stage, 16384, 16383 + FILE_BYTES);
    stage_ok(leat_file_close(file));
}

static void under_off_everything_goes_by_cufile(void **state)
{
    struct stage *stage = *state;
    leat_file *file = open_as(stage, "off", LEAT_FILE_READ);
    unsigned char *host = calloc(1, FILE_BYTES);
    assert_non_null(host);
    stage_ok(leat_file_read(file, (leat_buffer){.address = host}, 0, FILE_BYTES, NULL));
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        assert_int_equal(host[i], stage_byte(i));
    free(host);
    stage_read_checked(stage, file, 7, 100, 100);
    bytes_went(file, stage, FILE_BYTES + 100, 0);
    stage_ok(leat_file_close(file));
}

static void under_on_it_is_not_loaded(void **state)
{
    const uint64_t before = fake_count(OPENS);
    leat_file *file = open_as(*state, "on", LEAT_FILE_READ);
    read_ends(*state, file);
    bytes_went(file, *state, 0, READ_ENDS);
    assert_int_equal(fake_count(OPENS), before);
    stage_ok(leat_file_close(file));
}

// ---- Refusals ----

// F8
static void a_file_that_it_refuses_goes_another_way(void **state)
{
    struct stage *stage = *state;
    leat_file *file = NULL;
    setenv("FAKE_CUFILE_HANDLE", "5027", 1);
    file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    bytes_went(file, stage, 0, READ_ENDS);
    reason_has(file, stage, "cuFile refuses the file: 5027 (");
    stage_ok(leat_file_close(file));
    leat_file_options options = {.size = sizeof options, .compat = "off"};
    assert_int_equal(leat_file_open(stage->job, stage->path, &options, &file), -ENOTSUP);
    said("5027 (the file is not registered");
    said(stage->path);
    // F11
    options = (leat_file_options){.size = sizeof options, .require = "cufile"};
    assert_int_equal(leat_file_open(stage->job, stage->path, &options, &file), -ENOTSUP);
    said("5027");
}

static void a_descriptor_that_it_refuses_is_replaced_by_the_other(void **state)
{
    setenv("FAKE_CUFILE_DIRECT", "5019", 1);
    leat_file *file = open_as(*state, NULL, LEAT_FILE_READ);
    read_ends(*state, file);
    bytes_went(file, *state, READ_ENDS, 0);
    stage_ok(leat_file_close(file));
}

static void a_refusal_on_the_way_goes_on_from_there(void **state)
{
    struct stage *stage = *state;
    uint64_t done = 0;
    setenv("FAKE_CUFILE_IO", "5030", 1);
    setenv("FAKE_CUFILE_AT", "270000", 1);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    reason_has(file, stage, "at offset 270000: 5030 (internal error)");
    leat_file_info info = info_of(file, stage);
    assert_false(info.path[FILE_CUFILE].chosen);
    assert_int_equal(info.path[FILE_CUFILE].bytes + info.path[FILE_BUFFERED].bytes, FILE_BYTES);
    assert_true(info.path[FILE_CUFILE].bytes >= 270000 - TASK_BYTES);
    assert_true(info.path[FILE_BUFFERED].bytes >= 2 * TASK_BYTES - 270000);
    stage_ok(leat_file_close(file));
    file = open_as(stage, "off", LEAT_FILE_READ);
    stage_poison(stage, FILE_BYTES);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EIO);
    assert_int_equal(done, 270000);
    said("at offset 270000: 5030 (internal error)");
    stage_ok(leat_file_close(file));
}

// How it asked the system is cuFile's own affair.
static void what_the_system_refuses_it_goes_another_way(void **state)
{
    struct stage *stage = *state;
    setenv("FAKE_CUFILE_IO", "22", 1);
    setenv("FAKE_CUFILE_AT", "270000", 1);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    reason_has(file, stage, "at offset 270000: Invalid argument");
    stage_ok(leat_file_close(file));
}

// F16: an error of the storage is one on every path.
static void errors_of_the_system_come_back(void **state)
{
    struct stage *stage = *state;
    uint64_t done = 0;
    setenv("FAKE_CUFILE_IO", "5", 1);
    setenv("FAKE_CUFILE_AT", "600000", 1);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ | LEAT_FILE_WRITE);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done), -EIO);
    assert_int_equal(done, 600000);
    said("at offset 600000");
    setenv("FAKE_CUFILE_IO", "28", 1);
    stage_stamp(stage, 0, FILE_BYTES);
    assert_int_equal(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done), -ENOSPC);
    assert_int_equal(done, 600000);
    stage_ok(leat_file_close(file));
}

static void what_would_go_through_the_host_is_not_asked(void **state)
{
    struct stage *stage = *state;
    setenv("FAKE_CUFILE_NVFS", "0", 1);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    bytes_went(file, stage, 0, READ_ENDS);
    reason_has(file, stage, "neither nvidia-fs nor P2PDMA");
    stage_ok(leat_file_close(file));
    file = open_as(stage, "off", LEAT_FILE_READ);
    read_ends(stage, file);
    bytes_went(file, stage, READ_ENDS, 0);
    reason_has(file, stage, "its compatibility mode");
    stage_ok(leat_file_close(file));
}

// F12
static void a_driver_that_does_not_open_is_a_reason(void **state)
{
    struct stage *stage = *state;
    leat_cufile_info info = {.size = sizeof info};
    setenv("FAKE_CUFILE_OPEN", "5001", 1);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    reason_has(file, stage, "its driver does not open: 5001 (");
    stage_ok(leat_cufile_info_get(stage->job, &info));
    assert_non_null(strstr(info.absent, "5001"));
    assert_int_equal(info.nvfs_operations, LEAT_FILE_UNKNOWN);
    stage_ok(leat_file_close(file));
}

static void a_driver_that_never_opens_is_a_reason(void **state)
{
    struct stage *stage = *state;
    setenv("FAKE_CUFILE_OPEN", "hang", 1);
    setenv("LEAT_TIMEOUT", "0.2", 1);
    reopen(stage);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    bytes_went(file, stage, 0, READ_ENDS);
    reason_has(file, stage, "has not returned in 0.2 s");
    stage_ok(leat_file_close(file));
}

static void without_the_list_of_modules_it_is_not_opened(void **state)
{
    struct stage *stage = *state;
    const uint64_t before = fake_count(OPENS);
    calls.open = open_no_modules;
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    reason_has(file, stage, "no /proc/modules");
    assert_int_equal(fake_count(OPENS), before);
    stage_ok(leat_file_close(file));
}

static void a_driver_that_is_open_already_will_do(void **state)
{
    setenv("FAKE_CUFILE_OPEN", "5026", 1);
    reads_go_by_cufile(state);
}

// ---- Buffers ----

static void a_registered_buffer_is_named_by_its_base(void **state)
{
    struct stage *stage = *state;
    const leat_buffer buffer = stage_buffer(stage);
    stage_ok(leat_file_buffer_register(stage->job, buffer, FILE_BYTES));
    assert_int_equal(fake_count(BUFFERS), 1);
    assert_int_equal(leat_file_buffer_register(stage->job, buffer, 4096), -EBUSY);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    const uint64_t before = fake_count(WITHIN);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    // Five tasks, of which the last is asked once more for what is not there.
    assert_int_equal(fake_count(WITHIN) - before, 5);
    stage_ok(leat_file_close(file));
    stage_ok(leat_file_buffer_deregister(stage->job, buffer));
    assert_int_equal(fake_count(BUFFERS), 0);
    assert_int_equal(leat_file_buffer_deregister(stage->job, buffer), -ENOENT);
}

// F9
static void a_buffer_that_it_refuses_is_read_unregistered(void **state)
{
    struct stage *stage = *state;
    setenv("FAKE_CUFILE_BUFFER", "5016", 1);
    stage_ok(leat_file_buffer_register(stage->job, stage_buffer(stage), FILE_BYTES));
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_ends(stage, file);
    bytes_went(file, stage, READ_ENDS, 0);
    reason_has(file, stage, "a buffer was not registered: 5016 (");
    stage_ok(leat_file_close(file));
    setenv("LEAT_COMPAT", "off", 1);
    reopen(stage);
    assert_int_equal(leat_file_buffer_register(stage->job, stage_buffer(stage), FILE_BYTES),
                     -ENOMEM);
    said("5016 (more pinned than max_device_pinned_mem_size_kb allows)");
}

// ---- Settings and counts ----

static void its_settings_are_told(void **state)
{
    struct stage *stage = *state;
    leat_cufile_info info = {.size = sizeof info};
    stage_ok(leat_cufile_info_get(stage->job, &info));
    assert_string_equal(info.absent, "");
    assert_non_null(strstr(info.library, "fake_cufile/whole/libcufile.so.0"));
    assert_int_equal(info.version, 1190);
    assert_int_equal(info.direct_io_bytes, 16 << 20);
    assert_int_equal(info.min_io_bytes, 8 << 20);
    assert_int_equal(info.pinned_bytes, UINT64_C(32) << 30);
    assert_int_equal(info.cache_bytes, 128 << 20);
    assert_int_equal(info.io_threads, 4);
    assert_int_equal(info.request_parallelism, 4);
    assert_int_equal(info.queue_depth, 128);
    assert_int_equal(info.batch_entries, 128);
    assert_true(info.parallel_io && info.compat_allowed && info.nvfs);
    assert_false(info.compat_forced || info.p2pdma);
    info.size = 0;
    assert_int_equal(leat_cufile_info_get(stage->job, &info), -EINVAL);
}

static void check_cut(const struct stage *stage, const char *require, uint64_t task, uint64_t bytes,
                      uint64_t tasks, uint64_t requests, uint64_t request_bytes)
{
    const leat_file_options options = {
        .size = sizeof options, .task_bytes = task, .require = require};
    leat_file *file = stage_open(stage, &options);
    leat_file_cut cut;
    stage_ok(leat_file_cut_get(file, bytes, &cut));
    assert_int_equal(cut.tasks, tasks);
    assert_int_equal(cut.requests_per_task, requests);
    assert_int_equal(cut.request_bytes, request_bytes);
    stage_ok(leat_file_close(file));
}

static void transfers_are_cut_as_it_says(void **state)
{
    const uint64_t mib = 1 << 20, gib = 1 << 30;
    check_cut(*state, "cufile", 4 * mib, gib, 256, 1, 4 * mib);
    check_cut(*state, "cufile", gib, gib, 1, 4, 256 * mib);
    check_cut(*state, "cufile", gib, 16 * mib, 1, 2, 8 * mib);
    check_cut(*state, "cufile", gib, 15 * mib, 1, 1, 15 * mib);
    setenv("FAKE_CUFILE_OPEN", "5001", 1);
    reopen(*state);
    check_cut(*state, NULL, 4 * mib, gib, 256, 0, 0);
}

static void its_counters_are_told(void **state)
{
    struct stage *stage = *state;
    leat_cufile_info before = {.size = sizeof before}, info = {.size = sizeof info};
    stage_ok(leat_cufile_info_get(stage->job, &before));
    assert_true(before.nvfs_operations != LEAT_FILE_UNKNOWN);
    leat_file *file = open_as(stage, "off", LEAT_FILE_READ);
    stage_read_checked(stage, file, 0, FILE_BYTES, FILE_BYTES);
    stage_ok(leat_cufile_info_get(stage->job, &info));
    assert_int_equal(info.nvfs_operations - before.nvfs_operations, 5);
    assert_int_equal(info.nvfs_bytes - before.nvfs_bytes, FILE_BYTES);
    assert_int_equal(info.posix_operations, 0);
    assert_int_equal(info.posix_bytes, 0);
    // Both ways on one GPU: the library does not say how many bytes went which.
    setenv("FAKE_CUFILE_NVFS", "0", 1);
    stage_read_checked(stage, file, 0, TASK_BYTES, TASK_BYTES);
    stage_ok(leat_cufile_info_get(stage->job, &info));
    assert_int_equal(info.posix_operations, 1);
    assert_int_equal(info.posix_bytes, LEAT_FILE_UNKNOWN);
    assert_int_equal(info.nvfs_bytes, LEAT_FILE_UNKNOWN);
    assert_int_equal(info.p2p_operations, 0);
    assert_int_equal(info.p2p_bytes, 0);
    stage_ok(leat_file_close(file));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_go_by_cufile),
        TEST(writes_go_by_cufile),
        TEST(short_and_interrupted_transfers_go_on),
        TEST(small_calls_and_hosts_buffers_do_not_ask_it),
        TEST(under_off_everything_goes_by_cufile),
        TEST(under_on_it_is_not_loaded),
        TEST(a_file_that_it_refuses_goes_another_way),
        TEST(a_descriptor_that_it_refuses_is_replaced_by_the_other),
        TEST(a_refusal_on_the_way_goes_on_from_there),
        TEST(what_the_system_refuses_it_goes_another_way),
        TEST(errors_of_the_system_come_back),
        TEST(what_would_go_through_the_host_is_not_asked),
        TEST(a_driver_that_does_not_open_is_a_reason),
        TEST(a_driver_that_never_opens_is_a_reason),
        TEST(without_the_list_of_modules_it_is_not_opened),
        TEST(a_driver_that_is_open_already_will_do),
        TEST(a_registered_buffer_is_named_by_its_base),
        TEST(a_buffer_that_it_refuses_is_read_unregistered),
        TEST(its_settings_are_told),
        TEST(transfers_are_cut_as_it_says),
        TEST(its_counters_are_told),
    };
    // It stays for all tests: the library finds it under its name.
    if (!dlopen(FAKE_CUFILE "/whole/libcufile.so.0", RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
