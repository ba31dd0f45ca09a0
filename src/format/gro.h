/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GROMACS .gro files: fixed columns, positions and velocities, one box line.
 */
#ifndef LEAT_FORMAT_GRO_H
#define LEAT_FORMAT_GRO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gro_label {
    int residue;
    char residue_name[6], atom_name[6];
};

struct gro {
    char title[128];
    int64_t atom_count;
    struct gro_label *labels;
    double *x_nm;        /* [3 * atom_count] */
    double *v_nm_ps;     /* [3 * atom_count]; zero where the file has none */
    bool has_velocities; /* the file has velocity columns */
    double box_nm[3][3]; /* row vectors a, b, c; off-diagonals from a nine-number box line */
};

/* Column width is taken from the distance of the decimal points, as the format defines it, so files
 * of any precision are read. -EINVAL names file and line. */
int gro_read(const char *path, struct gro **gro);
void gro_free(struct gro *gro);

/* Writes with `decimals` decimals for positions (3 is the usual) and one more for velocities.
 * Atomically: a temporary file beside it, fsync, rename. */
int gro_write(const char *path, const struct gro *gro, int decimals);

#endif
