// SPDX-License-Identifier: Apache-2.0
// Reads of many ranges against a plain loop: any order, overlaps, gaps, ends of the file, none of
// it touching a byte too many; and errors that count against the ranges they hit, and no others.
// Every byte of the file tells its offset.

#define _GNU_SOURCE
#include "core/job.h"
#include "file/system.h"
#include "leat/file.h"
#include "support/fake_copies.h"
#include "support/splitmix.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_BYTES ((UINT64_C(3) << 20) + 123)
#define RANGES     600
#define GUARD      32
#define POISON     0xa5
#define ARENA      (8 << 20)
#define BAD        UINT64_C(1050624) // offset of the bad block, where there is one
#define BAD_BYTES  4096

static unsigned char stamp(uint64_t offset)
{
    return (unsigned char)(offset * 31 + (offset >> 8) * 17 + (offset >> 16));
}

struct stage {
    leat_job *job;
    leat_file *file;
    char path[64];
    unsigned char *arena;
    leat_file_range range[RANGES];
    size_t count;
};

// Where the build lies, which seldom is tmpfs.
static void make_file(struct stage *stage, uint64_t bytes)
{
    snprintf(stage->path, sizeof stage->path, "file-ranges-XXXXXX");
    int fd = mkostemp(stage->path, O_CLOEXEC);
    assert_true(fd >= 0);
    unsigned char *content = malloc(bytes);
    assert_non_null(content);
    for (uint64_t i = 0; i < bytes; i++)
        content[i] = stamp(i);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t put = write(fd, content + done, bytes - done);
        assert_true(put > 0);
        done += (uint64_t)put;
    }
    fsync(fd);
    close(fd);
    free(content);
}

static struct fake_copies fake;

// With a seed the buffers are a GPU's, whose copies come late.
static void open_stage_on(struct stage *stage, const struct file_system_calls *calls,
                          const char *direct, unsigned seed)
{
    *stage = (struct stage){.arena = malloc(ARENA)};
    assert_non_null(stage->arena);
    make_file(stage, FILE_BYTES);
    assert_int_equal(leat_open(NULL, &stage->job), 0);
    if (seed)
        fake_copies_begin(&fake, stage->job, stage->arena, ARENA, seed);
    stage->job->file_system = calls;
    leat_file_options options = {.size = sizeof options, .direct = direct, .compat = "on"};
    assert_int_equal(leat_file_open(stage->job, stage->path, &options, &stage->file), 0);
}

static void open_stage(struct stage *stage, const struct file_system_calls *calls,
                       const char *direct)
{
    open_stage_on(stage, calls, direct, 0);
}

static void close_stage(struct stage *stage)
{
    assert_int_equal(leat_file_close(stage->file), 0);
    leat_close(stage->job, NULL);
    unlink(stage->path);
    free(stage->arena);
}

// ---- Reading and looking ----

static uint64_t expected(const leat_file_range *range)
{
    if (range->file_offset >= FILE_BYTES)
        return 0;
    uint64_t left = FILE_BYTES - range->file_offset;
    return range->bytes < left ? range->bytes : left;
}

// Lays the ranges' buffers out one behind the other, with guards between.
static void lay_out(struct stage *stage)
{
    size_t used = GUARD;
    memset(stage->arena, POISON, ARENA);
    for (size_t i = 0; i < stage->count; i++) {
        stage->range[i].buffer = (leat_buffer){.address = stage->arena + used};
        stage->range[i].done = UINT64_MAX;
        used += stage->range[i].bytes + GUARD + i % 5;
        assert_true(used < ARENA);
    }
}

static int read_ranges(struct stage *stage, uint64_t *sum)
{
    leat_file_call call = {.size = sizeof call,
                           .operation = LEAT_FILE_OP_READ,
                           .ranges = stage->range,
                           .range_count = stage->count};
    leat_file_request *request = NULL;
    assert_int_equal(leat_file_start(stage->file, &call, &request), 0);
    return leat_file_wait(request, -1, sum);
}

