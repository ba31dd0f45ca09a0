/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job as the library's own files see it: segment layout, ranks, arenas, set-up communication.
 *
 * All ranks of a host share one memfd. It has no name anywhere, so nobody else can open it and
 * nothing is left when a job dies. Each rank's arena lies at a computed place in it, and the file
 * is sparse: what nobody touched costs nothing. Advantage: no table of peers, no handshake to reach
 * one. Disadvantage: the whole span is address space, rank_count * arena_bytes of it.
 */
#ifndef LEAT_CORE_JOB_H
#define LEAT_CORE_JOB_H

#include "core/config.h"
#include "core/error.h"
#include "core/signal.h"
#include "device/held.h"
#include "leat/leat.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LEAT_SEGMENT_MAGIC 0x316765737461656cULL
#define LEAT_BUILD_BYTES   48
#define LEAT_REDUCE_WORDS  64

/* RANK_ENDING: somebody is writing down how a rank of another host ended. */
enum rank_state { RANK_ABSENT, RANK_OPEN, RANK_CLOSED, RANK_DEAD, RANK_ENDING };

/* `failed` of a record. LOST: `reason` says how the rank went, which it could not say itself. */
enum rank_failure { RANK_UNHARMED, RANK_FAILED, RANK_LOST };

/* Whether others may copy from and to a rank's memory. One word for all of them: where they would
 * be told different things, they all take the slower way. */
enum attach_verdict { ATTACH_UNKNOWN, ATTACH_PERMITTED, ATTACH_REFUSED };

/* One a rank, in the segment's head. `reason` is written before `state` is released. */
struct rank_record {
    uint32_t state; /* enum rank_state */
    int32_t pid;
    int32_t status;  /* wait status, from the launcher, once dead */
    uint32_t failed; /* enum rank_failure */
    uint64_t probe;  /* an address that is mapped there, to try cross-memory attach on */
    uint32_t attach; /* enum attach_verdict, found by whoever tried first */
    uint32_t here;   /* the rank is, or will be, on this host and use this segment */
    char reason[400];
};

struct segment_head {
    /* These two stay where they are in every version, so that strangers can tell each other apart.
     */
    uint64_t magic;
    char build[LEAT_BUILD_BYTES]; /* version and layout of who made it */
    uint32_t rank_count;
    uint32_t threads; /* ranks are threads of one process */
    uint64_t arena_bytes, first_arena;
    uint64_t created_ns; /* wall clock: tells this job from an earlier one in files */
    int32_t grid[3];
    int32_t creator_pid;  /* the launcher; ranks are among its descendants */
    int32_t first_failed; /* rank + 1 of the first that failed or died, the others' cause */
    uint8_t job[16];      /* drawn by who made the job: tells it from every other one */
    struct rank_record rank[];
};

/* Numbered as `registered` of leat_path_query. DEVICE is a GPU's memory that leat has allocated,
 * DEVICE_REGISTERED what its owner has. */
enum region_kind { REGION_ARENA, REGION_REGISTERED, REGION_DEVICE, REGION_DEVICE_REGISTERED };

static inline bool leat_on_device(enum region_kind kind)
{
    return kind == REGION_DEVICE || kind == REGION_DEVICE_REGISTERED;
}

/* An entry of a rank's directory of regions. Odd generation: live. */
struct region_slot {
    uint64_t generation;
    uint64_t offset; /* in the arena; or the address */
    uint64_t bytes;
    uint32_t kind;   /* enum region_kind */
    uint32_t serial; /* of the allocation, where other processes may map it; 0: they may not */
    char name[LEAT_REGION_NAME];
};

#define LEAT_REGION_SLOTS 1024

/* Sums of a few words over all ranks: each rank's contribution, two by parity of the epoch. */
struct reduce_side {
    uint64_t epoch;
    double value[LEAT_REDUCE_WORDS];
    int64_t error;
    char detail[LEAT_DETAIL_BYTES];
};

struct reduce_slot {
    struct leat_signal ready; /* raised to the epoch by the owner */
    struct reduce_side side[2];
    /* What rank 0 has made of all of them, where some are reached by the network. */
    struct leat_signal answered;
    struct reduce_side answer;
};

enum endpoint_state { ENDPOINT_NONE, ENDPOINT_OPEN, ENDPOINT_CLOSED };

/* Where others find a rank's message layer (transport/shm_msg.c). Senders look at the first line
 * with every message, so it holds what seldom changes; the tail is theirs to fight for. */
