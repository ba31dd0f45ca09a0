// SPDX-License-Identifier: Apache-2.0
// Past the page cache, many requests under way at once.
//
// Algorithm: a lane keeps a ring of requests. It cuts its task into them, and takes further tasks
// of the path from the queue while it has room, so that many small calls are as deep as one large
// one. Host memory that is aligned is read and written where it is; the rest goes through slots, a
// read over whole blocks, of which what was asked for is copied. What of a write is no whole page
// goes through the page cache, in pages that no direct request shares. Where io_uring is refused,
// each request is a pread or pwrite. Advantage: one thread keeps a disk busy. Disadvantage: the
// block in which a file ends has to be read into a slot, since the device writes all of it.

#define _GNU_SOURCE
#include "file/internal.h"
#include "file/ring.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES (UINT64_C(1) << 20) /* of a request in place */
#define DEPTH       FILE_RING_DEPTH

// A task that is being carried out.
struct job {
    struct file_task *task;
    uint64_t next, end;                /* file offsets: to be asked for, and where the task ends */
    uint64_t size;                     /* of the file, when it began */
    uint64_t direct_begin, direct_end; /* of what direct requests carry */
    int flying;
    struct file_stop stop;
    bool gave_up;
    char text[256]; /* of an error that is not the system's; "": it is */
};

struct request {
    struct job *job;
    struct file_slot *slot; /* NULL: in place */
    char *address;
    uint64_t offset, bytes; /* asked of the device, whole blocks */
    uint64_t begin, end;    /* of that, in the file, what the task wants */
    uint64_t got;
    bool flying; /* in the ring */
};

struct file_ring {
    struct uring *uring; /* NULL: refused */
    int refused;         /* errno, by which it was */
    struct job job[DEPTH];
    struct request request[DEPTH];
    int free[DEPTH], free_count;
    int flying;
};

// What serve hands around.
struct server {
    struct file_lane *lane;
    struct file_ring *ring;
    int gpu;
    struct file_task *again; /* that go on by another path */
};

static uint64_t down(uint64_t value, uint64_t unit)
{
    return value - value % unit;
}

static uint64_t up(uint64_t value, uint64_t unit)
{
    return down(value + unit - 1, unit);
}

// ---- Means ----

static int ring_of(struct file_lane *lane, struct file_ring **found)
{
    if (!lane->ring) {
        struct file_ring *ring = calloc(1, sizeof *ring);
        if (!ring)
            return leat_fail(-ENOMEM, "no memory for direct requests");
        const struct file_system_calls *system = lane->job->file_system;
        int error = system && system->uring_setup(DEPTH) ? -errno : uring_open(DEPTH, &ring->uring);
        ring->refused = -error;
        for (int i = 0; i < DEPTH; i++)
            ring->free[ring->free_count++] = i;
        lane->ring = ring;
    }
    *found = lane->ring;
    return 0;
}

struct uring *file_lane_uring(struct file_lane *lane)
{
    struct file_ring *ring;
    return ring_of(lane, &ring) ? NULL : ring->uring;
}

void file_lane_leave_uring(struct file_lane *lane, int error)
{
    uring_close(lane->ring->uring);
    lane->ring->uring = NULL;
    lane->ring->refused = -error;
}

void file_ring_free(struct file_ring *ring)
{
    if (ring)
        uring_close(ring->uring);
    free(ring);
}

static bool reads(const struct job *job)
{
    return job->task->request->call.operation == LEAT_FILE_OP_READ;
}

static char *memory_at(const struct job *job, uint64_t offset)
{
    return job->task->memory.address + (offset - job->task->offset);
}

static void stop(struct job *job, uint64_t at, int error)
{
    if (at < job->stop.at)
        job->stop = (struct file_stop){at, error};
}

// A copy or a slot has failed, which has its own words.
static void stop_told(struct job *job, uint64_t at, int error)
{
    if (at < job->stop.at)
        snprintf(job->text, sizeof job->text, "%s", leat_error_detail());
    stop(job, at, error);
}

