// SPDX-License-Identifier: Apache-2.0
// Windows of `leat file` in memory of the device, and reading a file through them; see file.h.
//
// Algorithm: calls for the windows are started one after the other and waited for in that order, so
// that while one is looked at the others are being filled. What was known to be there is asked for
// so; beyond it one call at a time looks whether the file has grown, or never told its size.

#define _GNU_SOURCE
#include "file.h"

#include "core/error.h"
#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW_HOST    (UINT64_C(64) << 20)
#define WINDOW_GPU     (UINT64_C(256) << 20) /* calls long enough for every path to come to speed */
#define WINDOW_UNKNOWN (UINT64_C(16) << 20)
#define LARGE_PAGE     ((size_t)2 << 20)

// ---- Windows ----

static int open_on_gpu(struct file_windows *windows)
{
    leat_region_options options = {.size = sizeof options,
                                   .bytes = windows->bytes_each * FILE_WINDOWS,
                                   .memory = LEAT_MEMORY_DEVICE};
    int error = leat_region_alloc(windows->job, &options, &windows->region);
    options.bytes = windows->bytes_each;
    options.memory = LEAT_MEMORY_HOST;
    return error ? error : leat_region_alloc(windows->job, &options, &windows->staging);
}

int file_windows_open(struct file_windows *windows, leat_job *job, uint64_t total)
{
    leat_device_info info = {.size = sizeof info};
    int error = leat_device_info_get(job, &info);
    uint64_t most = info.number >= 0 ? WINDOW_GPU : WINDOW_HOST;
    uint64_t each = !total ? WINDOW_UNKNOWN : total < most ? total : most;
    *windows = (struct file_windows){.job = job, .on_gpu = info.number >= 0};
    windows->bytes_each = (each + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (error)
        return error;
    if (windows->on_gpu)
        return open_on_gpu(windows);
    void *made;
    size_t bytes = windows->bytes_each * FILE_WINDOWS;
    if (posix_memalign(&made, LARGE_PAGE, bytes))
        return leat_fail(-ENOMEM, "no memory for %zu bytes of windows", bytes);
    madvise(made, bytes, MADV_HUGEPAGE);
    // Pages that will be used are made now, not in the time that is taken.
    memset(made, 0, total && total < bytes ? total : bytes);
    windows->host = made;
    return 0;
}

void file_windows_close(struct file_windows *windows)
{
    leat_region_free(windows->staging);
    leat_region_free(windows->region);
    free(windows->host);
}

leat_buffer file_window(const struct file_windows *windows, int number)
{
    uint64_t offset = windows->bytes_each * (uint64_t)number;
    if (windows->on_gpu)
        return (leat_buffer){.region = windows->region, .offset = offset};
    return (leat_buffer){.address = windows->host + offset};
}

char *file_window_host(struct file_windows *windows, int number)
{
    if (!windows->on_gpu)
        return windows->host + windows->bytes_each * (uint64_t)number;
    leat_region_info info = {.size = sizeof info};
    leat_region_info_get(windows->staging, &info);
    return info.address;
}

int file_window_fetch(struct file_windows *windows, int number, uint64_t bytes, char **address)
{
    *address = file_window_host(windows, number);
    if (!windows->on_gpu || !bytes)
        return 0;
    leat_place from = {windows->region, windows->bytes_each * (uint64_t)number};
    return leat_copy(windows->job, (leat_place){windows->staging, 0}, from, bytes, (leat_place){0},
                     0);
}

int file_window_publish(struct file_windows *windows, int number, uint64_t bytes)
{
    if (!windows->on_gpu || !bytes)
        return 0;
    leat_place to = {windows->region, windows->bytes_each * (uint64_t)number};
    return leat_copy(windows->job, to, (leat_place){windows->staging, 0}, bytes, (leat_place){0},
                     0);
}

// ---- Reading ----

void file_reader_begin(struct file_reader *reader, leat_file *file, struct file_windows *windows,
                       uint64_t offset, uint64_t bytes, bool has_bytes, uint64_t file_bytes)
{
    uint64_t end = has_bytes ? offset + bytes : INT64_MAX;
    *reader = (struct file_reader){.file = file,
                                   .windows = windows,
                                   .offset = offset,
                                   .known_end = file_bytes < end ? file_bytes : end,
                                   .end = end};
}

static int start_one(struct file_reader *reader)
{
    int window = reader->next_start;
    uint64_t left =
        (reader->offset < reader->known_end ? reader->known_end : reader->end) - reader->offset;
    leat_file_range *range = &reader->range[window];
    *range = (leat_file_range){
        .file_offset = reader->offset,
        .bytes = left < reader->windows->bytes_each ? left : reader->windows->bytes_each,
        .buffer = file_window(reader->windows, window)};
    leat_file_call call = {
        .size = sizeof call, .operation = LEAT_FILE_OP_READ, .ranges = range, .range_count = 1};
    int error = leat_file_start(reader->file, &call, &reader->request[window]);
    if (!error) {
        reader->offset += range->bytes;
        reader->busy++;
        reader->next_start = (window + 1) % FILE_WINDOWS;
    }
    return error;
}

static bool may_start(const struct file_reader *reader)
{
    if (reader->over || reader->busy + reader->held == FILE_WINDOWS)
        return false;
    if (reader->offset < reader->known_end)
        return true;
    return reader->offset < reader->end && reader->busy == 0;
}

static int wait_one(struct file_reader *reader, uint64_t *bytes)
{
    int error = leat_file_wait(reader->request[reader->next_wait], -1, bytes);
    if (error != -ETIMEDOUT) {
        reader->busy--;
        reader->next_wait = (reader->next_wait + 1) % FILE_WINDOWS;
    }
    return error;
}

int file_reader_next(struct file_reader *reader, int *window, uint64_t *bytes)
{
    *bytes = 0;
    while (may_start(reader)) {
        int error = start_one(reader);
        if (error)
            return error;
    }
    if (!reader->busy)
        return 0;
    int oldest = reader->next_wait;
    int error = wait_one(reader, bytes);
    if (error)
        return error;
    reader->held += *bytes > 0;
    if (*bytes < reader->range[oldest].bytes) {
        // What others find beyond has come to be there meanwhile, with a gap before it.
        reader->over = true;
        file_reader_end(reader);
    }
    *window = oldest;
    return 0;
}

void file_reader_again(struct file_reader *reader)
{
    reader->held--;
}

void file_reader_end(struct file_reader *reader)
{
    uint64_t bytes;
    while (reader->busy && wait_one(reader, &bytes) != -ETIMEDOUT)
        continue;
}
