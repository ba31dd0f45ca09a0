// SPDX-License-Identifier: Apache-2.0
// See file_faults.h.

#define _GNU_SOURCE
#include "support/file_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t released;
    struct file_faults is;
    uint64_t calls, direct_calls, largest;
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER};

static bool is_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT);
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

// What becomes of a transfer: an errno, or 0 with *bytes as far as it may go.
static int judge(bool writing, uint64_t offset, size_t *bytes)
{
    pthread_mutex_lock(&faults.lock);
    uint64_t call = ++faults.calls;
    const struct file_faults is = faults.is;
    if (*bytes > faults.largest)
        faults.largest = *bytes;
    pthread_mutex_unlock(&faults.lock);
    if (is.interrupt_every && call % is.interrupt_every == 0)
        return EINTR;
    if (is.most_bytes && *bytes > is.most_bytes)
        *bytes = is.most_bytes;
    int error = writing ? is.write_error : is.read_error;
    uint64_t at = writing ? is.write_at : is.read_at;
    if (!error || offset + *bytes <= at)
        return 0;
    if (offset >= at)
        return error;
    *bytes = (size_t)(at - offset);
    return 0;
}

static int check_direct(int fd)
{
    if (!is_direct(fd))
        return 0;
    pthread_mutex_lock(&faults.lock);
    faults.direct_calls++;
    int error = faults.is.direct_error;
    pthread_mutex_unlock(&faults.lock);
    return error;
}

static ssize_t faulty_pread(int fd, void *to, size_t bytes, off_t offset)
{
    pthread_mutex_lock(&faults.lock);
    while (faults.is.hold_reads || faults.is.hold_transfers)
        pthread_cond_wait(&faults.released, &faults.lock);
    void (*hook)(uint64_t) = faults.is.before_read;
    pthread_mutex_unlock(&faults.lock);
    if (hook)
        hook((uint64_t)offset);
    int error = check_direct(fd);
    if (!error)
        error = judge(false, (uint64_t)offset, &bytes);
    return error ? refuse(error) : pread(fd, to, bytes, offset);
}

static ssize_t faulty_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    pthread_mutex_lock(&faults.lock);
    while (faults.is.hold_transfers)
        pthread_cond_wait(&faults.released, &faults.lock);
    void (*hook)(uint64_t) = faults.is.before_write;
    pthread_mutex_unlock(&faults.lock);
    if (hook)
        hook((uint64_t)offset);
    int error = check_direct(fd);
    if (!error)
        error = judge(true, (uint64_t)offset, &bytes);
    return error ? refuse(error) : pwrite(fd, from, bytes, offset);
}

static int faulty_result(int result, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&faults.lock);
    faults.direct_calls++;
    int error = faults.is.direct_error;
    bool writing = faults.is.write_error != 0;
    void (*hook)(uint64_t) = faults.is.before_read;
    pthread_mutex_unlock(&faults.lock);
    if (hook)
        hook(offset);
    size_t most = bytes;
    if (!error)
        error = judge(writing, offset, &most);
    if (error)
        return -error;
    return result > 0 && (uint64_t)result > most ? (int)most : result;
}

static int set_error(const int *error)
{
    pthread_mutex_lock(&faults.lock);
    int found = *error;
    pthread_mutex_unlock(&faults.lock);
    return found;
}

static int faulty_open(const char *path, int flags, mode_t mode)
{
    int error = set_error(flags & O_DIRECT ? &faults.is.direct_open_error : &faults.is.open_error);
    return error ? refuse(error) : open(path, flags, mode);
}

static int faulty_close(int fd)
{
    int error = set_error(&faults.is.close_error), result = close(fd);
    return error ? refuse(error) : result;
}

static int faulty_fstat(int fd, struct stat *status)
{
    int error = set_error(&faults.is.fstat_error);
    return error ? refuse(error) : fstat(fd, status);
}

static int faulty_sync(int fd)
{
    pthread_mutex_lock(&faults.lock);
    int error = faults.is.sync_interrupts-- > 0 ? EINTR : faults.is.sync_error;
    pthread_mutex_unlock(&faults.lock);
    return error ? refuse(error) : fdatasync(fd);
}

static int faulty_resize(int fd, off_t bytes)
{
    int error = set_error(&faults.is.resize_error);
    return error ? refuse(error) : ftruncate(fd, bytes);
}

static int faulty_setup(unsigned depth)
{
    (void)depth;
    int error = set_error(&faults.is.uring_error);
    return error ? refuse(error) : 0;
}

static int faulty_enter(void)
{
    int error = set_error(&faults.is.enter_error);
    return error ? refuse(error) : 0;
}

static struct file_system_calls table;

const struct file_system_calls *faults_set(const struct file_faults *set)
{
    pthread_mutex_lock(&faults.lock);
    faults.is = *set;
    faults.calls = faults.direct_calls = faults.largest = 0;
    pthread_mutex_unlock(&faults.lock);
    if (!table.open) {
        table = file_system_real;
        table.open = faulty_open;
        table.close = faulty_close;
        table.pread = faulty_pread;
        table.pwrite = faulty_pwrite;
        table.fstat = faulty_fstat;
        table.fdatasync = faulty_sync;
        table.ftruncate = faulty_resize;
        table.uring_setup = faulty_setup;
        table.uring_enter = faulty_enter;
        table.uring_result = faulty_result;
    }
    return &table;
}

void faults_release(void)
{
    pthread_mutex_lock(&faults.lock);
    faults.is.hold_reads = faults.is.hold_transfers = false;
    pthread_cond_broadcast(&faults.released);
    pthread_mutex_unlock(&faults.lock);
}

static uint64_t read_counter(const uint64_t *counter)
{
    pthread_mutex_lock(&faults.lock);
    uint64_t value = *counter;
    pthread_mutex_unlock(&faults.lock);
    return value;
}

uint64_t faults_calls(void)
{
    return read_counter(&faults.calls);
}

uint64_t faults_direct_calls(void)
{
    return read_counter(&faults.direct_calls);
}

uint64_t faults_largest(void)
{
    return read_counter(&faults.largest);
}
