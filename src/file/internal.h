/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file layer from the inside: the way of one byte, and what its files share.
 *
 *   leat_file_start (call.c)    ranges -> buffers resolved (memory.c), path chosen (choose.c),
 *                               cut into tasks; many small ranges into spans first (ranges.c)
 *   pool.c                      tasks wait in one queue a rank; a lane (thread) takes one
 *   buffered.c uring.c mapped.c cufile.c
 *                               a path: moves the bytes of a task with the lane's means
 *   staging.c                   a lane's slots: reading into one while others are copied
 *   request.c                   task over -> counts, first error; last one -> signal, waiters
 *
 * Advantage: a path knows nothing of threads, calls and counts; what is common (short transfers,
 * errors, ends of files) is in one place. Disadvantage: a task is the unit of everything, so a
 * call's last task decides when it is over.
 */
#ifndef LEAT_FILE_INTERNAL_H
#define LEAT_FILE_INTERNAL_H

#include "leat/file.h"

#include "core/job.h"
#include "device/copies.h"
#include "file/system.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES UINT64_C(4096) /* of the page cache */

struct file_pool;
struct file_ranges;
struct file_ring;
struct file_task;
struct file_lane;

/* ---- Memory -------------------------------------------------------------------------------- */

/* A buffer, found. */
struct file_memory {
    char *address;
    enum copies_memory kind; /* of the host, pinned, a GPU's, managed */
    int gpu;                 /* its number; -1: the host */
    bool registered;         /* with cuFile */
    char *base;              /* where what is registered begins */
};

/* Finds what lies behind a buffer: -ERANGE, -ESTALE (regions), -EINVAL (nothing), -ENOTSUP (named
 * by kind with the reason). */
int file_memory_find(struct leat_job *job, const leat_buffer *buffer, uint64_t bytes,
                     struct file_memory *memory);
/* The same for all ranges of a call. */
int file_memory_find_all(struct leat_job *job, const leat_file_range *ranges, size_t count,
                         struct file_memory *memory);

/* Sets memory->registered where the whole buffer has been registered (register.c). */
void file_buffer_look(struct leat_job *job, struct file_memory *memory, uint64_t bytes);
void file_buffers_free(struct leat_job *job);

/* ---- Paths --------------------------------------------------------------------------------- */

enum file_row { FILE_CUFILE, FILE_MAPPED, FILE_ODIRECT, FILE_BUFFERED, FILE_ROWS };

/* What a choice of path goes by: one range of a call, or all of them together. */
struct file_need {
    enum leat_file_operation operation;
    const struct file_memory *memory;
    uint64_t offset, bytes;
    uint64_t extent; /* from `offset` to the end of the last range */
    bool spans;      /* many small ranges, read as merged spans */
};

/* No errno, so that no system call's result is taken for it. */
#define FILE_OTHER_PATH (-100000)

struct file_path {
    const char *name;
    /* 0 when it can carry it, else a negative errno; the reason says why in either case. Reads the
     * file's properties, no data. */
    int (*can)(struct leat_file *file, const struct file_need *need, char reason[LEAT_REASON]);
    /* Moves the task's bytes from task->done on. Raises task->done to the bytes moved from the
     * task's beginning without a gap, fewer at the end of the file, and returns 0; or a negative
     * errno, with the detail, with task->done as far as it came. FILE_OTHER_PATH: this path cannot
     * after all (it has said why with file_path_forbid): the task is run again, from task->done on,
     * by the next path that can. `lane` is NULL where the task's memory is the host's, it has no
     * span and the row is `buffered`. */
    int (*run)(struct file_lane *lane, struct file_task *task);
    /* NULL, or instead of run: carries out the task and others of the row that it takes from the
     * queue (file_pool_next) while it has room, and gives each to file_task_over when it ends. */
    void (*serve)(struct file_lane *lane, struct file_task *task);
    uint64_t task_bytes; /* how long its tasks like to be; 0: as the setting says */
};

extern const struct file_path *const file_paths[FILE_ROWS];
extern const struct file_path file_path_cufile, file_path_mapped, file_path_odirect,
    file_path_buffered;

/* The first row that may and can, by `compat`, `direct`, `require`, LEAT_PATHS and can(); or a
 * negative errno with all reasons in the detail. info may be NULL: gets every row's reason. */
