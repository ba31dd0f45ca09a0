/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constraints on distances within a molecule, beside the rigid waters of dynamics.h. What is said
 * there of errors, pure functions and the order of sums holds here too.
 */
#ifndef MD_CONSTRAIN_H
#define MD_CONSTRAIN_H

#include "md/topology.h"

#include <stdint.h>

/* What a kind of molecule has to have prepared: its constraints in groups that share atoms. */
struct md_constrainer;

/* NULL for a kind without constraints. -EINVAL a constraint that is impossible (an atom with
 * itself, a length that is not positive, twice the same two atoms, more of them than a rigid group
 * of atoms has degrees of freedom, an atom without mass), naming molecule kind and atoms; -ENOTSUP
 * an atom with hundreds of constraints, or so many rings that the equations do not stay sparse;
 * -ENOMEM. */
int md_constrainer_make(const struct md_molecule_type *type, double tolerance,
                        struct md_constrainer **constrainer);
void md_constrainer_free(struct md_constrainer *constrainer); /* takes NULL */

/*
 * One molecule, whose atoms begin at x, v and id. Corrects v so that x + v dt satisfies the
 * constraints within `tolerance` (relative to each length), by forces along the bonds of x, which
 * has to satisfy them already. `virial` (may be NULL) gets the constraints' -1/2 sum x (x) f added.
 * -EDOM names the two atoms of the constraint that could not be satisfied, or followed from the
 * others; v is then partly corrected. -EINVAL a dt that is not positive; -ENOMEM, in groups of over
 * a hundred constraints only.
 */
int md_constrain_step(const struct md_constrainer *constrainer, const int64_t *id, const double *x,
                      double *v, double dt_ps, double *virial);

/* Moves x onto the constraints, along the bonds of x_old (which may be off them, and may be the
 * same array): a file's coordinates, or a minimiser's step. Errors likewise. */
int md_constrain_positions(const struct md_constrainer *constrainer, const int64_t *id,
                           const double *x_old, double *x);

/* Takes the components along the constraints out of v (linear equations), keeping momentum. Where
 * virial is not NULL, the velocities are those after half a step (dt_ps / 2) whose constraint
 * forces had been left out, and it gets their -1/2 sum x (x) f added; dt_ps is looked at only for
 * it. Errors likewise. */
int md_constrain_velocities(const struct md_constrainer *constrainer, const int64_t *id,
                            const double *x, double *v, double dt_ps, double *virial);

#endif
