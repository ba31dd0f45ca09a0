/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all peers of the GPU halo benchmark share: arrays of one rank, and kernels over them.
 *
 * Two ranks hold 2N elements each and send N of them, chosen by an index map, to each other.
 * Forward gathers them with a shift; they land by turns in two zones, so that nobody overwrites
 * what a consumer still reads. Reverse sends N contiguous forces back, which are added to the
 * elements that the map names.
 *
 * Advantage: sides differ in the way in between only. Disadvantage: one pulse; whole plans are for
 * a library, and none of the peers has them.
 */
#ifndef LEAT_BENCH_GPU_HALO_H
#define LEAT_BENCH_GPU_HALO_H

#include "gpu_slice.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_ELEMENT_BYTES_MAX (4 * sizeof(float))
#define GPU_LAND_BYTES        (GPU_ELEMENT_BYTES_MAX * GPU_ATOMS_MAX)

struct gpu_halo {
    int rank;
    cudaStream_t stream;
    struct gpu_slice slice;
    /* Device memory. `land` may be memory that the peer reaches; whoever allocated it frees it. */
    float *home;    /* [2 * atoms * components] */
    float *out;     /* [atoms * components] packed coordinates, or the ghosts' forces */
    float *land[2]; /* [atoms * components] where the peer's data arrives */
    uint32_t *index, *wrong;
    float *sink;
};

/* Chooses the GPU and allocates what is not set yet (`out` and `land` may be). 0 or -1 with a line
 * on stderr, as all functions here. */
int gpu_halo_open(struct gpu_halo *halo, int device);

/* Index map of a slice's number of atoms, stamps of `stamp` in home and out, poison in the zones.
 * Ends with the stream empty. */
int gpu_halo_fill(struct gpu_halo *halo, uint32_t stamp);

/* Whether zone (forward) or home (reverse, after `times` exchanges) is as it should be. */
int gpu_halo_check(struct gpu_halo *halo, int zone, uint32_t stamp, uint32_t times);

/* Operations of the stream. */
int gpu_halo_pack(struct gpu_halo *halo);
int gpu_halo_accumulate(struct gpu_halo *halo, int zone);
int gpu_halo_consume(struct gpu_halo *halo, int zone);

/* Loads all kernels of the thread's device: one that is first needed while another spins might wait
 * for it to end. gpu_halo_open does it. */
int gpu_load(void);

/* The same consumer for arrays of other sides. */
int gpu_consume(cudaStream_t stream, const float *ghosts, uint32_t float_count, float *sink);

/* 0 for success; else a line with `what` on stderr, and -1. */
int gpu_ok(cudaError_t error, const char *what);

static inline size_t gpu_slice_bytes(const struct gpu_slice *slice)
{
    return (size_t)slice->atoms * (size_t)slice->components * sizeof(float);
}

#ifdef __cplusplus
}
#endif

#endif
