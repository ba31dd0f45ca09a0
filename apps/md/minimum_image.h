/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector between the nearest images of two points in an orthorhombic box.
 *
 * By division and rounding. Advantage: right for points any number of boxes apart. Disadvantage: a
 * division, so it is taken only where a component exceeds half the box.
 */
#ifndef MD_MINIMUM_IMAGE_H
#define MD_MINIMUM_IMAGE_H

#include <math.h>

/* d = xi - xj, nearest image; returns d^2. */
static inline double md_minimum_image(const double *xi, const double *xj, const double box_nm[3],
                                      double d[3])
{
    for (int a = 0; a < 3; a++) {
        d[a] = xi[a] - xj[a];
        if (fabs(d[a]) > 0.5 * box_nm[a])
            d[a] -= box_nm[a] * rint(d[a] / box_nm[a]);
    }
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
}

/* d = xi - xj as they stand; returns d^2. */
static inline double md_difference(const double *xi, const double *xj, double d[3])
{
    for (int a = 0; a < 3; a++)
        d[a] = xi[a] - xj[a];
    return d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
}

#endif
