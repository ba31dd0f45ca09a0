/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAMMPS data files: reader, and the settings that stand on the command line beside them, since a
 * data file has none.
 */
#ifndef MD_LAMMPS_H
#define MD_LAMMPS_H

#include "format/gro.h"
#include "md/topology.h"
#include "md/units.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct md_lammps_coeff {
    int i, j; /* atom types, from 1 */
    double epsilon, sigma;
};

/* Everything in the file's units. Begun by md_lammps_begin(). */
struct md_lammps {
    enum md_unit_style units;
    const char *atom_style; /* "full" and so on; NULL: the file has to say it */
    bool coulomb;           /* lj/cut/coul/cut */
    double cutoff;          /* 0 until md_lammps_pair() */
    double dt, skin;        /* below 0: the default of the units */
    int rebuild;            /* steps that a list lives at most */
    bool arithmetic;        /* mean of sigmas for unlike types, else the geometric one */
    double special_lj[3], special_coulomb[3]; /* weights of 1-2, 1-3 and 1-4 pairs */
    struct md_lammps_coeff *coeffs;           /* owned; beside those of the file, and above them */
    int coeff_count, coeff_capacity;
};

void md_lammps_begin(struct md_lammps *lammps);
void md_lammps_end(struct md_lammps *lammps);

/*
 * Take what a user writes: "lj/cut:RC" or "lj/cut/coul/cut:RC[,RC2]"; "I,J,EPSILON,SIGMA";
 * "lj/coul:W12,W13,W14", "lj:..." or "coul:...". -EINVAL a text that is malformed, -ENOTSUP a style
 * or weights that the driver lacks; -ENOMEM.
 */
int md_lammps_pair(struct md_lammps *lammps, const char *text);
int md_lammps_pair_coeff(struct md_lammps *lammps, const char *text);
int md_lammps_special(struct md_lammps *lammps, const char *text);
/* Weights are complete only when all options have been read. */
int md_lammps_check_special(const struct md_lammps *lammps);

/*
 * A data file as the driver takes inputs, in its units: molecules are the parts that bonds and
 * other terms hold together; equal ones are one kind.
 */
struct md_lammps_input {
    struct md_topology *topology;
    struct gro *gro; /* coordinates molecule by molecule, whole; labels in the order of the ids */
    int64_t *number; /* [atom_count] id - 1 of each atom; NULL where that is its place */
    bool reduced;    /* epsilon and sigma of the only atom type stand nowhere: in `lj` they are 1 */
};

/*
 * Reads a data file, also one compressed by gzip where the build has zlib. Sections are those of
 * the atom styles atomic, charge, bond, angle, molecular and full, with pair and harmonic bonded
 * coefficients. Image flags are read and not needed: molecules are put together along their bonds.
 *
 * -EINVAL text that is malformed, incomplete or does not fit itself, -ENOTSUP what the driver
 * lacks, both with file and line; the errno of a file that cannot be read; -ENOMEM. Memory is taken
 * as lines are read, not as the counts promise. Ends with md_lammps_input_free(); after an error
 * the input is empty.
 */
int md_lammps_read(const char *path, const struct md_lammps *lammps, struct md_lammps_input *input);

/* The same from an open stream of plain text, which stays open. */
int md_lammps_read_stream(FILE *stream, const char *name, const struct md_lammps *lammps,
                          struct md_lammps_input *input);

void md_lammps_input_free(struct md_lammps_input *input);

#endif
