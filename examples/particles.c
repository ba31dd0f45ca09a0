// SPDX-License-Identifier: Apache-2.0
// Soft spheres in a periodic box: ghosts out, forces back, each pair on one rank only.
//     leat run -n 4 particles
// By Newton's third law the forces of all ranks add up to nothing.
#include <leat/halo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { COUNT = 800 }; // a rank
static double home[3 * COUNT];
static uint32_t start[COUNT + 1];
static const double edge = 6.0, cutoff = 0.7;

static int fail(const char *what)
{
    return fprintf(stderr, "particles: %s: %s\n", what, leat_error_detail()), 1;
}

static double *array(leat_job *job, uint32_t elements, leat_region **region)
{
    leat_region_options memory = {.size = sizeof memory, .bytes = elements * 3ull * sizeof(double)};
    leat_region_info where = {.size = sizeof where};
    if (leat_region_alloc(job, &memory, region) || leat_region_info_get(*region, &where))
        exit(fail("memory"));
    return where.address;
}

// A linear spring while two overlap. The distance to a ghost is plain: it comes shifted.
static long interact(const leat_plan_info *plan, const double *x, double *f)
{
    long pairs = 0;
    for (uint32_t i = 0; i < plan->element_count; i++)
        for (uint32_t j = i + 1; j < plan->element_count; j++) {
            if (plan->zone[i] & plan->zone[j])
                continue; // another rank's pair
            double d[3], r2 = 0;
            for (uint32_t k = 0; k < 3; k++) {
                d[k] = x[3 * i + k] - x[3 * j + k];
                r2 += d[k] * d[k];
            }
            if (r2 >= cutoff * cutoff)
                continue;
            for (uint32_t k = 0; k < 3; k++) {
                f[3 * i + k] += (cutoff / sqrt(r2) - 1) * d[k];
                f[3 * j + k] -= (cutoff / sqrt(r2) - 1) * d[k];
            }
            pairs++;
        }
    return pairs;
}

int main(void)
{
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &job) || leat_job_info_get(job, &info))
        return fail("open");
    leat_decomposition boxes = {.size = sizeof boxes,
                                .box_nm = {{edge, 0, 0}, {0, edge, 0}, {0, 0, edge}},
                                .cutoff_nm = cutoff,
                                .images = 1};
    if (leat_grid_choose(info.rank_count, (const double(*)[3])boxes.box_nm, cutoff, boxes.grid))
        return fail("grid");
    const int *grid = boxes.grid, rank = info.rank;
    const int me[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    srand((unsigned)rank + 1);
    for (int i = 0; i < 3 * COUNT; i++)
        home[i] = (me[i % 3] + rand() / (RAND_MAX + 1.0)) * edge / grid[i % 3];
    for (uint32_t i = 0; i < COUNT; i++)
        start[i + 1] = i + 1; // every particle is a group of its own
    leat_groups groups = {COUNT, start};
    leat_plan *plan;
    leat_plan_info shape = {.size = sizeof shape};
    if (leat_plan_build(job, &boxes, &groups, home, &plan) || leat_plan_info_get(plan, &shape))
        return fail("plan");
    leat_region *region[2];
    double *x = array(job, shape.element_count, &region[0]), sum[3] = {0};
    double *f = array(job, shape.element_count, &region[1]);
    leat_field fields[2] = {
        {.place = {region[0], 0}, .element = LEAT_F64, .components = 3, .shifted = 1},
        {.place = {region[1], 0}, .element = LEAT_F64, .components = 3}};
    leat_halo_options options = {.size = sizeof options, .field_count = 2, .fields = fields};
    leat_halo *halo;
    memcpy(x, home, sizeof home);
    if (leat_halo_open(job, plan, &options, &halo))
        return fail("halo");
    if (leat_halo_exchange(halo, 0, LEAT_FORWARD))
        return fail("positions");
    long pairs = interact(&shape, x, f);
    if (leat_halo_exchange(halo, 1, LEAT_REVERSE))
        return fail("forces");
    for (int i = 0; i < 3 * COUNT; i++)
        sum[i % 3] += f[i];
    printf("rank %d: %u ghosts, %ld pairs, forces on my own add up to %.6f %.6f %.6f\n", rank,
           shape.element_count - shape.home_count, pairs, sum[0], sum[1], sum[2]);
    leat_halo_free(halo), leat_plan_free(plan), leat_close(job, NULL);
    return 0;
}
