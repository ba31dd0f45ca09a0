/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leat: moves the data of simulations between devices, processes and files.
 *
 * One idea carries the library. Every transfer is a region (memory leat knows), a path (one row of
 * an ordered table, with the reason why better rows were not taken), a completion that the caller
 * names, and a count. This header has those four; halo.h builds the halo exchange on them.
 *
 * Errors: functions return 0 or a negative errno; leat_error_detail() then says, for the calling
 * thread, which rank, peer, path or offset, what was expected and got, and what to do. Outputs are
 * set only on success. Option structures begin with `size`, set to sizeof by the caller; members
 * that an older caller does not know count as zero, and zero always means the default.
 *
 * Threads: a job handle stands for one rank and is used by one thread at a time, unless a function
 * says otherwise. Different handles are independent. There are no mutable globals.
 */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LEAT_API __attribute__((visibility("default")))
#else
#define LEAT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_VERSION_MAJOR 0
#define LEAT_VERSION_MINOR 1
#define LEAT_VERSION_PATCH 0

/* One rank of a job. */
typedef struct leat_job leat_job;
/* Memory that leat can move: this rank's own, or a view of a peer's. */
typedef struct leat_region leat_region;

/* The detail of the calling thread's last error; never NULL, valid until its next failing call. */
LEAT_API const char *leat_error_detail(void);

/* ---- Jobs --------------------------------------------------------------------------------- */

typedef struct leat_options {
    size_t size; /* sizeof(leat_options) */
    /* Ranks that this process opens itself as threads: leat_open fills that many handles, and each
     * is then used by a thread of its own. 0: one rank, found from the environment (see leat_open),
     * or a job of one when that says nothing. */
    int thread_ranks;
    uint64_t arena_bytes; /* address space a rank for regions; LEAT_ARENA, default 4 GiB */
    double timeout_s;     /* longest wait for a peer; LEAT_TIMEOUT, default 30 */
    const char *paths;    /* "auto", "require:NAME" or "forbid:NAME[,NAME]"; LEAT_PATHS */
    int block_count;      /* blocks of a kernel; LEAT_BLOCKS, default 1 on the CPU device */
    const char *trace;    /* file for a Chrome trace, or "off"; LEAT_TRACE, default off */
    /* "cpu", "cuda" (every GPU there is) or "cuda:0,1": thread ranks are dealt out in runs of equal
     * length, in the order given; LEAT_DEVICE, default "cpu". */
    const char *device;
} leat_options;

typedef struct leat_job_info {
    size_t size;
    int rank, rank_count;
    int grid[3];      /* the launcher's hint (`leat run --grid`), or zeros */
    int thread_ranks; /* ranks of this job in this process; 1 when they are processes */
    double timeout_s;
} leat_job_info;

/*
 * Joins or makes a job. `options` may be NULL. `jobs` has room for max(1, thread_ranks) handles.
 * The environment says which job: that of `leat run`; or LEAT_ROOT (HOST:PORT of rank 0) with
 * LEAT_RANK, LEAT_SIZE and LEAT_JOB_KEY (a secret of 16 characters or more, the same for all
 * ranks); or PMIx (Open MPI's mpirun, srun --mpi=pmix); else it is a job of one.
 *
 * Opening costs a constant number of operations a rank. Under `leat run` it waits for nobody;
 * otherwise it returns once all ranks have opened, or after the time-out. Ranks that do not share
 * the host, its namespaces of processes and of networks and the user have no path to each other
 * yet: what needs one is -EHOSTUNREACH, and leat_path_query says so.
 *
 * -EINVAL   an option or a LEAT_* variable has a value outside its range (both are named)
 * -EPROTO   the rank that was met is of another version or build (both are named)
 * -EALREADY this rank of the launched job is open already
 * -ETIMEDOUT ranks have not come (they are named)
 * -ECONNREFUSED the root does not take this rank, as one that is there already
 * -EACCES   the root has another LEAT_JOB_KEY
 * -ECONNRESET a rank died before all were there
 * -ENOTSUP  a PMIx launcher has started this process, and libpmix is not here
 * -ENOMEM   the segment cannot be mapped; the detail says which limit and how to ask for less
 */
LEAT_API int leat_open(const leat_options *options, leat_job **jobs);

/*
 * Leaves the job and frees every region of this rank. Peers that wait for it afterwards get
 * -ECONNRESET. `reason` tells them why (NULL for an orderly end). Halos that are still open are
 * emptied: exchanging on them is -ESHUTDOWN, and they still have to be freed. Safe on NULL.
 */
