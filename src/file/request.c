// SPDX-License-Identifier: Apache-2.0
// What becomes of a call's tasks: counts, stops, the end.
//
// Algorithm: tasks of a range run side by side; each that ends early lowers the range's stop, and
// what lies beyond a stop is not begun any more. What was transferred is what lies before the stop.
// Advantage: exact counts without an order of tasks. Disadvantage: tasks behind an error may have
// moved bytes that are not counted.

#define _GNU_SOURCE
#include "file/internal.h"

#include "core/signal.h"
#include "file/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void file_task_moved(struct file_task *task, uint64_t bytes)
{
    if (!bytes)
        return;
    uint64_t now = leat_now_ns();
    __atomic_store_n(&task->request->moved_ns, now, __ATOMIC_RELAXED);
    file_pool_stamp(task->request->file->pool, now);
}

void file_task_book(struct file_task *task, enum file_row row, uint64_t bytes)
{
    if (!bytes)
        return;
    struct leat_file *file = task->request->file;
    leat_count(&file->bytes[row], bytes);
    leat_count(&file->operations[row], 1);
    leat_count(&file->job->file_counts.bytes[row], bytes);
    leat_count(&file->job->file_counts.operations[row], 1);
}

static void stop_locked(struct leat_file_request *request, size_t range, uint64_t at, int error)
{
    struct file_stop *stop = &request->stop[range];
    if (at < stop->at)
        *stop = (struct file_stop){at, error};
    if (error && (!request->error || at < request->error_offset)) {
        request->error = error;
        request->error_offset = at;
        memcpy(request->error_text, leat_error_detail(), sizeof request->error_text);
    }
}

void file_request_stop(struct leat_file_request *request, size_t range, uint64_t at, int error)
{
    pthread_mutex_lock(&request->lock);
    stop_locked(request, range, at, error);
    pthread_mutex_unlock(&request->lock);
}

// ---- The end ----

static void set_counts(struct leat_file_request *request)
{
    int error = 0;
    for (size_t i = 0; i < request->call.range_count; i++) {
        leat_file_range *range = &request->call.ranges[i];
        uint64_t stop = request->stop[i].at;
        uint64_t end = range->file_offset + range->bytes;
        range->done = (stop < end ? stop : end) - range->file_offset;
        error = error ? error : request->stop[i].error;
    }
    // An error behind the end of a file that was met meanwhile has stopped nothing.
    if (!error)
        request->error = 0;
}

static void finish(struct leat_file_request *request)
{
    struct leat_file *file = request->file;
    set_counts(request);
    if (request->signal)
        leat_signal_raise(request->signal, request->call.value);
    if (request->in_stream)
        file_stream_over(request);
    pthread_mutex_lock(&request->lock);
    request->finished = true;
    bool abandoned = request->abandoned;
    pthread_cond_broadcast(&request->over);
    pthread_mutex_unlock(&request->lock);
    if (abandoned)
        file_request_free(request);
    file_leave(file);
}

static void end_task(struct file_task *task, int error)
{
    struct leat_file_request *request = task->request;
    pthread_mutex_lock(&request->lock);
    if (!task->span && task->done < task->bytes)
        stop_locked(request, task->range, task->offset + task->done, error);
    bool last = --request->pending == 0;
    pthread_mutex_unlock(&request->lock);
    if (last)
        finish(request);
}

// Something before this task has ended early, so that nothing of it would count.
bool file_task_beyond(struct file_task *task)
{
    struct leat_file_request *request = task->request;
    if (task->span)
        return false;
    pthread_mutex_lock(&request->lock);
    bool beyond = request->stop[task->range].at <= task->offset + task->done;
    pthread_mutex_unlock(&request->lock);
    return beyond;
}

// Whether the task goes on by another row: its own has given up.
static bool goes_on(struct file_task *task, int *error)
{
    if (*error != FILE_OTHER_PATH)
        return false;
    struct file_need need = {.operation = task->request->call.operation,
                             .memory = &task->memory,
                             .offset = task->offset,
                             .bytes = task->bytes,
                             .extent = task->bytes,
                             .spans = task->span != NULL};
    int row = file_choose(task->request->file, &need, NULL);
    if (row == (int)task->row)
        row = leat_fail(-EIO, "%s: the path %s gives up and says it can go on",
                        task->request->file->path, file_paths[row]->name);
    *error = row < 0 ? row : 0;
    if (row >= 0)
        task->row = (enum file_row)row;
    return row >= 0;
}

void file_task_run(struct file_lane *lane, struct file_task *task)
{
    __atomic_store_n(&task->request->begun, true, __ATOMIC_RELAXED);
    int error = 0;
    do {
        if (file_task_beyond(task))
            break;
        const struct file_path *path = file_paths[task->row];
        if (path->serve && !task->span) {
            path->serve(lane, task);
            return;
        }
        enum file_row row = task->row;
        uint64_t before = task->done;
        error = path->run(lane, task);
        file_task_book(task, row, task->done - before);
    } while (goes_on(task, &error));
    end_task(task, error);
}

void file_task_over(struct file_lane *lane, struct file_task *task, int error)
{
    if (goes_on(task, &error))
        file_task_run(lane, task);
    else
        end_task(task, error);
}

bool file_task_here(const struct file_task *task, const struct file_lane *lane)
{
    return task->row == FILE_BUFFERED && !task->span && (lane || file_memory_plain(&task->memory));
}

void file_request_submit_from(struct leat_file_request *request, size_t from)
{
    __atomic_store_n(&request->moved_ns, leat_now_ns(), __ATOMIC_RELAXED);
    if (request->task_count > from)
        file_pool_submit(request->file->pool, request, from);
    else if (!request->task_count)
        finish(request);
}

void file_request_submit(struct leat_file_request *request)
{
    file_request_submit_from(request, 0);
}

bool file_request_over(struct leat_file_request *request, uint64_t deadline_ns)
{
    struct timespec deadline = {(time_t)(deadline_ns / 1000000000u),
                                (long)(deadline_ns % 1000000000u)};
    pthread_mutex_lock(&request->lock);
    int error = 0;
    while (!request->finished && !error)
        error = pthread_cond_timedwait(&request->over, &request->lock, &deadline);
    bool over = request->finished;
    pthread_mutex_unlock(&request->lock);
    return over;
}

uint64_t file_request_moved(struct leat_file_request *request)
{
    uint64_t moved = __atomic_load_n(&request->moved_ns, __ATOMIC_RELAXED);
    pthread_mutex_lock(&request->lock);
    // While none of its tasks has begun, the calls before it are what has to move. A call that is
    // not over keeps its job open.
    if (!request->finished && !__atomic_load_n(&request->begun, __ATOMIC_RELAXED)) {
        uint64_t pool = file_pool_moved(request->file->pool);
        moved = pool > moved ? pool : moved;
    }
    pthread_mutex_unlock(&request->lock);
    return moved;
}

bool file_request_abandon(struct leat_file_request *request)
{
    pthread_mutex_lock(&request->lock);
    bool running = !request->finished;
    request->abandoned = running;
    pthread_mutex_unlock(&request->lock);
    return running;
}

void file_request_free(struct leat_file_request *request)
{
    file_ranges_free(request->plan);
    pthread_cond_destroy(&request->over);
    pthread_mutex_destroy(&request->lock);
    file_release(request->file);
    free(request->memory);
    free(request->stop);
    free(request->tasks);
    free(request);
}
