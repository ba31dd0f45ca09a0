// SPDX-License-Identifier: Apache-2.0
// Pages of the page cache, registered with a GPU and copied from where they are.
//
// Algorithm: one lane of a rank takes tasks from the queue, as many as make a chunk, maps their
// pages, registers them and enqueues their copies; while these run it registers the next chunk, and
// then lets go of the first. Nobody else takes such tasks meanwhile: registering does not become
// faster with more threads, and the driver's lock, which it holds, stops their copies. Towards the
// end of a call chunks become small, so that little is left behind the last registering. Advantage:
// no copy by the CPU, one thread for what three read. Disadvantage: pages that are not cached would
// be read one by one, so it is only for those that are.
//
// The CPU never touches the mapping: a file that is truncated meanwhile cannot raise SIGBUS. Its
// size is asked again after the copies, and what lies beyond does not count.

#include "file/internal.h"

#include "device/ops.h"
#include "transport/transport.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_BYTES (UINT64_C(16) << 20) /* below, mapping costs more than it saves */
#define LOOK_BYTES  (UINT64_C(256) << 10)
#define LOOKS       16
#define CHUNK_TASKS 64
#define SHARES      2 /* of a call's tasks left, a chunk takes one in so many */
/* Above, by measurement, they read faster; registering pages of tmpfs takes twice as long. */
#define LANES_MOST       3
#define LANES_MOST_TMPFS 1

// ---- Choice ----

// Whether tasks of this row may be read through slots too.
static bool may_read(const struct leat_file *file)
{
    const char *rule = file->job->config.paths, *name = file_path_buffered.name;
    if (file->require >= 0 || leat_path_rule(rule, "forbid:", name))
        return false;
    return !file_paths_required(rule) || leat_path_rule(rule, "require:", name);
}

// Whether nothing but this path will do: then also for what it is not best at.
static bool is_required(const struct leat_file *file)
{
    const char *rule = file->job->config.paths;
    return file->require == FILE_MAPPED || (file_paths_required(rule) && !may_read(file));
}

// Of a few windows, since counting all pages of a large file takes as long as copying some.
static int look_cached(struct leat_file *file, uint64_t begin, uint64_t end, int *percent)
{
    uint64_t bytes = end - begin, all = 0, there = 0;
    uint64_t window = bytes <= LOOKS * LOOK_BYTES ? bytes : LOOK_BYTES;
    int looks = window == bytes ? 1 : LOOKS;
    for (int i = 0; i < looks; i++) {
        uint64_t at =
            begin + (bytes - window) / (uint64_t)(looks > 1 ? looks - 1 : 1) * (uint64_t)i;
        uint64_t cached = 0;
        int error = file_cached(file, at, window, &cached);
        if (error)
            return error;
        all += window;
        there += cached < window ? cached : window;
    }
    *percent = (int)(there * 100 / (all ? all : 1));
    return 0;
}

static int refuse(char reason[LEAT_REASON], const char *why)
{
    snprintf(reason, LEAT_REASON, "%s", why);
    return -ENOTSUP;
}

static int look_at_file(struct leat_file *file, const struct file_need *need,
                        char reason[LEAT_REASON])
{
    struct stat status;
    int percent = 0;
    if (file->system->fstat(file->fd, &status))
        return refuse(reason, "the file's size cannot be asked");
    if (!S_ISREG(status.st_mode))
        return refuse(reason, "no regular file, whose pages could be mapped");
    uint64_t size = (uint64_t)status.st_size, end = need->offset + need->extent;
    end = end < size ? end : size;
    if (is_required(file)) {
        snprintf(reason, LEAT_REASON, "required");
        return 0;
    }
    if (end <= need->offset)
        return refuse(reason, "nothing of it lies within the file");
    if (end - need->offset < SMALL_BYTES)
        return refuse(reason, "shorter than 16 MiB: mapping costs more than it saves");
    if (look_cached(file, need->offset, end, &percent))
        return refuse(reason, "the system does not tell what is in the page cache");
    if (percent < 95) {
        snprintf(reason, LEAT_REASON, "%d %% of it, by sample, is in the page cache", percent);
        return -ENOTSUP;
    }
    snprintf(reason, LEAT_REASON, "in the page cache, whose pages the GPU copies itself");
    return 0;
}

