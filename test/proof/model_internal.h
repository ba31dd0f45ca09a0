/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job under the search, from the inside: what its ranks and devices hold.
 */
#ifndef LEAT_TEST_PROOF_MODEL_INTERNAL_H
#define LEAT_TEST_PROOF_MODEL_INTERNAL_H

#define LEAT_KERNEL_WORDS "proof/model_words.h"

#include "proof/model_halo.h"

#include "core/job.h"
#include "device/kernel.h"
#include "halo/proxy.h"

#define RANKS_MAX  4
#define HALOS_MAX  3
#define GHOSTS_MAX 64

struct model_device {
    struct device base;
    enum kernel_id kernel;
    void *arguments;
    uint32_t choice, block_count;
    uint64_t launches, finished; /* by blocks other than the first */
};

struct model_rank {
    struct model *model;
    int rank;
    leat_job *job;
    struct device *own; /* the library's device, meanwhile */
    leat_plan *plan;
    leat_region *region[2];
    double *x, *f;
    uint32_t home, elements;
    leat_halo *halo[HALOS_MAX];
    struct model_device device;
    uint64_t origin[GHOSTS_MAX];               /* owner << 16 | its element */
    double *landing[HALOS_MAX][RANKS_MAX * 2]; /* of SIGNAL_BEFORE_DATA: where data should go... */
    double aside[HALOS_MAX][RANKS_MAX * 2][GHOSTS_MAX]; /* ...and where they go first */
    int now;                                            /* halo in use */
};

struct model_block {
    struct model_rank *rank;
    uint32_t block;
};

struct model {
    const struct scenario *scenario;
    struct model_rank rank[RANKS_MAX];
    struct model_block block[RANKS_MAX * 4];
    uint32_t copies[RANKS_MAX][GHOSTS_MAX];
    uint64_t arrived; /* at barriers */
};

/* The job that words and devices belong to, which have no argument to find it by; NULL: none. */
void model_use(struct model *model);
/* The table of the device whose blocks are threads of the search. */
extern const struct device_ops model_ops;
/* The library's own mode, in the words of the search. */
const struct halo_mode *model_mode_find(enum leat_mode mode);
/* Threads: a rank (struct model_rank), and one more block of its device (struct model_block). */
void model_play(void *user);
void model_serve(void *user);
/* The proxy of a halo (struct halo_proxy). */
void model_carry(void *user);

#endif
