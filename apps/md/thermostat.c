// SPDX-License-Identifier: Apache-2.0
// Stochastic velocity rescaling (Bussi, Donadio, Parrinello, J. Chem. Phys. 126 (2007) 014101).
//
// Advantage: the kinetic energy follows its own stochastic equation, solved exactly over any
// interval, so the ensemble is canonical whatever dt / tau; one factor for all atoms keeps momentum
// at zero and costs one sum over ranks. Several groups each have their own. Disadvantage: energy is
// not moved between degrees of freedom, so parts of the system that do not exchange energy stay at
// different temperatures.

#include "md/dynamics.h"
#include "md/random.h"
#include "md/settings.h"

#include <math.h>

double md_v_rescale(double ekin, double degrees, double temperature_k, double tau_ps, double dt_ps,
                    int64_t seed, int64_t step, uint32_t group, double *heat)
{
    *heat = 0.0;
    if (!(ekin > 0.0) || !isfinite(ekin) || !(degrees > 0.0) || !isfinite(degrees) ||
        !(tau_ps >= 0.0))
        return 1.0;
    double keep = tau_ps > 0.0 ? exp(-dt_ps / tau_ps) : 0.0;
    double renew = tau_ps > 0.0 ? -expm1(-dt_ps / tau_ps) : 1.0;
    struct md_random random;
    md_random_start(&random, seed, MD_RANDOM_V_RESCALE, step, group);
    double first = md_random_gaussian(&random);
    // The squares of the other degrees - 1 noises, drawn as their sum.
    double others = 2.0 * md_random_gamma(&random, 0.5 * (degrees - 1.0));
    double unit = renew * 0.5 * MD_BOLTZMANN * temperature_k;
    // As a square plus a square, which rounding cannot make negative.
    double along = sqrt(keep * ekin) + first * sqrt(unit);
    double target = along * along + unit * others;
    *heat = ekin - target;
    return sqrt(target / ekin);
}
