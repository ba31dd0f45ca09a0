// SPDX-License-Identifier: Apache-2.0
// Opening, refusals, what is asked of files, counts of the job; sizes beyond 32 bits.

#define _GNU_SOURCE
#include "support/file_ways.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bool said(const char *words)
{
    return strstr(leat_error_detail(), words);
}

static void refuse_open(struct stage *stage, const char *path, leat_file_options options, int error,
                        const char *words)
{
    leat_file *file = NULL;
    options.size = sizeof options;
    int got = leat_file_open(stage->job, path, &options, &file);
    if (got != error || file || !said(words))
        fail_msg("%s: %d (%s), %d with \"%s\" was expected", path, got, leat_error_detail(), error,
                 words);
}

static void what_cannot_be_opened_is_named(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 10);
    const int write = LEAT_FILE_WRITE, create = LEAT_FILE_CREATE;
    refuse_open(stage, "nowhere/at/all", (leat_file_options){0}, -ENOENT, "nowhere/at/all");
    refuse_open(stage, "nowhere/at/all", (leat_file_options){.flags = write}, -ENOENT, "CREATE");
    refuse_open(stage, "nowhere/at/all", (leat_file_options){.flags = write | create}, -ENOENT,
                "a directory of the path is not there: make it");
    refuse_open(stage, stage->directory, (leat_file_options){0}, -EISDIR, stage->directory);
    refuse_open(stage, "/dev/null", (leat_file_options){0}, -EINVAL, "regular file");
    refuse_open(stage, stage->path,
                (leat_file_options){.flags = write | create | LEAT_FILE_EXCLUSIVE}, -EEXIST,
                "EXCLUSIVE");
    refuse_open(stage, stage->path, (leat_file_options){.flags = create}, -EINVAL, "WRITE");
    refuse_open(stage, stage->path, (leat_file_options){.flags = LEAT_FILE_READ | create}, -EINVAL,
                "need WRITE");
    refuse_open(stage, stage->path, (leat_file_options){.flags = write | LEAT_FILE_EXCLUSIVE},
                -EINVAL, "CREATE");
    refuse_open(stage, stage->path, (leat_file_options){.flags = 64 | write}, -EINVAL, "0x40");
    refuse_open(stage, stage->path, (leat_file_options){.compat = "maybe"}, -EINVAL, "maybe");
    refuse_open(stage, stage->path, (leat_file_options){.direct = "1"}, -EINVAL, "direct");
    refuse_open(stage, stage->path, (leat_file_options){.require = "teleport"}, -EINVAL,
                "cufile, mapped, odirect, buffered");
    refuse_open(stage, stage->path, (leat_file_options){.task_bytes = 5}, -EINVAL, "task_bytes");
    assert_int_equal(leat_file_open(NULL, "x", NULL, NULL), -EINVAL);
    assert_int_equal(leat_file_close(NULL), 0);
}

static void a_call_that_cannot_be_done_does_nothing(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 10000);
    leat_file *file = stage_open(stage, NULL);
    uint64_t done = 9;
    assert_int_equal(leat_file_write(file, stage_buffer(stage), 0, 10, &done), -EBADF);
    assert_int_equal(done, 0);
    assert_int_equal(leat_file_read(file, (leat_buffer){0}, 0, 10, &done), -EINVAL);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), INT64_MAX, 1, &done), -EINVAL);
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 1, UINT64_MAX, &done), -EINVAL);
    assert_true(said("2^63"));
    const leat_region_options options = {.size = sizeof options, .bytes = 4096};
    leat_region *region = NULL;
    stage_ok(leat_region_alloc(stage->job, &options, &region));
    assert_int_equal(leat_file_read(file, (leat_buffer){.region = region}, 0, 4097, &done),
                     -ERANGE);
    const leat_buffer inside = {.region = region, .offset = 4000};
    assert_int_equal(leat_file_read(file, inside, 0, 97, &done), -ERANGE);
    stage_ok(leat_file_read(file, inside, 5000, 96, &done));
    leat_region_info info = {.size = sizeof info};
    stage_ok(leat_region_info_get(region, &info));
    for (int i = 0; i < 96; i++)
        assert_int_equal(((unsigned char *)info.address)[4000 + i], stage_byte(5000 + (uint64_t)i));
    leat_file_call call = {.size = sizeof call, .range_count = 3};
    leat_file_request *request = NULL;
    assert_int_equal(leat_file_start(file, &call, &request), -EINVAL);
    call = (leat_file_call){.range_count = 0};
    assert_int_equal(leat_file_start(file, &call, &request), -EINVAL);
    assert_int_equal(leat_file_wait(NULL, 0, NULL), -EINVAL);
    assert_null(request);
    leat_region_free(region);
    stage_ok(leat_file_close(file));
}

