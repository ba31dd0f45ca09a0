/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device from the inside: what its kernels take, and what its files share.
 */
#ifndef LEAT_DEVICE_CUDA_H
#define LEAT_DEVICE_CUDA_H

#ifndef __cplusplus
#include "core/job.h"
#endif
#include "device/ops.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CUDA_THREADS     512  /* lanes of a block */
#define CUDA_DOMAINS_MAX 32   /* ranks of one GPU */
#define CUDA_NEAR_BYTES  2048 /* of arguments that a launch carries along */

struct cuda_near {
    uint64_t turn;
    uint32_t choice, unused;
    __attribute__((aligned(16))) unsigned char arguments[CUDA_NEAR_BYTES];
};

/* One pulse fits: what a launch carries along takes time by its size. The beginning of the other.
 */
#define CUDA_SMALL_BYTES 496

struct cuda_small {
    uint64_t turn;
    uint32_t choice, unused;
    __attribute__((aligned(16))) unsigned char arguments[CUDA_SMALL_BYTES];
};

struct cuda_far {
    uint32_t end[CUDA_DOMAINS_MAX]; /* blocks of the domain and of those before it */
    uint32_t choice[CUDA_DOMAINS_MAX];
    uint64_t turn[CUDA_DOMAINS_MAX];
    const void *arguments[CUDA_DOMAINS_MAX];
};

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_entry {
    CUDA_FAR,
    CUDA_NEAR,
    CUDA_SMALL,
    CUDA_ORDERS,
    CUDA_BULK_FAR,
    CUDA_BULK_NEAR,
    CUDA_ENTRIES
};

/* Fills in the kernels' entry points that take a struct cuda_far, cuda_near and cuda_small, and
 * those that take a struct cuda_far and may write orders, and those with bulk copies; what a
 * kernel does not have is left alone. */
void leat_cuda_kernels(const void *entry[KERNEL_COUNT][CUDA_ENTRIES]);

#ifdef __cplusplus
}
#else

struct cuda_shared;
struct cuda_watch;

/* The driver's operations of a stream on a word: store a value, wait for one. */
typedef CUresult cuda_stream_value(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                   unsigned int flags);

struct cuda_device {
    struct device base;
    struct cuda_device *next; /* of the process's ranks that are open, or that are closed */
    uint64_t seen_idle;       /* frees that came before the stream was last seen empty */
    int number;               /* CUDA's */
    int rank_count;           /* ranks on it */
    int multiprocessors;
    const void *entry[KERNEL_COUNT][CUDA_ENTRIES]; /* NULL: none of that kind */
    int resident_blocks[KERNEL_COUNT];             /* that the whole GPU holds at once */
    cudaStream_t stream;
    cudaStream_t release_stream; /* in which the watchdog ends waits of the other */
    cudaEvent_t event;
    cuda_stream_value *write_value, *wait_value; /* NULL: the driver has none */
    bool counted;                                /* among the segment's ranks with a GPU */
    struct cuda_watch *watch;                    /* of stream waits */
    struct cuda_copies *copies;                  /* of files, beside the stream */
    struct cuda_shared *shared;     /* NULL: regions of it cannot be mapped by other processes */
    uint8_t (*ids)[LEAT_GPU_BYTES]; /* of all GPUs that this process sees, for processes */
    int id_count;
    char model[64];
};

/* Sets the detail ("what: CUDA's words") and returns -ENOMEM, -ENOTSUP or -EIO. */
int leat_cuda_fail(cudaError_t error, const char *what);
/* Every call comes from the thread that happens to use the rank. */
int leat_cuda_use(const struct cuda_device *device);
/* Whether the rank's stream is being captured into a graph. */
bool leat_cuda_captures(const struct cuda_device *device);
/* GPU of a rank of this process. */
int leat_cuda_number_of(const struct leat_job *job, int rank);

/* ---- cuda_launch.c ---- */
int leat_cuda_launch(struct device *device, const struct device_launch *launch);
int leat_cuda_run(struct device *device, const leat_kernel *kernel, const leat_kernel_call *launch,
                  const void *work, const leat_run_options *options);
int leat_cuda_gang_join(struct device *device, uint64_t number, struct device_gang **gang);
void leat_cuda_gang_leave(struct device_gang *gang);
/* Loads all kernels now, since loading later may wait for kernels that spin, and finds how many
 * blocks fit at once. */
int leat_cuda_load_kernels(struct cuda_device *device);

/* ---- cuda_memory.c: all but enter and leave as device_ops has them ---- */
int leat_cuda_alloc(struct device *device, size_t bytes, struct device_memory *memory);
void leat_cuda_free(struct device *device, struct device_memory *memory);
int leat_cuda_region_alloc(struct device *device, uint64_t bytes, void **address);
void leat_cuda_region_free(struct device *device, void *address);
int leat_cuda_report_alloc(struct device *device, size_t bytes, void **address);
void leat_cuda_report_free(struct device *device, void *address);
/* Among the process's ranks; the last one to leave gives memory and streams of all back to CUDA.
 * `device` is gone after that. */
void leat_cuda_enter(struct cuda_device *device);
void leat_cuda_leave(struct cuda_device *device);
/* Until the stream is empty, at most for the job's time-out and a second. */
void leat_cuda_await(const struct cuda_device *device);
/* Frees of the process's ranks so far: read before the stream is seen to be empty, told after it.
 */
uint64_t leat_cuda_frees(const struct cuda_device *device);
void leat_cuda_saw_idle(struct cuda_device *device, uint64_t frees);

/* ---- cuda_share.c ---- */
/* Leaves device->shared NULL where it cannot be, with the reason in the card. */
int leat_cuda_share_open(struct cuda_device *device, struct gpu_card *card);
void leat_cuda_share_close(struct cuda_device *device);
int leat_cuda_share_alloc(struct cuda_device *device, uint64_t bytes, const char *what,
                          void **address);
void leat_cuda_share_free(struct cuda_device *device, void *address);
extern const struct share_ops leat_cuda_share;

/* ---- cuda_stream.c ---- */
/* A function of the driver's, as of that version of CUDA, without linking it: *function, which is
 * left alone where there is none. Whether there is. */
bool leat_cuda_driver(const char *name, int version, void *function);
void leat_cuda_find_operations(struct cuda_device *device);
/* In which waits of the rank's stream and of its kernels are ended, made before there are any. */
int leat_cuda_make_release_stream(struct cuda_device *device);
int leat_cuda_end_waits(struct device *device, struct k_error *error);
int leat_cuda_put(struct device *device, void *to, const void *from, uint64_t bytes);
int leat_cuda_waits_open(struct device *device);
int leat_cuda_raise(struct device *device, struct leat_signal *signal, uint64_t value);
int leat_cuda_wait(struct device *device, const struct k_wait *wait, struct leat_signal *signal,
                   uint64_t wanted, int peer, int pulse);
int leat_cuda_sync(struct device *device);
int leat_cuda_drain(struct device *device, double timeout_s);
void leat_cuda_watch_end(struct cuda_device *device);

#endif
#endif
