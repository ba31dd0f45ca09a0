/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that is rigid among a rank's own atoms: waters, by SETTLE, and the constraints of other
 * molecules, one molecule at a time. What dynamics.h says of errors and the order of sums holds.
 */
#ifndef MD_RIGID_H
#define MD_RIGID_H

#include "md/constrain.h"
#include "md/topology.h"

#include <stdbool.h>
#include <stdint.h>

/* Constraints hold to this part of their lengths, whatever shake-tol and lincs-order say: the
 * strictest that is reached with positions anywhere in a box. */
#define MD_RIGID_TOLERANCE 1e-10

/* Rigid waters among the home atoms, local indices of the oxygens (hydrogens follow). Molecules are
 * whole: no periodic shift inside one. */
struct md_waters {
    int count;
    const int *oxygen;
    double mass_o_u, mass_h_u; /* one kind of water a run */
    double d_oh_nm, d_hh_nm;
};

/* Molecules of one kind, one after the other among the home atoms. */
struct md_stretch {
    int molecule_type, first_atom, count;
    int atoms_each;
};

struct md_rigid {
    struct md_waters waters;
    uint32_t stretch_count;
    const struct md_stretch *stretch;                /* all home molecules, in order */
    const struct md_constrainer *const *constrainer; /* of a molecule type, NULL without any */
};

/*
 * Prepares the constraints of all molecule types, [molecule_type_count]; NULL where none has any.
 * With `alike` all atoms count as equally heavy, as suits a search for a minimum. Errors of
 * md_constrainer_make.
 */
int md_rigid_make(const struct md_topology *topology, bool alike,
                  struct md_constrainer ***constrainers);
void md_rigid_free(struct md_constrainer **constrainers, int molecule_type_count); /* takes NULL */

bool md_rigid_any(const struct md_rigid *rigid);

/* Each as its two counterparts, md_settle_step and md_constrain_step and so on, say. */
int md_rigid_step(const struct md_rigid *rigid, const int64_t *id, const double *x, double *v,
                  double dt_ps, double *virial);
int md_rigid_positions(const struct md_rigid *rigid, const int64_t *id, const double *x_old,
                       double *x);
int md_rigid_velocities(const struct md_rigid *rigid, const int64_t *id, const double *x,
                        double *v);

#endif