// What refuses a file leaves it as it was, and nothing behind where it was not.
static void an_open_that_is_refused_changes_nothing(void **state)
{
    struct stage *stage = *state;
    const int flags = LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE;
    const struct file_faults faults = {.direct_open_error = EINVAL};
    stage_fill(stage, 5000);
    stage->job->file_system = faults_set(&faults);
    const leat_file_options direct = {.flags = flags, .require = "odirect"};
    const leat_file_options mapped = {.flags = flags, .require = "mapped"};
    refuse_open(stage, stage->path, direct, -ENOTSUP, "odirect");
    refuse_open(stage, stage->path, mapped, -ENOTSUP, "mapped only reads");
    stage_check_file(stage, 5000);
    unlink(stage->path);
    refuse_open(stage, stage->path, direct, -ENOTSUP, "odirect");
    refuse_open(stage, stage->path, mapped, -ENOTSUP, "mapped only reads");
    assert_int_equal(access(stage->path, F_OK), -1);
    faults_set(&(struct file_faults){0});
    leat_file_options options = {.size = sizeof options, .flags = flags};
    for (int i = 0; i < 3; i++) { // new, old, and by a link that leads to nothing yet
        stage_ok(leat_file_close(stage_open(stage, &options)));
        stage_check_file(stage, 0);
        char target[128];
        snprintf(target, sizeof target, "%s.target", stage->path);
        if (i == 1 && (unlink(stage->path) || symlink("data.target", stage->path)))
            fail_msg("no link");
        if (i == 2)
            assert_int_equal(unlink(target), 0);
        else if (i == 0)
            stage_fill(stage, 5000);
    }
    options.flags |= LEAT_FILE_EXCLUSIVE;
    refuse_open(stage, stage->path, options, -EEXIST, "EXCLUSIVE");
    unlink(stage->path);
    stage_ok(leat_file_close(stage_open(stage, &options)));
}

static void refuse_question(leat_file *file, leat_file_call question, int error, const char *words)
{
    leat_file_info info = {.size = sizeof info, .bytes = 77};
    int got = leat_file_info_get(file, &question, &info);
    if (got != error || info.bytes != 77 || !said(words))
        fail_msg("%d (%s), %d with \"%s\" was expected", got, leat_error_detail(), error, words);
}

// A question is checked as the call itself is, and answered for the operation that it names.
static void a_question_is_checked_as_a_call_is(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 2 << 20);
    leat_file *file = stage_open(stage, NULL);
    leat_file_range range[2] = {{.bytes = 10, .buffer = stage_buffer(stage)},
                                {.bytes = 10, .buffer = stage_buffer(stage)}};
    leat_file_call call = {.size = sizeof call, .range_count = 1};
    refuse_question(file, call, -EINVAL, "ranges is NULL");
    call = (leat_file_call){.size = sizeof call, .ranges = range, .range_count = 2};
    leat_file_call other = call;
    other.size = 0;
    refuse_question(file, other, -EINVAL, "size is 0");
    other = call;
    other.operation = (enum leat_file_operation)77;
    refuse_question(file, other, -EINVAL, "no operation 77");
    range[1].file_offset = INT64_MAX;
    refuse_question(file, call, -EINVAL, "2^63");
    range[1] = (leat_file_range){.bytes = 10};
    refuse_question(file, call, -EINVAL, "");
    const leat_file_call write = {.size = sizeof write, .operation = LEAT_FILE_OP_WRITE};
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, &write, &info));
    assert_non_null(strstr(info.path[FILE_ODIRECT].reason, "writes go through the page cache"));
    assert_int_equal(info.path[FILE_BUFFERED].chosen, 1);
    stage_ok(leat_file_close(file));
}