LEAT_API void leat_close(leat_job *job, const char *reason);

/* Fills what the caller's `info->size` covers. -EINVAL when size is not set. Any thread. */
LEAT_API int leat_job_info_get(const leat_job *job, leat_job_info *info);

/* ---- Regions ------------------------------------------------------------------------------ */

#define LEAT_REGION_NAME 32 /* bytes, with the final zero */

enum leat_memory { LEAT_MEMORY_HOST, LEAT_MEMORY_DEVICE };

typedef struct leat_region_options {
    size_t size;
    uint64_t bytes;
    /* A region with a name can be found by peers; unnamed ones only through plans. Unique in its
     * rank while it lives. */
    const char *name;
    /* Register only: memory that exists already (owned by the caller, which keeps it until the
     * region is freed), or NULL to look up `name` at rank `owner`. */
    void *address;
    int owner;
    /* Alloc only: LEAT_MEMORY_DEVICE for memory of the rank's device, which on a GPU its kernels
     * and its peers' reach and the host does not (leat_copy does). */
    enum leat_memory memory;
} leat_region_options;

typedef struct leat_region_info {
    size_t size;
    void *address; /* where this rank can load and store it, or NULL when it cannot */
    uint64_t bytes;
    int owner;        /* rank that holds the memory */
    const char *path; /* row of the path table that leads to it */
} leat_region_info;

/*
 * Allocates zeroed memory, aligned to 64 bytes, in this rank's arena, where peers of the host can
 * reach it. Pages are committed on first touch. The library owns it until leat_region_free.
 * -ENOMEM the arena is full (used and total are named); -EEXIST the name is taken; -ENAMETOOLONG.
 */
LEAT_API int leat_region_alloc(leat_job *job, const leat_region_options *options,
                               leat_region **region);

/*
 * Registers the caller's memory (`address` set), or attaches to a peer's named region (`address`
 * NULL): waits until the peer has allocated it, up to the job's time-out.
 * -ETIMEDOUT no such name appeared; -ECONNRESET the owner has left; -EHOSTUNREACH no path leads
 * there, with each row's reason; -EINVAL `bytes` is set and larger than the peer's region.
 */
LEAT_API int leat_region_register(leat_job *job, const leat_region_options *options,
                                  leat_region **region);

/* Frees an allocation or drops a registration or a view. Peers' views of it become stale: using
 * one afterwards is -ESTALE, not a crash. A GPU's memory, where several ranks are threads of the
 * process, stays theirs for later allocations until the last of them closes. Safe on NULL. */
LEAT_API void leat_region_free(leat_region *region);

LEAT_API int leat_region_info_get(const leat_region *region, leat_region_info *info);

/* ---- Copies and waits --------------------------------------------------------------------- */

typedef struct leat_place {
    leat_region *region;
    uint64_t offset; /* bytes */
} leat_place;

/*
 * A signal occupies LEAT_SIGNAL_BYTES of an allocated region, aligned to as many. Its first eight
 * bytes are the word: one word an event, counted up, never reset. Values compare as
 * (int64_t)(seen - wanted) >= 0, so a counter may wrap.
 */
#define LEAT_SIGNAL_BYTES 64

/*
 * One-sided copy between two regions wherever they lie, complete on return. Afterwards, where
 * `signal.region` is not NULL, that signal is raised to `value`; whoever has seen the value sees
 * all the bytes. Either place may be a peer's; the two must not overlap.
 *
 * -ERANGE a place does not hold `bytes` from its offset (sizes are named); -ESTALE a region has
 * been freed by its owner; -EHOSTUNREACH no path leads from here to a place (with each row's
 * reason); -EINVAL the signal is not aligned or lies in a registered region, the places overlap, or
 * a region is another job's.
 */
LEAT_API int leat_copy(leat_job *job, leat_place to, leat_place from, uint64_t bytes,
                       leat_place signal, uint64_t value);

typedef struct leat_event {
    leat_place signal;
    uint64_t at_least;
    int from; /* the rank expected to raise it, watched while waiting; -1: nobody in particular */
} leat_event;

enum leat_wait_mode { LEAT_WAIT_ALL, LEAT_WAIT_ANY };

/*
 * Waits for signals. `timeout_s` < 0 takes the job's, 0 only looks. For LEAT_WAIT_ANY `*index` (may
 * be NULL) gets the first event that is in.
 * -ETIMEDOUT names the peer, the wanted and the seen value; -ECONNRESET the peer died or left;
 * -EINVAL a time-out that is not a number, an unknown mode, or any of no events.
 */
