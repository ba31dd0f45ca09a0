/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: where a rank's kernels run, the stream that orders them, and what a kernel of the
 * caller's own does with peers' memory.
 *
 * A rank has one device, chosen at leat_open (leat_options.device, LEAT_DEVICE): the CPU device,
 * whose kernels have ended when a call returns, or a CUDA device, where an exchange is work of the
 * rank's stream: the call returns once it is enqueued, what the caller enqueues to that stream
 * afterwards comes after it, and nobody waits on the host. Several ranks of a process (threads) may
 * share a GPU; their exchanges are one launch then, so each of them has to call before it starts.
 *
 * Errors of an exchange or a kernel under way on a GPU (a peer that never signals, a rank that
 * stopped) are found by the kernel's own deadline, written to memory that the host sees, and
 * returned by the next call on that halo, by the next leat_device_run or by leat_device_wait.
 */
#ifndef LEAT_DEVICE_H
#define LEAT_DEVICE_H

#include <leat/leat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_device_info {
    size_t size;
    char name[16];   /* "cpu", "cuda:0" */
    char model[64];  /* what the vendor calls it */
    int number;      /* CUDA's number of it in this process; -1 for the CPU device */
    int rank_count;  /* ranks of this process on it */
    int block_count; /* most blocks that one of the rank's exchanges takes */
    /* cudaStream_t of the rank's exchanges, owned by the job and not blocking towards the default
     * stream; NULL on the CPU device. */
    void *stream;
} leat_device_info;

/* -EINVAL when size is not set. Any thread. */
LEAT_API int leat_device_info_get(const leat_job *job, leat_device_info *info);

/*
 * Blocks until the rank's stream is empty. `timeout_s` < 0 takes the job's and a second more, since
 * kernels in it have that deadline themselves; 0 only looks. At once on the CPU device.
 * -ETIMEDOUT the stream is not empty by then; -ETIMEDOUT, -ECONNRESET an exchange or a kernel
 * failed: names it, peer, wanted and seen signal, and a halo can only be freed; -EIO what CUDA says
 * failed before (an illegal access by any kernel of the process ends the device's use)
 */
LEAT_API int leat_device_wait(leat_job *job, double timeout_s);

/* ---- Kernels of the caller's own ---------------------------------------------------------- */

/*
 * One source, two devices: a kernel is written once with LEAT_KERNEL and the functions below, in
 * what is both C and CUDA. A C compiler makes it a function of the CPU device, where a block is a
 * thread with one lane; nvcc (`-x cu`) makes both it and a kernel of a GPU.
 *
 *     struct work { double *to; const double *from; leat_signal *ready; ... };
 *     LEAT_KERNEL(send_and_wait, struct work)
 *     {
 *         leat_put_signal(grid, work->to, work->from, work->bytes, work->ready, 1);
 *         if (leat_signal_wait(grid, work->arrived, 1, work->peer))
 *             return;
 *     }
 *     ...
 *     leat_device_run(job, &send_and_wait, &work, sizeof work, NULL);
 *
 * Its body sees `grid` (leat_grid *) and `work` (const, by its address). Addresses are those of
 * leat_region_info_get: of regions of this rank, and of peers' regions that it can store to. All
 * lanes of a block call these functions together, with the same arguments.
 */

/* A signal (leat.h) in a region. */
typedef struct leat_signal leat_signal;

/* The n-th of an array of signals that begins at `address`, which is aligned to LEAT_SIGNAL_BYTES.
 */
#define LEAT_SIGNAL_AT(address, n)                                                                 \
    ((leat_signal *)(void *)((char *)(address) + (size_t)(n)*LEAT_SIGNAL_BYTES))

#define LEAT_GRID_COUNTERS 8

/* How a kernel writes down its first failure; leat_device_run reads it. */
struct leat_device_failure {
    uint32_t failed, ready;
    int32_t code, pulse, peer;
    uint32_t unused;
    uint64_t wanted, seen;
    const void *signal;
};

/* What a launch shares with its blocks. Filled by leat_device_run; its members are not the
 * caller's, but for those of the inline functions below. */
typedef struct leat_kernel_call {
    void *job;
    uint64_t timeout_ns;
    struct leat_device_failure *error, *report;
    leat_signal *gate;
    uint32_t *counters; /* [1 + LEAT_GRID_COUNTERS]: of leat_grid_sync, of leat_grid_signal */
} leat_kernel_call;

typedef struct leat_grid {
    uint32_t block, block_count, lane, lane_count;
    const leat_kernel_call *launch;
} leat_grid;

typedef struct leat_kernel {
    const char *name;
    void (*host)(leat_grid *grid, const void *work);
    /* Launches it cooperatively: 0, or CUDA's error with its words. NULL where a C compiler made
     * it: then it runs on the CPU device only. */
    int (*start)(const leat_kernel_call *launch, const void *work, uint32_t blocks, uint32_t lanes,
                 void *stream, const char **words);
    size_t work_bytes; /* of what its body reads */
} leat_kernel;

typedef struct leat_run_options {
    size_t size;
    /* 0: as many as an exchange takes. All of them run at once. On the CPU device at most
     * LEAT_BLOCKS. */
    uint32_t block_count;
    uint32_t lane_count; /* of a block; 0: 256. The CPU device has one. */
} leat_run_options;

/*
 * Runs a kernel: on return it has ended (CPU device) or is in the rank's stream (leat_device_wait).
 * `work` is copied. `options` may be NULL. Threads: as every call for the job.
 * -ENOTSUP the job's device is a GPU and a C compiler made the kernel, or ranks share the GPU:
 * their kernels could wait for one another and not all run; -EINVAL more blocks than can run at
 * once, a size out of range, or another `work_bytes` than the kernel's; -EIO what CUDA says of the
 * launch; -ETIMEDOUT, -ECONNRESET a wait in this kernel (CPU device) or in an earlier one failed:
 * names kernel, peer, wanted and seen signal
 */
LEAT_API int leat_device_run(leat_job *job, const leat_kernel *kernel, const void *work,
                             size_t work_bytes, const leat_run_options *options);

/* What the inline functions below stand on, on the CPU device; not for the caller. */
LEAT_API void leat_kernel_raise(leat_signal *signal, uint64_t value);
LEAT_API int leat_kernel_wait(const leat_kernel_call *launch, leat_signal *signal,
                              uint64_t at_least, int peer);

#ifdef __cplusplus
}
#endif

#ifndef LEAT_DEVICE_HOST_ONLY /* for files that only call the functions above */
#include <leat/device_inline.h>
#endif

#endif