static void rules_and_requirements_choose_the_path(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 2 << 20);
    leat_file_options options = {.size = sizeof options, .require = "odirect"};
    leat_file *file = stage_open(stage, &options);
    stage_read_checked(stage, file, 3, 100000, 100000);
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.path[FILE_ODIRECT].bytes, 100000);
    assert_int_equal(info.path[FILE_ODIRECT].chosen, 1);
    assert_true(strstr(info.path[FILE_BUFFERED].reason, "not needed") != NULL);
    stage_ok(leat_file_close(file));
    // F11: what is required and cannot be had is no slower path.
    strcpy(stage->job->config.paths, "forbid:odirect");
    file = stage_open(stage, &options);
    uint64_t done = 9;
    assert_int_equal(leat_file_read(file, stage_buffer(stage), 0, 100, &done), -ENOTSUP);
    assert_true(said("forbidden by LEAT_PATHS"));
    stage_ok(leat_file_info_get(file, NULL, &info));
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        assert_int_equal(info.path[i].chosen, 0);
    stage_ok(leat_file_close(file));
    strcpy(stage->job->config.paths, "require:buffered");
    file = stage_open(stage, NULL);
    stage_read_checked(stage, file, 3, 2000000, 2000000);
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.path[FILE_BUFFERED].bytes, 2000000);
    stage_ok(leat_file_close(file));
}

// F8: who turns compat off gets cuFile or an error.
static void without_cufile_compat_off_is_an_error(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 10);
    leat_cufile_info cufile = {.size = sizeof cufile};
    stage_ok(leat_cufile_info_get(stage->job, &cufile));
    if (!cufile.absent[0])
        skip();
    refuse_open(stage, stage->path, (leat_file_options){.compat = "off"}, -ENOTSUP, "cuFile");
}

static void a_file_says_what_it_is(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 3000000);
    leat_file *file = stage_open(stage, NULL);
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    assert_int_equal(info.bytes, 3000000);
    assert_true(info.file_system[0]);
    assert_string_equal(info.path[FILE_BUFFERED].name, "buffered");
    assert_int_equal(info.path[FILE_BUFFERED].chosen, 1); // it has just been written
    uint64_t cached = 1;
    if (leat_file_cached(file, 4096, 8192, &cached) == 0)
        assert_int_equal(cached, 8192);
    stage_ok(leat_file_cached(file, 1 << 30, 0, &cached));
    assert_int_equal(cached, 0);
    stage_ok(leat_file_drop(file, 0, 0));
    leat_file_cut cut;
    stage_ok(leat_file_cut_get(file, UINT64_C(1) << 30, &cut));
    assert_int_equal(cut.tasks, 4096); // of 256 KiB, as these tests have it
    assert_int_equal(cut.task_bytes, 262144);
    stage_ok(leat_file_close(file));
    assert_int_equal(leat_file_cut_get(NULL, 5, &cut), -EINVAL);
}

static void a_jobs_counts_have_the_paths_of_files(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 2000000);
    leat_file_options options = {.size = sizeof options, .direct = "off"};
    leat_file *file = stage_open(stage, &options);
    stage_read_checked(stage, file, 0, 1000, 1000);
    stage_read_checked(stage, file, 0, 1800000, 1800000);
    leat_stats stats = {.size = sizeof stats};
    stage_ok(leat_stats_read(stage->job, LEAT_ALL_PEERS, &stats));
    int seen = 0;
    for (int i = 0; i < stats.path_count; i++)
        if (!strcmp(stats.path[i].path, "buffered")) {
            assert_int_equal(stats.path[i].bytes, 1801000);
            assert_int_equal(stats.path[i].operations, 1 + 7); // tasks of 256 KiB
            seen++;
        }
    assert_int_equal(seen, 1);
    stage_ok(leat_file_close(file));
}

