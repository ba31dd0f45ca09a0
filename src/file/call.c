// SPDX-License-Identifier: Apache-2.0
// Calls: checked, cut into tasks, waited for.
//
// Algorithm: everything that can be wrong is found before anything begins. Tasks end at pages of
// the file, so that no two of them share one. Of a blocking call through the page cache the thread
// that waits takes tasks too, so that one of a single task runs in it alone; for memory of a GPU it
// borrows the callers' lane. Advantage: a small read wakes no thread: to the host it costs what
// pread costs, to a GPU a pread and a copy. Disadvantage: on a local file system that
// hangs, such a call hangs with it; where a server is behind the file, nothing runs in the caller.

#define _GNU_SOURCE
#include "file/internal.h"

#include "core/region.h"
#include "core/signal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL_BYTES (UINT64_C(1) << 20) /* direct I/O is not asked about below, under auto */

// ---- Checks ----

static int check_known(const struct leat_file *file, enum leat_file_operation operation)
{
    if (operation == LEAT_FILE_OP_READ || operation == LEAT_FILE_OP_WRITE)
        return 0;
    return leat_fail(-EINVAL, "%s: there is no operation %d", file->path, (int)operation);
}

static int check_operation(const struct leat_file *file, enum leat_file_operation operation)
{
    int error = check_known(file, operation);
    if (error)
        return error;
    bool reading = operation == LEAT_FILE_OP_READ;
    if (file->flags & (reading ? LEAT_FILE_READ : LEAT_FILE_WRITE))
        return 0;
    return leat_fail(-EBADF, "%s: it is not open to %s; open it with LEAT_FILE_%s", file->path,
                     reading ? "read" : "write", reading ? "READ" : "WRITE");
}

static int check_range(const struct leat_file *file, uint64_t offset, uint64_t bytes)
{
    if (offset <= INT64_MAX && bytes <= INT64_MAX - offset)
        return 0;
    return leat_fail(-EINVAL, "%s: %llu bytes at offset %llu pass 2^63", file->path,
                     (unsigned long long)bytes, (unsigned long long)offset);
}

static int check_ranges(const struct leat_file *file, const leat_file_call *call)
{
    int error = 0;
    for (size_t i = 0; i < call->range_count && !error; i++)
        error = check_range(file, call->ranges[i].file_offset, call->ranges[i].bytes);
    return error;
}

// Before any lock is taken: one may have been held when the process was forked.
static int check_process(const struct leat_file *file)
{
    if (getpid() == file->process)
        return 0;
    return leat_fail(-EINVAL,
                     "%s: opened before fork() by process %d, whose threads this one has not; open "
                     "a job and the file after fork()",
                     file->path, (int)file->process);
}

// Brings a call of any version to this one's length.
static int take_call(const leat_file_call *call, leat_file_call *full)
{
    if (!call->size)
        return leat_fail(-EINVAL, "leat_file_call.size is 0; set it to sizeof");
    *full = (leat_file_call){0};
    memcpy(full, call, call->size < sizeof *full ? call->size : sizeof *full);
    if (full->range_count && !full->ranges)
        return leat_fail(-EINVAL, "leat_file_call.ranges is NULL");
    return 0;
}

int file_question_take(const struct leat_file *file, const leat_file_call *question,
                       leat_file_call *full)
{
    int error = take_call(question, full);
    if (!error)
        error = check_known(file, full->operation);
    return error ? error : check_ranges(file, full);
}

// ---- The common small call, without a request's rooms ----

// One piece through the page cache, to or from the host, where no rule asks for anything else.
static bool runs_here(const struct leat_file *file, const struct file_memory *memory,
                      uint64_t bytes)
{
    return file->here && bytes < SMALL_BYTES && bytes <= file->task_bytes &&
           file_memory_plain(memory) && file->direct != DIRECT_ON && file->compat != COMPAT_OFF &&
           (file->require < 0 || file->require == FILE_BUFFERED) &&
           file->job->config.paths[0] == 'a'; // auto
}

static int run_here(struct leat_file *file, enum leat_file_operation operation,
                    const struct file_memory *memory, uint64_t offset, uint64_t bytes,
                    uint64_t *done)
{
    int error = operation == LEAT_FILE_OP_READ
                    ? file_pread_all(file, memory->address, bytes, offset, done)
                    : file_pwrite_all(file, memory->address, bytes, offset, done);
    if (*done) {
        leat_count(&file->bytes[FILE_BUFFERED], *done);
        leat_count(&file->operations[FILE_BUFFERED], 1);
        leat_count(&file->job->file_counts.bytes[FILE_BUFFERED], *done);
        leat_count(&file->job->file_counts.operations[FILE_BUFFERED], 1);
    }
    return error;
}

