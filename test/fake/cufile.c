// SPDX-License-Identifier: Apache-2.0
// A libcufile.so.0 for tests, over pread, pwrite and memory of the host.
//
// Algorithm: every function looks at the environment when it is called, and refuses, shortens or
// interrupts as that says. Advantage: all of leat's cuFile path runs where there is no GPU.
// Disadvantage: it is what leat believes of the library, which tests on a GPU have to confirm.
//
//   FAKE_CUFILE_OPEN    number of an error of cuFileDriverOpen, or "hang"
//   FAKE_CUFILE_HANDLE  of cuFileHandleRegister; FAKE_CUFILE_DIRECT: of descriptors with O_DIRECT
//   FAKE_CUFILE_BUFFER  of cuFileBufRegister
//   FAKE_CUFILE_IO      of transfers that reach the offset FAKE_CUFILE_AT; below 5000: an errno
//   FAKE_CUFILE_SHORT   most bytes of a transfer
//   FAKE_CUFILE_EINTR   every so many transfers are interrupted
//   FAKE_CUFILE_NVFS    version of nvidia-fs: 2 unless it is set
//
// Built with FAKE_OLD it has no function that leat can do without, with FAKE_BROKEN no cuFileRead.

#define _GNU_SOURCE
#include "file/cufile_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDLES 64
#define BUFFERS 64
#define PUBLIC  __attribute__((visibility("default")))

struct fake_handle {
    int fd;
};

struct fake_buffer {
    const char *base;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct fake_handle handle[HANDLES];
    struct fake_buffer buffer[BUFFERS];
    struct cufile_gpu_counts counts;
    uint64_t transfers, opens, handles, buffers, within;
    int level, counting;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static struct cufile_status status(long error)
{
    return (struct cufile_status){.error = (int)error};
}

PUBLIC struct cufile_status cuFileDriverOpen(void)
{
    const char *how = getenv("FAKE_CUFILE_OPEN");
    while (how && !strcmp(how, "hang"))
        pause();
    long error = setting("FAKE_CUFILE_OPEN", 0);
    pthread_mutex_lock(&fake.lock);
    fake.opens += error == 0;
    pthread_mutex_unlock(&fake.lock);
    return status(error);
}

PUBLIC struct cufile_status cuFileHandleRegister(void **handle,
                                                 const struct cufile_description *description)
{
    int fd = description->handle.fd, flags = fcntl(fd, F_GETFL);
    long error = setting("FAKE_CUFILE_HANDLE", 0);
    if (!error && flags & O_DIRECT)
        error = setting("FAKE_CUFILE_DIRECT", 0);
    if (!error && (flags < 0 || description->type != CUFILE_HANDLE_FD || description->operations))
        error = 5022;
    pthread_mutex_lock(&fake.lock);
    struct fake_handle *made = fake.handle;
    while (!error && made < fake.handle + HANDLES && made->fd)
        made++;
    if (!error && made == fake.handle + HANDLES)
        error = CUFILE_INTERNAL;
    if (!error) {
        made->fd = fd;
        fake.handles++;
        *handle = made;
    }
    pthread_mutex_unlock(&fake.lock);
    return status(error);
}

PUBLIC void cuFileHandleDeregister(void *handle)
{
    pthread_mutex_lock(&fake.lock);
    ((struct fake_handle *)handle)->fd = 0;
    fake.handles--;
    pthread_mutex_unlock(&fake.lock);
}

// Under the lock.
static struct fake_buffer *find_buffer(const void *base)
{
    struct fake_buffer *buffer = fake.buffer;
    while (buffer < fake.buffer + BUFFERS && buffer->base != base)
        buffer++;
    return buffer < fake.buffer + BUFFERS ? buffer : NULL;
}

PUBLIC struct cufile_status cuFileBufRegister(const void *base, size_t bytes, int flags)
{
    long error = setting("FAKE_CUFILE_BUFFER", flags ? 5022 : 0);
    pthread_mutex_lock(&fake.lock);
    struct fake_buffer *made = find_buffer(NULL);
    if (!error && (find_buffer(base) || !made))
        error = 5023;
    if (!error) {
        *made = (struct fake_buffer){base, bytes};
        fake.buffers++;
    }
    pthread_mutex_unlock(&fake.lock);
    return status(error);
}

PUBLIC struct cufile_status cuFileBufDeregister(const void *base)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_buffer *gone = find_buffer(base);
    if (gone) {
        gone->base = NULL;
        fake.buffers--;
    }
    pthread_mutex_unlock(&fake.lock);
    return status(gone ? 0 : 5024);
}

// ---- Transfers ----

// Whether it is interrupted; a buffer that is registered must be named by its base.
static bool begin_transfer(const void *base, size_t bytes, off_t within)
{
    long every = setting("FAKE_CUFILE_EINTR", 0);
    pthread_mutex_lock(&fake.lock);
    const struct fake_buffer *buffer = find_buffer(base);
    bool interrupted = ++fake.transfers % (uint64_t)(every > 0 ? every : 1) == 0 && every > 0;
    fake.within += buffer && (size_t)within + bytes <= buffer->bytes;
    pthread_mutex_unlock(&fake.lock);
    return interrupted;
}