// `done` bytes are there, and nothing behind them has been touched.
static void look_at(const struct stage *stage, size_t i, uint64_t done)
{
    const leat_file_range *range = &stage->range[i];
    const unsigned char *at = range->buffer.address;
    assert_int_equal(range->done, done);
    for (uint64_t k = 0; k < done; k++)
        if (at[k] != stamp(range->file_offset + k))
            fail_msg("range %zu, byte %llu of %llu at offset %llu is wrong", i,
                     (unsigned long long)k, (unsigned long long)range->bytes,
                     (unsigned long long)range->file_offset);
    for (uint64_t k = done; k < range->bytes + GUARD; k++)
        assert_int_equal(at[k], POISON);
    for (int k = 1; k <= GUARD; k++)
        assert_int_equal(at[-k], POISON);
}

static void random_ranges(struct stage *stage, uint64_t seed)
{
    uint64_t random = seed, total = 0;
    uint64_t longest = UINT64_C(1) << (4 + splitmix_below(&random, 15));
    uint64_t spread = splitmix_below(&random, 2) ? FILE_BYTES + 10000 : 200000;
    size_t wanted = 1 + splitmix_below(&random, RANGES);
    stage->count = 0;
    for (size_t i = 0; i < wanted && total < ARENA / 2; i++) {
        uint64_t bytes = splitmix_below(&random, 10) ? splitmix_below(&random, longest) : 0;
        stage->range[stage->count++] =
            (leat_file_range){.file_offset = splitmix_below(&random, spread), .bytes = bytes};
        total += bytes + GUARD + 5;
    }
}

static void compare_with_a_loop(const char *direct, uint64_t seeds, unsigned gpu)
{
    struct stage stage;
    open_stage_on(&stage, NULL, direct, gpu);
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t sum = 0, counted = 0;
        random_ranges(&stage, seed);
        lay_out(&stage);
        assert_int_equal(read_ranges(&stage, &counted), 0);
        for (size_t i = 0; i < stage.count; i++) {
            look_at(&stage, i, expected(&stage.range[i]));
            sum += expected(&stage.range[i]);
        }
        assert_int_equal(counted, sum);
        all += sum;
    }
    leat_file_info info = {.size = sizeof info};
    assert_int_equal(leat_file_info_get(stage.file, NULL, &info), 0);
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        all -= info.path[i].bytes;
    assert_int_equal(all, 0); // what was counted is what was delivered
    close_stage(&stage);
}

static void ranges_are_what_a_loop_reads(void **state)
{
    (void)state;
    compare_with_a_loop("off", 60, 0);
}

static void ranges_are_what_a_loop_reads_past_the_page_cache(void **state)
{
    (void)state;
    compare_with_a_loop("on", 40, 0);
}

// Small buffers, so that each is filled many times while copies from others are late.
static void ranges_come_to_a_gpus_memory(void **state)
{
    (void)state;
    setenv("LEAT_FILE_BUFFER", "64K", 1);
    setenv("LEAT_FILE_BUFFERS", "2", 1);
    for (unsigned seed = 1; seed <= 3; seed++) {
        compare_with_a_loop("off", 20, seed);
        compare_with_a_loop("on", 20, seed);
        assert_true(fake_copies_count() > 0);
        assert_int_equal(fake_copies_lost(), 0);
    }
    unsetenv("LEAT_FILE_BUFFER");
    unsetenv("LEAT_FILE_BUFFERS");
}