static int mapped_can(struct leat_file *file, const struct file_need *need,
                      char reason[LEAT_REASON])
{
    const struct leat_job *job = file->job;
    const int most = file->file_system == TMPFS_MAGIC ? LANES_MOST_TMPFS : LANES_MOST;
    if (need->operation != LEAT_FILE_OP_READ)
        return refuse(reason, "reads only");
    if (need->spans)
        return refuse(reason, "many small ranges: these are read as spans");
    if (!need->memory || file_memory_plain(need->memory))
        return refuse(reason, "the buffer is the host's: nothing to register");
    if (!file_copies(job)->pin)
        return refuse(reason, "the device has no registering of pages");
    if (file->require != FILE_MAPPED && file_pool_lanes(file->pool) > most) {
        snprintf(reason, LEAT_REASON, "%d threads (LEAT_FILE_THREADS) read faster than one maps",
                 file_pool_lanes(file->pool));
        return -ENOTSUP;
    }
    // Registering may wait for kernels that run, and those for the other rank's next launch.
    if (!is_required(file) && job->device->ops->asynchronous && job->segment->head->threads &&
        job->rank_count > 1)
        return refuse(reason, "several ranks share the process: registering may stop all of them");
    return look_at_file(file, need, reason);
}

// ---- Chunks ----

/* Pages that follow one another. */
struct stretch {
    void *map;
    uint64_t bytes;
};

struct chunk {
    struct file_task *task[CHUNK_TASKS];
    uint64_t copied[CHUNK_TASKS]; /* of each task */
    struct stretch stretch[CHUNK_TASKS];
    int task_count, stretch_count;
    int error[CHUNK_TASKS];
};

static bool follows(const struct file_task *before, const struct file_task *task)
{
    return before->request == task->request && task->done == 0 &&
           before->offset + before->bytes == task->offset;
}

static int ask_size(const struct leat_file *file, uint64_t *size)
{
    struct stat status;
    if (file->system->fstat(file->fd, &status)) {
        int error = -errno;
        return leat_fail(error, "%s: its size cannot be asked: %s", file->path, strerror(-error));
    }
    *size = (uint64_t)status.st_size;
    return 0;
}