// ---- A request's end ----

// What has come lies in a slot, and has to be where the caller wants it.
static int deliver(struct server *server, const struct request *request, uint64_t end)
{
    const struct job *job = request->job;
    char *to = memory_at(job, request->begin);
    uint64_t from = request->begin - request->offset, bytes = end - request->begin;
    if (file_memory_plain(&job->task->memory)) {
        memcpy(to, request->slot->buffer + from, bytes);
        return 0;
    }
    return file_slot_to_memory(server->lane, request->slot, from, to, bytes);
}

static void end_request(struct server *server, struct request *request)
{
    struct job *job = request->job;
    uint64_t reached = request->offset + request->got;
    uint64_t end = reached < request->end ? reached : request->end;
    if (request->slot)
        request->slot->state = SLOT_FREE;
    // What lies behind the file's end, as it was met, is not the caller's.
    bool counts = request->begin < job->stop.at && end > request->begin;
    if (request->slot && reads(job) && counts) {
        int error = deliver(server, request, end);
        if (error)
            stop_told(job, request->begin, error);
    }
    if (end > request->begin)
        file_task_moved(job->task, end - request->begin);
    job->flying--;
    server->ring->free[server->ring->free_count++] = (int)(request - server->ring->request);
}

// The rest of a request whose transfer has ended off the blocks: the page cache can begin there.
static void finish_buffered(struct request *request)
{
    struct job *job = request->job;
    uint64_t reached = request->offset + request->got, done = 0;
    if (reached >= request->end)
        return;
    char *at = request->address + request->got;
    int error = reads(job)
                    ? file_task_pread(job->task, at, request->end - reached, reached, &done)
                    : file_task_pwrite(job->task, at, request->end - reached, reached, &done);
    request->got += done;
    reached += done;
    if (reached < request->end)
        stop(job, reached > request->begin ? reached : request->begin, error);
}

static void give_up(struct request *request, int error)
{
    struct job *job = request->job;
    file_path_forbid(job->task->request->file, FILE_ODIRECT,
                     "the file system refused a direct %s at offset %llu: %s",
                     reads(job) ? "read" : "write", (unsigned long long)request->offset,
                     strerror(-error));
    job->gave_up = true;
}

// True when the request is over, false when its rest has to be asked for again.
static bool settle(struct request *request, int result)
{
    struct job *job = request->job;
    const struct leat_file *file = job->task->request->file;
    uint64_t reached = request->offset + request->got;
    uint64_t at = reached > request->begin ? reached : request->begin;
    if (result == -EINTR)
        return false;
    if (result == -EINVAL || result == -EOPNOTSUPP) {
        give_up(request, result);
        return true;
    }
    if (result <= 0) {
        // A write that writes nothing and says nothing would go on for ever.
        bool end = !result && reads(job);
        stop(job, at, end ? 0 : result ? result : -EIO);
        return true;
    }
    request->got += (uint64_t)result;
    if (request->got >= request->bytes || request->offset + request->got >= request->end)
        return true;
    if (request->got % file->offset_alignment == 0)
        return false;
    finish_buffered(request);
    return true;
}

// ---- A request's way ----

static int one_call(const struct request *request)
{
    const struct leat_file *file = request->job->task->request->file;
    size_t bytes = request->bytes - request->got;
    off_t offset = (off_t)(request->offset + request->got);
    char *address = request->address + request->got;
    ssize_t result = reads(request->job)
                         ? file->system->pread(file->direct_fd, address, bytes, offset)
                         : file->system->pwrite(file->direct_fd, address, bytes, offset);
    return result < 0 ? -errno : (int)result;
}

static void push(struct server *server, struct request *request)
{
    uring_push(server->ring->uring, !reads(request->job),
               request->job->task->request->file->direct_fd, request->address + request->got,
               (uint32_t)(request->bytes - request->got), request->offset + request->got,
               (uint64_t)(request - server->ring->request));
    request->flying = true;
    server->ring->flying++;
}