struct endpoint {
    uint32_t state;        /* enum endpoint_state, released after the rest */
    uint32_t asleep;       /* 1: sleeps or is about to; the futex */
    uint32_t always_wake;  /* whoever stores has to exchange `asleep`, not only to look at it */
    uint32_t cell_count;   /* a power of two */
    uint64_t queue_offset; /* of the cells in the arena, kept until the job ends */
    uint64_t queue_head;   /* the owner's, kept while closed */
    uint64_t gpu_offset;   /* of msg/gpu_share.c's table in the arena; 0: none */
    uint8_t line[LEAT_SIGNAL_BYTES - 40];
    uint64_t queue_tail; /* the next cell to be claimed, or one that is behind it */
    uint8_t tail_line[LEAT_SIGNAL_BYTES - 8];
};

#define LEAT_CARD_BYTES 252
#define LEAT_CARDS      2 /* kinds of them */

/* Where the rank can be found in a network (core/card.h). */
struct card_box {
    uint32_t there; /* released after the text */
    char text[LEAT_CARD_BYTES];
};

#define LEAT_GPU_BYTES  16 /* of what CUDA tells GPUs apart by */
#define LEAT_DOOR_BYTES 40

/* A rank's GPU, for the other processes of its host. */
struct gpu_card {
    uint32_t there;   /* 1: the rank computes on one; released after the rest */
    uint32_t exports; /* what leat allocates on it can be mapped by other processes */
    uint8_t id[LEAT_GPU_BYTES];
    char why[LEAT_REASON];      /* it cannot */
    uint64_t given_back;        /* allocations that have gone back to CUDA so far */
    uint32_t door_open;         /* released after the next */
    char door[LEAT_DOOR_BYTES]; /* of transport/door.h: its socket's name */
    uint8_t line[4 * LEAT_SIGNAL_BYTES - 200];
};
_Static_assert(sizeof(struct gpu_card) % LEAT_SIGNAL_BYTES == 0, "whole lines");

struct arena_head {
    struct leat_signal published; /* raised on every change of the directory */
    uint32_t slot_count;          /* slots ever used */
    uint32_t unused;
    uint64_t symmetric; /* where NVSHMEM's heap begins in the owner's addresses */
    uint64_t line[6];
    struct endpoint endpoint;
    struct card_box card[LEAT_CARDS];
    struct gpu_card gpu;
    struct region_slot slot[LEAT_REGION_SLOTS];
    struct reduce_slot reduce;
};

/* The mapping, shared by the ranks of one process. */
struct segment {
    int fd;
    int references;
    uint64_t bytes;
    struct segment_head *head;
    /* What this process's ranks share of their devices (device/), and its lock. */
    pthread_mutex_t lock;
    struct gang *gangs;
    struct held gpu_memory;
    struct cuda_device *gpus_open, *gpus_closed; /* whose streams stay until the last has closed */
};

/* Free space of the own arena: spans sorted by offset, private to the owner. */
struct arena_span {
    uint64_t offset, bytes;
};

struct arena {
    struct arena_head *head;
    uint64_t bytes, used, peak, fresh; /* beyond `fresh` every byte is still zero */
    struct arena_span *free;
    size_t free_count, free_capacity;
};

struct peer_counts {
    uint64_t bytes[LEAT_PATH_ROWS], operations[LEAT_PATH_ROWS];
};

/* Messages to and from a peer, by its one path on this host. Written by the rank's own thread. */
struct message_counts {
    uint64_t bytes, operations;
};

#define LEAT_FILE_ROWS 4

/* Of files, by path (file/internal.h); atomic. */
struct file_counts {
    uint64_t bytes[LEAT_FILE_ROWS], operations[LEAT_FILE_ROWS];
};

struct counts {
    uint64_t launches, blocking_waits, signal_waits, wait_ns, cpu_ns;
    uint64_t proxy_orders, proxy_bytes; /* by the halo's proxy */
};

struct device;
struct door;
struct file_buffer;
struct file_pool;
struct file_system_calls;
struct letters;
struct tie;
struct far;
struct lookout;
struct msg_engine;
struct nvshmem;
struct proxy;
struct runs;
struct trace;

/* Whether some processes of the job share a GPU. IGNORED: tests do not want to know. */
enum gpus_shared { GPUS_UNKNOWN, GPUS_APART, GPUS_SHARED, GPUS_IGNORED };

/* Bits of `warned` of a job. */
enum leat_once { WARNED_SHARED_GPU = 1 };

/* What a layer above has opened on a job, so that leat_close can let go of it: the handle then only
 * waits to be freed. */
struct job_child {
    struct job_child *next, **link;
    void (*orphan)(struct job_child *child);
    int (*check)(struct job_child *child); /* its error, found meanwhile, or 0; NULL: never */
};

