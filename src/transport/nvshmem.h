/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVSHMEM: memory of GPUs in its symmetric heap, and puts that kernels make by themselves.
 *
 * What calls NVSHMEM is a library of its own, libleat_nvshmem.so, opened when a job may use it: its
 * kernels are linked on the device, which makes kernels slower, and a program that does not ask for
 * it loads none of it. This header is what the two sides share.
 */
#ifndef LEAT_TRANSPORT_NVSHMEM_H
#define LEAT_TRANSPORT_NVSHMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVSHMEM_ID_BYTES 128

struct cuda_far;
struct k_put;

/* Functions answer 0 or a negative errno, and then say why in `why`. `gpu` is the calling rank's.
 */
struct nvshmem_library {
    uint64_t layout; /* NVSHMEM_LIBRARY_LAYOUT: both sides were built from the same headers */
    /* One rank draws an identity, all join with it. Collective, without a time-out: NVSHMEM's. */
    int (*draw)(unsigned char id[NVSHMEM_ID_BYTES], char *why, size_t bytes);
    int (*join)(const unsigned char id[NVSHMEM_ID_BYTES], int gpu, int rank, int rank_count,
                char *why, size_t bytes);
    /* Memory of every rank, zeroed, of the same size everywhere. Collective. NULL: there is none.
     */
    void *(*heap)(int gpu, uint64_t bytes);
    /* Where this rank's kernels store to that rank's memory; NULL: nowhere. */
    void *(*address)(const void *here, int rank);
    int (*clear)(int gpu, void *address, uint64_t bytes, char *why, size_t size);
    /* Loads a kernel (enum kernel_id), and says how many blocks the GPU holds at once. */
    int (*fit)(int gpu, int kernel, int *blocks, char *why, size_t bytes);
    int (*launch)(int gpu, int kernel, uint32_t blocks, bool together, void *stream,
                  const struct cuda_far *far, char *why, size_t bytes);
    /* In the stream: the bytes and then the signal; the signal alone where there are none, and no
     * signal where put->signal is NULL: then what follows in the stream comes after the bytes. */
    int (*put)(int gpu, const struct k_put *put, uint64_t value, void *stream, char *why,
               size_t bytes);
};

/* Of what both sides were compiled with. */
#define NVSHMEM_LIBRARY_LAYOUT                                                                     \
    (UINT64_C(1) << 48 | (uint64_t)sizeof(struct k_field) << 32 |                                  \
     (uint64_t)sizeof(struct k_pulse) << 16 | (uint64_t)KERNEL_COUNT)
#define NVSHMEM_LIBRARY_SYMBOL "leat_nvshmem_library"

#ifdef __cplusplus
extern "C" const struct nvshmem_library leat_nvshmem_library;
#endif

#ifndef __CUDACC__
#include "transport/transport.h"

/* What a job holds of it. */
struct nvshmem;

/* Starts NVSHMEM where LEAT_PATHS requires it and every rank can: collective then, by all ranks of
 * the job, with the device open. Otherwise nothing, and the path's reason says why. */
int leat_nvshmem_open(struct leat_job *job);
void leat_nvshmem_close(struct leat_job *job);
/* Whether regions of the device lie in the symmetric heap. */
static inline bool leat_nvshmem_holds(const struct leat_job *job)
{
    return job->nvshmem != NULL;
}
/* Regions, zeroed: as the device's. */
int leat_nvshmem_alloc(struct leat_job *job, uint64_t bytes, void **address);
void leat_nvshmem_free(struct leat_job *job, void *address, uint64_t bytes);
/* Whether kernels store to all of the rank's regions by themselves; else they put. */
bool leat_nvshmem_stores(const struct leat_job *job, int rank);
/* The address that puts take for a peer's region. */
void *leat_nvshmem_symmetric(const struct leat_region *view, uint64_t offset);
/* Operation of the rank's stream, as the library has it. */
int leat_nvshmem_put(struct leat_job *job, const struct k_put *put, uint64_t value);
/* Blocks of a kernel that the GPU holds at once, and its launch. */
int leat_nvshmem_fit(const struct leat_job *job, int kernel);
int leat_nvshmem_launch(struct leat_job *job, int kernel, uint32_t blocks, bool together,
                        const struct cuda_far *far);
#endif

#endif