int file_choose(struct leat_file *file, const struct file_need *need, leat_file_info *info);
/* Whether the rule of LEAT_PATHS requires paths of files, whichever. */
bool file_paths_required(const char *rule);
/* From now on this file does not take the row; the reason is kept and shown. Logged once. */
void file_path_forbid(struct leat_file *file, enum file_row row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Files --------------------------------------------------------------------------------- */

struct leat_file {
    struct leat_job *job;           /* NULL once it has been closed */
    struct leat_file *next, **link; /* of the pool's files, under its lock */
    struct file_pool *pool;
    const struct file_system_calls *system;
    char *path;
    int flags;
    pid_t process; /* that opened it */
    int fd;        /* through the page cache */
    int direct_fd; /* O_DIRECT; -1 until a call wants it, or where the file system refuses */
    uint32_t memory_alignment, offset_alignment; /* of direct I/O; 0: none */
    bool alignment_told;                         /* else they are a guess */
    int ring_refused;                            /* errno: why there is no io_uring; atomic */
    uint64_t file_system;                        /* statfs's f_type */
    char file_system_name[16];
    enum { COMPAT_AUTO, COMPAT_ON, COMPAT_OFF } compat;
    enum { DIRECT_AUTO, DIRECT_ON, DIRECT_OFF } direct;
    int require; /* a row, or -1 */
    uint64_t cufile_min_bytes, task_bytes;
    void *cufile;         /* its handle; NULL: not registered */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t quiet; /* no calls any more */
    int calls;            /* under way */
    int references;       /* of the caller and of requests that have not been waited for */
    bool here;            /* local: calls of little work may run in the caller's thread */
    bool forbidden[FILE_ROWS];
    char why[FILE_ROWS][LEAT_REASON];
    uint64_t bytes[FILE_ROWS], operations[FILE_ROWS]; /* atomic */
};

/* Its file system and its alignment (look.c). */
void file_look(struct leat_file *file);
/* What has been written is on the device (fdatasync). */
int file_write_out(struct leat_file *file);
/* A call begins, unless the job or the file has been closed (-ESHUTDOWN); it ends. */
int file_enter(struct leat_file *file);
void file_leave(struct leat_file *file);
/* Its calls end, and no more begin; the job goes. */
void file_orphan(struct leat_file *file);
/* One reference less; the last one frees. */
void file_release(struct leat_file *file);
int file_open_direct(struct leat_file *file,
                     char reason[LEAT_REASON]); /* its descriptor, or -errno */
/* Of a descriptor: what another call, a moment later, may not meet. */
static inline bool file_error_passes(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}
/* Bytes in the page cache; the other descriptors and the file's position are left alone. */
int file_cached(struct leat_file *file, uint64_t offset, uint64_t bytes, uint64_t *cached);

/* ---- Calls and tasks ------------------------------------------------------------------------ */

/* Where a transfer stopped: the lowest offset at which one of its tasks came to an end too soon. */
struct file_stop {
    uint64_t at; /* file offset; beyond the range: not stopped */
    int error;   /* 0: the end of the file */
};

struct file_span;

/* A part of a call that one lane carries out at a time. */
struct file_task {
    struct file_task *next;
    struct leat_file_request *request;
    size_t range;                 /* in the request */
    uint64_t offset, bytes;       /* in the file */
    struct file_memory memory;    /* where the task's first byte goes or comes from */
    const struct file_span *span; /* many small ranges at once; NULL: one piece */
    enum file_row row;
    uint64_t done;
};

struct leat_file_request {
    struct leat_file *file;
    leat_file_call call;
    struct file_memory *memory; /* [range_count] */
    struct file_stop *stop;     /* [range_count], under `lock` */
    struct file_task *tasks;
    size_t task_count;
    struct file_ranges *plan; /* of its small ranges; NULL: none */
    pthread_mutex_t lock;
    pthread_cond_t over;
    size_t pending;    /* tasks not over */
    uint64_t moved_ns; /* when the last byte moved; atomic */
    uint64_t timeout_ns;
    struct leat_signal *signal;
    leat_file_range own; /* the only range of a blocking call */
    bool begun;          /* one of its tasks at least; atomic */
    bool abandoned;      /* nobody waits: freed when it is over */
    bool finished;
    bool in_stream;             /* held by a stream: file_stream_over when it is over */
    struct copies_hold *stream; /* stream.c's own */
    int error;                  /* of the lowest offset that failed */
    uint64_t error_offset;      /* in the file */
    char error_text[LEAT_DETAIL_BYTES];
};

/* A path that is in the middle of a long task says so, for deadlines and progress bars. */
void file_task_moved(struct file_task *task, uint64_t bytes);
/* What lies before it has ended early, so that nothing of it would count: it is over. */
bool file_task_beyond(struct file_task *task);
/* Bytes of the task that `row` has moved since it last said so. */
void file_task_book(struct file_task *task, enum file_row row, uint64_t bytes);
/* The transfer of a range has come to its end before its last byte: at `at`, by an error, or 0 by
 * the end of the file. The lowest offset counts. */
void file_request_stop(struct leat_file_request *request, size_t range, uint64_t at, int error);
/* Queues the request's tasks; where it has none, it is over. */
void file_request_submit(struct leat_file_request *request);
/* The same, but for the first `from` of them, which the caller runs itself. */
void file_request_submit_from(struct leat_file_request *request, size_t from);
/* Makes the queued request: everything is checked, and nothing has begun. */
int file_request_make(struct leat_file *file, const leat_file_call *call,
                      struct leat_file_request **request);
void file_request_free(struct leat_file_request *request);
/* A call that is only asked about, for this version's length: the same checks, but that the file
 * need not be open for it. */
int file_question_take(const struct leat_file *file, const leat_file_call *question,
                       leat_file_call *full);
/* How long the tasks of a call are that goes by that row (cut.c). */
uint64_t file_task_bytes(const struct leat_file *file, int row, uint64_t bytes);
/* Makes its tasks (cut.c). */
int file_request_cut(struct leat_file_request *request);
/* When something it waits for last moved. */
uint64_t file_request_moved(struct leat_file_request *request);
/* Nobody will wait for it: it is freed when it is over. False where it is over already. */
bool file_request_abandon(struct leat_file_request *request);
/* Whether the request is over, after waiting until CLOCK_MONOTONIC's `deadline_ns` at most. */
bool file_request_over(struct leat_file_request *request, uint64_t deadline_ns);
/* One of the request's tasks is. */
void file_task_over(struct file_lane *lane, struct file_task *task, int error);

/* ---- Stream order (stream.c) ---------------------------------------------------------------- */

/* Holds the rank's stream and arranges that file_request_submit is called when all before is done;
 * the CPU device, whose stream is empty, submits and waits. */
int file_stream_start(struct leat_file_request *request);
/* The request is over: lets the stream go on. Called by the last task's lane. */
void file_stream_over(struct leat_file_request *request);

/* ---- cuFile, but for transfers (cufile.c) --------------------------------------------------- */

/* Registers the file under compat auto and off; where cuFile refuses, file_path_forbid has the
 * reason. An error only under `off`. */
int file_cufile_open(struct leat_file *file);
void file_cufile_close(struct leat_file *file);
/* Registers a buffer with cuFile (and host memory with CUDA): memory->registered. What cuFile
 * refuses is no error under LEAT_COMPAT auto. */
int file_cufile_buffer(struct leat_job *job, struct file_memory *memory, uint64_t bytes);
void file_cufile_buffer_gone(struct leat_job *job, const struct file_memory *memory);
/* Into what a task of that many bytes is cut; zeros: cuFile is not there. */
void file_cufile_cut(struct leat_job *job, uint64_t task_bytes, leat_file_cut *cut);
/* The job closes: what it holds of the library is given back. Safe when nothing is. */
void file_cufile_free(struct leat_job *job);

/* ---- The pool ------------------------------------------------------------------------------- */

/* A rank's threads; made with its first call that needs them. */
int file_pool_get(struct leat_job *job, struct file_pool **pool);
/* leat_close: calls end, files become orphans, threads go. */
void file_pool_close(struct leat_job *job);
void file_pool_add(struct file_pool *pool, struct leat_file *file);
void file_pool_remove(struct leat_file *file);
int file_pool_lanes(const struct file_pool *pool);
/* Of each slot of its lanes: LEAT_FILE_BUFFER in whole pages, so that direct requests fit. */
uint64_t file_slot_bytes(const struct leat_job *job);
/* When a task of any call last moved a byte. */
uint64_t file_pool_moved(struct file_pool *pool);
void file_pool_stamp(struct file_pool *pool, uint64_t now_ns);
/* Starts threads for so many tasks, as far as LEAT_FILE_THREADS goes. */
int file_pool_start(struct file_pool *pool, size_t tasks);
/* Queues a request's tasks from number `from` on, in order. */
void file_pool_submit(struct file_pool *pool, struct leat_file_request *request, size_t from);
/* Registering pages is for one lane of a rank at a time: whether it is the caller now. */
bool file_pool_claim(struct file_lane *lane);
void file_pool_unclaim(struct file_lane *lane);
/* The next task that the lane may take if it is of that row, for memory of that GPU, and no span;
 * NULL: none. */
struct file_task *file_pool_next(const struct file_lane *lane, enum file_row row, int gpu);
/* The lane of a thread that waits for this request, to take part in it, until it is given back:
 * one at a time of a rank's callers; NULL where another one has it. */
struct file_lane *file_pool_borrow(struct file_pool *pool, const struct leat_file_request *request);
void file_pool_give_back(struct file_pool *pool);
/* The next task if it is this request's and the caller may run it, by its lane or (NULL) without
 * any; NULL: none. */
struct file_task *file_pool_help(struct file_pool *pool, struct leat_file_request *request,
                                 const struct file_lane *lane);
/* Runs the task by its row, and by the next ones where that gives up; then reports to its request.
 * (request.c; called by lanes) */
void file_task_run(struct file_lane *lane, struct file_task *task);
/* Whether a thread that waits may run it, by the callers' lane or (NULL) without any. */
bool file_task_here(const struct file_task *task, const struct file_lane *lane);

/* ---- Lanes and their slots (staging.c) ------------------------------------------------------ */

#define FILE_SLOTS_MAX 64

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_COPYING };

