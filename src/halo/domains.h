/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the domains of a decomposition lie, and who owns a point.
 *
 * Bounds are computed from whole numbers by one formula, and the owner of a point is looked up
 * against those bounds rather than by a division alone. Advantage: all ranks have the same bits,
 * and a point has one owner also where rounding would put it on a boundary. Disadvantage: equal
 * domains only; bounds that move would have to be data.
 */
#ifndef LEAT_HALO_DOMAINS_H
#define LEAT_HALO_DOMAINS_H

#include "core/job.h"
#include "leat/halo.h"

#define DIMENSION_NAMES "xyz"

struct domains {
    int rank, rank_count;
    int grid[3], cell[3]; /* `cell` is this rank's */
    int order;            /* enum leat_order */
    int cut[3];           /* dimensions with more than one domain, in the order of the pulses */
    int cut_count;
    double edge_nm[3], cutoff_nm;
};

/* -EINVAL a member is out of range, or the grid is not one domain a rank; -ENOTSUP a box that is
 * not orthorhombic. Local. */
int leat_domains_fill(const leat_decomposition *decomposition, int rank, int rank_count,
                      struct domains *domains);

/* Edge lengths of an orthorhombic box; errors as above. */
int leat_box_edges(const double box_nm[3][3], double edge_nm[3]);

/* -EINVAL, the same on all ranks, when they describe different decompositions; *value becomes the
 * largest of any rank. Collective. */
int leat_domains_agree(struct leat_job *job, const struct domains *domains, double *value);

/* Lower bound of domain k of dimension d, which is the upper one of domain k - 1. */
double leat_domain_bound(const struct domains *domains, int d, int k);

/* Domain of dimension d that holds a coordinate; what lies outside the box counts to the nearest.
 */
int leat_domain_find(const struct domains *domains, int d, double coordinate_nm);

/* Rank of a domain. */
int leat_domain_rank(const struct domains *domains, const int cell[3]);

/* Pulses that a dimension cut into `domain_count` needs, elements lying up to margin_nm from where
 * their group's centre puts them; domain_count or more means that it cannot be done. */
int leat_pulses_needed(int domain_count, double edge_nm, double cutoff_nm, double margin_nm);

/* ---- Groups ---- */

/* -EINVAL when the starts do not ascend from 0 (a group without elements has no centre). */
int leat_groups_check(const leat_groups *groups);

static inline uint32_t leat_groups_elements(const leat_groups *groups)
{
    return groups->group_count ? groups->start[groups->group_count] : 0;
}

/* Mean position of the elements [first, last). */
void leat_group_centre(const double *x_nm, uint32_t first, uint32_t last, double centre_nm[3]);

#endif