// `alone`: nothing else is under way, and a plain call takes less than a ring's turn.
static void launch(struct server *server, struct request *request, bool alone)
{
    if (server->ring->uring && !alone) {
        push(server, request);
        return;
    }
    while (!settle(request, one_call(request)))
        continue;
    end_request(server, request);
}

// The kernel lets the ring be made and not be used: what is in it is asked for by plain calls.
static void leave_ring(struct server *server, int error)
{
    struct file_ring *ring = server->ring;
    uring_close(ring->uring);
    ring->uring = NULL;
    ring->refused = -error;
    for (int i = 0; i < DEPTH; i++)
        if (ring->request[i].flying) {
            ring->request[i].flying = false;
            ring->flying--;
            launch(server, &ring->request[i], true);
        }
}

static void reap(struct server *server)
{
    uint64_t user;
    int result;
    while (uring_pop(server->ring->uring, &user, &result)) {
        struct request *request = &server->ring->request[user];
        const struct file_system_calls *system = request->job->task->request->file->system;
        server->ring->flying--;
        request->flying = false;
        result = system->uring_result(result, request->offset + request->got,
                                      request->bytes - request->got);
        if (result == -EAGAIN)
            launch(server, request, true); // a plain call waits, or has the last word
        else if (settle(request, result))
            end_request(server, request);
        else
            push(server, request);
    }
}

// ---- Cutting ----

// Bytes from job->next on that can be transferred where they lie; 0: none.
static uint64_t in_place(const struct job *job)
{
    const struct leat_file *file = job->task->request->file;
    uint64_t block = file->offset_alignment, rest = job->end - job->next;
    if (!file_memory_plain(&job->task->memory) || job->next % block ||
        (uintptr_t)memory_at(job, job->next) % file->memory_alignment)
        return 0;
    // The block of the file's end is written whole by the device, past what counts.
    uint64_t whole = job->next < job->size ? job->size - job->next : 0;
    if (reads(job))
        rest = rest < whole ? rest : whole;
    return down(rest < PIECE_BYTES ? rest : PIECE_BYTES, block);
}

// Bytes from job->next on that go through a slot.
static uint64_t in_slot(const struct job *job, uint64_t slot_bytes)
{
    const struct leat_file *file = job->task->request->file;
    uint64_t block = file->offset_alignment, first = down(job->next, block);
    uint64_t end = job->end < first + slot_bytes ? job->end : first + slot_bytes;
    // Up to the next block only, where memory is aligned from there on.
    uint64_t edge = up(job->next, block);
    if (file_memory_plain(&job->task->memory) && edge > job->next && edge < end &&
        (uintptr_t)memory_at(job, edge) % file->memory_alignment == 0)
        end = edge;
    return end - job->next;
}

static int fill_slot(struct server *server, struct request *request)
{
    const struct job *job = request->job;
    const char *from = memory_at(job, request->begin);
    if (file_memory_plain(&job->task->memory)) {
        memcpy(request->slot->buffer, from, request->bytes);
        return 0;
    }
    int error = file_slot_from_memory(server->lane, request->slot, from, request->bytes);
    return error ? error : file_slot_wait(server->lane, request->slot);
}

// Makes the job's next request; false where there is no slot for it yet.
static bool make_request(struct server *server, struct job *job, struct request **made)
{
    const struct leat_file *file = job->task->request->file;
    uint64_t bytes = in_place(job);
    bool staged = bytes == 0;
    if (staged && server->lane->slot[server->lane->next].state == SLOT_READING)
        return false;
    struct request *request =
        &server->ring->request[server->ring->free[--server->ring->free_count]];
    if (staged)
        bytes = in_slot(job, server->lane->slot_bytes);
    uint64_t block = file->offset_alignment;
    *request = (struct request){.job = job, .begin = job->next, .end = job->next + bytes};
    request->offset = down(request->begin, block);
    request->bytes = up(request->end, block) - request->offset;
    request->address = memory_at(job, job->next);
    job->next += bytes;
    job->flying++;
    *made = request;
    if (!staged)
        return true;
    int error = file_slot_take(server->lane, &request->slot);
    if (!error && !reads(job))
        error = fill_slot(server, request);
    if (error) {
        stop_told(job, request->begin, error);
        job->flying--;
        server->ring->free[server->ring->free_count++] = (int)(request - server->ring->request);
        *made = NULL;
        return true;
    }
    request->slot->state = SLOT_READING;
    request->address = request->slot->buffer;
    return true;
}

