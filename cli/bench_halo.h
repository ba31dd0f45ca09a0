/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `leat bench halo`: what is asked for, and who measures it.
 *
 * Between processes on the CPU device, ranks are this command itself (bench_halo.c). On GPUs, and
 * for whole plans, they are threads of a program beside it (bench/leat_side.c), led by
 * bench_halo_threads.c. Advantage: the command needs no CUDA. Disadvantage: the program has to be
 * there.
 */
#ifndef LEAT_CLI_BENCH_HALO_H
#define LEAT_CLI_BENCH_HALO_H

#include "bench_options.h"

#include <leat/halo.h>

#define HALO_MODE_COUNT 5
extern const char *const halo_mode_names[HALO_MODE_COUNT]; /* by enum leat_mode */

enum halo_peer {
    HALO_PEER_OPENMPI, /* of processes on the CPU device; the others on GPUs */
    HALO_PEER_MPI,
    HALO_PEER_NCCL,
    HALO_PEER_NVSHMEM,
    HALO_PEER_PUT,
    HALO_PEER_STORE,
    HALO_PEER_RESIDENT,
    HALO_PEER_COUNT
};
extern const char *const halo_peer_names[HALO_PEER_COUNT];

enum halo_device { HALO_PROCESSES, HALO_CPU, HALO_CUDA };

struct halo_request {
    struct bench_sizes atoms;
    bool mode[HALO_MODE_COUNT], against[HALO_PEER_COUNT];
    int device, plan;                        /* enum halo_device; row of halo_plan_names */
    bool kind[2], elements[2], direction[2]; /* by enum; float3 and float4; by enum */
    bool graph, consumer, json;
    struct bench_pace pace;
};

extern const char *const halo_plan_names[4]; /* pulse, 1d, 2d, 3d */
extern const char *const halo_kind_names[2];
extern const char *const halo_element_names[2];
extern const char *const halo_direction_names[2];

/* Measures with ranks as threads, and prints the report. A way that fails is told on stderr and
 * left out; 0, -EREMOTEIO when one of leat's did, or why nothing can be measured, with detail. */
int bench_halo_threads(const struct halo_request *request);

/*
 * A rank of `leat bench halo` between processes: waits for slices on its pipe of `side` in
 * `directory` and runs them in `mode`. 0 or a negative errno with detail.
 */
int bench_halo_rank(const char *directory, const char *side, enum leat_mode mode);

#endif
