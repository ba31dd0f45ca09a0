/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Motion of one rank's own atoms: SETTLE, leap-frog, v-rescale, generated velocities, and the sums
 * that the ranks have to add up. State is in double on either precision; only pairs and halos are
 * in float in mixed precision.
 */
#ifndef MD_DYNAMICS_H
#define MD_DYNAMICS_H

#include <stdbool.h>
#include <stdint.h>

/* Rigid waters among the home atoms, local indices of the oxygens (hydrogens follow). */
struct md_waters {
    int count;
    const int *oxygen;
    double mass_o_u, mass_h_u; /* one kind of water a run */
    double d_oh_nm, d_hh_nm;
};

struct md_atoms {
    int count;             /* home atoms */
    const int64_t *id;     /* global numbers, for random numbers and messages */
    double *x_nm, *v_nm_ps, *f; /* [3 * count] each; v half a step behind x */
    const double *mass_u;
};

/*
 * SETTLE (Miyamoto & Kollman, J. Comput. Chem. 13 (1992) 952): moves x_new onto the constraints
 * given the constrained x_old. Where v is not NULL it gets (displacement / dt) added. Where virial
 * is not NULL it gets the constraints' -1/2 sum x_old (x) f added. -EDOM names the atom (by id) when
 * a water cannot be constrained.
 */
int md_settle(const struct md_waters *waters, const int64_t *id, const double *x_old, double *x_new,
              double *v, double dt_ps, double *virial);

/* Takes the components along the rigid bonds out of v (three linear equations a water). */
void md_settle_velocities(const struct md_waters *waters, const double *x, double *v);

/*
 * One leap-frog step: v += f dt / m (after scaling v by `v_scale`), x += v dt, SETTLE. `ekin_half` gets
 * sum 1/2 m v v^T (3x3, row-major) of the new half-step velocities. -ERANGE names an atom that moves
 * more than `limit_nm` in the step or is not finite; x and v are then as they were for that atom.
 * `x_scratch` is [3 * count].
 */
int md_leapfrog(struct md_atoms *atoms, const struct md_waters *waters, double dt_ps, double v_scale,
                double limit_nm, double *x_scratch, double *virial, double ekin_half[9]);

/* Sum of 1/2 m v v^T, and of m v and m, over home atoms, in index order. */
void md_kinetic(const struct md_atoms *atoms, double ekin[9]);
void md_momentum(const struct md_atoms *atoms, double momentum[3], double *mass);
void md_remove_velocity(struct md_atoms *atoms, const double velocity[3]);

/* Maxwell velocities at temperature_k, from counter-based random numbers keyed by (seed, atom id):
 * the same whatever the number of ranks. */
void md_generate_velocities(struct md_atoms *atoms, double temperature_k, int64_t seed);

/*
 * v-rescale (Bussi, Donadio, Parrinello, J. Chem. Phys. 126 (2007) 014101): the factor on the
 * velocities for a kinetic energy `ekin` with `degrees` degrees of freedom and target
 * temperature_k; random numbers keyed by (seed, step), so every rank finds the same factor. `heat` gets
 * the energy taken out of the system (add to the conserved energy).
 */
double md_v_rescale(double ekin, double degrees, double temperature_k, double tau_ps, double dt_ps,
                    int64_t seed, int64_t step, double *heat);

/* Least-squares slope, fed one point at a time; exact to rounding for long runs (shifted sums). */
struct md_slope {
    int64_t count;
    double t0, y0, st, sy, stt, sty;
};
void md_slope_add(struct md_slope *slope, double t, double y);
double md_slope_value(const struct md_slope *slope); /* NAN below two points */

#endif