// The copy that touches one range fails: no range counts more than is there.
static void a_failed_copy_counts_for_nothing(void **state)
{
    (void)state;
    struct stage stage;
    uint64_t counted, sum = 0;
    open_stage_on(&stage, NULL, "off", 9);
    random_ranges(&stage, 17);
    lay_out(&stage);
    size_t hit = stage.count / 2;
    while (!expected(&stage.range[hit]))
        hit++;
    fake_copies_fail_at(stage.range[hit].buffer.address);
    assert_int_equal(read_ranges(&stage, &counted), -EIO);
    assert_non_null(strstr(leat_error_detail(), "a copy has failed"));
    assert_int_equal(stage.range[hit].done, 0);
    for (size_t i = 0; i < stage.count; i++) {
        const unsigned char *at = stage.range[i].buffer.address;
        assert_true(stage.range[i].done <= expected(&stage.range[i]));
        for (uint64_t k = 0; k < stage.range[i].done; k++)
            assert_int_equal(at[k], stamp(stage.range[i].file_offset + k));
        sum += stage.range[i].done;
    }
    assert_int_equal(counted, sum);
    close_stage(&stage);
}

// ---- Several threads at once, on one file ----

#define READERS 3

struct reader {
    pthread_t thread;
    struct stage stage; // with the others' job and file, and ranges of its own
    uint64_t seed, sum, counted;
    int error;
};

static void *read_alone(void *user)
{
    struct reader *reader = user;
    leat_file_call call = {.size = sizeof call, .ranges = reader->stage.range};
    for (int round = 0; round < 4 && !reader->error; round++) {
        leat_file_request *request;
        call.range_count = reader->stage.count;
        reader->error = leat_file_start(reader->stage.file, &call, &request);
        if (!reader->error)
            reader->error = leat_file_wait(request, -1, &reader->counted);
    }
    return NULL;
}

