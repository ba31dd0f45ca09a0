// SPDX-License-Identifier: Apache-2.0
// Puts the three input files together: settings, topology, coordinates.
//
// Everything that follows from the files alone is derived here, so that whoever has read them can
// hand on plain numbers. Advantage: one reader, and one place where an input is refused.
// Disadvantage: the reader holds all coordinates at once.

#include "md/system.h"

#include "core/error.h"
#include "core/log.h"
#include "md/box.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// "first", "second", or both with the separator between them; NULL without memory.
static char *join(const char *first, const char *separator, const char *second)
{
    size_t bytes = strlen(first) + strlen(separator) + strlen(second) + 1;
    char *joined = malloc(bytes);
    if (joined)
        snprintf(joined, bytes, "%s%s%s", first, *first && *second ? separator : "", second);
    return joined;
}

static int read_topology(const struct md_options *options, struct md_system *system)
{
    const struct md_settings *settings = &system->settings;
    char *define = join(settings->define, " ", options->define ? options->define : "");
    char *dirs =
        join(options->include_dirs ? options->include_dirs : "", ":", settings->include_dirs);
    int error = define && dirs ? md_topology_read(options->top, define, dirs, &system->topology)
                               : leat_fail(-ENOMEM, "no memory for the preprocessor's definitions");
    if (!error)
        error = md_topology_constrain(system->topology, settings->constraints);
    free(define);
    free(dirs);
    return error;
}

