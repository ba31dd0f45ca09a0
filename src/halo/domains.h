/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the domains of a decomposition lie, and who owns a point.
 *
 * Everything is measured across the planes that bound domains: a point's height along dimension d
 * is its distance from the box's lower face d, a domain's width that between its two faces. A whole
 * box vector changes one height alone, by the box's width, so tilted boxes need no rules of their
 * own, and in an orthorhombic box heights are the coordinates, to the bit. Bounds are computed from
 * whole numbers by one formula, and the owner of a point is looked up against those bounds rather
 * than by a division alone. Advantage: all ranks have the same bits, and a point has one owner also
 * where rounding would put it on a boundary. Disadvantage: equal domains only; bounds that move
 * would have to be data.
 */
#ifndef LEAT_HALO_DOMAINS_H
#define LEAT_HALO_DOMAINS_H

#include "core/job.h"
#include "leat/halo.h"

#define DIMENSION_NAMES "xyz"
#define LENGTH_MAX_NM   1e9 /* of box vectors and of what is wrapped: digits are left for domains */
#define WRAP_MAX_BOXES  1e9 /* likewise, in widths of the box */

/* A periodic box whose first vector lies along x, the second in the x-y plane. */
struct box_shape {
    double vector_nm[3][3]; /* rows a, b, c */
    double normal[3][3]; /* unit normals of the faces: of d, that which holds the other vectors */
    double cosine[3][3]; /* between two normals */
    double independence; /* determinant of `cosine`: 1 orthorhombic, towards 0 tilted flat */
    double width_nm[3];  /* between opposite faces */
    double scale_nm[3];  /* what a height is summed up from at most: rounding is a part of it */
};

struct domains {
    int rank, rank_count;
    int grid[3], cell[3]; /* `cell` is this rank's */
    int order;            /* enum leat_order */
    int kind;             /* enum leat_plan_kind */
    int images;
    int crossed[3]; /* dimensions that pulses cross, in their order */
    int crossed_count;
    struct box_shape box;
    double cutoff_nm;
};

/* -EINVAL a member is out of range, or the grid is not one domain a rank; -ENOTSUP box vectors that
 * point elsewhere. Local. */
int leat_domains_fill(const leat_decomposition *decomposition, int rank, int rank_count,
                      struct domains *domains);

/* Errors as above. */
int leat_box_measure(const double box_nm[3][3], struct box_shape *box);

static inline double leat_box_height(const struct box_shape *box, int d, const double x_nm[3])
{
    const double *normal = box->normal[d];
    return normal[0] * x_nm[0] + normal[1] * x_nm[1] + normal[2] * x_nm[2];
}

/* How far outside the box (nm) an element may be: a box or `travel_nm`, whichever is more, but only
 * where wrapping leaves digits of its place. */
static inline double leat_box_reach(const struct box_shape *box, int d, double travel_nm)
{
    double width = box->width_nm[d], most = WRAP_MAX_BOXES * width;
    double reach = travel_nm > width ? travel_nm : width;
    most = most < LENGTH_MAX_NM ? most : LENGTH_MAX_NM;
    return reach < most ? reach : most;
}

/* -EINVAL, the same on all ranks, when they describe different decompositions; *value becomes the
 * largest of any rank. Collective. */
int leat_domains_agree(struct leat_job *job, const struct domains *domains, double *value);

/* Height of the lower bound of domain k of dimension d, which is the upper one of domain k - 1.
 * Below 0 and from the number of domains on, k counts on in the neighbouring images. */
double leat_domain_bound(const struct domains *domains, int d, int k);

/* How many boxes domain k of dimension d lies above this one; *k becomes what it is an image of. */
int leat_domain_wrap(const struct domains *domains, int d, int *k);

/* Domain of dimension d that holds a height; what lies outside the box counts to the nearest. */
int leat_domain_find(const struct domains *domains, int d, double height_nm);

/* Rank of a domain. */
int leat_domain_rank(const struct domains *domains, const int cell[3]);

/* Pulses that a dimension cut into `domain_count` needs, elements lying up to margin_nm from where
 * their group's centre puts them, or PULSES_TOO_MANY; with domain_count or more, a rank receives
 * its own elements. */
int leat_pulses_needed(int domain_count, double width_nm, double cutoff_nm, double margin_nm);

#define PULSES_TOO_MANY 1000000

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
