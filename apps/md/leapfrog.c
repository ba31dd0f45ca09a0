// SPDX-License-Identifier: Apache-2.0
// Leap-frog with constraints.
//
// New velocities are made beside the old ones, constrained there, and only then taken over together
// with the positions they lead to. Advantage: a step that cannot be done leaves positions and
// velocities of every atom as they were, to be looked at or written out, and x_new - x_old is
// v dt to rounding, which keeps the step reversible. Disadvantage: velocities are written twice.

#include "md/dynamics.h"

#include "core/error.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stddef.h>

static int refuse(const struct md_atoms *atoms, int i, double move_nm, double limit_nm)
{
    const double *x = atoms->x_nm + 3 * (int64_t)i, *v = atoms->v_nm_ps + 3 * (int64_t)i;
    const double *f = atoms->f + 3 * (int64_t)i;
    return leat_fail(-ERANGE,
                     "atom %lld (mass %g u) would move %.6g nm in this step, limit "
                     "%g nm: at (%.6g %.6g %.6g) nm, velocity (%.6g %.6g %.6g) nm/ps, force (%.6g "
                     "%.6g %.6g) kJ/mol/nm; minimise the start's energy, shorten dt or look for "
                     "overlapping atoms in the input",
                     (long long)(atoms->number ? atoms->number[i] : atoms->id[i] + 1),
                     atoms->mass_u[i], move_nm, limit_nm, x[0], x[1], x[2], v[0], v[1], v[2], f[0],
                     f[1], f[2]);
}

// Unconstrained new velocities.
static int propose(const struct md_atoms *atoms, double kick_ps, double dt_ps,
                   const double *v_scale, double limit_nm, double *v_new)
{
    // Not more than the largest number, or an infinite move would pass an infinite limit.
    double limit2 = limit_nm * limit_nm > DBL_MAX ? DBL_MAX : limit_nm * limit_nm;
    for (int i = 0; i < atoms->count; i++) {
        const double *x = atoms->x_nm + 3 * (int64_t)i, *v = atoms->v_nm_ps + 3 * (int64_t)i;
        const double *f = atoms->f + 3 * (int64_t)i;
        double *to = v_new + 3 * (int64_t)i;
        double kick = kick_ps / atoms->mass_u[i];
        double factor = v_scale[atoms->group ? atoms->group[i] : 0];
        to[0] = factor * v[0] + kick * f[0];
        to[1] = factor * v[1] + kick * f[1];
        to[2] = factor * v[2] + kick * f[2];
        double move2 = (to[0] * to[0] + to[1] * to[1] + to[2] * to[2]) * (dt_ps * dt_ps);
        if (!(move2 <= limit2) || !isfinite(x[0] + x[1] + x[2]))
            return refuse(atoms, i, sqrt(move2), limit_nm);
    }
    return 0;
}

// xx, xy, xz, yy, yz, zz
static inline void add_kinetic(double mass, const double *v, double sum[6])
{
    double half = 0.5 * mass, x = half * v[0], y = half * v[1], z = half * v[2];
    sum[0] += x * v[0];
    sum[1] += x * v[1];
    sum[2] += x * v[2];
    sum[3] += y * v[1];
    sum[4] += y * v[2];
    sum[5] += z * v[2];
}

static void spread(const double sum[6], double ekin[9])
{
    static const int from[9] = {0, 1, 2, 1, 3, 4, 2, 4, 5};
    for (int k = 0; k < 9; k++)
        ekin[k] = sum[from[k]];
}

void md_kinetic(const struct md_atoms *atoms, double ekin[9])
{
    double sum[6] = {0.0};
    for (int i = 0; i < atoms->count; i++)
        add_kinetic(atoms->mass_u[i], atoms->v_nm_ps + 3 * (int64_t)i, sum);
    spread(sum, ekin);
}

void md_kinetic_groups(const struct md_atoms *atoms, double *ekin)
{
    for (int i = 0; i < atoms->count; i++) {
        const double *v = atoms->v_nm_ps + 3 * (int64_t)i;
        ekin[atoms->group ? atoms->group[i] : 0] +=
            0.5 * atoms->mass_u[i] * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    }
}

static void take_over(struct md_atoms *atoms, double dt_ps, const double *restrict v_new,
                      double ekin[9])
{
    double *restrict x = atoms->x_nm, *restrict v = atoms->v_nm_ps;
    double sum[6] = {0.0};
    for (int i = 0; i < atoms->count; i++) {
        int64_t at = 3 * (int64_t)i;
        for (int64_t k = at; k < at + 3; k++) {
            v[k] = v_new[k];
            x[k] += v_new[k] * dt_ps;
        }
        add_kinetic(atoms->mass_u[i], v_new + at, sum);
    }
    spread(sum, ekin);
}

int md_leapfrog(struct md_atoms *atoms, const struct md_rigid *rigid, double kick_ps, double dt_ps,
                const double *v_scale, double limit_nm, double *scratch, double *virial,
                double ekin_half[9])
{
    int error = propose(atoms, kick_ps, dt_ps, v_scale, limit_nm, scratch);
    if (!error && rigid)
        error = md_rigid_step(rigid, atoms->id, atoms->x_nm, scratch, dt_ps, virial);
    if (error)
        return error;
    take_over(atoms, dt_ps, scratch, ekin_half);
    return 0;
}
