// SPDX-License-Identifier: Apache-2.0
// --oracle: energies and forces of the coordinates as they stand, by the plainest program there is.
//
// All pairs by the nearest image in double, one thread, no list, no halo. Advantage: so little code
// that it can be believed, and it shares none with what it is to judge but the parsers.
// Disadvantage: quadratic; tens of thousands of atoms are its limit.

#include "core/error.h"
#include "core/log.h"
#include "core/signal.h"
#include "md/md.h"
#include "md/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct oracle {
    int *type, *exclusion_start, *exclusion;
    double *charge, *mass, *f;
    int atom_count;
};

static size_t count_exclusions(const struct md_topology *topology)
{
    size_t count = 0;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_type *type = &topology->molecule_types[topology->blocks[b].type];
        count +=
            (size_t)topology->blocks[b].count * (size_t)type->exclusion_start[type->atom_count];
    }
    return count;
}

static void unfold_molecule(struct oracle *oracle, const struct md_molecule_type *type, int first)
{
    for (int i = 0; i < type->atom_count; i++) {
        int end = oracle->exclusion_start[first + i];
        oracle->type[first + i] = type->atoms[i].type;
        oracle->charge[first + i] = type->atoms[i].charge_e;
        oracle->mass[first + i] = type->atoms[i].mass_u;
        for (int e = type->exclusion_start[i]; e < type->exclusion_start[i + 1]; e++)
            oracle->exclusion[end++] = first + type->exclusion[e];
        oracle->exclusion_start[first + i + 1] = end;
    }
}

static int unfold(const struct md_system *system, struct oracle *oracle)
{
    const struct md_topology *topology = system->topology;
    size_t atoms = (size_t)system->atom_count, exclusions = count_exclusions(topology);
    oracle->atom_count = (int)atoms;
    oracle->type = calloc(atoms, sizeof *oracle->type);
    oracle->charge = calloc(atoms, sizeof *oracle->charge);
    oracle->mass = calloc(atoms, sizeof *oracle->mass);
    oracle->f = calloc(3 * atoms, sizeof *oracle->f);
    oracle->exclusion_start = calloc(atoms + 1, sizeof *oracle->exclusion_start);
    oracle->exclusion = calloc(exclusions + 1, sizeof *oracle->exclusion);
    if (exclusions > INT32_MAX || !oracle->type || !oracle->charge || !oracle->mass || !oracle->f ||
        !oracle->exclusion_start || !oracle->exclusion)
        return leat_fail(-ENOMEM, "no memory for all pairs of %zu atoms", atoms);
    int first = 0;
    for (int b = 0; b < topology->block_count; b++)
        for (int64_t m = 0; m < topology->blocks[b].count; m++) {
            const struct md_molecule_type *type =
                &topology->molecule_types[topology->blocks[b].type];
            unfold_molecule(oracle, type, first);
            first += type->atom_count;
        }
    return 0;
}

static void free_oracle(struct oracle *oracle)
{
    void *arrays[] = {oracle->type,      oracle->exclusion_start,
                      oracle->exclusion, oracle->charge,
                      oracle->mass,      oracle->f};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

static void evaluate_bonded(const struct md_system *system, struct oracle *oracle, double *virial,
                            struct md_energy *energy)
{
    const struct md_topology *topology = system->topology;
    struct md_bonded_energy bonded = {0};
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        // There are no more molecules than atoms.
        md_bonded_forces(&topology->molecule_types[block->type], (int)block->count,
                         system->interaction.coulomb, system->input->x_nm + 3 * block->first_atom,
                         oracle->f + 3 * block->first_atom, &bonded, virial);
    }
    md_energy_add_bonded(energy, &bonded);
}

