// SPDX-License-Identifier: Apache-2.0
// The threads that carry out a rank's tasks.
//
// Algorithm: one queue, first come first served, but for tasks to be mapped, which one thread at a
// time takes, and those past a local disk's page cache, which few do; threads are started when
// tasks wait that none is free for, up to LEAT_FILE_THREADS, and sleep between calls. Advantage: a
// call's tasks spread over whoever is free, and idle files cost nothing. Disadvantage: a small call
// behind a large one waits until a thread has come to its end of the queue.

#define _GNU_SOURCE
#include "file/internal.h"

#include "core/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LANES_MAXIMUM       256
#define DIRECT_FLIGHT_BYTES (UINT64_C(8) << 20)

struct file_pool {
    struct leat_job *job;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct leat_file *files;
    struct file_task *head, **tail;
    size_t waiting; /* tasks in the queue */
    int idle, limit, lane_count;
    bool stop;
    uint64_t moved_ns;              /* atomic */
    const struct file_lane *mapper; /* registers pages; NULL: none */
    int direct_lanes;               /* carry out tasks past the page cache of local files */
    pthread_mutex_t callers_lock;   /* held by the thread that has the callers' lane */
    struct file_lane callers;
    struct file_lane *lane[LANES_MAXIMUM];
};

static int core_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static void init_lane(struct file_pool *pool, struct file_lane *lane, int number)
{
    *lane = (struct file_lane){.pool = pool,
                               .job = pool->job,
                               .number = number,
                               .gpu = -1,
                               .slot_count = pool->job->config.file_buffers,
                               .slot_bytes = file_slot_bytes(pool->job)};
}

static int make_pool(struct leat_job *job)
{
    struct file_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return leat_fail(-ENOMEM, "no memory for the threads of files");
    int cores = core_count();
    pool->job = job;
    pool->limit = job->config.file_threads ? job->config.file_threads : cores < 8 ? cores : 8;
    pool->tail = &pool->head;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->callers_lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    init_lane(pool, &pool->callers, -1);
    job->file_pool = pool;
    return 0;
}

int file_pool_get(struct leat_job *job, struct file_pool **pool)
{
    pthread_mutex_lock(&job->file_lock);
    int error = job->file_pool ? 0 : make_pool(job);
    *pool = job->file_pool;
    pthread_mutex_unlock(&job->file_lock);
    return error;
}

void file_pool_add(struct file_pool *pool, struct leat_file *file)
{
    pthread_mutex_lock(&pool->lock);
    file->next = pool->files;
    file->link = &pool->files;
    if (file->next)
        file->next->link = &file->next;
    pool->files = file;
    pthread_mutex_unlock(&pool->lock);
}

void file_pool_remove(struct leat_file *file)
{
    pthread_mutex_t *lock = &file->pool->lock;
    pthread_mutex_lock(lock);
    *file->link = file->next;
    if (file->next)
        file->next->link = file->link;
    pthread_mutex_unlock(lock);
}

int file_pool_lanes(const struct file_pool *pool)
{
    return pool->limit;
}

