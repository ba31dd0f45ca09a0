// SPDX-License-Identifier: Apache-2.0
// Where the domains of a decomposition lie, and who owns a point; see domains.h.

#include "halo/domains.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static int check_vectors(const double box_nm[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            if (i == j && !(box_nm[i][j] <= LENGTH_MAX_NM && box_nm[i][j] > 0))
                return leat_fail(-EINVAL,
                                 "box_nm[%d][%d] is %g, expected a length above 0 and up to %g nm",
                                 i, j, box_nm[i][j], LENGTH_MAX_NM);
            if (j < i && !(fabs(box_nm[i][j]) <= LENGTH_MAX_NM))
                return leat_fail(-EINVAL, "box_nm[%d][%d] is %g, expected within %g nm of 0", i, j,
                                 box_nm[i][j], LENGTH_MAX_NM);
            if (j > i && box_nm[i][j] != 0)
                return leat_fail(-ENOTSUP,
                                 "box_nm[%d][%d] is %g nm: box vector %c has a part along %c, "
                                 "expected 0; rotate box and positions so that vector a lies along "
                                 "x and b in the x-y plane",
                                 i, j, box_nm[i][j], 'a' + i, DIMENSION_NAMES[j]);
        }
    return 0;
}

int leat_box_measure(const double box_nm[3][3], struct box_shape *box)
{
    int error = check_vectors(box_nm);
    if (error)
        return error;
    const double *b = box_nm[1], *c = box_nm[2];
    // Across b and c, a and c, a and b, each with 1 for its own dimension before it is normalised.
    const double across[3][3] = {
        {1, -b[0] / b[1], (b[0] * c[1] / b[1] - c[0]) / c[2]}, {0, 1, -c[1] / c[2]}, {0, 0, 1}};
    *box = (struct box_shape){.independence = 0};
    memcpy(box->vector_nm, box_nm, sizeof box->vector_nm);
    for (int d = 0; d < 3; d++) {
        const double *n = across[d];
        double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        box->width_nm[d] = box_nm[d][d] / length;
        if (!(isfinite(length) && box->width_nm[d] > 0))
            return leat_fail(-EINVAL,
                             "the box has no width between its faces %c, expected vectors that "
                             "are less alike",
                             DIMENSION_NAMES[d]);
        for (int e = 0; e < 3; e++) {
            double extent = fabs(box_nm[0][e]) + fabs(box_nm[1][e]) + fabs(box_nm[2][e]);
            box->normal[d][e] = n[e] / length;
            box->scale_nm[d] += fabs(box->normal[d][e]) * extent;
        }
    }
    double(*cosine)[3] = box->cosine;
    for (int d = 0; d < 3; d++)
        for (int e = 0; e < 3; e++)
            cosine[d][e] = d == e ? 1 : leat_box_height(box, d, box->normal[e]);
    box->independence = 1 + 2 * cosine[0][1] * cosine[0][2] * cosine[1][2] -
                        cosine[0][1] * cosine[0][1] - cosine[0][2] * cosine[0][2] -
                        cosine[1][2] * cosine[1][2];
    if (!(box->independence > 1e-9))
        return leat_fail(-EINVAL, "the box is all but flat, expected vectors that are less alike");
    return 0;
}

static int check_members(const leat_decomposition *decomposition, int rank_count)
{
    const int *grid = decomposition->grid;
    if (decomposition->size < sizeof *decomposition)
        return leat_fail(
            -EINVAL,
            "decomposition->size is %zu, expected sizeof(leat_decomposition), which is "
            "%zu; set it before the call",
            decomposition->size, sizeof *decomposition);
    if (grid[0] < 1 || grid[1] < 1 || grid[2] < 1)
        return leat_fail(-EINVAL, "grid %d x %d x %d: expected at least 1 domain in each dimension",
                         grid[0], grid[1], grid[2]);
    // One factor after the other, so that nothing overflows.
    if (rank_count % grid[0] != 0 || (rank_count / grid[0]) % grid[1] != 0 ||
        rank_count / grid[0] / grid[1] != grid[2])
        return leat_fail(-EINVAL,
                         "grid %d x %d x %d: expected one domain for each of the job's %d ranks; "
                         "change the grid or the number of ranks",
                         grid[0], grid[1], grid[2], rank_count);
    if (decomposition->order != LEAT_ORDER_ZYX && decomposition->order != LEAT_ORDER_XYZ)
        return leat_fail(-EINVAL, "order %d: expected LEAT_ORDER_ZYX (%d) or LEAT_ORDER_XYZ (%d)",
                         (int)decomposition->order, LEAT_ORDER_ZYX, LEAT_ORDER_XYZ);
    if (decomposition->kind != LEAT_PLAN_FORWARDED && decomposition->kind != LEAT_PLAN_ONEHOP)
        return leat_fail(-EINVAL,
                         "kind %d: expected LEAT_PLAN_FORWARDED (%d) or LEAT_PLAN_ONEHOP (%d)",
                         (int)decomposition->kind, LEAT_PLAN_FORWARDED, LEAT_PLAN_ONEHOP);
    if (decomposition->images != 0 && decomposition->images != 1)
        return leat_fail(-EINVAL, "images is %d, expected 0 or 1", decomposition->images);
    if (!(isfinite(decomposition->cutoff_nm) && decomposition->cutoff_nm > 0))
        return leat_fail(-EINVAL, "cutoff_nm is %g, expected a length above 0",
                         decomposition->cutoff_nm);
    return 0;
}

