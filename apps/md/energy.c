// SPDX-License-Identifier: Apache-2.0
// Sums over ranks: energies, virial, pressure, the conserved energy; and the watches kept over
// them.
//
// Every rank gets the same sums, to the bit, so all decide alike without being told.
// Advantage: one reduction a step that wants energies, none in other steps. Disadvantage: the last
// digits of energies depend on the number of ranks.

#include "core/error.h"
#include "md/md.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* kJ/mol/nm^3 in bar: 1e25 / Avogadro's constant. */
#define BAR 16.605390671738466

enum sum {
    SUM_LJ,
    SUM_COULOMB,
    SUM_PAIRS,
    SUM_CORRECTIONS,
    SUM_TERM,
    SUM_COULOMB14 = SUM_TERM + MD_TERM_KINDS,
    SUM_VIRIAL,
    SUM_EKIN = SUM_VIRIAL + 9,
    SUM_EKIN_AFTER,
    SUM_FORCE,
    SUM_FORCE_LENGTH = SUM_FORCE + 3,
    SUM_COUNT
};

_Static_assert(SUM_COUNT <= MD_SUM_WORDS, "the energies are one reduction");

double md_trace(const double tensor[9])
{
    return tensor[0] + tensor[4] + tensor[8];
}

double md_pressure_bar(double kinetic, const double virial[9], double volume_nm3)
{
    return 2.0 / (3.0 * volume_nm3) * (kinetic - md_trace(virial)) * BAR;
}

// Newton's third law over all ranks: a ghost whose force was lost, or taken twice, shows here.
static int watch_forces(struct md_rank *rank)
{
    const struct md_energy *energy = &rank->energy;
    const double *net = energy->net_force;
    double length = sqrt(net[0] * net[0] + net[1] * net[1] + net[2] * net[2]);
    double part = rank->options->precision == MD_DOUBLE ? 1e-10 : 1e-4;
    // In a perfect crystal all forces are zero but for rounding; 1 kJ/mol/nm an atom is far below
    // what is ever felt at a temperature.
    double allowed = part * (energy->force_sum + (double)rank->system.atom_count);
    if (length <= allowed)
        return 0;
    rank->alike = true;
    return leat_fail(-EBADMSG,
                     "the forces on all atoms add up to (%.6g, %.6g, %.6g) kJ/mol/nm, more than "
                     "%g of the sum of their lengths, %.6g: forces of ghosts were lost or counted "
                     "twice, or a number overflowed; look for atoms on top of each other",
                     net[0], net[1], net[2], part, energy->force_sum);
}

void md_energy_add_bonded(struct md_energy *energy, const struct md_bonded_energy *bonded)
{
    const double *term = bonded->term;
    energy->bond = term[MD_TERM_BOND];
    energy->angle = term[MD_TERM_ANGLE];
    energy->dihedral = term[MD_TERM_DIHEDRAL];
    energy->ryckaert_bellemans = term[MD_TERM_RYCKAERT_BELLEMANS];
    energy->improper = term[MD_TERM_IMPROPER] + term[MD_TERM_PERIODIC_IMPROPER];
    energy->lj14 = term[MD_TERM_PAIR];
    energy->coulomb14 = bonded->coulomb14;
    energy->potential += energy->bond + energy->angle + energy->dihedral +
                         energy->ryckaert_bellemans + energy->improper + energy->lj14 +
                         energy->coulomb14;
}

void md_energy_in_units(const struct md_units *units, struct md_energy *energy)
{
    double out = units->energy_out;
    double *const values[] = {
        &energy->lj,        &energy->coulomb,      &energy->bond,
        &energy->angle,     &energy->dihedral,     &energy->ryckaert_bellemans,
        &energy->improper,  &energy->lj14,         &energy->coulomb14,
        &energy->potential, &energy->kinetic,      &energy->total,
        &energy->conserved, &energy->coulomb_gross};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        *values[i] *= out;
    for (int i = 0; i < 9; i++)
        energy->virial[i] *= out;
    for (int d = 0; d < 3; d++)
        energy->net_force[d] *= out / units->length_out;
    energy->pressure_bar *= units->pressure_out;
}

int md_energy_check(const struct md_energy *energy)
{
    if (isfinite(energy->potential) && isfinite(energy->kinetic))
        return 0;
    return leat_fail(-EBADMSG,
                     "the energy is not finite (LJ %g, Coulomb %g, potential %g, kinetic %g "
                     "kJ/mol); look for atoms on top of each other, or take a shorter step",
                     energy->lj, energy->coulomb, energy->potential, energy->kinetic);
}

