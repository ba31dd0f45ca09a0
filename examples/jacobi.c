// SPDX-License-Identifier: Apache-2.0
// Jacobi iteration on a periodic 3-D mesh, one block a rank, halo by leat:
//     leat run -n 8 --grid 2x2x2 jacobi
// It starts from a sine wave in x, whose decay a step is known, so the result is checked.
#include <leat/halo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, FACE = N * N, CELLS = N * FACE, STEPS = 200 };

static uint32_t send_index[6][FACE], neighbour[CELLS][6];

// Face 2d is the lower one of dimension d, 2d + 1 the upper. What a neighbour sends through its
// face f comes in through our opposite face, f ^ 1, and lies in block f behind the cells.
static void lay_out(void)
{
    for (int i = 0; i < CELLS; i++)
        for (int f = 0; f < 6; f++) {
            int at[3] = {i / FACE, i / N % N, i % N}, d = f / 2;
            int place = at[(d + 1) % 3] * N + at[(d + 2) % 3];
            int on_face = at[d] == (f % 2 ? N - 1 : 0);
            if (on_face)
                send_index[f][place] = (uint32_t)i;
            at[d] += f % 2 ? 1 : -1;
            neighbour[i][f] = (uint32_t)(on_face ? CELLS + (f ^ 1) * FACE + place
                                                 : (at[0] * N + at[1]) * N + at[2]);
        }
}

static int rank_beyond(int face, const int grid[3], const int me[3])
{
    int at[3] = {me[0], me[1], me[2]}, d = face / 2;
    at[d] = (at[d] + (face % 2 ? 1 : grid[d] - 1)) % grid[d];
    return (at[0] * grid[1] + at[1]) * grid[2] + at[2];
}

static int fail(const char *what)
{
    fprintf(stderr, "jacobi: %s: %s\n", what, leat_error_detail());
    return 1;
}

int main(void)
{
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &job) || leat_job_info_get(job, &info))
        return fail("open");
    int grid[3] = {info.rank_count, 1, 1};
    if (info.grid[0])
        memcpy(grid, info.grid, sizeof grid);
    int me[3] = {info.rank / (grid[1] * grid[2]), info.rank / grid[2] % grid[1],
                 info.rank % grid[2]};

    lay_out();
    leat_list sends[6], receives[6];
    for (int f = 0; f < 6; f++) {
        sends[f] = (leat_list){rank_beyond(f, grid, me), FACE, send_index[f], {0}};
        receives[f] = (leat_list){rank_beyond(f ^ 1, grid, me), FACE, NULL, {0}};
    }
    leat_lists lists = {sizeof lists, CELLS, 6, 6, sends, receives};
    leat_region_options memory = {.size = sizeof memory, .bytes = (CELLS + 6 * FACE) * 8};
    leat_region_info where = {.size = sizeof where};
    leat_region *region;
    leat_plan *plan;
    leat_halo *halo;
    if (leat_region_alloc(job, &memory, &region) || leat_region_info_get(region, &where) ||
        leat_plan_lists(job, &lists, &plan))
        return fail("plan");
    leat_field field = {.place = {region, 0}, .element = LEAT_F64, .components = 1};
    leat_halo_options options = {.size = sizeof options, .field_count = 1, .fields = &field};
    if (leat_halo_open(job, plan, &options, &halo))
        return fail("halo");

    double *u = where.address, *next = malloc(CELLS * sizeof *next), worst = 0;
    double wave = 8 * atan(1) / (N * grid[0]), decay = (cos(wave) + 2) / 3;
    for (int i = 0; i < CELLS; i++)
        u[i] = sin(wave * (me[0] * N + i / FACE));
    for (int step = 0; step < STEPS; step++) {
        if (leat_halo_exchange(halo, 0, LEAT_FORWARD))
            return fail("exchange");
        for (int i = 0; i < CELLS; i++) {
            next[i] = 0;
            for (int f = 0; f < 6; f++)
                next[i] += u[neighbour[i][f]] / 6;
        }
        memcpy(u, next, CELLS * sizeof *u);
    }
    for (int i = 0; i < CELLS; i++)
        worst = fmax(worst, fabs(u[i] - pow(decay, STEPS) * sin(wave * (me[0] * N + i / FACE))));
    printf("rank %d of %d: %d steps, largest deviation %.1e\n", info.rank, info.rank_count, STEPS,
           worst);
    leat_halo_free(halo), leat_plan_free(plan), free(next), leat_close(job, NULL);
    return worst > 1e-12;
}