/* A bounce buffer: page-aligned, pinned where the rank has a GPU. */
struct file_slot {
    char *buffer;
    enum slot_state state;
    uint64_t offset, bytes; /* of the file, asked for */
    uint64_t user;          /* a path's own */
};

/* One thread's means. Slots are made when first used and stay until the pool goes. */
struct file_lane {
    struct file_pool *pool;
    struct leat_job *job;
    int number;
    pthread_t thread;
    const struct leat_file_request *only; /* the caller's own lane: whose tasks it takes */
    struct copies_lane *copies;           /* its stream on the GPU in use; NULL until needed */
    int gpu;
    struct file_slot slot[FILE_SLOTS_MAX];
    int slot_count;         /* LEAT_FILE_BUFFERS */
    uint64_t slot_bytes;    /* LEAT_FILE_BUFFER */
    int next;               /* slot to take */
    struct file_ring *ring; /* io_uring; NULL until needed, or not there */
};

/* The lane's stream for memory of that kind and GPU: opened, or changed over. */
int file_lane_use(struct file_lane *lane, const struct file_memory *memory);
/* The next slot, once its last copy is over. */
int file_slot_take(struct file_lane *lane, struct file_slot **slot);
/* One beside those that are taken in turn, for what is over before anything else is done with it.
 */