static int watch_energies(struct md_rank *rank)
{
    int error = md_energy_check(&rank->energy);
    if (error)
        rank->alike = true;
    return error;
}

static void set_energy(struct md_rank *rank, const double sum[SUM_COUNT], double heat)
{
    const struct md_system *system = &rank->system;
    struct md_energy *energy = &rank->energy;
    *energy = (struct md_energy){.lj = sum[SUM_LJ], .coulomb = sum[SUM_COULOMB]};
    energy->potential = energy->lj + energy->coulomb;
    struct md_bonded_energy bonded = {.coulomb14 = sum[SUM_COULOMB14]};
    memcpy(bonded.term, sum + SUM_TERM, sizeof bonded.term);
    md_energy_add_bonded(energy, &bonded);
    energy->coulomb_gross = fabs(sum[SUM_PAIRS]) + sum[SUM_CORRECTIONS];
    energy->kinetic = sum[SUM_EKIN];
    energy->total = energy->potential + energy->kinetic;
    energy->conserved = energy->total + heat;
    if (system->degrees > 0.0)
        energy->temperature_k =
            2.0 * energy->kinetic / (system->degrees * md_units(system->units)->boltzmann);
    memcpy(energy->virial, sum + SUM_VIRIAL, sizeof energy->virial);
    energy->pressure_bar = md_pressure_bar(energy->kinetic, energy->virial, system->volume_nm3);
    // Without a step nothing is known of the forces in rigid bonds.
    bool steps = system->settings.steps > 0 && !md_system_minimises(system);
    energy->has_pressure = steps || !md_system_is_rigid(system);
    memcpy(energy->net_force, sum + SUM_FORCE, sizeof energy->net_force);
    energy->force_sum = sum[SUM_FORCE_LENGTH];
}

int md_energy_add(struct md_rank *rank, const struct md_terms *terms, double heat)
{
    double sum[SUM_COUNT] = {0};
    sum[SUM_LJ] = terms->lj;
    sum[SUM_COULOMB] = terms->coulomb;
    sum[SUM_PAIRS] = terms->pairs;
    sum[SUM_CORRECTIONS] = terms->corrections;
    memcpy(sum + SUM_TERM, terms->bonded.term, sizeof terms->bonded.term);
    sum[SUM_COULOMB14] = terms->bonded.coulomb14;
    memcpy(sum + SUM_VIRIAL, terms->virial, sizeof terms->virial);
    // Leap-frog knows kinetic energies at half steps; at the full step stands their mean.
    sum[SUM_EKIN] = 0.5 * (md_trace(rank->ekin_before) + md_trace(rank->ekin_after));
    sum[SUM_EKIN_AFTER] = md_trace(rank->ekin_after);
    memcpy(sum + SUM_FORCE, terms->force, sizeof terms->force);
    sum[SUM_FORCE_LENGTH] = terms->force_length;
    int error = md_sum(rank, sum, SUM_COUNT);
    if (error)
        return error;
    set_energy(rank, sum, heat);
    rank->ekin_half = sum[SUM_EKIN_AFTER];
    return 0;
}

int md_energy_watch(struct md_rank *rank)
{
    int error = watch_energies(rank);
    return error ? error : watch_forces(rank);
}

int md_energy_sum(struct md_rank *rank, const struct md_terms *terms, double heat)
{
    int error = md_energy_add(rank, terms, heat);
    return error ? error : md_energy_watch(rank);
}

int md_kinetic_sum(struct md_rank *rank)
{
    rank->ekin_half = md_trace(rank->ekin_after);
    return md_sum(rank, &rank->ekin_half, 1);
}

int md_kinetic_group_sum(struct md_rank *rank)
{
    memset(rank->ekin_group, 0, sizeof rank->ekin_group);
    md_kinetic_groups(&rank->domain.atoms, rank->ekin_group);
    return md_sum(rank, rank->ekin_group, md_system_groups(&rank->system));
}

int md_check_count(struct md_rank *rank)
{
    double count = rank->domain.atoms.count;
    int error = md_sum(rank, &count, 1);
    if (error)
        return error;
    if (count == (double)rank->system.atom_count)
        return 0;
    rank->alike = true;
    return leat_fail(-EBADMSG,
                     "the ranks have %.0f atoms between them after a migration, not %lld; this is "
                     "a fault of the program",
                     count, (long long)rank->system.atom_count);
}
