/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --check: what each rank's halo holds and computes, against brute force over all atoms.
 *
 *     halo_check.c        when; all ranks' positions on every rank; the verdict
 *     halo_check_atoms.c  whether ghosts are there, once, in their places
 *     halo_check_pairs.c  whether each pair is computed once, by whom it has to be; forces
 *
 * A pair belongs to the rank whose domain is the lower of its two in every dimension (eighth
 * shell). After a partition the rank needs each atom of its pairs within the list cut-off, at that
 * image; in later steps the pairs within the cut-off are looked for. Those that were beyond the
 * list cut-off at the partition, or that an inner list has pruned, are counted as unseen, which
 * verlet-buffer-tolerance allows; forces are compared where there are none.
 */
#ifndef MD_HALO_CHECK_H
#define MD_HALO_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct md_rank;
struct md_halo_check;

enum { MD_HALO_CHECK_ATOMS = 1 << 18 }; /* at most; all pairs of more take minutes */

/* What a rank has, as it is judged; tests change it before that. */
struct md_halo_view {
    int home_count, element_count;
    int64_t *id;   /* [element_count], as the halo brought it */
    double *x_nm;  /* [3 * element_count], of the images that pairs are computed from */
    uint8_t *zone; /* [element_count] */
    double *f;     /* [3 * home_count], of pairs, ghosts' shares included */
};

/* Over all ranks and checks. */
struct md_halo_checked {
    int64_t steps, ghosts, pairs, unseen;
};

/* Nothing without --check. -ENOTSUP on a GPU, -E2BIG too many atoms, -EINVAL the list of steps
 * cannot be read, -ENOMEM. */
int md_halo_check_open(struct md_rank *rank);
/* Once the job is closed, which may still look at it. */
void md_halo_check_close(struct md_rank *rank);
bool md_halo_check_due(const struct md_rank *rank, int64_t step);
/* A partition has been made. */
void md_halo_check_begin(struct md_rank *rank);
/* The check of rank->step, if it is due, once the forces of it have come home and before anything
 * moves the ghosts again. Collective. -EBADMSG names rank, atom, owner, what was expected and what
 * is there. */
int md_halo_check(struct md_rank *rank);
/* Its two halves, both collective. The view belongs to the check and is valid until the next. */
int md_halo_check_collect(struct md_rank *rank, struct md_halo_view *view);
int md_halo_check_judge(struct md_rank *rank, const struct md_halo_view *view);
/* NULL without --check. */
const struct md_halo_checked *md_halo_check_sum(const struct md_rank *rank);

#endif
