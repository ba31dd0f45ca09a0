/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `leat md` on a GPU: one rank's state, pair list, forces and motion in its device's memory.
 *
 *     gpu.c          memory, tables, what goes to the device and comes back
 *     gpu_list.c     the pair list of a partition
 *     gpu_step.c     forces, moves and sums of a step
 *     gpu_cuda.cu    the back-end that runs the kernels on a GPU, in the stream of the halo
 *     gpu_emulated.c the one that runs them on the CPU, for tests
 *     gpu_*.inc      the kernels, gpu_kernels.h what they are given
 *
 * Work is enqueued and the host does not wait but where it has to decide something: a partition,
 * sums over ranks. Faults that kernels find are told by the next call that waits.
 */
#ifndef MD_GPU_H
#define MD_GPU_H

#include "leat/leat.h"
#include "md/gpu_kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where kernels run. Everything but wait and download is enqueued; upload has read `from` when it
 * returns. 0 or a negative errno. */
struct md_gpu_backend {
    enum leat_memory memory; /* that fields of the halo have to be in */
    const char *device;      /* as a report names it */
    /* `model` is what a report says of it, [64]. */
    int (*open)(leat_job *job, char *model, void **state);
    void (*close)(void *state);
    int (*alloc)(void *state, size_t bytes, void **memory); /* zeroed */
    void (*free)(void *state, void *memory);
    int (*upload)(void *state, void *to, const void *from, size_t bytes);
    int (*launch)(void *state, enum md_gpu_kernel kernel, uint32_t choice, uint32_t count,
                  const struct md_gpu_args *args);
    int (*wait)(void *state);
    int (*download)(void *state, void *to, const void *from, size_t bytes);
    /* What has been enqueued since the last mark belongs to `phase` (enum md_phase); -1 begins. At
     * most MD_GPU_MARKS after that. `spent` adds up their times, once all of it has been waited
     * for, and forgets them. */
    int (*mark)(void *state, int phase);
    int (*spent)(void *state, double *phase_ns);
};

enum { MD_GPU_MARKS = 7 };

/* NULL in a build without CUDA. */
extern const struct md_gpu_backend *const md_gpu_cuda;
extern const struct md_gpu_backend md_gpu_emulated;

struct md_gpu;
struct md_rank;
struct md_terms;

/* ---- gpu.c ---- */
/* Tables of the system, and all that does not depend on a partition. Not collective; no rank may
 * have an exchange under way, here and where memory is reserved. -ENOTSUP a build without CUDA,
 * double precision; what the device says. */
int md_gpu_open(struct md_rank *rank);
void md_gpu_close(struct md_rank *rank);
/* -ENOTSUP names what of the system or of the settings only the CPU does. */
int md_gpu_supports(struct md_rank *rank);
/* What a report calls the device, and its model. */
const char *md_gpu_device(const struct md_rank *rank);
const char *md_gpu_model(const struct md_rank *rank);
enum leat_memory md_gpu_memory(const struct md_rank *rank);
/* Room for the home atoms and elements of the domain as they are counted now. */
int md_gpu_reserve(struct md_rank *rank);
/* Home atoms to the device, also where exchanges of FIELD_X and FIELD_SITE take them from. */
int md_gpu_send(struct md_rank *rank, const uint8_t *zone);
/* Positions and velocities back to the domain's arrays, and what went wrong until then. Nothing
 * before the first md_gpu_send. */
int md_gpu_receive(struct md_rank *rank);
/* Likewise forces, as md_gpu_home_forces left them. */
int md_gpu_receive_forces(struct md_rank *rank);
/* Waits until the device has come this far, and books the steps noted since. */
int md_gpu_wait(struct md_rank *rank);
/* See struct md_gpu_backend; nothing unless `sampled`. */
int md_gpu_mark(struct md_rank *rank, bool sampled, int phase);
/* Another step has been enqueued. */
void md_gpu_note_step(struct md_rank *rank);

/* ---- gpu_list.c ---- */
/* The list, from FIELD_X of all elements. Collective. -ERANGE an element is nowhere. */
int md_gpu_list(struct md_rank *rank);

/* ---- gpu_step.c ---- */
/* As md_pair_forces and md_home_forces; with `want` they prepare what md_gpu_terms adds up. */
int md_gpu_pair_forces(struct md_rank *rank, bool want);
int md_gpu_home_forces(struct md_rank *rank, bool want);
/* Forces on home atoms (unless md_gpu_home_forces was called), leap-frog, constraints, and the
 * image for the next exchange; choice: enum md_gpu_step. */
int md_gpu_move(struct md_rank *rank, double v_scale, uint32_t choice);
/* Waits, and adds up this rank's terms: all of them, or without `terms` kinetic energies only.
 * These are set when `moved`: a step with them has been made. */
int md_gpu_terms(struct md_rank *rank, bool moved, struct md_terms *terms);
/* As md_stop_centre. Collective. */
int md_gpu_stop_centre(struct md_rank *rank);

#ifdef __cplusplus
}
#endif

#endif