// Where it cannot, the detail says why.
static int map_pages(struct leat_file *file, uint64_t begin, uint64_t end, struct stretch *stretch)
{
    const struct copies_ops *copies = file_copies(file->job);
    stretch->bytes = (end - begin + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    stretch->map =
        file->system->mmap(NULL, stretch->bytes, PROT_READ, MAP_SHARED, file->fd, (off_t)begin);
    if (stretch->map == MAP_FAILED) {
        int error = -errno;
        return leat_fail(error, "its pages cannot be mapped: %s", strerror(-error));
    }
    int error = copies->pin(file->job->device, stretch->map, stretch->bytes, true);
    if (error)
        file->system->munmap(stretch->map, stretch->bytes);
    return error;
}

static int copy_tasks(struct file_lane *lane, struct chunk *chunk, int first, int last,
                      const char *map, uint64_t begin, uint64_t end)
{
    int error = 0;
    for (int i = first; i < last && !error; i++) {
        const struct file_task *task = chunk->task[i];
        uint64_t from = task->offset + task->done, to = task->offset + task->bytes;
        to = to < end ? to : end;
        if (from >= to)
            continue;
        error = file_copies(lane->job)->copy(lane->copies, task->memory.address + task->done,
                                             map + (from - begin), to - from);
        chunk->copied[i] = error ? 0 : to - from;
    }
    return error;
}

// Tasks [first, last) of the chunk follow one another in one file.
static int begin_stretch(struct file_lane *lane, struct chunk *chunk, int first, int last)
{
    struct file_task *head = chunk->task[first], *tail = chunk->task[last - 1];
    struct stretch *stretch = &chunk->stretch[chunk->stretch_count];
    struct leat_file *file = head->request->file;
    uint64_t begin = (head->offset + head->done) / PAGE_BYTES * PAGE_BYTES, size = 0;
    uint64_t end = tail->offset + tail->bytes;
    for (;;) {
        int error = ask_size(file, &size);
        end = end < size ? end : size;
        if (error || begin >= end)
            return error;
        if (!map_pages(file, begin, end, stretch))
            break;
        char why[LEAT_REASON];
        snprintf(why, sizeof why, "%s", leat_error_detail());
        if (!ask_size(file, &size) && size < end)
            continue; // there are fewer pages by now
        file_path_forbid(file, FILE_MAPPED, "%s", why);
        return FILE_OTHER_PATH;
    }
    chunk->stretch_count++;
    return copy_tasks(lane, chunk, first, last, stretch->map, begin, end);
}

static void begin_chunk(struct file_lane *lane, struct chunk *chunk, int mark)
{
    chunk->stretch_count = 0;
    memset(chunk->copied, 0, sizeof chunk->copied);
    memset(chunk->error, 0, sizeof chunk->error);
    for (int first = 0, last; first < chunk->task_count; first = last) {
        last = first + 1;
        while (last < chunk->task_count && follows(chunk->task[last - 1], chunk->task[last]))
            last++;
        int error = begin_stretch(lane, chunk, first, last);
        for (int i = first; i < last; i++)
            chunk->error[i] = error;
    }
    int error = file_copies(lane->job)->mark(lane->copies, mark);
    for (int i = 0; error && i < chunk->task_count; i++)
        chunk->error[i] = error;
}

// ---- The end of a chunk ----

static int read_rest(struct file_lane *lane, struct file_task *task)
{
    uint64_t before = task->done;
    int error = file_path_buffered.run(lane, task);
    file_task_book(task, FILE_BUFFERED, task->done - before);
    return error;
}

static void end_task(struct file_lane *lane, struct file_task *task, uint64_t copied, int error)
{
    struct leat_file *file = task->request->file;
    uint64_t size = 0, at = task->offset + task->done;
    if (!error)
        error = ask_size(file, &size);
    if (!error) {
        // What was copied from beyond is no part of the file any more.
        uint64_t valid = size > at ? size - at : 0;
        valid = valid < copied ? valid : copied;
        task->done += valid;
        file_task_book(task, FILE_MAPPED, valid);
        file_task_moved(task, valid);
        if (valid == copied && task->done < task->bytes && may_read(file))
            error = read_rest(lane, task); // the file may have grown
    }
    file_task_over(lane, task, error);
}

static void end_chunk(struct file_lane *lane, struct chunk *chunk, int mark)
{
    const struct copies_ops *copies = file_copies(lane->job);
    const struct file_system_calls *system = chunk->task[0]->request->file->system;
    int passed = copies->passed(lane->copies, mark, true);
    for (int i = 0; i < chunk->stretch_count; i++) {
        copies->unpin(lane->job->device, chunk->stretch[i].map, chunk->stretch[i].bytes);
        system->munmap(chunk->stretch[i].map, chunk->stretch[i].bytes);
    }
    for (int i = 0; i < chunk->task_count; i++)
        end_task(lane, chunk->task[i], chunk->copied[i], passed < 0 ? passed : chunk->error[i]);
    chunk->task_count = 0;
}

// ---- The lane ----

static uint64_t share(const struct file_lane *lane, const struct file_task *task)
{
    struct leat_file_request *request = task->request;
    pthread_mutex_lock(&request->lock);
    uint64_t left = request->pending * request->file->task_bytes / SHARES;
    pthread_mutex_unlock(&request->lock);
    uint64_t most = lane->job->config.file_mapped_chunk_bytes;
    return left < most ? left : most;
}

// At least one task, and no more than make a chunk.
static void fill_chunk(struct file_lane *lane, struct chunk *chunk, struct file_task *task)
{
    uint64_t most = share(lane, task), bytes = 0;
    int gpu = task->memory.gpu;
    chunk->task_count = 0;
    while (task) {
        chunk->task[chunk->task_count++] = task;
        bytes += task->bytes - task->done;
        bool full = chunk->task_count == CHUNK_TASKS || bytes + task->bytes > most;
        task = full ? NULL : file_pool_next(lane, FILE_MAPPED, gpu);
    }
}

static void map_and_copy(struct file_lane *lane, struct file_task *task, bool claimed)
{
    struct chunk chunks[2];
    int gpu = task->memory.gpu, now = 0;
    fill_chunk(lane, &chunks[0], task);
    begin_chunk(lane, &chunks[0], 0);
    while ((task = file_pool_next(lane, FILE_MAPPED, gpu))) {
        fill_chunk(lane, &chunks[!now], task);
        begin_chunk(lane, &chunks[!now], !now);
        end_chunk(lane, &chunks[now], now);
        now = !now;
    }
    // The last chunk's copies run by themselves: another lane may register from here on.
    if (claimed)
        file_pool_unclaim(lane);
    end_chunk(lane, &chunks[now], now);
}

static void mapped_serve(struct file_lane *lane, struct file_task *task)
{
    bool reading = may_read(task->request->file), claimed = file_pool_claim(lane);
    int error = 0;
    if (claimed || !reading)
        error = file_lane_use(lane, &task->memory);
    else
        error = read_rest(lane, task);
    if (!error && (claimed || !reading)) {
        map_and_copy(lane, task, claimed);
        return;
    }
    if (claimed)
        file_pool_unclaim(lane);
    file_task_over(lane, task, error);
}

const struct file_path file_path_mapped = {
    .name = "mapped", .can = mapped_can, .serve = mapped_serve};
