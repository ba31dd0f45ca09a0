// SPDX-License-Identifier: Apache-2.0
// Sides of `leat bench file` in host memory or by leat: a process each, asked by lines.
//
//     leat bench file-side leat[:THREADS] DEVICE
//     leat bench file-side pread[:THREADS]
//
// Algorithm: `leat` makes calls of the file layer, as many under way as it is asked for; `pread` is
// what one writes without it: threads that take parts of 4 MiB. The destination has as many bytes
// as the calls that are under way, and is used again by the next ones. Advantage: each side is set
// up once, and idle when others are measured. Disadvantage: the first call of a size pays for its
// memory, so the caller has to warm up.

#define _GNU_SOURCE
#include "../bench/file_slice.h"
#include "bench.h"
#include "commands.h"
#include "core/error.h"
#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"
#include "leat/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 256

// What a side keeps between asks.
struct side {
    char path[1024]; // of the file that is open
    bool direct;
    uint64_t size;
    // leat
    leat_job *job;
    leat_file *file;
    bool on_gpu;
    leat_region *region, *probe;
    // pread
    int fd;
    struct file_crew crew;
    char failed[200]; // by any member of the crew
    const struct file_ask *ask;
    uint64_t first; // call of the present batch
    // both
    char *memory;
    uint64_t memory_bytes;
};

// ---- Memory ----

static int make_room(struct side *side, uint64_t bytes)
{
    if (side->memory_bytes >= bytes)
        return 0;
    free(side->memory);
    leat_region_free(side->region);
    side->memory = NULL;
    side->region = NULL;
    side->memory_bytes = 0;
    leat_region_options options = {
        .size = sizeof options, .bytes = bytes, .memory = LEAT_MEMORY_DEVICE};
    void *made = NULL;
    int error = 0;
    if (side->on_gpu)
        error = leat_region_alloc(side->job, &options, &side->region);
    else if (posix_memalign(&made, (size_t)2 << 20, bytes))
        error = leat_fail(-ENOMEM, "no memory for %" PRIu64 " bytes", bytes);
    if (made) {
        madvise(made, bytes, MADV_HUGEPAGE);
        memset(made, 0, bytes);
        side->memory = made;
    }
    if (!error)
        side->memory_bytes = bytes;
    return error;
}

static leat_buffer place(const struct side *side, uint64_t offset)
{
    if (side->on_gpu)
        return (leat_buffer){.region = side->region, .offset = offset};
    return (leat_buffer){.address = side->memory + offset};
}

// What lies at `at` of the destination has to have come from `offset` of the file.
static int look(struct side *side, uint64_t at, uint64_t offset)
{
    uint64_t word;
    if (side->on_gpu) {
        leat_region_info info = {.size = sizeof info};
        int error = leat_copy(side->job, (leat_place){side->probe, 0},
                              (leat_place){side->region, at}, 8, (leat_place){0}, 0);
        if (error)
            return error;
        leat_region_info_get(side->probe, &info);
        memcpy(&word, info.address, 8);
    } else {
        word = ~offset;
        if (side->memory)
            memcpy(&word, side->memory + at, 8);
    }
    return word == offset
               ? 0
               : leat_fail(-EBADMSG, "byte %" PRIu64 " of the file was read as that of %" PRIu64,
                           offset, word);
}

// ---- leat ----

static int leat_begin(struct side *side, const char *device)
{
    leat_options options = {.size = sizeof options, .device = device};
    leat_region_options probe = {.size = sizeof probe, .bytes = 64};
    leat_device_info info = {.size = sizeof info};
    int error = leat_open(&options, &side->job);
    if (!error)
        error = leat_device_info_get(side->job, &info);
    side->on_gpu = !error && info.number >= 0;
    return error ? error : leat_region_alloc(side->job, &probe, &side->probe);
}