static void threads_do_not_disturb_one_another(void **state)
{
    (void)state;
    static struct reader reader[READERS];
    struct stage stage;
    open_stage(&stage, NULL, "auto");
    for (unsigned i = 0; i < READERS; i++) {
        reader[i] = (struct reader){.stage = stage, .seed = 300 + i};
        reader[i].stage.arena = malloc(ARENA);
        assert_non_null(reader[i].stage.arena);
        random_ranges(&reader[i].stage, reader[i].seed);
        lay_out(&reader[i].stage);
        assert_int_equal(pthread_create(&reader[i].thread, NULL, read_alone, &reader[i]), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(reader[i].thread, NULL);
        assert_int_equal(reader[i].error, 0);
        for (size_t k = 0; k < reader[i].stage.count; k++) {
            look_at(&reader[i].stage, k, expected(&reader[i].stage.range[k]));
            reader[i].sum += expected(&reader[i].stage.range[k]);
        }
        assert_int_equal(reader[i].counted, reader[i].sum);
        free(reader[i].stage.arena);
    }
    close_stage(&stage);
}

// ---- Injected faults ----

static int interruptions, refusals;

static ssize_t short_pread(int fd, void *to, size_t bytes, off_t offset)
{
    if (__atomic_fetch_add(&interruptions, 1, __ATOMIC_RELAXED) % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    size_t part = 1 + bytes / 3;
    // Past the page cache the system gives whole blocks.
    if (fcntl(fd, F_GETFL) & O_DIRECT)
        part = (part + 4095) / 4096 * 4096;
    return file_system_real.pread(fd, to, part < bytes ? part : bytes, offset);
}

static ssize_t bad_pread(int fd, void *to, size_t bytes, off_t offset)
{
    uint64_t begin = (uint64_t)offset, end = begin + bytes;
    if (begin < BAD + BAD_BYTES && end > BAD) {
        if (begin >= BAD) {
            errno = EIO;
            return -1;
        }
        bytes = BAD - begin;
    }
    return file_system_real.pread(fd, to, bytes, offset);
}

static ssize_t refusing_pread(int fd, void *to, size_t bytes, off_t offset)
{
    if (fcntl(fd, F_GETFL) & O_DIRECT) {
        __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
        errno = EINVAL;
        return -1;
    }
    return file_system_real.pread(fd, to, bytes, offset);
}

static int no_ring(unsigned depth)
{
    (void)depth;
    errno = EPERM;
    return -1;
}

static int no_entry(void)
{
    errno = EPERM;
    return -1;
}

// Every third request is interrupted, and the others come to half of what they should.
static int short_ring(int result, uint64_t offset, uint64_t bytes)
{
    (void)offset;
    if (__atomic_fetch_add(&interruptions, 1, __ATOMIC_RELAXED) % 3 == 0)
        return -EINTR;
    int half = result / 2 / 4096 * 4096;
    return half > 0 && (uint64_t)result == bytes ? half : result;
}

static int refusing_ring(int result, uint64_t offset, uint64_t bytes)
{
    (void)result;
    (void)offset;
    (void)bytes;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
    return -EINVAL;
}

static void read_and_look(struct stage *stage, uint64_t first, uint64_t last)
{
    uint64_t counted;
    for (uint64_t seed = first; seed <= last; seed++) {
        random_ranges(stage, seed);
        lay_out(stage);
        assert_int_equal(read_ranges(stage, &counted), 0);
        for (size_t i = 0; i < stage->count; i++)
            look_at(stage, i, expected(&stage->range[i]));
    }
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    struct file_system_calls calls = file_system_real;
    struct stage stage;
    calls.pread = short_pread;
    open_stage(&stage, &calls, "off");
    read_and_look(&stage, 100, 110);
    close_stage(&stage);
    calls.uring_result = short_ring;
    open_stage(&stage, &calls, "on");
    read_and_look(&stage, 110, 120);
    close_stage(&stage);
    calls.uring_enter = no_entry;
    open_stage(&stage, &calls, "on");
    read_and_look(&stage, 120, 130);
    close_stage(&stage);
    calls.uring_setup = no_ring;
    open_stage(&stage, &calls, "on");
    read_and_look(&stage, 130, 140);
    close_stage(&stage);
}

// Ranges before, behind and around a bad block; only those that touch it lose anything.
static void an_error_counts_against_the_ranges_it_hits(void **state)
{
    (void)state;
    struct file_system_calls calls = file_system_real;
    struct stage stage;
    uint64_t counted, random = 5;
    calls.pread = bad_pread;
    open_stage(&stage, &calls, "off");
    for (stage.count = 0; stage.count < 300; stage.count++)
        stage.range[stage.count] =
            (leat_file_range){.file_offset = BAD - 40000 + splitmix_below(&random, 80000),
                              .bytes = splitmix_below(&random, 3000)};
    lay_out(&stage);
    uint64_t lowest = UINT64_MAX;
    int error = read_ranges(&stage, &counted);
    char detail[1024];
    snprintf(detail, sizeof detail, "%s", leat_error_detail());
    for (size_t i = 0; i < stage.count; i++) {
        uint64_t begin = stage.range[i].file_offset, end = begin + stage.range[i].bytes;
        uint64_t done = stage.range[i].bytes;
        if (done && begin < BAD + BAD_BYTES && end > BAD) {
            done = begin < BAD ? BAD - begin : 0;
            lowest = begin + done < lowest ? begin + done : lowest;
        }
        look_at(&stage, i, done);
    }
    assert_int_equal(error, -EIO);
    char offset[32];
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)lowest);
    assert_non_null(strstr(detail, offset));
    assert_non_null(strstr(detail, stage.path));
    close_stage(&stage);
}

// It lies in a gap that is read over: nobody has asked for it.
static void a_bad_block_in_a_gap_is_nobodys(void **state)
{
    (void)state;
    struct file_system_calls calls = file_system_real;
    struct stage stage;
    uint64_t counted;
    calls.pread = bad_pread;
    open_stage(&stage, &calls, "off");
    stage.count = 4;
    stage.range[0] = (leat_file_range){.file_offset = BAD - 1000, .bytes = 1000};
    stage.range[1] = (leat_file_range){.file_offset = BAD + BAD_BYTES, .bytes = 1000};
    stage.range[2] = (leat_file_range){.file_offset = BAD - 3000, .bytes = 2500};
    stage.range[3] = (leat_file_range){.file_offset = BAD + BAD_BYTES + 3000, .bytes = 100};
    lay_out(&stage);
    assert_int_equal(read_ranges(&stage, &counted), 0);
    for (size_t i = 0; i < stage.count; i++)
        look_at(&stage, i, stage.range[i].bytes);
    close_stage(&stage);
}

