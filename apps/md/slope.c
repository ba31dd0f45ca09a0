// SPDX-License-Identifier: Apache-2.0
// Least-squares slope from sums of the distances to the first point.
//
// Advantage: constant memory, and an offset common to all y (a total energy of -1e5 with a drift in
// its tenth digit) costs no digits. Disadvantage: a first point far off the rest does cost them;
// a run's energies have none.

#include "md/dynamics.h"

#include <math.h>

void md_slope_add(struct md_slope *slope, double t, double y)
{
    if (slope->count == 0)
        *slope = (struct md_slope){.t0 = t, .y0 = y};
    double dt = t - slope->t0, dy = y - slope->y0;
    slope->count++;
    slope->st += dt;
    slope->sy += dy;
    slope->stt += dt * dt;
    slope->sty += dt * dy;
}

double md_slope_value(const struct md_slope *slope)
{
    if (slope->count < 2)
        return NAN;
    double mean_t = slope->st / (double)slope->count;
    double spread = slope->stt - mean_t * slope->st;
    return spread > 0.0 ? (slope->sty - mean_t * slope->sy) / spread : NAN;
}
