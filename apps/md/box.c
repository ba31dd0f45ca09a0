// SPDX-License-Identifier: Apache-2.0
// Periodic boxes of any shape.
//
// The nearest image in a tilted box: whole vectors are taken off, c first, and where what is left
// may not be the shortest, it is compared with its 26 neighbours. Advantage: right for points any
// number of boxes apart, by no other reasoning than trying. Disadvantage: slow, and so only for
// where nothing else is to be believed, the oracle.

#include "md/box.h"

#include <math.h>
#include <string.h>

bool md_box_upright(const double box_nm[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (i != j && box_nm[i][j] != 0.0)
                return false;
    return true;
}

static void take_off(double *from, const double vector[3], double times)
{
    for (int d = 0; d < 3; d++)
        from[d] -= times * vector[d];
}

void md_box_reduce(double box_nm[3][3])
{
    const double half = 0.501;
    for (int row = 1; row < 3; row++)
        for (int d = row - 1; d >= 0; d--)
            if (fabs(box_nm[row][d]) > half * box_nm[d][d])
                take_off(box_nm[row], box_nm[d], rint(box_nm[row][d] / box_nm[d][d]));
}

// The k-th of the 27 sums of at most one vector of each, either way.
static void add_neighbour(const double box_nm[3][3], int k, double d[3])
{
    const int times[3] = {k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1};
    for (int v = 0; v < 3; v++)
        take_off(d, box_nm[v], times[v]);
}

static double square(const double d[3])
{
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
}

double md_box_image_nm(const double box_nm[3][3])
{
    double shortest2 = HUGE_VAL;
    for (int k = 0; k < 27; k++) {
        double d[3] = {0.0, 0.0, 0.0};
        add_neighbour(box_nm, k, d);
        if (k != 13)
            shortest2 = fmin(shortest2, square(d));
    }
    return sqrt(shortest2);
}

void md_box_outside(const double box_nm[3][3], const double x[3], double shift[3])
{
    double left[3] = {x[0], x[1], x[2]};
    memset(shift, 0, 3 * sizeof *shift);
    for (int d = 2; d >= 0; d--) {
        double times = floor(left[d] / box_nm[d][d]);
        take_off(left, box_nm[d], times);
        take_off(shift, box_nm[d], -times);
    }
}

void md_box_shorten(const double box_nm[3][3], double d[3])
{
    for (int k = 2; k >= 0; k--)
        if (fabs(d[k]) > 0.5 * box_nm[k][k])
            take_off(d, box_nm[k], rint(d[k] / box_nm[k][k]));
}

double md_box_nearest(const double box_nm[3][3], const double *xi, const double *xj, double d[3])
{
    double near[3] = {xi[0] - xj[0], xi[1] - xj[1], xi[2] - xj[2]};
    md_box_shorten(box_nm, near);
    memcpy(d, near, sizeof near);
    double shortest2 = square(d);
    if (md_box_upright(box_nm))
        return shortest2;
    for (int k = 0; k < 27; k++) {
        double other[3] = {near[0], near[1], near[2]};
        add_neighbour(box_nm, k, other);
        if (square(other) >= shortest2)
            continue;
        shortest2 = square(other);
        memcpy(d, other, sizeof other);
    }
    return shortest2;
}
