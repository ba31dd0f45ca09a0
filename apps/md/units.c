// SPDX-License-Identifier: Apache-2.0
// Units: factors and constants.
//
// Constants of the real units are those that LAMMPS documents and computes with, which differ from
// today's in the sixth to ninth digit. Advantage: results agree with its own to rounding.
// Disadvantage: the same system read from a GROMACS input differs in these digits.

#include "md/units.h"

#include "md/settings.h"

/* kJ/mol/nm^3 in bar, as energy.c has it. */
#define BAR  16.605390671738466
#define KCAL 4.184

static const struct md_units units[MD_UNIT_STYLES] = {
    [MD_UNITS_GROMACS] = {.name = "kJ/mol, nm, ps, u, e",
                          .energy = "kJ/mol",
                          .length = "nm",
                          .time = "ps",
                          .temperature = "K",
                          .pressure = "bar",
                          .force = "kJ/mol/nm",
                          .energy_out = 1.0,
                          .length_out = 1.0,
                          .time_out = 1.0,
                          .pressure_out = 1.0,
                          .coulomb = MD_COULOMB,
                          .boltzmann = MD_BOLTZMANN},
    [MD_UNITS_LJ] = {.name = "lj",
                     .energy = "epsilon",
                     .length = "sigma",
                     .time = "tau",
                     .temperature = "epsilon/k",
                     .pressure = "epsilon/sigma^3",
                     .force = "epsilon/sigma",
                     .energy_out = 1.0,
                     .length_out = 1.0,
                     .time_out = 1.0,
                     .pressure_out = 1.0 / BAR,
                     .coulomb = 1.0,
                     .boltzmann = 1.0,
                     .dt = 0.005,
                     .skin = 0.3},
    // 332.06371 kcal/mol Angstrom/e^2, 0.0019872067 kcal/mol/K, 68568.415 atm for a
    // kcal/mol/Angstrom^3.
    [MD_UNITS_REAL] = {.name = "real",
                       .energy = "kcal/mol",
                       .length = "A",
                       .time = "fs",
                       .temperature = "K",
                       .pressure = "atm",
                       .force = "kcal/mol/A",
                       .energy_out = 1.0 / KCAL,
                       .length_out = 10.0,
                       .time_out = 1000.0,
                       .pressure_out = 68568.415 / (1000.0 * KCAL * BAR),
                       .coulomb = 332.06371 * KCAL * 0.1,
                       .boltzmann = 0.0019872067 * KCAL,
                       .dt = 1.0,
                       .skin = 2.0},
};

const struct md_units *md_units(enum md_unit_style style)
{
    return &units[style];
}
