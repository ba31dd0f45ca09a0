// SPDX-License-Identifier: Apache-2.0
// Velocity Verlet (Swope, Andersen, Berens, Wilson, J. Chem. Phys. 76 (1982) 637) with RATTLE, in
// the two halves around a full step; the second is a leap-frog step with half the kick.
//
// Positions are those of leap-frog. Advantage: velocities at the times of the positions, so kinetic
// energy, temperature and the file of the last step need no mean of two half steps.
// Disadvantage: velocities are constrained twice a step.

#include "md/dynamics.h"

#include <stdint.h>
#include <string.h>

static void kick(const struct md_atoms *atoms, double dt_ps, double *v)
{
    for (int i = 0; i < atoms->count; i++) {
        double half = 0.5 * dt_ps / atoms->mass_u[i];
        for (int64_t k = 3 * (int64_t)i; k < 3 * (int64_t)i + 3; k++)
            v[k] += half * atoms->f[k];
    }
}

int md_verlet_arrive(struct md_atoms *atoms, const struct md_rigid *rigid, double dt_ps)
{
    kick(atoms, dt_ps, atoms->v_nm_ps);
    return md_rigid_velocities(rigid, atoms->id, atoms->x_nm, atoms->v_nm_ps);
}

int md_verlet_virial(const struct md_atoms *atoms, const struct md_rigid *rigid, double dt_ps,
                     double *scratch, double virial[9])
{
    if (!md_rigid_any(rigid))
        return 0;
    memcpy(scratch, atoms->v_nm_ps, 3 * (size_t)atoms->count * sizeof *scratch);
    kick(atoms, dt_ps, scratch);
    double whole[9] = {0.0};
    int error = md_rigid_step(rigid, atoms->id, atoms->x_nm, scratch, dt_ps, whole);
    // The same change of momentum, in half the time.
    for (int k = 0; !error && k < 9; k++)
        virial[k] += 2.0 * whole[k];
    return error;
}
