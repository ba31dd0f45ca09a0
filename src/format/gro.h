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
    int residue; /* as written: it wraps at 99999 */
    char residue_name[6], atom_name[6];
};

struct gro {
    char title[128]; /* cut to what fits */
    int64_t atom_count;
    struct gro_label *labels;
    double *x_nm;        /* [3 * atom_count] */
    double *v_nm_ps;     /* [3 * atom_count]; zero where the file has none */
    bool has_velocities; /* the file has velocity columns */
    double box_nm[3][3]; /* row vectors a, b, c; off-diagonals from a nine-number box line */
    int64_t box_line;    /* where the box stands in the file, for messages */
};

/*
 * Reads the first frame of a file. Column width is taken from the distance of the decimal points of
 * the first atom, as the format defines it, so files of any precision are read. Atom numbers are
 * not looked at: they wrap in large files. A box edge may be zero (no periodicity), never negative.
 *
 * 0, or: the errno of a file that cannot be opened or read; -EINVAL for text that is not a .gro,
 * naming file and line; -ENOMEM. Memory is taken as atoms are read, not as the count line promises.
 * Ends with gro_free().
 */
int gro_read(const char *path, struct gro **gro);

/* The same from an open stream, which stays open; `name` is what messages call it. */
int gro_read_stream(FILE *stream, const char *name, struct gro **gro);

/* Takes NULL. */
void gro_free(struct gro *gro);

/*
 * Writes with `decimals` decimals for positions, 1 to 15 (3 is the usual), and one more for
 * velocities. Three numbers for the box if its off-diagonals are zero, nine otherwise. Residue and
 * atom numbers are written modulo 100000.
 *
 * Atomically: a temporary file beside it, fsync, rename, fsync of the directory, so that a reader
 * sees the old file or the whole new one. A symbolic link is followed; what is no regular file (a
 * pipe, /dev/stdout) is written directly.
 *
 * -ERANGE names the first atom whose value is not finite or does not fit its column; -EINVAL for
 * `decimals`; else the errno of the file operation. On failure nothing is left behind and an older
 * file stays as it was.
 */
int gro_write(const char *path, const struct gro *gro, int decimals);

/* ---- Lines in memory, for frames of which atoms come in any order ---- */

#define GRO_BOX_BYTES 512

/* Of an atom's line with its end, for `decimals` as above. */
unsigned int gro_atom_bytes(int decimals, bool velocities);
/* Exactly so many; v_nm_ps NULL: without. -ERANGE as gro_write. */
int gro_put_atom(const struct gro_label *label, int64_t atom, const double *x_nm,
                 const double *v_nm_ps, int decimals, char *to);
/* The box line with its end, into GRO_BOX_BYTES; gives its length. -ERANGE. */
int gro_put_box(const double box_nm[3][3], int decimals, char *to);

#endif
