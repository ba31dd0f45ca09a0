/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: between storage and memory of a device or the host.
 *
 * A call names ranges: so many bytes from an offset of the file, to or from a buffer. It is cut
 * into tasks, which threads of the job carry out side by side, each by the path that was chosen for
 * the call: `cufile` (NVIDIA's library, where it is there and takes the file and the buffer),
 * `mapped` (pages of the page cache registered with the GPU and copied from where they are),
 * `odirect` (past the page cache, many requests under way at once), `buffered` (through the page
 * cache). leat_file_info_get says which one a read would take and why not a better one;
 * leat_stats_read counts the bytes of each.
 *
 * Exact counts. What is returned is what was transferred, from the range's beginning without a gap.
 * Reading across or past the end of the file is a short count, never an error, on every path, and
 * bytes of the buffer past the count are untouched (unless the file changes its length meanwhile,
 * or an error has stopped what lies before them: parts of a call are read side by side).
 * Interrupted and short system calls are continued. Offsets and sizes have 64 bits.
 *
 * Deadlines: a wait ends with -ETIMEDOUT when nothing has moved for the job's time-out; the call is
 * then still under way and its buffers still in use. On local file systems a blocking call carries
 * some of its bytes in the caller's own thread, where only the system can end a read.
 *
 * Threads: the functions of this header may be called by any thread, several at once, also on one
 * file; leat_file_close by one, after all others have returned. Not in the child of a fork, which
 * has none of the job's threads: calls that need them are -EINVAL there.
 *
 * The ways of cuFile and KvikIO that this follows and where it differs: docs/files.md.
 */
#ifndef LEAT_FILE_H
#define LEAT_FILE_H

#include <leat/leat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_file leat_file;
/* A call under way. */
typedef struct leat_file_request leat_file_request;

/* ---- Opening ------------------------------------------------------------------------------ */

enum leat_file_flags {
    LEAT_FILE_READ = 1,
    LEAT_FILE_WRITE = 2,
    LEAT_FILE_CREATE = 4,    /* where it is not there; needs WRITE */
    LEAT_FILE_TRUNCATE = 8,  /* to nothing; needs WRITE */
    LEAT_FILE_EXCLUSIVE = 16 /* with CREATE: -EEXIST where it is there */
};

/* Zero, and NULL, take the setting that is named. */
typedef struct leat_file_options {
    size_t size;
    int flags;            /* of leat_file_flags; 0: READ */
    unsigned permissions; /* of a file that is created, before the umask; 0: 0666 */
    const char *compat;   /* "auto", "on" (never cuFile), "off" (cuFile or an error); LEAT_COMPAT */
    uint64_t cufile_min_bytes; /* smaller calls do not ask cuFile; LEAT_CUFILE_MIN, 16 KiB */
    const char *direct;        /* "auto", "on", "off": past the page cache; LEAT_FILE_DIRECT */
    /* A path's name: calls that would take another one fail. Under "odirect" the ends of a write
     * that are no whole page go through the page cache, and are counted as `buffered`. */
    const char *require;
    uint64_t task_bytes; /* LEAT_FILE_TASK, 4 MiB */
} leat_file_options;

/*
 * Opens a regular file or a block device. `options` may be NULL: to read. The job's threads and
 * buffers for files are made with its first call that needs them.
 *
 * What open(2) says, with the path and the remedy (-ENOENT, -EACCES, ...); -EINVAL flags that do
 * not go together, or an unknown word in `compat`, `direct` or `require`; -EISDIR a directory;
 * -ENOTSUP `require` names a path that this file can never take (with the reason; -EMFILE, -ENFILE,
 * -ENOMEM where it is for want of a descriptor, which may pass); under `compat`
 * "off" what cuFile refused (-ENOTSUP, with its own number and words). A file that is refused is
 * left as it was: TRUNCATE comes last, and what CREATE has made goes again.
 */
LEAT_API int leat_file_open(leat_job *job, const char *path, const leat_file_options *options,
                            leat_file **file);

/* Waits for the file's calls, and closes it. Returns what close(2) says. Data are in the page cache
 * or on the device afterwards, as leat_file_sync has it. Safe on NULL. */
LEAT_API int leat_file_close(leat_file *file);

/* ---- Reading and writing ------------------------------------------------------------------ */

/*
 * Memory of a call: `region` + `offset`, or, with `region` NULL, an address: of the host, of a GPU
 * (cudaMalloc, cudaMallocAsync, VMM, managed memory), or host memory known to CUDA. What kind it is
 * the library finds out. Kept by the caller until the call is over.
 */
typedef struct leat_buffer {
    leat_region *region;
    uint64_t offset; /* bytes */
    void *address;
} leat_buffer;

enum leat_file_operation { LEAT_FILE_OP_READ, LEAT_FILE_OP_WRITE };

typedef struct leat_file_range {
    uint64_t file_offset, bytes;
    leat_buffer buffer;
    uint64_t done; /* set when the call is over: bytes transferred from the range's beginning */
} leat_file_range;

/* Blocks until the range is transferred; *done (may be NULL) is set whatever the result.
 * Errors as of leat_file_wait. */
LEAT_API int leat_file_read(leat_file *file, leat_buffer to, uint64_t file_offset, uint64_t bytes,
                            uint64_t *done);
LEAT_API int leat_file_write(leat_file *file, leat_buffer from, uint64_t file_offset,
                             uint64_t bytes, uint64_t *done);

typedef struct leat_file_call {
    size_t size;
    enum leat_file_operation operation;
    /* One range; several that follow one another in the file, to different buffers; or any number
     * anywhere (reads of many small ones are merged over small gaps, LEAT_FILE_GAP, into spans that
     * are read at once). Ranges of a write must not overlap in the file. The array is the caller's
     * and stays until the call is over. */
    leat_file_range *ranges;
    size_t range_count;
    /* Raised to `value` when the call is over, whatever came of it; region NULL: none. */
    leat_place signal;
    uint64_t value;
    /* 1: begins when all that was enqueued to the rank's stream before has been done, and what is
     * enqueued afterwards waits for it (leat_device_info.stream); failed or not. On the CPU device,
     * whose stream is always empty, it is over on return. */
    int in_stream;
} leat_file_call;

/*
 * Begins a call and returns. *request has to be given to leat_file_wait once. -EINVAL a range that
 * is not of this job's memory, that does not fit its buffer (-ERANGE) or that passes 2^63; -EBADF
 * the file is not open for this; -ENOTSUP `require`, or memory that cannot be used (named by kind
 * with the reason); -ENOMEM. Nothing has begun then.
 */
LEAT_API int leat_file_start(leat_file *file, const leat_file_call *call,
                             leat_file_request **request);

/*
 * Waits until the call is over, sets *done (may be NULL) to the sum of the ranges' counts, and
 * frees the request. `timeout_s` < 0: the job's, counted from the last byte that moved; 0: only
 * looks.
 *
 * -ETIMEDOUT, and the request and *done stay as they are: names file and offset; -EIO, -ENOSPC,
 * -EDQUOT, -EFBIG and all that the system says come back as they are, of the lowest offset that
 * failed, which is named; the counts say what was transferred before it
 */
LEAT_API int leat_file_wait(leat_file_request *request, double timeout_s, uint64_t *done);

/* What has been written is on the device when it returns (fdatasync). Errors of writing back that
 * the system has kept come back here: -EIO, -ENOSPC. */
LEAT_API int leat_file_sync(leat_file *file);

/* Makes the file `bytes` long. */
LEAT_API int leat_file_resize(leat_file *file, uint64_t bytes);

/* ---- Buffers ------------------------------------------------------------------------------ */

/*
 * Tells cuFile of a buffer that many calls will use. Never needed; without it each call goes
 * through cuFile's own buffers, or leat's; memory of the host is read where it is. What cuFile
 * refuses (5016: too much is pinned) is no error under `compat` "auto": the file layer remembers
 * why, and leat_file_info_get tells. -EBUSY it is registered already; -EINVAL, -ERANGE as above.
 */
LEAT_API int leat_file_buffer_register(leat_job *job, leat_buffer buffer, uint64_t bytes);
/* -ENOENT it is not registered from this address. */
LEAT_API int leat_file_buffer_deregister(leat_job *job, leat_buffer buffer);

/* ---- What a file is, and where it is ------------------------------------------------------ */

#define LEAT_FILE_PATHS 4

typedef struct leat_file_path {
    char name[16];
    int chosen;               /* by a read of the kind asked about */
    char reason[LEAT_REASON]; /* why it is taken, or why not */
    /* That it has moved, of this file, since it was opened; where an error or another length of the
     * file has stopped a call, some that the call does not count. */
    uint64_t bytes, operations;
} leat_file_path;

typedef struct leat_file_info {
    size_t size;
    uint64_t bytes;       /* of the file, now */
    char file_system[16]; /* "ext4", "tmpfs", ... or its number */
    uint32_t direct_memory_alignment,
        direct_offset_alignment;          /* of direct I/O; 0: none, or unknown */
    uint64_t cached_bytes;                /* of the file, in the page cache; LEAT_FILE_UNKNOWN */
    leat_file_path path[LEAT_FILE_PATHS]; /* best first */
} leat_file_info;

#define LEAT_FILE_UNKNOWN UINT64_MAX

/*
 * `question` (may be NULL: a read of the whole file into memory of the job's device) is the call
 * whose path is asked about; nothing is read. Without ranges: its operation, of the whole file,
 * from or to memory of the job's device. The file need not be open for it. -EINVAL, -ERANGE,
 * -ENOTSUP as of leat_file_start.
 */
LEAT_API int leat_file_info_get(leat_file *file, const leat_file_call *question,
                                leat_file_info *info);

/* Bytes of the range that are in the page cache (cachestat, else mincore). `bytes` 0: to the end.
 * -ENOTSUP where the system does not tell. */
LEAT_API int leat_file_cached(leat_file *file, uint64_t file_offset, uint64_t bytes,
                              uint64_t *cached);
/* Writes the range's dirty pages out and asks the system to forget its pages; those that others use
 * stay. */
LEAT_API int leat_file_drop(leat_file *file, uint64_t file_offset, uint64_t bytes);

/* ---- cuFile ------------------------------------------------------------------------------- */

/* cuFile's own settings and counts, for people who tune it. */
typedef struct leat_cufile_info {
    size_t size;
    int version;              /* 1190 for 1.19; 0: not loaded */
    char absent[LEAT_REASON]; /* why it cannot be used, or "" */
    char library[128];        /* file that was loaded */
    uint64_t direct_io_bytes; /* largest request: max_direct_io_size */
    uint64_t min_io_bytes;    /* below it a request is not cut: min_io_threshold_size */
    uint64_t pinned_bytes, cache_bytes, bar_bytes;
    int io_threads, request_parallelism, queue_depth, batch_entries;
    int parallel_io, compat_allowed, compat_forced, p2pdma, nvfs;
    char settings_file[128]; /* cufile.json that it reads, or "" */
    /* Counters of level 3 over all GPUs and all users of the library in this process, switched on
     * by the first question; never of one call. LEAT_FILE_UNKNOWN where they are off, and bytes
     * where a GPU went more than one way, since the library does not part them. */
    uint64_t nvfs_operations, p2p_operations, posix_operations;
    uint64_t nvfs_bytes, p2p_bytes, posix_bytes;
} leat_cufile_info;

/* Loads the library at its first call (dlopen). 0 also where it is not there: see `absent`. */
LEAT_API int leat_cufile_info_get(leat_job *job, leat_cufile_info *info);

/* Into how many tasks of ours, and requests of cuFile, a transfer is cut. */
typedef struct leat_file_cut {
    uint64_t tasks, task_bytes;
    uint64_t requests_per_task, request_bytes;
} leat_file_cut;

/* A read of `bytes` from the beginning, into memory of the job's device, by the settings and the
 * path in force; reads nothing. */
LEAT_API int leat_file_cut_get(leat_file *file, uint64_t bytes, leat_file_cut *cut);

#ifdef __cplusplus
}
#endif

#endif
