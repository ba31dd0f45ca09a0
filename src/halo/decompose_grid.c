// SPDX-License-Identifier: Apache-2.0
// The grid of domains with the least halo.
//
// Algorithm: all ways to write the number of domains as a product of three, each with the volume of
// a domain's halo, from the box's volume and the widths across faces. Advantage: nothing is missed,
// and the same grid on every rank. Disadvantage: in a tilted box, rounded zones are taken to be as
// round as in an upright one, so of nearly equal grids the lesser may win.

#include "halo/domains.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct grid_cost {
    double volume; // of a domain's halo, nm^3
    int pulses;
};

// False where the cut-off forbids the grid.
static bool cost_grid(const int grid[3], const struct box_shape *box, double cutoff_nm,
                      struct grid_cost *cost)
{
    // A zone that crossed one dimension is a slab, one that crossed two a quarter of a cylinder,
    // one that crossed three an eighth of a sphere; what a dimension adds to them depends on
    // whether it was crossed.
    static const double rounded[] = {1, 1, 0.785398163397448310, 0.523598775598298873};
    const double *width_nm = box->width_nm;
    const double box_volume = box->vector_nm[0][0] * box->vector_nm[1][1] * box->vector_nm[2][2];
    const double domain_volume = box_volume / grid[0] / grid[1] / grid[2];
    cost->volume = 0;
    cost->pulses = 0;
    for (int d = 0; d < 3; d++) {
        if (grid[d] == 1)
            continue;
        int pulses = leat_pulses_needed(grid[d], width_nm[d], cutoff_nm, 0);
        if (pulses >= grid[d] || 2 * cutoff_nm > width_nm[d])
            return false;
        cost->pulses += pulses;
    }
    for (int zone = 1; zone < 8; zone++) {
        double volume = domain_volume;
        int crossed = 0;
        for (int d = 0; d < 3; d++) {
            if (!(zone >> d & 1))
                continue;
            volume *= grid[d] == 1 ? 0 : cutoff_nm * grid[d] / width_nm[d];
            crossed++;
        }
        cost->volume += rounded[crossed] * volume;
    }
    return true;
}

// Less volume; then fewer pulses; then more domains in z, then in y. Neighbours in z have the
// nearest rank numbers, so they are likeliest to share a socket or a host.
static bool grid_better(const int a[3], const struct grid_cost *cost_a, const int b[3],
                        const struct grid_cost *cost_b)
{
    // Grids that are each other's mirror images must not be told apart by rounding.
    if (fabs(cost_a->volume - cost_b->volume) > 1e-9 * cost_b->volume)
        return cost_a->volume < cost_b->volume;
    if (cost_a->pulses != cost_b->pulses)
        return cost_a->pulses < cost_b->pulses;
    return a[2] != b[2] ? a[2] > b[2] : a[1] > b[1];
}

static bool best_grid(int rank_count, const struct box_shape *box, double cutoff_nm, int best[3])
{
    bool found = false;
    struct grid_cost best_cost = {0, 0};
    for (int x = 1; x <= rank_count; x++) {
        if (rank_count % x)
            continue;
        for (int y = 1; y <= rank_count / x; y++) {
            if (rank_count / x % y)
                continue;
            const int grid[3] = {x, y, rank_count / x / y};
            struct grid_cost cost;
            if (!cost_grid(grid, box, cutoff_nm, &cost))
                continue;
            if (found && !grid_better(grid, &cost, best, &best_cost))
                continue;
            found = true;
            best_cost = cost;
            memcpy(best, grid, sizeof grid);
        }
    }
    return found;
}

int leat_grid_choose(int rank_count, const double box_nm[3][3], double cutoff_nm, int grid[3])
{
    if (!box_nm || !grid)
        return leat_fail(-EINVAL, "leat_grid_choose: %s is NULL", box_nm ? "grid" : "box_nm");
    if (rank_count < 1)
        return leat_fail(-EINVAL, "%d domains: expected at least 1", rank_count);
    if (!(isfinite(cutoff_nm) && cutoff_nm > 0))
        return leat_fail(-EINVAL, "cutoff_nm is %g, expected a length above 0", cutoff_nm);
    struct box_shape box;
    int error = leat_box_measure(box_nm, &box);
    if (error)
        return error;
    int best[3];
    if (!best_grid(rank_count, &box, cutoff_nm, best))
        return leat_fail(-EDOM,
                         "no grid of %d domains: each would need its own atoms as ghosts, as the "
                         "cut-off of %g nm is more than half of every width of the box, %g x %g x "
                         "%g nm between its faces; use 1 domain, a smaller cut-off or a larger box",
                         rank_count, cutoff_nm, box.width_nm[0], box.width_nm[1], box.width_nm[2]);
    memcpy(grid, best, sizeof best);
    return 0;
}
