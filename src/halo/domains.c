// SPDX-License-Identifier: Apache-2.0
// Where the domains of a decomposition lie, and who owns a point; see domains.h.

#include "halo/domains.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

int leat_box_edges(const double box_nm[3][3], double edge_nm[3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            if (i == j && !(isfinite(box_nm[i][j]) && box_nm[i][j] > 0))
                return leat_fail(-EINVAL,
                                 "box_nm[%d][%d] is %g, expected an edge length above 0 nm", i, j,
                                 box_nm[i][j]);
            if (i != j && box_nm[i][j] != 0)
                return leat_fail(-ENOTSUP,
                                 "box_nm[%d][%d] is %g nm: box vector %c has a part along %c, but "
                                 "only orthorhombic boxes are supported so far; expected 0",
                                 i, j, box_nm[i][j], 'a' + i, DIMENSION_NAMES[j]);
        }
    for (int d = 0; d < 3; d++)
        edge_nm[d] = box_nm[d][d];
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
                             .cutoff_nm = decomposition->cutoff_nm};
    error = leat_box_edges(decomposition->box_nm, filled.edge_nm);
    if (error)
        return error;
    for (int d = 0; d < 3; d++)
        filled.grid[d] = decomposition->grid[d];
    filled.cell[2] = rank % filled.grid[2];
    filled.cell[1] = rank / filled.grid[2] % filled.grid[1];
    filled.cell[0] = rank / filled.grid[2] / filled.grid[1];
    for (int i = 0; i < 3; i++) {
        int d = filled.order == LEAT_ORDER_XYZ ? i : 2 - i;
        if (filled.grid[d] > 1)
            filled.cut[filled.cut_count++] = d;
    }
    *domains = filled;
    return 0;
}

int leat_domains_agree(struct leat_job *job, const struct domains *domains, double *value)
{
    static const char *const name[] = {"grid[0]",      "grid[1]",      "grid[2]",      "order",
                                       "box_nm[0][0]", "box_nm[1][1]", "box_nm[2][2]", "cutoff_nm"};
    enum { MEMBERS = sizeof name / sizeof name[0] };
    const double member[MEMBERS] = {domains->grid[0],    domains->grid[1],    domains->grid[2],
                                    domains->order,      domains->edge_nm[0], domains->edge_nm[1],
                                    domains->edge_nm[2], domains->cutoff_nm};
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

double leat_domain_bound(const struct domains *domains, int d, int k)
{
    if (k <= 0)
        return 0;
    if (k >= domains->grid[d])
        return domains->edge_nm[d];
    return domains->edge_nm[d] * k / domains->grid[d];
}

int leat_domain_find(const struct domains *domains, int d, double coordinate_nm)
{
    int last = domains->grid[d] - 1;
    double guess = floor(coordinate_nm / domains->edge_nm[d] * domains->grid[d]);
    int k = guess < 0 ? 0 : guess > last ? last : (int)guess;
    // The quotient may round across a bound.
    while (k > 0 && coordinate_nm < leat_domain_bound(domains, d, k))
        k--;
    while (k < last && coordinate_nm >= leat_domain_bound(domains, d, k + 1))
        k++;
    return k;
}

int leat_domain_rank(const struct domains *domains, const int cell[3])
{
    return (cell[0] * domains->grid[1] + cell[1]) * domains->grid[2] + cell[2];
}

int leat_pulses_needed(int domain_count, double edge_nm, double cutoff_nm, double margin_nm)
{
    double reach = (cutoff_nm + 2 * margin_nm) / edge_nm * domain_count;
    // A cut-off of just the domains' width needs one pulse; rounding must not make it two.
    double pulses = ceil(reach * (1 - 1e-12));
    return pulses < 1 ? 1 : pulses > domain_count ? domain_count : (int)pulses;
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
