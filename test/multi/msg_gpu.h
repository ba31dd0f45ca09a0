/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU for message tests: emulated (support/emulated_gpu.h), or CUDA's where the
 * includer defines MSG_CUDA.
 *
 * A test fills and looks at the host's side of it, push and pull copy between the two; of emulated
 * memory they are the same bytes. Advantage: the same bodies run without a GPU and on one.
 * Disadvantage: a body that forgets to push or pull fails on a GPU only.
 */
#ifndef LEAT_TEST_MULTI_MSG_GPU_H
#define LEAT_TEST_MULTI_MSG_GPU_H

#include "support/emulated_gpu.h"

#include <stdbool.h>
#include <stdlib.h>

#ifdef MSG_CUDA
#include <cuda_runtime_api.h>

static inline void gpu_begin(struct leat_job *job)
{
    (void)job; // LEAT_DEVICE says it
}

static inline void *gpu_alloc(uint64_t bytes, uint8_t **host)
{
    void *address = NULL;
    *host = malloc(bytes);
    if (!*host || cudaMalloc(&address, bytes ? bytes : 1) != cudaSuccess)
        return NULL;
    return address;
}

static inline void gpu_free(void *address, uint8_t *host)
{
    if (address && cudaFree(address) != cudaSuccess)
        abort();
    free(host);
}

static inline void gpu_push(void *address, const uint8_t *host, uint64_t bytes)
{
    // Of pageable memory the last bytes may still be on their way when it returns.
    if (cudaMemcpy(address, host, bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaStreamSynchronize(cudaStreamLegacy) != cudaSuccess)
        abort();
}

static inline void gpu_pull(const void *address, uint8_t *host, uint64_t bytes)
{
    if (cudaMemcpy(host, address, bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
        abort();
}
#else
static inline void gpu_begin(struct leat_job *job)
{
    emulated_gpu_begin(job);
}

static inline void *gpu_alloc(uint64_t bytes, uint8_t **host)
{
    void *address = emulated_gpu_alloc(bytes);
    *host = emulated_gpu_bytes(address);
    return address;
}

static inline void gpu_free(void *address, uint8_t *host)
{
    (void)host;
    emulated_gpu_free(address);
}

static inline void gpu_push(void *address, const uint8_t *host, uint64_t bytes)
{
    (void)address;
    (void)host;
    (void)bytes;
}

static inline void gpu_pull(const void *address, uint8_t *host, uint64_t bytes)
{
    (void)address;
    (void)host;
    (void)bytes;
}
#endif

#endif
