/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of gpu.h share: a rank's memory on its device.
 *
 * Advantage: one structure of arguments, kept up to date, serves all kernels. Disadvantage: every
 * launch carries all of it.
 */
#ifndef MD_GPU_INTERNAL_H
#define MD_GPU_INTERNAL_H

#include "md/gpu.h"
#include "md/md.h"

/* Memory on the device; grows only, and is lost when it grows. */
struct md_gpu_memory {
    void *data;
    size_t bytes;
};

enum md_gpu_array {
    /* of the system */
    ARRAY_SITE_TYPE,
    ARRAY_SITE_CHARGE,
    ARRAY_SITE_MASS,
    ARRAY_LJ,
    ARRAY_BOUNDS,
    ARRAY_SCAN_PART,
    ARRAY_SUM,
    ARRAY_FAULT,
    ARRAY_TERM_TABLE,
    ARRAY_SHARE,
    ARRAY_SHARE_START,
    ARRAY_PLAN_CLUSTER,
    ARRAY_PLAN_BAR,
    ARRAY_PLAN_ENTRY,
    ARRAY_PLAN_ATOM,
    ARRAY_PLAN_MASS,
    ARRAY_PLAN_COLUMN,
    ARRAY_PLAN_UPDATE,
    /* of home atoms */
    ARRAY_X,
    ARRAY_V,
    ARRAY_F,
    ARRAY_ROLE,
    ARRAY_EXCLUSION_START,
    ARRAY_EXCLUSION,
    ARRAY_CLUSTER,
    ARRAY_SCRATCH,
    /* of elements and cells */
    ARRAY_ZONE,
    ARRAY_TERM,
    ARRAY_CELL,
    ARRAY_CELL_SIZE,
    ARRAY_CELL_START,
    ARRAY_SLOT_ELEMENT,
    ARRAY_XQ,
    ARRAY_KIND,
    ARRAY_ROW_SIZE,
    ARRAY_ROW_START,
    ARRAY_PARTNER,
    ARRAY_COUNT
};

struct md_gpu {
    const struct md_gpu_backend *backend;
    void *state;
    char model[64];
    struct md_gpu_args args;
    struct md_gpu_memory array[ARRAY_COUNT];
    uint8_t *role; /* [home], on the host */
    size_t role_capacity;
    uint32_t cell_capacity;
    struct md_gpu_cluster *cluster; /* on the host */
    size_t cluster_capacity;
    uint32_t cluster_count;
    bool bonded; /* some molecules have terms */
    bool sent;
    /* Excluded pairs or terms reach over what moves in one piece, so that all forces have to be
     * there before anything moves. */
    bool apart;
    int64_t pending_steps;
    bool marked;                /* since the last wait */
    double weight[PHASE_COUNT]; /* of the phases of a step, by the last sample */
    double *part;               /* [MD_GPU_TERM_COUNT * MD_GPU_PARTS], on the host */
};

int md_gpu_array_reserve(struct md_gpu *gpu, enum md_gpu_array array, size_t count,
                         size_t element_bytes);
int md_gpu_upload(struct md_gpu *gpu, void *to, const void *from, size_t bytes);
/* Makes an array of the system and fills it. */
int md_gpu_put(struct md_gpu *gpu, enum md_gpu_array array, const void *from, size_t count,
               size_t element_bytes);
int md_gpu_launch(struct md_gpu *gpu, enum md_gpu_kernel kernel, uint32_t choice, uint32_t count);
/* Waits, and says what kernels found. */
int md_gpu_check(struct md_rank *rank);
/* Adds up terms [first, first + count) of all atoms. Waits. */
int md_gpu_sum(struct md_rank *rank, uint32_t first, uint32_t count, double *sum);

/* ---- gpu_molecules.c ---- */
/* Terms and constraints of all kinds. */
int md_gpu_molecules_open(struct md_gpu *gpu, const struct md_system *system);
/* Room for the clusters of the domain's molecules, which it counts. */
int md_gpu_molecules_reserve(struct md_rank *rank);
/* Sends them, and sets the roles of their atoms. */
int md_gpu_molecules_send(struct md_rank *rank);

#endif