static void print_notes(const struct md_options *options, const struct md_settings *settings)
{
    if (!options->trajectory &&
        (settings->nstxout > 0 || settings->nstvout > 0 || settings->nstfout > 0))
        leat_log(LOG_WARN, LOG_WARN, -1,
                 "%s asks for a trajectory, which is written with --trajectory only",
                 settings->file);
    const char *line = settings->notes;
    while (*line) {
        size_t length = strcspn(line, "\n");
        if (length)
            leat_log(LOG_WARN, LOG_WARN, -1, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static const char *input_name(const struct md_options *options)
{
    return options->data ? options->data : options->gro;
}

// Shorter edges are slips of the pen, and longer ones beyond what single precision tells apart.
static const double EDGE_LEAST_NM = 1e-3, EDGE_MOST_NM = 1e5;

static int check_edges(const struct md_options *options, const struct md_system *system)
{
    const double(*box)[3] = (const double(*)[3])system->input->box_nm;
    const long long line = (long long)system->input->box_line;
    for (int d = 0; d < 3; d++)
        if (!(box[d][d] >= EDGE_LEAST_NM && box[d][d] <= EDGE_MOST_NM))
            return leat_fail(-EINVAL,
                             "%s:%lld: edge %c of the box is %g nm; a periodic box needs three "
                             "edges from %g to %g nm in the last line%s",
                             input_name(options), line, "xyz"[d], box[d][d], EDGE_LEAST_NM,
                             EDGE_MOST_NM,
                             box[d][d] > EDGE_MOST_NM ? ", with --tile all together" : "");
    for (int i = 1; i < 3; i++)
        for (int j = 0; j < i; j++)
            if (!(fabs(box[i][j]) <= EDGE_MOST_NM))
                return leat_fail(-EINVAL,
                                 "%s:%lld: component %c of box vector %c is %g nm; it has to be "
                                 "within %g nm of zero, so correct the last line",
                                 input_name(options), line, "xyz"[j], "abc"[i], box[i][j],
                                 EDGE_MOST_NM);
    return 0;
}

static int check_box(const struct md_options *options, struct md_system *system)
{
    double(*box)[3] = system->input->box_nm;
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (box[i][j] != 0.0)
                return leat_fail(
                    -ENOTSUP,
                    "%s:%lld: component %c of box vector %c is %g nm; the first vector has "
                    "to lie along x and the second in the x-y plane, as `gmx editconf` "
                    "turns them",
                    input_name(options), (long long)system->input->box_line, "xyz"[j], "abc"[i],
                    box[i][j]);
    int error = check_edges(options, system);
    if (error)
        return error;
    md_box_reduce(box);
    memcpy(system->box_nm, box, sizeof system->box_nm);
    system->volume_nm3 = box[0][0] * box[1][1] * box[2][2];
    system->images = options->images || !md_box_upright(box);
    return 0;
}

static void compare_names(const struct md_options *options, const struct md_system *system)
{
    const struct md_topology *topology = system->topology;
    const struct gro_label *label = system->input->labels;
    int64_t different = 0, first = -1;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        for (int64_t m = 0; m < block->count; m++)
            for (int i = 0; i < type->atom_count; i++, label++) {
                // The file has room for five letters.
                if (strncmp(label->atom_name, type->atoms[i].name, 5) == 0)
                    continue;
                if (different++ == 0)
                    first = label - system->input->labels;
            }
    }
    if (different)
        leat_log(LOG_WARN, LOG_WARN, -1,
                 "%s and %s name %lld atoms differently, the first is atom %lld; make sure that "
                 "the molecules come in the same order",
                 options->gro, options->top, (long long)different, (long long)first + 1);
}

static int read_gromacs(leat_job *job, const struct md_options *options, bool notes,
                        struct md_system *system)
{
    int error = md_settings_read(options->mdp, &system->settings);
    if (!error)
        error = read_topology(options, system);
    if (!error)
        error = md_coordinates_read(job, options->gro, &system->input);
    if (error)
        return error;
    if (system->input->atom_count != system->topology->atom_count)
        return leat_fail(-EINVAL, "%s has %lld atoms, but the molecules of %s have %lld",
                         options->gro, (long long)system->input->atom_count, options->top,
                         (long long)system->topology->atom_count);
    if (system->topology->atom_count < 1 || system->topology->atom_count > INT_MAX / 3)
        return leat_fail(-EINVAL, "%s has %lld atoms; from 1 to %d are supported", options->top,
                         (long long)system->topology->atom_count, INT_MAX / 3);
    if (notes) {
        print_notes(options, &system->settings);
        compare_names(options, system);
    }
    return 0;
}

static int read_files(leat_job *job, const struct md_options *options, bool notes,
                      struct md_system *system)
{
    int error = options->data ? md_lammps_load(options->data, options->lammps, system)
                              : read_gromacs(job, options, notes, system);
    if (!error)
        error = check_box(options, system);
    bool tiled = options->tile[0] > 1 || options->tile[1] > 1 || options->tile[2] > 1;
    if (!error && tiled && !options->data) // whose molecules are whole
        error = md_check_whole(options->gro, system->input, system->topology);
    if (!error)
        error = md_tile(system->input, options->tile);
    if (!error)
        error = md_topology_tile(system->topology,
                                 (int64_t)options->tile[0] * options->tile[1] * options->tile[2]);
    if (error)
        return error;
    system->atom_count = system->topology->atom_count;
    if (system->atom_count > INT_MAX / 3)
        return leat_fail(-EINVAL, "--tile makes %lld atoms; up to %d are supported",
                         (long long)system->atom_count, INT_MAX / 3);
    return check_box(options, system);
}

static int make_sites(struct md_system *system)
{
    const struct md_topology *topology = system->topology;
    int64_t total = 0;
    for (int t = 0; t < topology->molecule_type_count; t++)
        total += topology->molecule_types[t].atom_count;
    if (total > INT_MAX)
        return leat_fail(-EOVERFLOW, "the molecule types have %lld atoms together",
                         (long long)total);
    system->first_site = calloc((size_t)topology->molecule_type_count + 1, sizeof(int));
    system->sites = calloc((size_t)total + 1, sizeof *system->sites);
    if (!system->first_site || !system->sites)
        return leat_fail(-ENOMEM, "no memory for %lld kinds of atoms", (long long)total);
    for (int t = 0; t < topology->molecule_type_count; t++) {
        const struct md_molecule_type *type = &topology->molecule_types[t];
        system->first_site[t] = system->site_count;
        for (int i = 0; i < type->atom_count; i++)
            system->sites[system->site_count++] = (struct md_site){
                t, i, type->atoms[i].type, type->atoms[i].charge_e, type->atoms[i].mass_u, 0};
    }
    return 0;
}

static int add_water(struct md_system *system, const struct md_molecule_type *type,
                     const struct md_settle *settle)
{
    const struct md_atom *oxygen = &type->atoms[settle->oxygen];
    struct md_waters water = {
        0, NULL, oxygen[0].mass_u, oxygen[1].mass_u, settle->d_oh_nm, settle->d_hh_nm};
    struct md_waters *known = &system->water;
    if (oxygen[1].mass_u != oxygen[2].mass_u)
        return leat_fail(-ENOTSUP,
                         "molecule type %s: the hydrogens of a rigid water have masses "
                         "%g and %g; they have to be equal",
                         type->name, oxygen[1].mass_u, oxygen[2].mass_u);
    if (system->water_count == 0)
        *known = water;
    if (known->mass_o_u != water.mass_o_u || known->mass_h_u != water.mass_h_u ||
        known->d_oh_nm != water.d_oh_nm || known->d_hh_nm != water.d_hh_nm)
        return leat_fail(-ENOTSUP,
                         "molecule type %s: a second kind of rigid water (masses %g and "
                         "%g u, distances %g and %g nm); one kind a run is supported",
                         type->name, water.mass_o_u, water.mass_h_u, water.d_oh_nm, water.d_hh_nm);
    return 0;
}

static int count_waters(struct md_system *system)
{
    const struct md_topology *topology = system->topology;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        for (int s = 0; block->count && s < type->settle_count; s++) {
            int error = add_water(system, type, &type->settles[s]);
            if (error)
                return error;
            system->water_count += block->count;
        }
        system->constraint_count += block->count * type->constraint_count;
    }
    return 0;
}

static void make_interaction(struct md_system *system)
{
    const struct md_settings *settings = &system->settings;
    double r = settings->rcoulomb_nm, inside = settings->epsilon_r, outside = settings->epsilon_rf;
    struct md_interaction *interaction = &system->interaction;
    interaction->cutoff_nm = r;
    interaction->coulomb = md_units(system->units)->coulomb / inside;
    // Barker-Watts: a dielectric of `outside` beyond the cut-off, 0 standing for a conductor.
    interaction->krf = outside == 0.0 ? 0.5 / (r * r * r)
                                      : (outside - inside) / ((2.0 * outside + inside) * r * r * r);
    interaction->crf = 1.0 / r + interaction->krf * r * r;
    // LAMMPS cuts 1/r as it is.
    if (system->units != MD_UNITS_GROMACS)
        interaction->krf = interaction->crf = 0.0;
    interaction->type_count = system->topology->type_count;
    interaction->c6 = system->topology->c6;
    interaction->c12 = system->topology->c12;
    interaction->shift = settings->vdw_modifier == MD_VDW_POTENTIAL_SHIFT;
}

// The thermostat acts every ten steps, or more often where its time constant is short.
static int couple_steps(const struct md_settings *settings)
{
    enum { WANTED = 10, STEPS_A_TIME_CONSTANT = 5 };
    if (settings->nsttcouple > 0)
        return settings->nsttcouple;
    double shortest_ps = 0.0;
    for (int g = 0; g < settings->group_count; g++) {
        double tau_t_ps = settings->tau_t_ps[g];
        if (tau_t_ps > 0.0 && !(shortest_ps > 0.0 && shortest_ps < tau_t_ps))
            shortest_ps = tau_t_ps;
    }
    double steps = shortest_ps / (settings->dt_ps * STEPS_A_TIME_CONSTANT);
    if (!(shortest_ps > 0.0) || steps >= WANTED)
        return WANTED;
    int count = steps < 1.0 ? 1 : (int)steps;
    while (WANTED % count)
        count--;
    return count;
}

int md_system_load(leat_job *job, const struct md_options *options, bool notes,
                   struct md_system *system)
{
    int error = read_files(job, options, notes, system);
    if (error)
        return error;
    struct md_settings *settings = &system->settings;
    if (options->steps >= 0)
        settings->steps = options->steps;
    if (settings->steps < 0)
        return leat_fail(-ENOTSUP, "%s: nsteps = %lld: a run without an end; use --steps",
                         settings->file, (long long)settings->steps);
    if (settings->nstlist < 1 && settings->steps > 0 && settings->integrator != MD_STEEPEST_DESCENT)
        return leat_fail(-ENOTSUP,
                         "%s: nstlist = %d: a list that is never rebuilt is only for --steps 0; "
                         "set nstlist to 10 or so",
                         settings->file, settings->nstlist);
    if (settings->nstcalcenergy < 1)
        settings->nstcalcenergy = 100;
    error = make_sites(system);
    if (!error)
        error = count_waters(system);
    if (!error)
        error = md_system_group(system);
    if (error)
        return error;
    make_interaction(system);
    system->couple_steps = couple_steps(settings);
    error =
        md_make_whole(options->data ? options->data : options->gro, system->input, system->topology,
                      system->box_nm, options->data != NULL, &system->radius_nm);
    return error ? error : md_system_list_radius(system, notes);
}

int64_t md_system_number(const struct md_system *system, int64_t place)
{
    int64_t count = system->number_count;
    return count ? place / count * count + system->number[place % count] : place;
}

bool md_system_is_rigid(const struct md_system *system)
{
    return system->water_count > 0 || system->constraint_count > 0;
}

int md_system_groups(const struct md_system *system)
{
    return system->settings.group_count > 1 ? system->settings.group_count : 1;
}

bool md_system_minimises(const struct md_system *system)
{
    return system->settings.integrator == MD_STEEPEST_DESCENT && system->settings.steps > 0;
}

int md_system_prepare(struct md_system *system)
{
    bool minimises = md_system_minimises(system);
    // As md_rigid_make has it for the others.
    if (minimises)
        system->water.mass_o_u = system->water.mass_h_u = 1.0;
    return md_rigid_make(system->topology, minimises, &system->constrainers);
}

void md_system_free(struct md_system *system)
{
    md_rigid_free(system->constrainers,
                  system->topology ? system->topology->molecule_type_count : 0);
    md_topology_free(system->topology);
    gro_free(system->input);
    free(system->number);
    free(system->sites);
    free(system->first_site);
    *system = (struct md_system){0};
}
