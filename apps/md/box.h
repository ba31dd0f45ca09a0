/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periodic boxes: three row vectors, a along x, b in the x-y plane, so that whole vectors can be
 * taken off a point from the last to the first, each by one coordinate.
 */
#ifndef MD_BOX_H
#define MD_BOX_H

#include <stdbool.h>

/* All angles are right ones. */
bool md_box_upright(const double box_nm[3][3]);

/* Takes whole vectors off tilts above half a vector: the same lattice, in a box that GROMACS takes.
 * A tilt above half by less than a thousandth of the vector stays, as rounding. */
void md_box_reduce(double box_nm[3][3]);

/* Distance of a point to its nearest image: the length of the shortest sum of whole vectors. Tilts
 * have to be reduced, here and below. */
double md_box_image_nm(const double box_nm[3][3]);

/* Sum of whole vectors that brings a point into the box when it is taken off. */
void md_box_outside(const double box_nm[3][3], const double x[3], double shift[3]);

/* Takes whole vectors off d until it is short: the nearest image where that is within half of the
 * box's width along each vector, else one near it. */
void md_box_shorten(const double box_nm[3][3], double d[3]);

/* d = xi - xj between nearest images, whichever images are given; returns d^2. */
double md_box_nearest(const double box_nm[3][3], const double *xi, const double *xj, double d[3]);

#endif