// ---- Requests ----

static struct leat_file_request *request_new(struct leat_file *file, const leat_file_call *call)
{
    size_t count = call->range_count;
    struct leat_file_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->memory = calloc(count + 1, sizeof *request->memory);
    request->stop = calloc(count + 1, sizeof *request->stop);
    if (!request->memory || !request->stop) {
        free(request->memory);
        free(request->stop);
        free(request);
        return NULL;
    }
    request->file = file;
    request->call = *call;
    request->timeout_ns = file->job->timeout_ns;
    pthread_mutex_init(&request->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&request->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; i < count; i++)
        request->stop[i].at = UINT64_MAX;
    pthread_mutex_lock(&file->lock);
    file->references++;
    pthread_mutex_unlock(&file->lock);
    return request;
}

static int find_memory(struct leat_file_request *request)
{
    const leat_file_call *call = &request->call;
    struct leat_job *job = request->file->job;
    int error = check_ranges(request->file, call);
    if (!error)
        error = file_memory_find_all(job, call->ranges, call->range_count, request->memory);
    for (size_t i = 0; i < call->range_count && !error; i++)
        file_buffer_look(job, &request->memory[i], call->ranges[i].bytes);
    return error;
}

static int check_signal(struct leat_file_request *request)
{
    const leat_file_call *call = &request->call;
    return call->signal.region ? leat_signal_at(request->file->job, call->signal, &request->signal)
                               : 0;
}

int file_request_make(struct leat_file *file, const leat_file_call *call,
                      struct leat_file_request **made)
{
    int error = check_operation(file, call->operation);
    if (error)
        return error;
    struct leat_file_request *request = request_new(file, call);
    if (!request)
        return leat_fail(-ENOMEM, "no memory for a call of %zu ranges", call->range_count);
    error = check_signal(request);
    if (!error)
        error = find_memory(request);
    if (!error)
        error = file_request_cut(request);
    if (error)
        file_request_free(request);
    else
        *made = request;
    return error;
}

int leat_file_start(leat_file *file, const leat_file_call *call, leat_file_request **request)
{
    int error = leat_need(file, "leat_file_start", "file");
    if (!error)
        error = leat_need(call, "leat_file_start", "call");
    if (!error)
        error = leat_need(request, "leat_file_start", "request");
    leat_file_call full = {0};
    if (!error)
        error = take_call(call, &full);
    if (!error)
        error = check_process(file);
    if (!error)
        error = file_enter(file);
    if (error)
        return error;
    struct leat_file_request *made = NULL;
    error = file_request_make(file, &full, &made);
    if (!error) {
        error = file_pool_start(file->pool, made->task_count);
        if (error)
            file_request_free(made);
    }
    if (error) {
        file_leave(file);
        return error;
    }
    *request = made;
    if (!full.in_stream) {
        file_request_submit(made);
        return 0;
    }
    error = file_stream_start(made);
    if (error) {
        *request = NULL;
        file_request_free(made);
        file_leave(file);
    }
    return error;
}

// ---- Waiting ----

static bool wait_over(struct leat_file_request *request, double timeout_s)
{
    uint64_t begin = leat_now_ns();
    if (timeout_s >= 0)
        return file_request_over(request,
                                 begin + (uint64_t)((timeout_s < 1e9 ? timeout_s : 1e9) * 1e9));
    for (;;) {
        uint64_t moved = file_request_moved(request);
        uint64_t deadline = (moved > begin ? moved : begin) + request->timeout_ns;
        if (file_request_over(request, deadline))
            return true;
        moved = file_request_moved(request);
        if ((moved > begin ? moved : begin) + request->timeout_ns <= deadline)
            return false;
    }
}

// The first byte of it that is not there, as far as is known.
static int time_out(struct leat_file_request *request, double timeout_s)
{
    const leat_file_range *range = request->call.ranges;
    return leat_fail(
        -ETIMEDOUT,
        "%s: a %s of %zu ranges, the first of %llu bytes at offset %llu, is still "
        "under way%s",
        request->file->path, request->call.operation == LEAT_FILE_OP_READ ? "read" : "write",
        request->call.range_count, (unsigned long long)(range ? range->bytes : 0),
        (unsigned long long)(range ? range->file_offset : 0),
        timeout_s < 0 ? ", and nothing has moved for as long as LEAT_TIMEOUT says; its "
                        "buffers are in use until it is over"
                      : "; its buffers are in use until a wait says that it is over");
}

static uint64_t sum_done(const struct leat_file_request *request)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < request->call.range_count; i++)
        sum += request->call.ranges[i].done;
    return sum;
}

