/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forces between the atoms of one molecule: bonds, angles, dihedrals, 1-4 pairs.
 *
 * A molecule is whole and on one rank, so its terms need no image, no ghost and no list: they are
 * those of its kind, at the place where its atoms begin. State is in double on either precision.
 */
#ifndef MD_BONDED_H
#define MD_BONDED_H

#include "md/topology.h"

/* Sums over molecules; begun by {0}. */
struct md_bonded_energy {
    double term[MD_TERM_KINDS]; /* kJ/mol; of MD_TERM_PAIR the Lennard-Jones part */
    double coulomb14;
};

/*
 * Adds the forces (kJ/mol/nm) of `count` molecules of one kind that lie one after the other in x
 * (nm) and f, [3 * atom_count * count] each. `coulomb` is 138.935457644 / epsilon_r in kJ/mol nm
 * e^-2. Where `energy` is not NULL the energies are added to it, and to `virial` (3x3, row-major;
 * may be NULL) the -1/2 sum x (x) f of the terms. The order of all sums is fixed.
 *
 * A pure function of its arguments; several threads may work on different molecules. No argument
 * makes it fail: an angle that is not defined (atoms in a line, or on top of each other) exerts no
 * force rather than an infinite one, and an energy that is not finite is for the caller to see.
 */
void md_bonded_forces(const struct md_molecule_type *type, int count, double coulomb,
                      const double *x, double *f, struct md_bonded_energy *energy, double *virial);

#endif
