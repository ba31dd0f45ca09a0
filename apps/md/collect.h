/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All atoms of a run to rank 0, one after the other.
 */
#ifndef MD_COLLECT_H
#define MD_COLLECT_H

#include <stdint.h>

struct md_rank;

enum md_wanted { MD_WANT_X = 1, MD_WANT_V = 2, MD_WANT_F = 4 };

/* What becomes of an atom on rank 0; `id` is its place in the input's file, from 0. Vectors that
 * are not wanted are NULL. */
struct md_taker {
    int (*take)(void *user, int64_t id, const double *x_nm, const double *v_nm_ps, const double *f);
    void *user;
};

/*
 * Positions, velocities and forces of the step at hand, as `wanted` (of enum md_wanted) says, which
 * is the same on all ranks; on a GPU forces are as md_gpu_home_forces left them. Collective:
 * `error` is what this rank has met before, and nobody is asked for atoms then. The taker is rank
 * 0's.
 */
int md_collect_atoms(struct md_rank *rank, int error, int wanted, const struct md_taker *taker);

#endif