int leat_file_wait(leat_file_request *request, double timeout_s, uint64_t *done)
{
    int error = leat_need(request, "leat_file_wait", "request");
    if (!error && timeout_s != timeout_s)
        error = leat_fail(-EINVAL, "leat_file_wait: the time-out is not a number");
    if (error)
        return error;
    if (!wait_over(request, timeout_s))
        return time_out(request, timeout_s);
    if (done)
        *done = sum_done(request);
    error = request->error;
    if (error)
        leat_fail(error, "%s", request->error_text);
    file_request_free(request);
    return error;
}

// ---- Blocking calls ----

// Where the file is local and its pages are copied by threads, the one that waits is one of them.
static bool takes_part(const struct leat_file_request *request, struct file_lane **lane)
{
    const struct leat_file *file = request->file;
    *lane = NULL;
    if (!file->here || !request->task_count)
        return false;
    if (!file_memory_plain(&request->tasks->memory))
        *lane = file_pool_borrow(file->pool, request);
    bool takes = file_task_here(request->tasks, *lane);
    if (*lane && !takes)
        file_pool_give_back(file->pool);
    *lane = takes ? *lane : NULL;
    return takes;
}

static void take_part(struct leat_file_request *request, struct file_lane *lane)
{
    const struct copies_ops *copies = file_copies(request->file->job);
    struct file_pool *pool = request->file->pool;
    int before = lane && copies->enter ? copies->enter() : -1;
    for (struct file_task *task = request->tasks; task; task = file_pool_help(pool, request, lane))
        file_task_run(lane, task);
    if (lane && copies->leave)
        copies->leave(before);
    if (lane)
        file_pool_give_back(pool);
}

static int block(struct leat_file *file, enum leat_file_operation operation,
                 const leat_file_range *range, uint64_t *done)
{
    leat_file_range copy = *range;
    leat_file_call call = {
        .size = sizeof call, .operation = operation, .ranges = &copy, .range_count = 1};
    struct leat_file_request *request = NULL;
    int error = file_request_make(file, &call, &request);
    if (error)
        return error;
    request->own = copy;
    request->call.ranges = &request->own;
    struct file_lane *lane;
    bool takes = takes_part(request, &lane);
    size_t others = request->task_count - takes;
    error = others || lane ? check_process(file) : 0;
    if (!error)
        error = file_pool_start(file->pool, others);
    if (error) {
        if (lane)
            file_pool_give_back(file->pool);
        file_request_free(request);
        return error;
    }
    // The request says itself when the call has left the file.
    pthread_mutex_lock(&file->lock);
    file->calls++;
    pthread_mutex_unlock(&file->lock);
    file_request_submit_from(request, request->task_count - others);
    if (takes)
        take_part(request, lane);
    error = leat_file_wait(request, -1, done);
    // The caller has no handle to wait again; a call that has ended meanwhile is as good as any.
    if (error == -ETIMEDOUT && !file_request_abandon(request))
        error = leat_file_wait(request, -1, done);
    return error;
}

static int transfer(struct leat_file *file, enum leat_file_operation operation, leat_buffer buffer,
                    uint64_t offset, uint64_t bytes, uint64_t *done)
{
    struct file_memory memory;
    int error = check_operation(file, operation);
    if (!error)
        error = check_range(file, offset, bytes);
    if (!error && bytes < SMALL_BYTES)
        error = file_memory_find(file->job, &buffer, bytes, &memory);
    if (error)
        return error;
    if (bytes < SMALL_BYTES && runs_here(file, &memory, bytes))
        return run_here(file, operation, &memory, offset, bytes, done);
    leat_file_range range = {.file_offset = offset, .bytes = bytes, .buffer = buffer};
    return block(file, operation, &range, done);
}

static int blocking(leat_file *file, const char *function, enum leat_file_operation operation,
                    leat_buffer buffer, uint64_t offset, uint64_t bytes, uint64_t *done)
{
    uint64_t moved = 0;
    int error = leat_need(file, function, "file");
    if (!error)
        error = file_enter(file);
    if (!error) {
        error = transfer(file, operation, buffer, offset, bytes, &moved);
        file_leave(file);
    }
    if (done)
        *done = moved;
    return error;
}

int leat_file_read(leat_file *file, leat_buffer to, uint64_t file_offset, uint64_t bytes,
                   uint64_t *done)
{
    return blocking(file, "leat_file_read", LEAT_FILE_OP_READ, to, file_offset, bytes, done);
}

int leat_file_write(leat_file *file, leat_buffer from, uint64_t file_offset, uint64_t bytes,
                    uint64_t *done)
{
    return blocking(file, "leat_file_write", LEAT_FILE_OP_WRITE, from, file_offset, bytes, done);
}