static ssize_t transfer(struct fake_handle *handle, char *at, size_t bytes, off_t offset,
                        bool reading)
{
    long most = setting("FAKE_CUFILE_SHORT", 0), bad = setting("FAKE_CUFILE_AT", -1);
    long error = setting("FAKE_CUFILE_IO", 0);
    if (error && bad >= offset && bad < offset + (off_t)bytes) {
        if (bad > offset)
            bytes = (size_t)(bad - offset);
        else if (error > CUFILE_ERROR_FIRST)
            return -error;
        else
            return errno = (int)error, -1;
    }
    bytes = most > 0 && (size_t)most < bytes ? (size_t)most : bytes;
    // Another descriptor of the same file, since what is asked of O_DIRECT need not be aligned.
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", handle->fd);
    int fd = open(name, (reading ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t moved = reading ? pread(fd, at, bytes, offset) : pwrite(fd, at, bytes, offset);
    int code = errno;
    close(fd);
    errno = code;
    return moved;
}

static void count(ssize_t moved, bool reading)
{
    if (moved <= 0)
        return;
    bool direct = setting("FAKE_CUFILE_NVFS", 2) > 0;
    pthread_mutex_lock(&fake.lock);
    struct cufile_gpu_counts *counts = &fake.counts;
    if (fake.counting && reading) {
        counts->reads++;
        counts->read_bytes += (uint64_t)moved;
        *(direct ? &counts->nvfs_reads : &counts->posix_reads) += 1;
    } else if (fake.counting) {
        counts->writes++;
        counts->write_bytes += (uint64_t)moved;
        *(direct ? &counts->nvfs_writes : &counts->posix_writes) += 1;
    }
    pthread_mutex_unlock(&fake.lock);
}

#ifndef FAKE_BROKEN
PUBLIC ssize_t cuFileRead(void *handle, void *base, size_t bytes, off_t offset, off_t within)
{
    if (begin_transfer(base, bytes, within))
        return errno = EINTR, -1;
    ssize_t moved = transfer(handle, (char *)base + within, bytes, offset, true);
    count(moved, true);
    return moved;
}
#endif

PUBLIC ssize_t cuFileWrite(void *handle, const void *base, size_t bytes, off_t offset, off_t within)
{
    if (begin_transfer(base, bytes, within))
        return errno = EINTR, -1;
    char *at;
    memcpy(&at, &base, sizeof at);
    ssize_t moved = transfer(handle, at + within, bytes, offset, false);
    count(moved, false);
    return moved;
}

// ---- What leat can do without ----

#ifndef FAKE_OLD
PUBLIC struct cufile_status cuFileGetVersion(int *version)
{
    *version = 1190;
    return status(0);
}

PUBLIC struct cufile_status cuFileDriverGetProperties(struct cufile_properties *properties)
{
    *properties = (struct cufile_properties){
        .nvfs = {.major = (unsigned)setting("FAKE_CUFILE_NVFS", 2), .max_direct_io = 16384},
        .max_device_cache = 131072,
        .per_buffer_cache = 1024,
        .max_device_pinned = 33554432,
        .max_batch_entries = 128};
    return status(0);
}

PUBLIC struct cufile_status cuFileGetParameterSizeT(int parameter, size_t *value)
{
    static const size_t values[] = {0, 128, 4, 8192, 4, 16384};
    if (parameter < 0 || parameter >= (int)(sizeof values / sizeof *values))
        return status(5022);
    *value = values[parameter];
    return status(0);
}

PUBLIC struct cufile_status cuFileGetParameterBool(int parameter, bool *value)
{
    *value = parameter == CUFILE_SWITCH_ALLOW_COMPAT || parameter == CUFILE_SWITCH_PARALLEL_IO;
    return status(0);
}

PUBLIC struct cufile_status cuFileGetBARSizeInKB(int gpu, size_t *kib)
{
    *kib = gpu == 0 ? 262144 : 0;
    return status(gpu == 0 ? 0 : 5029);
}

PUBLIC struct cufile_status cuFileSetStatsLevel(int level)
{
    fake.level = level;
    return status(0);
}

PUBLIC struct cufile_status cuFileStatsStart(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.counting = fake.level == 3;
    pthread_mutex_unlock(&fake.lock);
    return status(fake.counting ? 0 : 5022);
}

PUBLIC struct cufile_status cuFileGetStatsL3(void *counts)
{
    const uint32_t gpus = 1;
    pthread_mutex_lock(&fake.lock);
    memset(counts, 0x5a, CUFILE_GPUS_AT);
    memcpy((char *)counts + CUFILE_GPUS_AT, &gpus, sizeof gpus);
    memcpy((char *)counts + CUFILE_GPUS_AT + 8, &fake.counts, sizeof fake.counts);
    pthread_mutex_unlock(&fake.lock);
    return status(0);
}

PUBLIC ssize_t cuFileReadv(void *handle, const void *vector, size_t entries, off_t offset,
                           unsigned flags)
{
    (void)handle;
    (void)vector;
    (void)entries;
    (void)offset;
    (void)flags;
    return -5008;
}
#endif

// ---- For the test itself ----

/* Opens, handles and buffers that are registered, transfers within a registered buffer. */
PUBLIC void fakeCufileCounts(uint64_t counts[4])
{
    pthread_mutex_lock(&fake.lock);
    counts[0] = fake.opens;
    counts[1] = fake.handles;
    counts[2] = fake.buffers;
    counts[3] = fake.within;
    pthread_mutex_unlock(&fake.lock);
}
