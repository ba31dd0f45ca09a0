// SPDX-License-Identifier: Apache-2.0
// See file_stage.h. Files are written in pieces of one length, since how a cached file was written
// changes how it is read.

#define _GNU_SOURCE
#include "support/file_stage.h"

#include <fcntl.h>
#include <sys/stat.h>

#define PIECE_BYTES (UINT64_C(1) << 20)
#define AFTER_BYTES 4096

int stage_begin(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);
    void *buffer = NULL;
    if (!stage || posix_memalign(&buffer, 4096, STAGE_BYTES + AFTER_BYTES))
        return -1;
    stage->buffer = buffer;
    snprintf(stage->directory, sizeof stage->directory, "file_test_XXXXXX");
    if (!mkdtemp(stage->directory) || leat_open(NULL, &stage->job))
        return -1;
    snprintf(stage->path, sizeof stage->path, "%s/data", stage->directory);
    *state = stage;
    return 0;
}

int stage_end(void **state)
{
    struct stage *stage = *state;
    leat_close(stage->job, NULL);
    unlink(stage->path);
    int error = rmdir(stage->directory);
    free(stage->buffer);
    free(stage);
    return error;
}

void stage_stamp(const struct stage *stage, uint64_t offset, uint64_t bytes)
{
    unsigned char *at = stage->buffer + stage->shift;
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = stage_byte(offset + i);
}

void stage_poison(const struct stage *stage, uint64_t bytes)
{
    memset(stage->buffer, STAGE_POISON, stage->shift + bytes + AFTER_BYTES);
}

void stage_fill(const struct stage *stage, uint64_t bytes)
{
    int fd = open(stage->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        stage_stamp(stage, at, part);
        assert_int_equal(pwrite(fd, stage->buffer + stage->shift, part, (off_t)at), part);
    }
    assert_int_equal(close(fd), 0);
}

leat_file *stage_open(const struct stage *stage, const leat_file_options *options)
{
    leat_file *file = NULL;
    stage_ok(leat_file_open(stage->job, stage->path, options, &file));
    return file;
}

leat_buffer stage_buffer(const struct stage *stage)
{
    return (leat_buffer){.address = stage->buffer + stage->shift};
}

void stage_check(const struct stage *stage, uint64_t offset, uint64_t count, uint64_t bytes)
{
    const unsigned char *at = stage->buffer + stage->shift;
    for (uint64_t i = 0; i < count; i++)
        if (at[i] != stage_byte(offset + i))
            fail_msg("byte %llu of a read at %llu is %#x", (unsigned long long)i,
                     (unsigned long long)offset, at[i]);
    for (uint64_t i = count; i < bytes + AFTER_BYTES; i++)
        if (at[i] != STAGE_POISON)
            fail_msg("byte %llu behind a count of %llu has been touched", (unsigned long long)i,
                     (unsigned long long)count);
    for (uint64_t i = 0; i < stage->shift; i++)
        assert_int_equal(stage->buffer[i], STAGE_POISON);
}

void stage_read_checked(const struct stage *stage, leat_file *file, uint64_t offset, uint64_t bytes,
                        uint64_t count)
{
    uint64_t done = 12345;
    stage_poison(stage, bytes);
    stage_ok(leat_file_read(file, stage_buffer(stage), offset, bytes, &done));
    assert_int_equal(done, count);
    stage_check(stage, offset, count, bytes);
}

void stage_check_file(const struct stage *stage, uint64_t bytes)
{
    int fd = open(stage->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, bytes);
    static unsigned char piece[65536];
    for (uint64_t at = 0; at < bytes;) {
        ssize_t got = pread(fd, piece, sizeof piece, (off_t)at);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++)
            if (piece[i] != stage_byte(at + (uint64_t)i))
                fail_msg("byte %llu of the file is wrong", (unsigned long long)at + (uint64_t)i);
        at += (uint64_t)got;
    }
    assert_int_equal(close(fd), 0);
}
