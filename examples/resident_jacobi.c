// SPDX-License-Identifier: Apache-2.0
// Jacobi iteration on a periodic 3-D mesh, slabs in x, whose whole loop is one kernel a rank:
//     leat run -n 2 resident_jacobi          ranks are processes, on the CPU device
//     LEAT_DEVICE=cuda resident_jacobi 2     ranks are threads, a GPU each (made by nvcc -x cu)
// It starts from a sine wave in x, whose decay a step is known, so the result is checked.
#include "ranks.h"

#include <math.h>

enum { N = 48, FACE = N * N, CELLS = N * FACE, ALL = CELLS + 2 * FACE, STEPS = 200 };

// What a rank shows to its neighbours: two meshes, by turns, with a ghost face at either end.
struct slab {
    char arrived[2][LEAT_SIGNAL_BYTES]; // from the lower, from the upper neighbour
    double mesh[2][ALL];
};

struct solver {
    void *slab[3]; // its own, the lower and the upper neighbour's
    int neighbour[2];
    double begin, wave; // of the sine: x of the first cell, and its wave number
};

LEAT_KERNEL(jacobi, struct solver)
{
    struct slab *own = (struct slab *)work->slab[0];
    LEAT_FOR_EACH(i, 0, ALL, grid)
    own->mesh[0][i] = sin(work->wave * (work->begin + (double)(i / FACE) - 1));
    if (leat_grid_sync(grid))
        return;
    for (uint64_t step = 1; step <= STEPS; step++) {
        const double *u = own->mesh[(step - 1) % 2];
        double *next = own->mesh[step % 2];
        LEAT_FOR_EACH(i, FACE, FACE + CELLS, grid)
        {
            const uint64_t y = i / N % N, z = i % N, row = i - z, face = row - y * N;
            next[i] = (u[i - FACE] + u[i + FACE] + u[face + (y + 1) % N * N + z] +
                       u[face + (y + N - 1) % N * N + z] + u[row + (z + 1) % N] +
                       u[row + (z + N - 1) % N]) /
                      6;
        }
        // The faces are whole, and the old mesh has been read: neighbours may overwrite its ghosts.
        if (leat_grid_sync(grid))
            return;
        for (int side = 0; side < 2; side++) {
            struct slab *theirs = (struct slab *)work->slab[1 + side];
            if (grid->block == (uint32_t)side % grid->block_count)
                leat_put_signal(grid, theirs->mesh[step % 2] + (side ? 0 : FACE + CELLS),
                                next + (side ? CELLS : FACE), FACE * sizeof *next,
                                LEAT_SIGNAL_AT(theirs->arrived, 1 - side), step);
        }
        if (leat_signal_wait(grid, LEAT_SIGNAL_AT(own->arrived, 0), step, work->neighbour[0]) ||
            leat_signal_wait(grid, LEAT_SIGNAL_AT(own->arrived, 1), step, work->neighbour[1]))
            return;
    }
}

static int solve(leat_job *job, int rank, int rank_count)
{
    const double wave = 2 * acos(-1.0) / N / rank_count;
    struct solver solver = {{NULL}, {0}, (double)rank * N, wave};
    leat_region *region;
    void *copy;
    if (show_to_neighbours(job, sizeof(struct slab), rank, rank_count, &region, solver.neighbour,
                           solver.slab) ||
        leat_device_run(job, &jacobi, &solver, sizeof solver, NULL) || leat_device_wait(job, -1) ||
        host_copy(job, region, sizeof(struct slab), &copy))
        return 1;
    const double *u = ((struct slab *)copy)->mesh[STEPS % 2], left = (2 * cos(wave) + 4) / 6;
    double worst = 0;
    for (int i = FACE; i < FACE + CELLS; i++)
        worst = fmax(worst, fabs(u[i] - pow(left, STEPS) * sin(wave * (i / FACE - 1 + rank * N))));
    printf("rank %d of %d: worst error after %d steps %.1e\n", rank, rank_count, STEPS, worst);
    return worst < 1e-12 ? 0 : 2;
}

int main(int count, char **argument)
{
    return run_ranks(count, argument, solve);
}