static int leat_use(struct side *side, const struct file_ask *ask)
{
    leat_file_info info = {.size = sizeof info};
    leat_file_options options = {.size = sizeof options, .direct = ask->direct ? "on" : "auto"};
    if (!strcmp(side->path, ask->path) && side->direct == ask->direct)
        return 0;
    leat_file_close(side->file);
    side->file = NULL;
    side->path[0] = 0;
    int error = leat_file_open(side->job, ask->path, &options, &side->file);
    if (!error)
        error = leat_file_info_get(side->file, NULL, &info);
    if (error)
        return error;
    side->size = info.bytes;
    side->direct = ask->direct;
    snprintf(side->path, sizeof side->path, "%s", ask->path);
    return 0;
}

static int leat_reads(struct side *side, const struct file_ask *ask)
{
    leat_file_range range[DEPTH_MOST];
    leat_file_request *request[DEPTH_MOST] = {0};
    uint64_t done = 0;
    int error = 0;
    if (ask->depth == 1) {
        for (uint64_t i = 0; !error && i < ask->repeat; i++)
            error = leat_file_read(side->file, place(side, 0), file_call_offset(ask, side->size, i),
                                   ask->bytes, &done);
        return error;
    }
    for (uint64_t i = 0; i < ask->repeat + ask->depth; i++) {
        uint64_t slot = i % ask->depth;
        int failed = request[slot] ? leat_file_wait(request[slot], -1, &done) : 0;
        request[slot] = NULL;
        error = error ? error : failed;
        if (error || i >= ask->repeat)
            continue;
        range[slot] = (leat_file_range){.file_offset = file_call_offset(ask, side->size, i),
                                        .bytes = ask->bytes,
                                        .buffer = place(side, slot * ask->bytes)};
        leat_file_call call = {.size = sizeof call, .ranges = &range[slot], .range_count = 1};
        error = leat_file_start(side->file, &call, &request[slot]);
    }
    return error;
}

static int leat_ranges(struct side *side, const struct file_ask *ask)
{
    leat_file_range *range = calloc(ask->depth, sizeof *range);
    if (!range)
        return leat_fail(-ENOMEM, "no memory for %" PRIu64 " ranges", ask->depth);
    leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = ask->depth};
    int error = 0;
    for (uint64_t k = 0; !error && k < ask->repeat; k++) {
        leat_file_request *request;
        uint64_t done;
        for (uint64_t i = 0; i < ask->depth; i++)
            range[i] = (leat_file_range){.file_offset = file_range_offset(ask, side->size, i),
                                         .bytes = ask->bytes,
                                         .buffer = place(side, i * ask->bytes)};
        error = leat_file_start(side->file, &call, &request);
        if (!error)
            error = leat_file_wait(request, -1, &done);
    }
    free(range);
    return error;
}

// ---- pread ----

static int plain_use(struct side *side, const struct file_ask *ask)
{
    struct stat status;
    if (!strcmp(side->path, ask->path) && side->direct == ask->direct)
        return 0;
    if (side->fd >= 0)
        close(side->fd);
    side->path[0] = 0;
    side->fd = open(ask->path, O_RDONLY | O_CLOEXEC | (ask->direct ? O_DIRECT : 0));
    if (side->fd < 0 || fstat(side->fd, &status))
        return leat_fail(-errno, "cannot open %s: %s", ask->path, strerror(errno));
    side->size = (uint64_t)status.st_size;
    side->direct = ask->direct;
    snprintf(side->path, sizeof side->path, "%s", ask->path);
    return 0;
}

static void plain_pread(struct side *side, char *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(side->fd, to + done, bytes - done, (off_t)(offset + done));
        if (got <= 0) {
            snprintf(side->failed, sizeof side->failed, "pread at %" PRIu64 ": %s", offset + done,
                     got ? strerror(errno) : "the file ends");
            return;
        }
        done += (uint64_t)got;
    }
}