uint64_t file_slot_bytes(const struct leat_job *job)
{
    return (job->config.file_buffer_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t file_pool_moved(struct file_pool *pool)
{
    return __atomic_load_n(&pool->moved_ns, __ATOMIC_RELAXED);
}

bool file_pool_claim(struct file_lane *lane)
{
    struct file_pool *pool = lane->pool;
    pthread_mutex_lock(&pool->lock);
    if (!pool->mapper)
        pool->mapper = lane;
    bool claimed = pool->mapper == lane;
    pthread_mutex_unlock(&pool->lock);
    return claimed;
}

void file_pool_unclaim(struct file_lane *lane)
{
    struct file_pool *pool = lane->pool;
    pthread_mutex_lock(&pool->lock);
    pool->mapper = NULL;
    if (pool->head)
        pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void file_pool_stamp(struct file_pool *pool, uint64_t now_ns)
{
    __atomic_store_n(&pool->moved_ns, now_ns, __ATOMIC_RELAXED);
}

// A local disk is busy with a few MiB under way, and slower with more streams: its requests come
// from as many lanes as it takes for so much, mostly one, which goes on to the next tasks itself.
static int direct_lanes_wanted(const struct file_pool *pool, const struct file_task *task)
{
    bool in_place = file_memory_plain(&task->memory);
    uint64_t slot = file_slot_bytes(pool->job);
    uint64_t request = task->bytes < slot ? task->bytes : slot;
    uint64_t lane =
        request * (uint64_t)(in_place ? FILE_RING_DEPTH : pool->job->config.file_buffers);
    return lane < DIRECT_FLIGHT_BYTES ? (int)(DIRECT_FLIGHT_BYTES / (lane ? lane : 1)) : 1;
}

// Without io_uring a lane has one request under way, so that all are needed.
static bool is_local_direct(const struct file_task *task)
{
    const struct leat_file *file = task->request->file;
    return task->row == FILE_ODIRECT && !task->span && file->here &&
           !__atomic_load_n(&file->ring_refused, __ATOMIC_RELAXED);
}

// What is to be mapped waits for the lane that maps, what is direct for those that are.
static bool may_begin(const struct file_pool *pool, const struct file_task *task)
{
    if (task->row == FILE_MAPPED)
        return !pool->mapper;
    return !is_local_direct(task) || pool->direct_lanes < direct_lanes_wanted(pool, task);
}

// The first task that may begin now.
static struct file_task **find_task(struct file_pool *pool)
{
    struct file_task **link = &pool->head;
    while (*link && !may_begin(pool, *link))
        link = &(*link)->next;
    return link;
}

static struct file_task *take(struct file_pool *pool, struct file_task **link)
{
    struct file_task *task = *link;
    *link = task->next;
    if (!task->next)
        pool->tail = link;
    pool->waiting--;
    __atomic_store_n(&task->request->begun, true, __ATOMIC_RELAXED);
    return task;
}

static struct file_task *await_task(struct file_lane *lane)
{
    struct file_pool *pool = lane->pool;
    struct file_task **link;
    while (!*(link = find_task(pool)) && (pool->head || !pool->stop)) {
        pool->idle++;
        pthread_cond_wait(&pool->work, &pool->lock);
        pool->idle--;
    }
    struct file_task *task = *link ? take(pool, link) : NULL;
    if (task && task->row == FILE_MAPPED)
        pool->mapper = lane;
    return task;
}

static void *work(void *user)
{
    struct file_lane *lane = user;
    struct file_pool *pool = lane->pool;
    struct file_task *task;
    pthread_mutex_lock(&pool->lock);
    while ((task = await_task(lane))) {
        bool direct = is_local_direct(task);
        pool->direct_lanes += direct;
        pthread_mutex_unlock(&pool->lock);
        file_task_run(lane, task);
        pthread_mutex_lock(&pool->lock);
        pool->direct_lanes -= direct;
        // What has waited for this lane may have been passed over by those that sleep.
        if (direct && pool->head && pool->idle)
            pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start_lane(struct file_pool *pool)
{
    struct file_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return leat_fail(-ENOMEM, "no memory for a thread of files");
    init_lane(pool, lane, pool->lane_count);
    int error = leat_thread_start(&lane->thread, work, lane);
    if (error) {
        free(lane);
        return leat_fail(-error,
                         "cannot start thread %d of %d for files: %s; lower "
                         "LEAT_FILE_THREADS",
                         pool->lane_count + 1, pool->limit, strerror(error));
    }
    pool->lane[pool->lane_count++] = lane;
    return 0;
}

int file_pool_start(struct file_pool *pool, size_t tasks)
{
    int error = 0;
    if (!tasks)
        return 0;
    pthread_mutex_lock(&pool->lock);
    size_t wanted = pool->waiting + tasks;
    while (!error && pool->lane_count < pool->limit &&
           (pool->lane_count == 0 || (size_t)pool->idle < wanted)) {
        error = start_lane(pool);
        wanted -= wanted > 0;
    }
    // Fewer threads are slower, none is an error.
    error = pool->lane_count ? 0 : error;
    pthread_mutex_unlock(&pool->lock);
    return error;
}

void file_pool_submit(struct file_pool *pool, struct leat_file_request *request, size_t from)
{
    pthread_mutex_lock(&pool->lock);
    for (size_t i = from; i < request->task_count; i++) {
        struct file_task *task = &request->tasks[i];
        task->next = NULL;
        *pool->tail = task;
        pool->tail = &task->next;
    }
    size_t count = request->task_count - from;
    pool->waiting += count;
    size_t idle = (size_t)pool->idle;
    if (count < idle)
        for (size_t i = 0; i < count; i++)
            pthread_cond_signal(&pool->work);
    else if (idle)
        pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

struct file_task *file_pool_next(const struct file_lane *lane, enum file_row row, int gpu)
{
    struct file_pool *pool = lane->pool;
    struct file_task *task = NULL;
    pthread_mutex_lock(&pool->lock);
    const struct file_task *head = pool->head;
    if (head && head->row == row && head->memory.gpu == gpu && !head->span &&
        (!lane->only || lane->only == head->request))
        task = take(pool, &pool->head);
    pthread_mutex_unlock(&pool->lock);
    return task;
}

struct file_lane *file_pool_borrow(struct file_pool *pool, const struct leat_file_request *request)
{
    if (pthread_mutex_trylock(&pool->callers_lock))
        return NULL;
    pool->callers.only = request;
    return &pool->callers;
}

void file_pool_give_back(struct file_pool *pool)
{
    pthread_mutex_unlock(&pool->callers_lock);
}

struct file_task *file_pool_help(struct file_pool *pool, struct leat_file_request *request,
                                 const struct file_lane *lane)
{
    struct file_task *task = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->head && pool->head->request == request && file_task_here(pool->head, lane))
        task = take(pool, &pool->head);
    pthread_mutex_unlock(&pool->lock);
    return task;
}

// Files whose calls have ended; the list is the pool's, which goes, so they are taken off it.
static void orphan_files(struct file_pool *pool)
{
    while (pool->files) {
        struct leat_file *file = pool->files;
        file_orphan(file);
        file_pool_remove(file);
        file->pool = NULL;
    }
}

void file_pool_close(struct leat_job *job)
{
    struct file_pool *pool = job->file_pool;
    if (!pool)
        return;
    orphan_files(pool);
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->lane_count; i++) {
        pthread_join(pool->lane[i]->thread, NULL);
        file_lane_free(pool->lane[i]);
        free(pool->lane[i]);
    }
    file_lane_free(&pool->callers);
    file_buffers_free(job);
    file_cufile_free(job);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->callers_lock);
    free(pool);
    job->file_pool = NULL;
}