int leat_domains_fill(const leat_decomposition *decomposition, int rank, int rank_count,
                      struct domains *domains)
{
    if (!decomposition)
        return leat_fail(-EINVAL, "the decomposition is NULL");
    int error = check_members(decomposition, rank_count);
    if (error)
        return error;
    struct domains filled = {.rank = rank,
                             .rank_count = rank_count,
                             .order = decomposition->order,
                             .kind = decomposition->kind,
                             .images = decomposition->images,
                             .cutoff_nm = decomposition->cutoff_nm};
    error = leat_box_measure(decomposition->box_nm, &filled.box);
    if (error)
        return error;
    for (int d = 0; d < 3; d++)
        filled.grid[d] = decomposition->grid[d];
    filled.cell[2] = rank % filled.grid[2];
    filled.cell[1] = rank / filled.grid[2] % filled.grid[1];
    filled.cell[0] = rank / filled.grid[2] / filled.grid[1];
    for (int i = 0; i < 3; i++) {
        int d = filled.order == LEAT_ORDER_XYZ ? i : 2 - i;
        if (filled.grid[d] > 1 || filled.images)
            filled.crossed[filled.crossed_count++] = d;
    }
    *domains = filled;
    return 0;
}

int leat_domains_agree(struct leat_job *job, const struct domains *domains, double *value)
{
    static const char *const name[] = {
        "grid[0]",      "grid[1]",      "grid[2]",      "order",        "kind",
        "images",       "box_nm[0][0]", "box_nm[1][0]", "box_nm[1][1]", "box_nm[2][0]",
        "box_nm[2][1]", "box_nm[2][2]", "cutoff_nm"};
    enum { MEMBERS = sizeof name / sizeof name[0] };
    const double(*vector)[3] = domains->box.vector_nm;
    const double member[MEMBERS] = {
        domains->grid[0], domains->grid[1], domains->grid[2],  domains->order, domains->kind,
        domains->images,  vector[0][0],     vector[1][0],      vector[1][1],   vector[2][0],
        vector[2][1],     vector[2][2],     domains->cutoff_nm};
    double word[2 * MEMBERS + 1];
    for (int i = 0; i < MEMBERS; i++) {
        word[i] = member[i];
        // The largest of the negated ones is the negated smallest: one reduction gives both.
        word[MEMBERS + i] = -member[i];
    }
    word[2 * MEMBERS] = *value;
    int error = leat_reduce(job, REDUCE_MAX, word, 2 * MEMBERS + 1);
    if (error)
        return error;
    for (int i = 0; i < MEMBERS; i++)
        if (word[i] != -word[MEMBERS + i])
            return leat_fail(-EINVAL,
                             "the ranks' decompositions differ: %s is %.17g on rank %d, but from "
                             "%.17g to %.17g over all ranks; pass the same everywhere",
                             name[i], member[i], domains->rank, -word[MEMBERS + i], word[i]);
    *value = word[2 * MEMBERS];
    return 0;
}

int leat_domain_wrap(const struct domains *domains, int d, int *k)
{
    int count = domains->grid[d];
    int boxes = *k >= 0 ? *k / count : -((count - 1 - *k) / count);
    *k -= boxes * count;
    return boxes;
}

double leat_domain_bound(const struct domains *domains, int d, int k)
{
    int boxes = leat_domain_wrap(domains, d, &k);
    double width = domains->box.width_nm[d];
    return width * boxes + width * k / domains->grid[d];
}

int leat_domain_find(const struct domains *domains, int d, double height_nm)
{
    int last = domains->grid[d] - 1;
    double guess = floor(height_nm / domains->box.width_nm[d] * domains->grid[d]);
    int k = !(guess > 0) ? 0 : guess < last ? (int)guess : last; // whatever the height
    // The quotient may round across a bound.
    while (k > 0 && height_nm < leat_domain_bound(domains, d, k))
        k--;
    while (k < last && height_nm >= leat_domain_bound(domains, d, k + 1))
        k++;
    return k;
}

int leat_domain_rank(const struct domains *domains, const int cell[3])
{
    return (cell[0] * domains->grid[1] + cell[1]) * domains->grid[2] + cell[2];
}

int leat_pulses_needed(int domain_count, double width_nm, double cutoff_nm, double margin_nm)
{
    double reach = (cutoff_nm + 2 * margin_nm) / width_nm * domain_count;
    // A cut-off of just the domains' width needs one pulse; rounding must not make it two.
    double pulses = ceil(reach * (1 - 1e-12));
    return pulses < 1 ? 1 : pulses > PULSES_TOO_MANY ? PULSES_TOO_MANY : (int)pulses;
}

int leat_groups_check(const leat_groups *groups)
{
    if (!groups)
        return leat_fail(-EINVAL, "the groups are NULL");
    if (groups->group_count == 0)
        return 0;
    if (!groups->start)
        return leat_fail(-EINVAL, "%u groups, but their starts are NULL", groups->group_count);
    if (groups->start[0] != 0)
        return leat_fail(-EINVAL, "group 0 starts at element %u, expected 0", groups->start[0]);
    for (uint32_t g = 0; g < groups->group_count; g++)
        if (groups->start[g + 1] <= groups->start[g])
            return leat_fail(
                -EINVAL,
                "group %u of %u spans elements %u to %u, expected at least one element "
                "a group and ascending starts",
                g, groups->group_count, groups->start[g], groups->start[g + 1]);
    return 0;
}

void leat_group_centre(const double *x_nm, uint32_t first, uint32_t last, double centre_nm[3])
{
    double sum[3] = {0, 0, 0};
    for (uint32_t i = first; i < last; i++)
        for (int d = 0; d < 3; d++)
            sum[d] += x_nm[3 * (size_t)i + (size_t)d];
    for (int d = 0; d < 3; d++)
        centre_nm[d] = sum[d] / (last - first);
}
