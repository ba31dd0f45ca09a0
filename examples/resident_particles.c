// SPDX-License-Identifier: Apache-2.0
// Particles that push each other apart, periodic in x; the whole loop is one kernel a rank, and the
// energy of all has to stay:
//     leat run -n 2 resident_particles, or resident_particles 2 (threads; on GPUs by nvcc -x cu)
#include "ranks.h"

#include <math.h>

enum { SIDE = 8, HOME = SIDE * SIDE * SIDE, EDGE = 2 * SIDE * SIDE, STEPS = 200 };
#define CUTOFF 1.5 /* of a lattice whose spacing is 1: the two outermost layers are sent */
#define DT     0.005

struct cube {
    char arrived[2][LEAT_SIGNAL_BYTES];             // from the lower, from the upper neighbour
    double ghost[2][2 * EDGE][3];                   // by turns, from the lower and the upper one
    double x[HOME][3], v[HOME][3], energy[2][HOME]; // in the first and in the last step
};

struct box {
    void *cube[3]; // its own, the lower and the upper neighbour's
    int neighbour[2], rank;
};

LEAT_DEVICE double push(const double *a, const double *b, double force[3])
{
    const double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    const double r = sqrt(x * x + y * y + z * z), gap = CUTOFF - r;
    if (gap <= 0 || r == 0)
        return 0;
    for (int k = 0; k < 3; k++)
        force[k] += 2 * gap * (a[k] - b[k]) / r;
    return gap * gap / 2; // half of the pair's: the other particle has the rest
}

LEAT_KERNEL(simulate, struct box)
{
    struct cube *own = (struct cube *)work->cube[0];
    LEAT_FOR_EACH(i, 0, HOME * 3, grid)
    {
        const uint64_t at = i / 3, layer[3] = {at / SIDE / SIDE, at / SIDE % SIDE, at % SIDE};
        own->x[at][i % 3] = (double)layer[i % 3] + 0.2 * sin((double)i + work->rank);
    }
    if (leat_grid_sync(grid))
        return;
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (int side = 0; side < 2; side++) {
            struct cube *theirs = (struct cube *)work->cube[1 + side];
            const double(*from)[3] = own->x + (side ? HOME - EDGE : 0);
            const double shift = side ? -SIDE : SIDE; // into the neighbour's frame
            LEAT_FOR_EACH(i, 0, EDGE * 3, grid)
            theirs->ghost[step % 2][(side ? 0 : EDGE) + i / 3][i % 3] =
                from[i / 3][i % 3] + (i % 3 ? 0 : shift);
            leat_grid_signal(grid, (uint32_t)side, LEAT_SIGNAL_AT(theirs->arrived, 1 - side), step);
        }
        if (leat_signal_wait(grid, LEAT_SIGNAL_AT(own->arrived, 0), step, work->neighbour[0]) ||
            leat_signal_wait(grid, LEAT_SIGNAL_AT(own->arrived, 1), step, work->neighbour[1]))
            return;
        LEAT_FOR_EACH(i, 0, HOME, grid)
        {
            double force[3] = {0, 0, 0}, *energy = &own->energy[step > 1][i];
            *energy = 0;
            for (int j = 0; j < HOME + 2 * EDGE; j++) // ghosts of either side follow one another
                *energy +=
                    push(own->x[i], j < HOME ? own->x[j] : own->ghost[step % 2][j - HOME], force);
            for (int k = 0; k < 3; k++) {
                const double middle = own->v[i][k] + DT / 2 * force[k];
                own->v[i][k] += DT * force[k];
                *energy += middle * middle / 2;
            }
        }
        if (leat_grid_sync(grid)) // all have read the old positions
            return;
        LEAT_FOR_EACH(i, 0, HOME * 3, grid)
        own->x[i / 3][i % 3] += DT * own->v[i / 3][i % 3];
        if (leat_grid_sync(grid))
            return;
    }
}

static int run(leat_job *job, int rank, int rank_count)
{
    struct box box = {{NULL}, {0}, rank};
    leat_region *region;
    void *copy;
    if (show_to_neighbours(job, sizeof(struct cube), rank, rank_count, &region, box.neighbour,
                           box.cube) ||
        leat_device_run(job, &simulate, &box, sizeof box, NULL) || leat_device_wait(job, -1) ||
        host_copy(job, region, sizeof(struct cube), &copy))
        return 1;
    double energy[2] = {0, 0};
    for (int i = 0; i < 2 * HOME; i++)
        energy[i / HOME] += ((struct cube *)copy)->energy[i / HOME][i % HOME];
    return printf("rank %d: energy %.6f at first, %.6f at last\n", rank, energy[0], energy[1]) < 0;
}

int main(int count, char **argument)
{
    return run_ranks(count, argument, run);
}
