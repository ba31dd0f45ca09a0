// SPDX-License-Identifier: Apache-2.0
// Maxwell velocities, and the sums over a rank's own atoms that the ranks add up.
//
// A component of a velocity is a normal number of its own counter (seed, atom, axis).
// Advantage: independent of ranks, of order and of which atoms are present. Disadvantage: half of
// each Box-Muller pair is thrown away; it is done once a run.
// Sums run in index order, one chain a component: the same bits each time, and at four cycles an
// atom still cheaper than reading the atoms from memory.

#include "md/dynamics.h"
#include "md/random.h"
#include "md/settings.h"

#include <math.h>

void md_momentum(const struct md_atoms *atoms, double momentum[3], double *mass)
{
    double x = 0.0, y = 0.0, z = 0.0, m = 0.0;
    for (int i = 0; i < atoms->count; i++) {
        const double *v = atoms->v_nm_ps + 3 * (int64_t)i;
        x += atoms->mass_u[i] * v[0];
        y += atoms->mass_u[i] * v[1];
        z += atoms->mass_u[i] * v[2];
        m += atoms->mass_u[i];
    }
    momentum[0] = x;
    momentum[1] = y;
    momentum[2] = z;
    *mass = m;
}

void md_remove_velocity(struct md_atoms *atoms, const double velocity[3])
{
    for (int i = 0; i < atoms->count; i++)
        for (int axis = 0; axis < 3; axis++)
            atoms->v_nm_ps[3 * (int64_t)i + axis] -= velocity[axis];
}

void md_generate_velocities(struct md_atoms *atoms, double temperature_k, int64_t seed)
{
    for (int i = 0; i < atoms->count; i++) {
        double mass = atoms->mass_u[i];
        double width = mass > 0.0 ? sqrt(MD_BOLTZMANN * temperature_k / mass) : 0.0;
        for (uint32_t axis = 0; axis < 3; axis++) {
            struct md_random random;
            md_random_start(&random, seed, MD_RANDOM_VELOCITY, atoms->id[i], axis);
            atoms->v_nm_ps[3 * (int64_t)i + axis] = width * md_random_gaussian(&random);
        }
    }
}
