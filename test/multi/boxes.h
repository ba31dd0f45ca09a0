/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of points spread over ranks, with everything needed to tell where a ghost came from: each
 * rank can see all ranks' points, since ranks are threads here.
 */
#ifndef LEAT_TEST_MULTI_BOXES_H
#define LEAT_TEST_MULTI_BOXES_H

#include "multi/ranks.h"

#include <leat/halo.h>

#include <math.h>

#define BOX_RANKS  8
#define BOX_POINTS 400 /* a rank, at most */

struct box {
    leat_decomposition decomposition;
    uint32_t count[BOX_RANKS];
    double x[BOX_RANKS][3 * BOX_POINTS];
    uint32_t start[BOX_RANKS][BOX_POINTS + 1];
};

/* xorshift, so that a seed gives the same box everywhere. */
static double box_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

/* `empty` is a bit mask of ranks without points. */
__attribute__((unused)) static void box_fill(struct box *box, const int grid[3], double cutoff_nm,
                                             uint32_t points, unsigned empty, uint64_t seed)
{
    const double edge[3] = {4.0, 4.4, 5.0};
    memset(box, 0, sizeof *box);
    box->decomposition =
        (leat_decomposition){.size = sizeof box->decomposition, .cutoff_nm = cutoff_nm};
    for (int d = 0; d < 3; d++) {
        box->decomposition.grid[d] = grid[d];
        box->decomposition.box_nm[d][d] = edge[d];
    }
    uint64_t state = seed * 2654435761u + 1;
    for (int rank = 0; rank < grid[0] * grid[1] * grid[2]; rank++) {
        const int cell[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
        box->count[rank] = empty >> rank & 1 ? 0 : points;
        for (uint32_t i = 0; i < box->count[rank]; i++) {
            box->start[rank][i + 1] = i + 1;
            for (int d = 0; d < 3; d++)
                box->x[rank][3 * i + (uint32_t)d] =
                    (cell[d] + box_random(&state)) * edge[d] / grid[d];
        }
    }
}

__attribute__((unused)) static leat_plan *box_plan(struct rank_thread *self, struct box *box)
{
    leat_groups groups = {box->count[self->rank], box->start[self->rank]};
    leat_plan *plan = NULL;
    int error = leat_plan_build(self->job, &box->decomposition, &groups, box->x[self->rank], &plan);
    rank_check(self, !error, "leat_plan_build: %s", leat_error_detail());
    return plan;
}

__attribute__((unused)) static leat_plan_info box_info(const leat_plan *plan)
{
    leat_plan_info info = {.size = sizeof info};
    leat_plan_info_get(plan, &info);
    return info;
}

/* An allocated region of `bytes`, and where it is. */
__attribute__((unused)) static void *box_region(struct rank_thread *self, uint64_t bytes,
                                                leat_region **region)
{
    leat_region_options options = {.size = sizeof options, .bytes = bytes};
    leat_region_info info = {.size = sizeof info};
    if (!rank_check(self, !leat_region_alloc(self->job, &options, region), "%s",
                    leat_error_detail()))
        return NULL;
    leat_region_info_get(*region, &info);
    return info.address;
}

#endif
