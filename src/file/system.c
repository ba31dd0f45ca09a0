// SPDX-License-Identifier: Apache-2.0
// The system's calls, and transfers that go on until they are whole.
//
// Algorithm: pread and pwrite are repeated from where they stopped; what they return is counted,
// never subtracted from an unsigned rest before it has been looked at. Advantage: EINTR, short
// transfers and the kernel's limit of 0x7ffff000 bytes a call are dealt with once. Disadvantage: a
// read that ends at the file's end costs one more call, which says so.

#define _GNU_SOURCE
#include "file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALL_BYTES      UINT64_C(0x7ffff000)
#define TASK_CALL_BYTES (UINT64_C(16) << 20)

static int real_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int real_uring_setup(unsigned depth)
{
    (void)depth;
    return 0;
}

static int real_uring_enter(void)
{
    return 0;
}

static int real_uring_result(int result, uint64_t offset, uint64_t bytes)
{
    (void)offset;
    (void)bytes;
    return result;
}

const struct file_system_calls file_system_real = {.open = real_open,
                                                   .close = close,
                                                   .pread = pread,
                                                   .pwrite = pwrite,
                                                   .fstat = fstat,
                                                   .fdatasync = fdatasync,
                                                   .ftruncate = ftruncate,
                                                   .mmap = mmap,
                                                   .munmap = munmap,
                                                   .uring_setup = real_uring_setup,
                                                   .uring_enter = real_uring_enter,
                                                   .uring_result = real_uring_result};

int file_transfer_fail(const struct leat_file *file, int error, enum leat_file_operation operation,
                       uint64_t offset, uint64_t bytes)
{
    const char *remedy = "";
    if (error == -ENOSPC || error == -EDQUOT)
        remedy = "; free some space, or write somewhere else";
    else if (error == -EFBIG)
        remedy = "; the file system or `ulimit -f` allows no larger file";
    else if (error == -EIO)
        remedy = "; the device or the server behind it has failed: see the kernel's log";
    return leat_fail(error, "%s: cannot %s %llu bytes at offset %llu: %s%s", file->path,
                     operation == LEAT_FILE_OP_READ ? "read" : "write", (unsigned long long)bytes,
                     (unsigned long long)offset, strerror(-error), remedy);
}

// Long transfers of a task are parted, so that those who wait see it move.
static size_t part_of(uint64_t rest, const struct file_task *task)
{
    uint64_t most = task ? TASK_CALL_BYTES : CALL_BYTES;
    return (size_t)(rest < most ? rest : most);
}

static int pread_on(const struct leat_file *file, struct file_task *task, char *to, uint64_t bytes,
                    uint64_t offset, uint64_t *done)
{
    uint64_t moved = 0;
    int error = 0;
    while (moved < bytes) {
        uint64_t rest = bytes - moved;
        ssize_t result =
            file->system->pread(file->fd, to + moved, part_of(rest, task), (off_t)(offset + moved));
        if (result < 0 && errno == EINTR)
            continue;
        if (result < 0)
            error = file_transfer_fail(file, -errno, LEAT_FILE_OP_READ, offset + moved, rest);
        if (result <= 0)
            break;
        moved += (uint64_t)result;
        if (task)
            file_task_moved(task, (uint64_t)result);
    }
    *done = moved;
    return error;
}

static int pwrite_on(const struct leat_file *file, struct file_task *task, const char *from,
                     uint64_t bytes, uint64_t offset, uint64_t *done)
{
    uint64_t moved = 0;
    int error = 0;
    while (moved < bytes) {
        uint64_t rest = bytes - moved;
        ssize_t result = file->system->pwrite(file->fd, from + moved, part_of(rest, task),
                                              (off_t)(offset + moved));
        if (result < 0 && errno == EINTR)
            continue;
        // Nothing written and no error: to go on would be to go on for ever.
        if (result <= 0) {
            error = file_transfer_fail(file, result < 0 ? -errno : -EIO, LEAT_FILE_OP_WRITE,
                                       offset + moved, rest);
            break;
        }
        moved += (uint64_t)result;
        if (task)
            file_task_moved(task, (uint64_t)result);
    }
    *done = moved;
    return error;
}

int file_pread_all(const struct leat_file *file, void *to, uint64_t bytes, uint64_t offset,
                   uint64_t *done)
{
    return pread_on(file, NULL, to, bytes, offset, done);
}

int file_pwrite_all(const struct leat_file *file, const void *from, uint64_t bytes, uint64_t offset,
                    uint64_t *done)
{
    return pwrite_on(file, NULL, from, bytes, offset, done);
}

int file_task_pread(struct file_task *task, void *to, uint64_t bytes, uint64_t offset,
                    uint64_t *done)
{
    return pread_on(task->request->file, task, to, bytes, offset, done);
}

int file_task_pwrite(struct file_task *task, const void *from, uint64_t bytes, uint64_t offset,
                     uint64_t *done)
{
    return pwrite_on(task->request->file, task, from, bytes, offset, done);
}