static void plain_part(void *user, int member, uint64_t task)
{
    struct side *side = user;
    const struct file_ask *ask = side->ask;
    uint64_t parts = (ask->bytes + FILE_TASK - 1) / FILE_TASK;
    uint64_t call = task / parts, at = task % parts * FILE_TASK;
    uint64_t left = ask->bytes - at;
    (void)member;
    plain_pread(side, side->memory + call * ask->bytes + at, left < FILE_TASK ? left : FILE_TASK,
                file_call_offset(ask, side->size, side->first + call) + at);
}

static void plain_range(void *user, int member, uint64_t task)
{
    struct side *side = user;
    const struct file_ask *ask = side->ask;
    (void)member;
    plain_pread(side, side->memory + task * ask->bytes, ask->bytes,
                file_range_offset(ask, side->size, task));
}

static int plain_run(struct side *side, const struct file_ask *ask)
{
    uint64_t parts = (ask->bytes + FILE_TASK - 1) / FILE_TASK;
    side->ask = ask;
    side->failed[0] = 0;
    if (ask->ranges) {
        for (uint64_t k = 0; k < ask->repeat; k++)
            file_crew_run(&side->crew, plain_range, side, ask->depth);
    } else {
        for (side->first = 0; side->first < ask->repeat; side->first += ask->depth) {
            uint64_t left = ask->repeat - side->first;
            file_crew_run(&side->crew, plain_part, side,
                          (left < ask->depth ? left : ask->depth) * parts);
        }
    }
    return side->failed[0] ? leat_fail(-EIO, "%s", side->failed) : 0;
}

// ---- Both ----

static int serve(struct side *side, const struct file_ask *ask, uint64_t *ns)
{
    int error = side->job ? leat_use(side, ask) : plain_use(side, ask);
    if (!error && (side->size < ask->bytes || ask->depth * ask->bytes / ask->bytes != ask->depth ||
                   (!ask->ranges && ask->depth > DEPTH_MOST)))
        error = leat_fail(-EINVAL, "%s has %" PRIu64 " bytes: too short, or too deep", ask->path,
                          side->size);
    if (!error)
        error = make_room(side, ask->bytes * ask->depth);
    if (error)
        return error;
    uint64_t begin = file_now_ns();
    error = !side->job    ? plain_run(side, ask)
            : ask->ranges ? leat_ranges(side, ask)
                          : leat_reads(side, ask);
    *ns = file_now_ns() - begin;
    uint64_t last = ask->ranges ? ask->depth - 1 : (ask->repeat - 1) % ask->depth;
    uint64_t offset = ask->ranges ? file_range_offset(ask, side->size, last)
                                  : file_call_offset(ask, side->size, ask->repeat - 1);
    if (!error && ask->bytes >= 8)
        error = look(side, last * ask->bytes, offset);
    if (!error && ask->bytes >= 16 && ask->bytes % 8 == 0)
        error = look(side, (last + 1) * ask->bytes - 8, offset + ask->bytes - 8);
    return error;
}

int bench_file_serve(int argc, char **argv)
{
    struct side side = {.fd = -1};
    struct file_ask ask;
    if (argc < 2)
        return EXIT_USAGE;
    const char *colon = strchr(argv[1], ':');
    int error = 0;
    if (!strncmp(argv[1], "leat", 4)) {
        if (colon)
            setenv("LEAT_FILE_THREADS", colon + 1, 1);
        error = leat_begin(&side, argc > 2 ? argv[2] : NULL);
    } else {
        file_crew_open(&side.crew, colon ? atoi(colon + 1) : 1);
    }
    if (error)
        return command_fail("bench file", error);
    while (file_ask_read(&ask)) {
        uint64_t ns = 0;
        if (serve(&side, &ask, &ns))
            file_answer_error(leat_error_detail());
        else
            file_answer(ns);
    }
    // What the process has goes with it; the file is closed in order, since errors may be due.
    leat_file_close(side.file);
    leat_region_free(side.region);
    leat_region_free(side.probe);
    leat_close(side.job, NULL);
    free(side.memory);
    return EXIT_DONE;
}