// ---- What no direct request can carry: through the page cache ----

static int carry_edge(struct server *server, struct job *job, uint64_t begin, uint64_t end)
{
    char *memory = memory_at(job, begin), *at = memory;
    uint64_t done = 0;
    int error = 0;
    struct file_slot *slot = NULL;
    if (!file_memory_plain(&job->task->memory)) {
        error = file_slot_spare(server->lane, &slot);
        if (!error && !reads(job))
            error = file_slot_from_memory(server->lane, slot, memory, end - begin);
        if (!error)
            error = file_slot_wait(server->lane, slot);
        at = slot ? slot->buffer : at;
    }
    if (!error)
        error = reads(job) ? file_task_pread(job->task, at, end - begin, begin, &done)
                           : file_task_pwrite(job->task, at, end - begin, begin, &done);
    if (begin + done < end)
        stop(job, begin + done, error);
    if (!slot || !reads(job) || !done)
        return error;
    int copied = file_slot_to_memory(server->lane, slot, 0, memory, done);
    if (!copied)
        copied = file_slot_wait(server->lane, slot);
    if (copied)
        stop_told(job, begin, copied);
    return error ? error : copied;
}

// The last block that an offset can have passes 2^63.
static void read_last_block(struct server *server, struct job *job)
{
    uint64_t last = down(INT64_MAX, job->task->request->file->offset_alignment);
    if (job->end <= last)
        return;
    last = last > job->next ? last : job->next;
    carry_edge(server, job, last, job->end);
    job->end = last;
}

// Before a write's first request and after its last one.
static void write_edges(struct server *server, struct job *job, uint64_t from)
{
    uint64_t unit = job->task->request->file->offset_alignment;
    unit = unit > PAGE_BYTES ? unit : PAGE_BYTES;
    uint64_t end = job->end, head = up(from, unit), tail = down(end, unit);
    if (head > tail || head > end) {
        carry_edge(server, job, from, end);
        job->next = job->end;
        return;
    }
    job->next = head;
    job->end = tail;
    if (head > from && carry_edge(server, job, from, head))
        return;
    if (end > tail)
        carry_edge(server, job, tail, end);
}

// ---- Serving ----

static bool has_more(const struct job *job)
{
    return job->task && !job->gave_up && job->next < job->end && job->next < job->stop.at;
}

static void begin_job(struct server *server, struct file_task *task)
{
    struct job *job = server->ring->job;
    while (job->task)
        job++;
    const struct leat_file *file = task->request->file;
    *job = (struct job){.task = task,
                        .next = task->offset + task->done,
                        .end = task->offset + task->bytes,
                        .stop = {.at = UINT64_MAX}};
    struct stat status;
    if (!file->system->fstat(file->fd, &status))
        job->size = S_ISBLK(status.st_mode) ? UINT64_MAX : (uint64_t)status.st_size;
    int error = file_memory_plain(&task->memory) ? 0 : file_lane_use(server->lane, &task->memory);
    if (error)
        stop_told(job, job->next, error);
    else if (reads(job))
        read_last_block(server, job);
    else
        write_edges(server, job, job->next);
    job->direct_begin = job->next;
    job->direct_end = job->end;
}

