/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device from the inside: what its kernels take, and what its files share.
 */
#ifndef LEAT_DEVICE_CUDA_H
#define LEAT_DEVICE_CUDA_H

#include "device/ops.h"

#include <cuda_runtime_api.h>

#define CUDA_THREADS     512  /* lanes of a block */
#define CUDA_DOMAINS_MAX 32   /* ranks of one GPU */
#define CUDA_NEAR_BYTES  2048 /* of arguments that a launch carries along */

struct cuda_near {
    uint64_t turn;
    uint32_t choice, unused;
    __attribute__((aligned(16))) unsigned char arguments[CUDA_NEAR_BYTES];
};

/* One pulse fits: what a launch carries along takes time by its size. */
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

enum cuda_entry { CUDA_FAR, CUDA_NEAR, CUDA_SMALL, CUDA_ENTRIES };

/* The kernel's entry point that takes a struct cuda_far, cuda_near or cuda_small, or NULL where it
 * has none of that kind. */
const void *leat_cuda_kernel(enum kernel_id kernel, enum cuda_entry entry);

#ifdef __cplusplus
}
#else

struct cuda_watch;

struct cuda_device {
    struct device base;
    int number;     /* CUDA's */
    int rank_count; /* ranks on it */
    int multiprocessors;
    int resident_blocks[KERNEL_COUNT]; /* that the whole GPU holds at once */
    cudaStream_t stream;
    cudaEvent_t event;
    bool counted;             /* among the segment's ranks with a GPU */
    struct cuda_watch *watch; /* of stream waits; made with the first of them */
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
int leat_cuda_gang_join(struct device *device, uint64_t number, struct device_gang **gang);
void leat_cuda_gang_leave(struct device_gang *gang);
/* Loads all kernels now, since loading later may wait for kernels that spin, and finds how many
 * blocks fit at once. */
int leat_cuda_load_kernels(struct cuda_device *device);

/* ---- cuda_stream.c ---- */
int leat_cuda_put(struct device *device, void *to, const void *from, uint64_t bytes);
int leat_cuda_raise(struct device *device, struct leat_signal *signal, uint64_t value);
int leat_cuda_wait(struct device *device, const struct k_wait *wait, struct leat_signal *signal,
                   uint64_t wanted, int peer, int pulse);
int leat_cuda_sync(struct device *device);
int leat_cuda_drain(struct device *device, double timeout_s);
void leat_cuda_watch_end(struct cuda_device *device);

#endif
#endif