static void evaluate(const struct md_system *system, struct oracle *oracle,
                     struct md_energy *energy)
{
    struct md_pair_output output = {0};
    const double *x = system->input->x_nm, *v = system->input->v_nm_ps;
    double edges[3] = {system->box_nm[0][0], system->box_nm[1][1], system->box_nm[2][2]};
    md_oracle(&system->interaction, oracle->atom_count, x, oracle->type, oracle->charge,
              oracle->exclusion_start, oracle->exclusion, system->box_nm, oracle->f, &output);
    energy->coulomb = md_exclusion_forces(&system->interaction, oracle->atom_count, x,
                                          oracle->charge, oracle->exclusion_start,
                                          oracle->exclusion, system->images ? NULL : edges,
                                          oracle->f, output.virial, &energy->coulomb_gross);
    energy->coulomb_gross += fabs(output.energy.coulomb);
    energy->lj = output.energy.lj;
    energy->coulomb += output.energy.coulomb;
    energy->potential = energy->lj + energy->coulomb;
    evaluate_bonded(system, oracle, output.virial, energy);
    for (int64_t i = 0; i < oracle->atom_count; i++) {
        double square = 0.0;
        for (int d = 0; d < 3; d++) {
            energy->net_force[d] += oracle->f[3 * i + d];
            square += v[3 * i + d] * v[3 * i + d];
        }
        energy->kinetic += 0.5 * oracle->mass[i] * square;
    }
    memcpy(energy->virial, output.virial, sizeof energy->virial);
}

// Forces as files have them: by the input's numbers, in its units.
static int write_forces(const struct md_system *system, const char *path, const double *f)
{
    double *by_number = malloc(3 * (size_t)system->atom_count * sizeof *by_number);
    if (!by_number)
        return leat_fail(-ENOMEM, "no memory for %lld forces", (long long)system->atom_count);
    for (int64_t i = 0; i < system->atom_count; i++)
        memcpy(by_number + 3 * md_system_number(system, i), f + 3 * i, 3 * sizeof *f);
    int error = md_write_forces(path, system, by_number);
    free(by_number);
    return error;
}

static int report(const struct md_system *system, const struct md_options *options,
                  struct md_energy *energy, double spent_us)
{
    struct md_report report;
    md_report_begin(system, options, &report);
    report.mode = "oracle";
    report.precision = "double";
    energy->total = energy->conserved = energy->potential + energy->kinetic;
    if (system->degrees > 0.0)
        energy->temperature_k =
            2.0 * energy->kinetic / (system->degrees * md_units(system->units)->boltzmann);
    energy->has_pressure = !md_system_is_rigid(system);
    energy->pressure_bar = md_pressure_bar(energy->kinetic, energy->virial, system->volume_nm3);
    report.energy = *energy;
    md_energy_in_units(report.units, &report.energy);
    report.has_time = true;
    report.median_us = report.phase_us[PHASE_LOCAL] = spent_us;
    if (options->json)
        return md_report_json(&report, stdout);
    md_report_text(&report, stdout);
    return 0;
}

int md_run_oracle(const struct md_options *options)
{
    struct md_system system = {0};
    struct oracle oracle = {0};
    struct md_energy energy = {0};
    struct md_options as_it_stands = *options;
    as_it_stands.steps = 0;
    int error = md_check_outputs(options);
    if (!error)
        error = md_system_load(NULL, &as_it_stands, true, &system);
    if (!error)
        error = unfold(&system, &oracle);
    if (!error) {
        uint64_t begin_ns = leat_now_ns();
        evaluate(&system, &oracle, &energy);
        double spent_us = (double)(leat_now_ns() - begin_ns) * 1e-3;
        error = md_energy_check(&energy);
        if (!error && options->forces)
            error = write_forces(&system, options->forces, oracle.f);
        if (!error)
            error = report(&system, options, &energy, spent_us);
    }
    if (error)
        leat_log(LOG_WARN, LOG_ERROR, -1, "%s", leat_error_detail());
    free_oracle(&oracle);
    md_system_free(&system);
    return error ? 1 : 0;
}
