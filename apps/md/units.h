/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of an input and of what a run tells about it. The driver computes in nm, ps, u, e and
 * kJ/mol throughout; files of LAMMPS are in other units, and get their results in those.
 */
#ifndef MD_UNITS_H
#define MD_UNITS_H

/* LJ: sigma, epsilon and mass of one kind of atom are 1, and so are Boltzmann's and Coulomb's
 * constants; stands inside as nm, kJ/mol and u. REAL: Angstrom, fs, kcal/mol, g/mol, atm. */
enum md_unit_style { MD_UNITS_GROMACS, MD_UNITS_LJ, MD_UNITS_REAL, MD_UNIT_STYLES };

struct md_units {
    const char *name; /* as --units and the JSON report have it */
    const char *energy, *length, *time, *temperature, *pressure, *force;
    /* What a value inside is multiplied with to be in these units. */
    double energy_out, length_out, time_out, pressure_out; /* the last from bar */
    double coulomb, boltzmann;                             /* inside: kJ/mol nm/e^2, kJ/mol/unit */
    double dt, skin;                                       /* defaults, in these units */
};

const struct md_units *md_units(enum md_unit_style style);

#endif