// Where direct reads are possible at all: with the ring, and without.
static void a_refused_direct_read_goes_through_the_page_cache(void **state)
{
    (void)state;
    struct file_system_calls calls = file_system_real;
    for (int ring = 0; ring < 2; ring++) {
        struct stage stage;
        leat_file_info info = {.size = sizeof info};
        calls.pread = refusing_pread;
        calls.uring_setup = ring ? file_system_real.uring_setup : no_ring;
        calls.uring_result = refusing_ring;
        refusals = 0;
        open_stage(&stage, &calls, "on");
        read_and_look(&stage, 200, 204);
        assert_int_equal(leat_file_info_get(stage.file, NULL, &info), 0);
        assert_string_equal(info.path[3].name, "buffered");
        assert_true(info.path[3].bytes > 0);
        assert_int_equal(info.path[2].bytes, 0);
        if (info.direct_offset_alignment)
            assert_true(refusals > 0);
        close_stage(&stage);
    }
}

// ---- Speed ----

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Printed, not judged: machines and sanitizers differ.
static void many_small_ranges_beside_a_loop(void **state)
{
    (void)state;
    enum { COUNT = 20000, BYTES = 4096 };
    struct stage stage;
    uint64_t random = 3, counted;
    open_stage(&stage, NULL, "off");
    leat_file_range *range = calloc(COUNT, sizeof *range);
    unsigned char *memory = malloc((size_t)COUNT * BYTES);
    assert_true(range && memory);
    for (size_t i = 0; i < COUNT; i++)
        range[i] =
            (leat_file_range){.file_offset = splitmix_below(&random, FILE_BYTES / BYTES) * BYTES,
                              .bytes = BYTES,
                              .buffer = {.address = memory + i * BYTES}};
    leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = COUNT};
    double ours = 1e9, loop = 1e9;
    for (int round = 0; round < 3; round++) {
        leat_file_request *request;
        double begin = now_ms();
        assert_int_equal(leat_file_start(stage.file, &call, &request), 0);
        assert_int_equal(leat_file_wait(request, -1, &counted), 0);
        double took = now_ms() - begin;
        ours = took < ours ? took : ours;
        assert_int_equal(counted, (uint64_t)COUNT * BYTES);
        begin = now_ms();
        int fd = open(stage.path, O_RDONLY | O_CLOEXEC);
        for (size_t i = 0; i < COUNT; i++)
            for (size_t done = 0; done < BYTES;) {
                ssize_t got = pread(fd, memory + i * BYTES + done, BYTES - done,
                                    (off_t)(range[i].file_offset + done));
                assert_true(got > 0); // some file systems give less than was asked for
                done += (size_t)got;
            }
        close(fd);
        took = now_ms() - begin;
        loop = took < loop ? took : loop;
    }
    for (size_t i = 0; i < COUNT; i += 97)
        assert_int_equal(memory[i * BYTES], stamp(range[i].file_offset));
    printf("20,000 ranges of 4 KiB: %.1f ms, a loop of pread %.1f ms\n", ours, loop);
    free(range);
    free(memory);
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_what_a_loop_reads),
        cmocka_unit_test(ranges_are_what_a_loop_reads_past_the_page_cache),
        cmocka_unit_test(ranges_come_to_a_gpus_memory),
        cmocka_unit_test(a_failed_copy_counts_for_nothing),
        cmocka_unit_test(threads_do_not_disturb_one_another),
        cmocka_unit_test(interrupted_and_short_reads_go_on),
        cmocka_unit_test(an_error_counts_against_the_ranges_it_hits),
        cmocka_unit_test(a_bad_block_in_a_gap_is_nobodys),
        cmocka_unit_test(a_refused_direct_read_goes_through_the_page_cache),
        cmocka_unit_test(many_small_ranges_beside_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