int file_slot_spare(struct file_lane *lane, struct file_slot **slot);
/* Enqueues a copy between slot and memory; the slot is taken again only when it is over. */
int file_slot_to_memory(struct file_lane *lane, struct file_slot *slot, uint64_t from, void *to,
                        uint64_t bytes);
int file_slot_from_memory(struct file_lane *lane, struct file_slot *slot, const void *from,
                          uint64_t bytes);
/* Waits until the slot's copies are over. */
int file_slot_wait(struct file_lane *lane, struct file_slot *slot);
/* All copies of the lane are over; slots that copied are free. */
int file_lane_drain(struct file_lane *lane);
/* The device's copies. */
const struct copies_ops *file_copies(const struct leat_job *job);
/* Memory that the host's loads and stores reach at full speed: no slots needed. */
static inline bool file_memory_plain(const struct file_memory *memory)
{
    return memory->kind == COPIES_HOST || memory->kind == COPIES_PINNED;
}
/* Gives back what the lane holds. */
void file_lane_free(struct file_lane *lane);
void file_ring_free(struct file_ring *ring); /* uring.c */
/* As a path's `serve`, by io_uring or plain calls (uring.c). */
void file_uring_serve(struct file_lane *lane, struct file_task *task);
#define FILE_RING_DEPTH 32
struct uring;
/* The lane's ring, which is empty between tasks; NULL where the kernel refuses it. (uring.c) */
struct uring *file_lane_uring(struct file_lane *lane);
/* It cannot be used, by this error. */
void file_lane_leave_uring(struct file_lane *lane, int error);

/* "FILE: cannot read 5 bytes at offset 7: ..." as the detail; returns error. */
int file_transfer_fail(const struct leat_file *file, int error, enum leat_file_operation operation,
                       uint64_t offset, uint64_t bytes);

/* ---- Transfers that end where they should (system.c's calls, continued) --------------------- */

/* Through the page cache until `bytes` are there or the file ends; EINTR and short transfers
 * continued. *done is set always. */
int file_pread_all(const struct leat_file *file, void *to, uint64_t bytes, uint64_t offset,
                   uint64_t *done);
int file_pwrite_all(const struct leat_file *file, const void *from, uint64_t bytes, uint64_t offset,
                    uint64_t *done);
/* The same for a task, which moves with each of the system's calls (file_task_moved). */
int file_task_pread(struct file_task *task, void *to, uint64_t bytes, uint64_t offset,
                    uint64_t *done);
int file_task_pwrite(struct file_task *task, const void *from, uint64_t bytes, uint64_t offset,
                     uint64_t *done);

#endif
