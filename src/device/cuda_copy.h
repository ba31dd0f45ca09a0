/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch of the scattering kernel carries along: the pieces themselves.
 *
 * Advantage: no memory of the GPU or pinned memory of the host has to be made, kept and waited for,
 * since a launch has taken them over when it returns. Disadvantage: many pieces are several
 * launches.
 */
#ifndef LEAT_DEVICE_CUDA_COPY_H
#define LEAT_DEVICE_CUDA_COPY_H

#include "device/copies.h"

#include <stdint.h>
#ifndef __cplusplus
#include <cuda.h>
#include <pthread.h>
#endif

/* A launch carries 4 KiB, or since CUDA 12.1 just under 32 KiB; what it carries takes time. */
#define CUDA_PIECES_FEW   169
#define CUDA_PIECES_MANY  1364
#define CUDA_COPY_THREADS 128

struct cuda_scatter_few {
    const char *slab;
    uint32_t count, unused;
    struct copies_piece piece[CUDA_PIECES_FEW];
};

/* The beginning of it is the other. */
struct cuda_scatter_many {
    const char *slab;
    uint32_t count, unused;
    struct copies_piece piece[CUDA_PIECES_MANY];
};

/* As many as leat_type and leat_operation have (msg.h), the caller's own left out. */
#define CUDA_COMBINE_TYPES      11
#define CUDA_COMBINE_OPERATIONS 10

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels' entry points, for few and for many pieces. */
void leat_cuda_scatter_entries(const void **few, const void **many);
/* The kernel of an operation on a type (values, values, count); NULL: there is none. */
const void *leat_cuda_combine_entry(unsigned operation, unsigned type);

#ifdef __cplusplus
}
#else

struct hold_page;

/* cuPointerGetAttribute, cuPointerGetAttributes */
typedef CUresult cuda_pointer_attribute(void *value, CUpointer_attribute attribute,
                                        CUdeviceptr address);
typedef CUresult cuda_pointer_attributes(unsigned count, CUpointer_attribute *attributes,
                                         void **values, CUdeviceptr address);
typedef CUresult cuda_pointer_set_attribute(const void *value, CUpointer_attribute attribute,
                                            CUdeviceptr at);

/* What a rank's device keeps for copies beside its stream. */
struct cuda_copies {
    pthread_mutex_t lock; /* of the pages */
    struct hold_page *pages;
    cuda_pointer_attribute *attribute; /* NULL: the driver has none; so the next two */
    cuda_pointer_attributes *attributes;
    cuda_pointer_set_attribute *set_attribute;
};

/* When the rank opens, while no kernel spins: loads the kernels, finds the driver's functions. */
int leat_cuda_copies_open(struct device *device, struct cuda_copies **copies);
/* When its stream is empty, or never will be. Safe on NULL. */
void leat_cuda_copies_close(struct device *device, struct cuda_copies *copies);

extern const struct copies_ops leat_copies_cuda;

/* ---- cuda_find.c ---- */
int leat_cuda_find(struct device *device, const void *address, uint64_t bytes,
                   struct copies_found *found);
bool leat_cuda_on_gpu(struct device *device, const void *address);
uint64_t leat_cuda_number(struct device *device, const void *address);
/* Of the allocation that the address is in, for what other processes can map; else -ENOTSUP. */
int leat_cuda_range(struct device *base, const void *address, uint64_t *start, uint64_t *bytes);
/* ---- cuda_hold.c ---- */
int leat_cuda_hold(struct device *device, void (*begin)(void *user, int error), void *user,
                   struct copies_hold **hold);
void leat_cuda_release(struct device *device, struct copies_hold *hold);

#endif
#endif