struct leat_job {
    int rank, rank_count;
    struct segment *segment;
    struct tie *tie; /* to whoever watches over ranks of other hosts (core/bootstrap.h), or NULL */
    int first_away;  /* the lowest rank that is on another host, or -1 */
    bool networked;  /* some rank is reached by the network: away, or LEAT_PATHS says so */
    struct far *far; /* made at first use (transport/far.h) */
    struct arena arena;
    struct config config;
    struct counts counts;
    struct peer_counts **peer; /* [rank_count], made on first use */
    leat_region *regions;      /* list of all that live, freed at close */
    struct job_child *children;
    uint64_t reduce_epoch;
    struct msg_engine *msg;            /* made at first use, with the next three */
    struct message_counts *message;    /* [rank_count], pages touched for peers in use only */
    int message_row, message_row_near; /* enum transport_row that they go by, and on this host */
    struct job_child msg_child;
    void (*progress)(struct leat_job *job); /* of messages; NULL while there are none */
    struct letters *letters;                /* halo/letter.c's */
    struct proxy *proxy;                    /* halo/proxy.c's, made at first use */
    struct device *device;
    struct nvshmem *nvshmem; /* transport/nvshmem.c's; NULL: not in use */
    struct runs *runs;       /* device/run.c's, made at first use */
    struct door *door;       /* transport/door.c's, made at first use */
    struct lookout *lookout; /* device/lookout.c's, made at first use */
    enum gpus_shared gpus_shared;
    pthread_mutex_t file_lock;        /* of the making of the next */
    struct file_pool *file_pool;      /* made at first use */
    struct file_buffer *file_buffers; /* registered; under file_lock */
    void *cufile;                     /* file/cufile.c's, under file_lock */
    struct file_counts file_counts;
    const struct file_system_calls *file_system; /* NULL: the system's own */
    struct trace *trace;                         /* NULL unless slices are recorded */
    uint64_t halo_sequence;                      /* halos opened so far: names their boards */
    uint64_t timeout_ns;
    uint32_t warned; /* bits of enum leat_once: one warning a cause */
};

/* ---- segment.c ---- */
int leat_segment_create(int rank_count, uint64_t arena_bytes, const int grid[3], bool threads,
                        int *fd);
int leat_segment_map(int fd, struct segment **segment);
/* Before anybody else has it: only the ranks that claim a record or are named will be here. */
void leat_segment_part(struct segment *segment, const uint8_t job[16]);
void leat_segment_release(struct segment *segment);
/* This library's version and segment layout, as compared between ranks. */
const char *leat_build_id(void);

static inline struct rank_record *leat_rank_record(const struct leat_job *job, int rank)
{
    return &job->segment->head->rank[rank];
}

static inline struct arena_head *leat_arena_head(const struct leat_job *job, int rank)
{
    const struct segment_head *head = job->segment->head;
    return (struct arena_head *)((char *)job->segment->head + head->first_arena +
                                 (uint64_t)rank * head->arena_bytes);
}

/* The rank is on another host, or in other namespaces: its memory is not in this segment. */
static inline bool leat_rank_away(const struct leat_job *job, int rank)
{
    return job->first_away >= 0 && !leat_rank_record(job, rank)->here;
}

/* -EHOSTUNREACH where some rank is away, for what needs all of them ("what" begins the detail). */
int leat_all_here(const struct leat_job *job, const char *what);

/* 0 while the rank may still answer, -ECONNRESET once it has died or left. */
int leat_rank_lost(const struct leat_job *job, int rank);
/* Whether it has gone otherwise than by leat_close. */
bool leat_rank_died(const struct leat_job *job, int rank);
/* Writes down how a rank of another host ended; `text` as in "was lost: the link was cut". Any
 * thread; the first one's story stays. */
void leat_rank_gone(struct segment_head *head, int rank, enum rank_failure failed,
                    const char *text);
/* Remembers the rank as the job's first failure, unless there is one. */
void leat_rank_failed(struct segment_head *head, int rank);
/* How the rank ended, and what ended the job first, where that was another rank: for messages. */
void leat_rank_fate(const struct leat_job *job, int rank, char *text, size_t bytes);

/* ---- mem.c ---- */
int leat_arena_open(struct leat_job *job);
void leat_arena_close(struct leat_job *job);
int leat_arena_alloc(struct leat_job *job, uint64_t bytes, uint64_t *offset);
void leat_arena_free(struct leat_job *job, uint64_t offset, uint64_t bytes);

/* ---- reduce.c: over all ranks, in rank order, the same bits everywhere ---- */
enum reduce_operation { REDUCE_SUM, REDUCE_MIN, REDUCE_MAX };
int leat_reduce(struct leat_job *job, enum reduce_operation operation, double *values, int count);
int leat_barrier(struct leat_job *job);
/* Everybody's verdict: own error comes back as it is; another rank's as -EREMOTEIO with that rank's
 * detail. Collective; also a barrier. */
int leat_agree(struct leat_job *job, int error);

/* ---- stats.c ---- */
void leat_count_path(struct leat_job *job, int peer, int row, uint64_t bytes, uint64_t operations);

static inline void leat_count(uint64_t *counter, uint64_t by)
{
    // Blocks of a kernel may count at once; readers want whole words, not order.
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

#endif