// What is told of a call's cut is how one is cut.
static void a_cut_is_as_calls_are_cut(void **state)
{
    static const uint64_t sizes[] = {0, 1, 1500000, 3 << 20, 20 << 20};
    struct stage *stage = *state;
    stage_fill(stage, 20 << 20);
    leat_file_options options = {
        .size = sizeof options, .direct = "off", .task_bytes = UINT64_C(4) << 20};
    leat_file *file = stage_open(stage, &options);
    leat_file_cut cut;
    uint64_t before = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        leat_file_range range = {.bytes = sizes[i], .buffer = stage_buffer(stage)};
        const leat_file_call call = {.size = sizeof call, .ranges = &range, .range_count = 1};
        leat_file_request *request = NULL;
        leat_file_info info = {.size = sizeof info};
        stage_ok(leat_file_start(file, &call, &request));
        stage_ok(leat_file_wait(request, -1, NULL));
        stage_ok(leat_file_info_get(file, NULL, &info));
        stage_ok(leat_file_cut_get(file, sizes[i], &cut));
        assert_int_equal(cut.tasks, info.path[FILE_BUFFERED].operations - before);
        before = info.path[FILE_BUFFERED].operations;
    }
    stage_ok(leat_file_cut_get(file, UINT64_C(1) << 30, &cut));
    assert_int_equal(cut.tasks, 256);
    assert_int_equal(cut.task_bytes, 4 << 20);
    stage_ok(leat_file_close(file));
}

// A buffer of no whole pages is made one of whole pages.
static void a_buffer_of_any_size_takes_direct_requests(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 2 << 20);
    stage->job->config.file_buffer_bytes = 100000;
    leat_file_options options = {.size = sizeof options, .direct = "on", .require = "odirect"};
    leat_file *file = stage_open(stage, &options);
    stage->shift = 3; // through the buffers
    stage_read_checked(stage, file, 1, 1500000, 1500000);
    leat_file_range range[8];
    for (uint64_t i = 0; i < 8; i++) {
        range[i] = (leat_file_range){
            .file_offset = i * 60000, .bytes = 5000, .buffer = stage_buffer(stage)};
        range[i].buffer.offset = i * 5000;
    }
    const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = 8};
    leat_file_request *request = NULL;
    uint64_t done = 0;
    stage_ok(leat_file_start(file, &call, &request));
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, 40000);
    for (uint64_t i = 0; i < 40000; i++)
        assert_int_equal(stage->buffer[3 + i], stage_byte(i / 5000 * 60000 + i % 5000));
    stage->shift = 0;
    stage_ok(leat_file_close(file));
}

static void a_buffer_is_registered_once(void **state)
{
    struct stage *stage = *state;
    leat_buffer buffer = stage_buffer(stage);
    stage_ok(leat_file_buffer_register(stage->job, buffer, 8192));
    assert_int_equal(leat_file_buffer_register(stage->job, buffer, 8192), -EBUSY);
    buffer.offset = 4096;
    assert_int_equal(leat_file_buffer_deregister(stage->job, buffer), -ENOENT);
    buffer.offset = 0;
    stage_ok(leat_file_buffer_deregister(stage->job, buffer));
    assert_int_equal(leat_file_buffer_deregister(stage->job, buffer), -ENOENT);
    assert_int_equal(leat_file_buffer_register(stage->job, buffer, 0), -EINVAL);
    // One that is left goes with the job.
    stage_ok(leat_file_buffer_register(stage->job, buffer, 4096));
}

// ---- Beyond 32 bits: F5, F15 ----

static void offsets_have_64_bits(void **state)
{
    struct stage *stage = *state;
    const uint64_t far = (UINT64_C(5) << 30) + 12345;
    const int flags = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE;
    leat_file_options options = {.size = sizeof options, .flags = flags};
    leat_file *file = stage_open(stage, &options);
    stage_stamp(stage, far, 500000);
    uint64_t done = 0;
    stage_ok(leat_file_write(file, stage_buffer(stage), far, 500000, &done));
    assert_int_equal(done, 500000);
    stage_read_checked(stage, file, far, 600000, 500000);
    stage_poison(stage, 4096);
    stage_ok(leat_file_read(file, stage_buffer(stage), far - 4096, 4096, &done));
    assert_int_equal(done, 4096);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(stage->buffer[i], 0); // a hole
    struct stat status;
    assert_int_equal(stat(stage->path, &status), 0);
    assert_int_equal(status.st_size, far + 500000);
    stage_ok(leat_file_close(file));
}