LEAT_API int leat_wait(leat_job *job, const leat_event *events, size_t count,
                       enum leat_wait_mode mode, double timeout_s, size_t *index);

/* ---- Paths and counts --------------------------------------------------------------------- */

#define LEAT_PATH_ROWS 12
#define LEAT_REASON    120

typedef struct leat_path_row {
    char name[16];
    int chosen;               /* 1 for the row taken; 0 for rows passed over or not needed */
    char reason[LEAT_REASON]; /* why this row was taken, or why not */
} leat_path_row;

typedef struct leat_path_report {
    size_t size;
    int row_count;
    leat_path_row row[LEAT_PATH_ROWS];
} leat_path_report;

/*
 * Which row of the path table leads to memory of rank `peer`, and why better ones do not:
 * `registered` is 0 for what leat allocated, 1 for what its owner registered, 2 and 3 for the same
 * on the owner's GPU. Takes no communication. -EINVAL another number.
 */
LEAT_API int leat_path_query(leat_job *job, int peer, int registered, leat_path_report *report);

typedef struct leat_path_stats {
    char path[16];
    uint64_t bytes, operations;
} leat_path_stats;

#define LEAT_POOLS 8

typedef struct leat_pool_stats {
    char name[16];
    uint64_t used_bytes, peak_bytes, limit_bytes;
} leat_pool_stats;

typedef struct leat_stats {
    size_t size;
    int path_count; /* paths that carried something */
    leat_path_stats path[LEAT_PATH_ROWS];
    uint64_t launches;       /* kernels started */
    uint64_t blocking_waits; /* times the host blocked on a device or a peer */
    uint64_t signal_waits;   /* signals awaited, in kernels or on the host */
    uint64_t wait_ns;        /* time in waits that were not satisfied at once */
    uint64_t arena_bytes, arena_used_bytes, arena_peak_bytes;
    uint64_t cpu_ns; /* CPU time of the calling thread in exchanges and runs; only while tracing */
    /* The message layer (msg.h), whatever `peer`; all zero until it is used. */
    uint64_t msg_budget_bytes, msg_used_bytes, msg_peak_bytes;
    int msg_pool_count;
    leat_pool_stats msg_pool[LEAT_POOLS]; /* their limits add up to the budget at most */
    /* Messages sent, by protocol: in a slot of a ring, through its bulk area, in a packet to a peer
     * without a ring, announced; and announced ones received: copied by this rank, with the
     * sender's help, through a pipe. */
    uint64_t msg_inline, msg_bulk, msg_queued, msg_announced, msg_direct, msg_shared, msg_piped;
    /* Messages that found no room and stayed with their sender, those that were looked for there,
     * rings granted and given back. */
    uint64_t msg_held, msg_found, msg_rings_granted, msg_rings_returned;
    /* What kernels of halos had carried by the proxy thread, whatever `peer`: words raised, and
     * bytes, which the paths count too. */
    uint64_t proxy_orders, proxy_bytes;
    /* The memory of libfabric's provider, which is no part of the budget, as far as it can be seen:
     * what the process's private resident memory grew by in the calls that opened the end of the
     * messages, posted buffers to it and made its first connections. 0 without libfabric. */
    uint64_t msg_provider_bytes;
    /* Messages with a buffer in memory of a GPU: sent through a ring by a small copy; received by
     * one copy from GPU to GPU; received through pinned memory of the host, in pieces. */
    uint64_t msg_gpu_small, msg_gpu_direct, msg_gpu_staged;
} leat_stats;

#define LEAT_ALL_PEERS (-1)

/* Counts since open, to one peer or to all. Reading stops nothing; any thread. */
LEAT_API int leat_stats_read(const leat_job *job, int peer, leat_stats *stats);

/*
 * Adds what this rank has recorded since the last call to a trace file, as events of Chrome and
 * Perfetto: exchanges and runs, launches, and waits with peer and pulse; a process a rank, a track
 * a block. All ranks of a job may name the same file, at the same time; one of another job is begun
 * anew. The last 65,536 slices are kept. With LEAT_TRACE or leat_options.trace, leat_close does it.
 * -ENODATA nothing is recorded, since neither was set; what the file system says, with the path
 */
LEAT_API int leat_trace_write(leat_job *job, const char *path);

#ifdef __cplusplus
}
#endif

#endif
