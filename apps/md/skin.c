// SPDX-License-Identifier: Apache-2.0
// Pair lists of a fixed skin: when one has to be made anew.
//
// A list that reaches a skin beyond the cut-off holds every pair within the cut-off as long as no
// atom has moved half the skin; that is looked at after every step, over all ranks. Advantage: no
// pair is ever missed, at any temperature, and a list lives as long as it is right. Disadvantage: a
// sum over ranks a step, so no two steps are one run of the halo.

#include "md/md.h"

#include <string.h>

void md_skin_begin(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    rank->list_spent = false;
    if (rank->system.skin_nm > 0.0)
        memcpy(domain->x_listed, domain->atoms.x_nm,
               3 * (size_t)domain->atoms.count * sizeof *domain->x_listed);
}

int md_skin_watch(struct md_rank *rank)
{
    const struct md_domain *domain = &rank->domain;
    double half = 0.5 * rank->system.skin_nm, spent = 0.0;
    if (!(half > 0.0))
        return 0;
    for (int64_t i = 0; i < domain->atoms.count; i++) {
        const double *x = domain->atoms.x_nm + 3 * i, *from = domain->x_listed + 3 * i;
        double d[3] = {x[0] - from[0], x[1] - from[1], x[2] - from[2]};
        if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > half * half)
            spent = 1.0;
    }
    int error = md_sum(rank, &spent, 1);
    rank->list_spent = spent > 0.0;
    return error;
}
