/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Motion of one rank's own atoms: SETTLE, leap-frog, velocity Verlet, v-rescale, generated
 * velocities, and the sums that the ranks have to add up. State is in double on either precision;
 * only pairs and halos are in float in mixed precision.
 *
 * Every function is a pure one of its arguments and may be called from several threads on different
 * atoms. The order of every sum is fixed by the indices, so the same input gives the same bits. An
 * atom's new position and velocity do not depend on which other atoms, or other waters, are on the
 * rank. Messages name atoms by their numbers in the input's files, `id` + 1.
 */
#ifndef MD_DYNAMICS_H
#define MD_DYNAMICS_H

#include "md/rigid.h"

#include <stdbool.h>
#include <stdint.h>

struct md_atoms {
    int count;                  /* home atoms */
    const int64_t *id;          /* global numbers from 0, for random numbers and messages */
    const int64_t *number;      /* what messages call them, if it is not id + 1; or NULL */
    double *x_nm, *v_nm_ps, *f; /* [3 * count] each; v half a step behind x */
    const double *mass_u;
    const uint8_t *group; /* number of each atom's temperature group; NULL: all are in group 0 */
};

/*
 * SETTLE (Miyamoto & Kollman, J. Comput. Chem. 13 (1992) 952): moves x_new onto the constraints, to
 * rounding, with forces along the bonds of x_old. x_old may be rounded or otherwise slightly off
 * the constraints, and may be the same array as x_new: that is how a file's coordinates are
 * constrained, in one call. Where v is not NULL it gets displacement / dt added. Where virial is
 * not NULL it gets the constraints' -1/2 sum x_old (x) f added, 3x3, row-major, kJ/mol. dt_ps is
 * looked at only for those two.
 *
 * -EDOM names the oxygen of the first water that cannot be constrained: no solution within a
 * quarter turn, hydrogens displaced by more than the O-H distance, sites in a line in x_old, or not
 * finite. -EINVAL: masses and distances that are no rigid triangle's, or a dt that is not positive.
 * On an error nothing has changed.
 */
int md_settle(const struct md_waters *waters, const int64_t *id, const double *x_old, double *x_new,
              double *v, double dt_ps, double *virial);

/*
 * The same for a step: corrects v so that x + v dt satisfies the constraints, which x has to
 * satisfy already. Better than md_settle by the digits that a position in a large box takes from a
 * displacement. Errors as above, but v is then partly corrected.
 */
int md_settle_step(const struct md_waters *waters, const int64_t *id, const double *x, double *v,
                   double dt_ps, double *virial);

/*
 * Takes the components along the rigid bonds out of v (three linear equations a water), keeping
 * momentum and angular momentum. Waters as md_settle leaves them; one without extent keeps its v.
 */
void md_settle_velocities(const struct md_waters *waters, const double *x, double *v);

/*
 * One leap-frog step: v = v_scale v + f kick / m, x += v dt, constrained (rigid may be NULL).
 * v_scale has one factor a temperature group; the kick is the step, or half of it where the other
 * half has been given before (md_verlet_arrive). `ekin_half` gets sum 1/2 m v v^T (3x3, row-major)
 * of the new half-step velocities after constraining; virial as in md_settle.
 *
 * -ERANGE names the first atom that would move more than `limit_nm` before constraining, or whose
 * position, velocity or force is not finite; -EDOM and -EINVAL as md_settle. On an error positions,
 * velocities, virial and ekin_half of all atoms are as they were. `scratch` is [3 * count].
 */
int md_leapfrog(struct md_atoms *atoms, const struct md_rigid *rigid, double kick_ps, double dt_ps,
                const double *v_scale, double limit_nm, double *scratch, double *virial,
                double ekin_half[9]);

/*
 * The first half of a velocity Verlet step's kick: v = v + f dt / 2m, without what the constraints
 * forbid at x (RATTLE: Andersen, J. Comput. Phys. 52 (1983) 24). Velocities are then those of the
 * full step. Errors of md_constrain_velocities; v is then partly changed.
 */
int md_verlet_arrive(struct md_atoms *atoms, const struct md_rigid *rigid, double dt_ps);

/*
 * Adds the virial of the constraints, -1/2 sum x (x) f, in the half step that leaves the full step
 * that v is of: what GROMACS reports. Those of the half step before are as far from the full step's
 * on its other side. Only the virial changes. Errors of md_constrain_step. `scratch` is
 * [3 * count].
 */
int md_verlet_virial(const struct md_atoms *atoms, const struct md_rigid *rigid, double dt_ps,
                     double *scratch, double virial[9]);

/* Sum of 1/2 m v v^T, and of m v and m, over home atoms, in index order. */
void md_kinetic(const struct md_atoms *atoms, double ekin[9]);
/* Adds 1/2 m v^2 of each temperature group to its own sum. */
void md_kinetic_groups(const struct md_atoms *atoms, double *ekin);
void md_momentum(const struct md_atoms *atoms, double momentum[3], double *mass);

/* Takes `velocity` (momentum / mass over all ranks) off every atom. */
void md_remove_velocity(struct md_atoms *atoms, const double velocity[3]);

/*
 * Maxwell velocities at temperature_k >= 0: each component normal with variance kT / m, from
 * counter-based random numbers keyed by (seed, atom id, axis): the same whatever the number of
 * ranks and the order of atoms. Atoms of no mass get zero. The caller then takes out what
 * constraints forbid (md_settle_velocities) and the motion of the centre of mass, and scales to the
 * temperature with the degrees of freedom that are left: none of that is done here, since sums over
 * ranks and the count of degrees are the caller's.
 */
void md_generate_velocities(struct md_atoms *atoms, double temperature_k, int64_t seed);

/*
 * v-rescale (Bussi, Donadio, Parrinello, J. Chem. Phys. 126 (2007) 014101): the factor on the
 * velocities whose kinetic energy is `ekin` (in leap-frog that of the half step they are at), with
 * `degrees` degrees of freedom (at least 1; need not be whole) and target temperature_k >= 0; dt_ps
 * is the time since the thermostat last acted. Random numbers are keyed by (seed, step, group), so
 * every rank that passes the same ekin finds the same factor.
 *
 * `heat` gets the energy taken out of the system, ekin (1 - factor^2): positive when the thermostat
 * cools. Added up over the run and added to the total energy it gives the conserved energy.
 *
 * The factor is the positive root; the exact process would change the sign of all velocities with a
 * probability that falls as exp(-degrees) and only harms a trajectory. 1 and no heat for tau_ps <
 * 0, and where ekin or degrees is not positive and finite. tau_ps = 0 draws a new kinetic energy.
 */
double md_v_rescale(double ekin, double degrees, double temperature_k, double tau_ps, double dt_ps,
                    int64_t seed, int64_t step, uint32_t group, double *heat);

/* Least-squares slope, fed one point at a time, begun by {0}; sums are of distances to the first
 * point, so an offset of y or t costs no digits. */
struct md_slope {
    int64_t count;
    double t0, y0, st, sy, stt, sty;
};
void md_slope_add(struct md_slope *slope, double t, double y);
double md_slope_value(const struct md_slope *slope); /* NAN below two different t */

#endif