// As pread does it: 0x7ffff000 bytes at most. Nothing is moved, so that 5 GiB cost nothing.
static ssize_t pretend(int fd, void *to, size_t bytes, off_t offset)
{
    (void)fd;
    (void)to;
    const uint64_t end = UINT64_C(5) << 30;
    uint64_t rest = (uint64_t)offset < end ? end - (uint64_t)offset : 0;
    uint64_t most = rest < 0x7ffff000 ? rest : 0x7ffff000;
    return (ssize_t)(bytes < most ? bytes : most);
}

static void a_read_of_5_gib_is_whole(void **state)
{
    struct stage *stage = *state;
    stage_fill(stage, 10);
    struct file_system_calls table = *faults_set(&(struct file_faults){0});
    table.pread = pretend;
    stage->job->file_system = &table;
    const uint64_t bytes = UINT64_C(6) << 30;
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(address != MAP_FAILED);
    // In one task, and in as many as there are.
    for (int i = 0; i < 2; i++) {
        leat_file_options options = {
            .size = sizeof options, .direct = "off", .task_bytes = i ? 0 : bytes};
        leat_file *file = stage_open(stage, &options);
        uint64_t done = 0;
        stage_ok(leat_file_read(file, (leat_buffer){.address = address}, 0, bytes, &done));
        assert_int_equal(done, UINT64_C(5) << 30);
        stage_ok(leat_file_close(file));
    }
    munmap(address, bytes);
}

// The same for real, where there is the time and the memory: a hole, with a stamped end.
// Room for 5 GiB: as much memory under LEAT_LONG=1, else all but the last window are one and the
// same.
static unsigned char *wide_room(uint64_t bytes, uint64_t window)
{
    unsigned char *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(to != MAP_FAILED);
    if (getenv("LEAT_LONG"))
        return to;
    int shared = memfd_create("window", MFD_CLOEXEC);
    assert_true(shared >= 0);
    assert_int_equal(ftruncate(shared, (off_t)window), 0);
    for (uint64_t at = 0; at + window < bytes; at += window)
        assert_true(mmap(to + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared,
                         0) != MAP_FAILED);
    close(shared);
    return to;
}

static void a_sparse_file_of_5_gib_is_read_whole(void **state)
{
    struct stage *stage = *state;
    const uint64_t bytes = UINT64_C(5) << 30, window = 64 << 20, stamped = 1 << 20;
    const uint64_t far = bytes - stamped;
    leat_file_options options = {.size = sizeof options,
                                 .flags = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE};
    leat_file *file = stage_open(stage, &options);
    uint64_t done = 0;
    stage_stamp(stage, far, stamped);
    stage_ok(leat_file_write(file, stage_buffer(stage), far, stamped, &done));
    unsigned char *to = wide_room(bytes, window);
    uint64_t look = getenv("LEAT_LONG") ? 0 : bytes - 2 * window;
    memset(to + look, STAGE_POISON, bytes - look);
    stage_ok(leat_file_read(file, (leat_buffer){.address = to}, 0, bytes, &done));
    assert_true(done == bytes);
    for (uint64_t i = look; i < bytes; i++)
        if (to[i] != (i < far ? 0 : stage_byte(i)))
            fail_msg("byte %llu is wrong", (unsigned long long)i);
    munmap(to, bytes);
    stage_ok(leat_file_close(file));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_begin, stage_end)
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_opened_is_named),
        TEST(a_call_that_cannot_be_done_does_nothing),
        TEST(an_open_that_is_refused_changes_nothing),
        TEST(a_question_is_checked_as_a_call_is),
        TEST(rules_and_requirements_choose_the_path),
        TEST(without_cufile_compat_off_is_an_error),
        TEST(a_file_says_what_it_is),
        TEST(a_jobs_counts_have_the_paths_of_files),
        TEST(a_cut_is_as_calls_are_cut),
        TEST(a_buffer_of_any_size_takes_direct_requests),
        TEST(a_buffer_is_registered_once),
        TEST(offsets_have_64_bits),
        TEST(a_read_of_5_gib_is_whole),
        TEST(a_sparse_file_of_5_gib_is_read_whole),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