// Of the bytes from `begin` to `reached`, what went through the page cache is its.
static void book(const struct job *job, struct file_task *task, uint64_t begin, uint64_t reached)
{
    uint64_t from = job->direct_begin > begin ? job->direct_begin : begin;
    uint64_t to = job->direct_end < reached ? job->direct_end : reached;
    uint64_t direct = from < to ? to - from : 0;
    file_task_book(task, FILE_ODIRECT, direct);
    file_task_book(task, FILE_BUFFERED, reached - begin - direct);
}

static void end_job(struct server *server, struct job *job)
{
    struct file_task *task = job->task;
    uint64_t begin = task->offset + task->done, end = task->offset + task->bytes;
    int drained = file_memory_plain(&task->memory) ? 0 : file_lane_drain(server->lane);
    if (drained)
        stop_told(job, begin, drained); // which of the copies failed is not known
    job->task = NULL;
    if (job->gave_up && !drained) {
        // Not now: the lane's slots belong to the other tasks under way.
        task->next = server->again;
        server->again = task;
        return;
    }
    int error = job->stop.error;
    uint64_t reached = job->stop.at < end ? job->stop.at : end;
    if (error && *job->text)
        leat_fail(error, "%s: %s", task->request->file->path, job->text);
    else if (error)
        file_transfer_fail(task->request->file, error, task->request->call.operation, reached,
                           end - reached);
    task->done += reached - begin;
    book(job, task, begin, reached);
    file_task_over(server->lane, task, error);
}

// The next task of the queue, unless nothing of it would count.
static bool take_task(struct server *server)
{
    struct file_lane *lane = server->lane;
    struct file_task *task;
    while ((task = file_pool_next(lane, FILE_ODIRECT, server->gpu)) && file_task_beyond(task))
        file_task_over(lane, task, 0);
    if (task)
        begin_job(server, task);
    return task;
}

// A job that has more to ask for; NULL: none, also in the queue.
static struct job *next_job(struct server *server)
{
    struct file_ring *ring = server->ring;
    int unused;
    do {
        unused = 0;
        for (int i = 0; i < DEPTH; i++) {
            if (has_more(&ring->job[i]))
                return &ring->job[i];
            unused += !ring->job[i].task;
        }
    } while (unused && take_task(server));
    return NULL;
}

static void fill(struct server *server)
{
    struct file_ring *ring = server->ring;
    struct job *job;
    while (ring->free_count && (job = next_job(server))) {
        struct request *request;
        if (!make_request(server, job, &request))
            break;
        if (request)
            launch(server, request, ring->flying == 0 && !next_job(server));
    }
}

static int end_jobs(struct server *server)
{
    int left = 0;
    for (int i = 0; i < DEPTH; i++) {
        struct job *job = &server->ring->job[i];
        if (job->task && !job->flying && !has_more(job))
            end_job(server, job);
        left += job->task != NULL;
    }
    return left;
}

static int enter(const struct server *server)
{
    const struct file_system_calls *system = server->lane->job->file_system;
    return system && system->uring_enter() ? -errno : uring_enter(server->ring->uring, 1);
}

void file_uring_serve(struct file_lane *lane, struct file_task *task)
{
    struct server server = {.lane = lane, .gpu = task->memory.gpu};
    int error = ring_of(lane, &server.ring);
    if (error) {
        file_task_over(lane, task, error);
        return;
    }
    if (server.ring->refused)
        __atomic_store_n(&task->request->file->ring_refused, server.ring->refused,
                         __ATOMIC_RELAXED);
    begin_job(&server, task);
    do {
        fill(&server);
        if (!server.ring->flying)
            continue;
        // The kernel takes what it can; what it cannot yet is handed over again.
        error = enter(&server);
        if (error && error != -EAGAIN && error != -EBUSY) {
            leave_ring(&server, error);
            continue;
        }
        if (error)
            sched_yield();
        reap(&server);
    } while (end_jobs(&server));
    while (server.again) {
        struct file_task *next = server.again;
        server.again = next->next;
        file_task_over(lane, next, FILE_OTHER_PATH);
    }
}
