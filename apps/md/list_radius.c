// SPDX-License-Identifier: Apache-2.0
// How far the pair list and the halo reach.
//
// Algorithm: the buffer beyond the cut-off comes from the tolerance on the energy drift
// (md_list_cutoff), for the temperature that the run will have and the density that atoms see: the
// mean over atoms of the density in their own cell, a cut-off wide. A second, shorter radius serves
// the inner list. Advantage: a slab under vacuum, or two molecules in a large box, get the buffer
// of the stuff they are made of. Disadvantage: a cell at a surface is partly empty, so the density
// is a little low there, as it should be on average.

#include "core/error.h"
#include "core/log.h"
#include "md/box.h"
#include "md/system.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

// Calls of the pair loop that one inner list serves, and its share of the tolerance: it is made
// from single atoms, without the slack of whole clusters that the estimate counts on, so it asks
// for less.
enum { INNER_CALLS = 5 };
#define INNER_SHARE 0.1

// Where x is along the box vectors, each from 0 to 1.
static void place_in_box(const double box_nm[3][3], const double *x, double place[3])
{
    double left[3] = {x[0], x[1], x[2]};
    for (int d = 2; d >= 0; d--) {
        place[d] = left[d] / box_nm[d][d];
        for (int k = 0; k < d; k++)
            left[k] -= place[d] * box_nm[d][k];
        place[d] -= floor(place[d]);
    }
}

// The volume that the atoms would fill at the density they see on average; 0 without memory.
static double filled_volume(const struct md_system *system)
{
    int cells[3];
    double cell_volume = system->volume_nm3;
    for (int d = 0; d < 3; d++) {
        double count = floor(system->box_nm[d][d] / system->interaction.cutoff_nm);
        cells[d] = count < 1.0 ? 1 : count > 512.0 ? 512 : (int)count;
        cell_volume /= cells[d];
    }
    size_t total = (size_t)cells[0] * (size_t)cells[1] * (size_t)cells[2];
    int *count = calloc(total, sizeof *count);
    if (!count)
        return 0.0;
    for (int64_t i = 0; i < system->atom_count; i++) {
        size_t cell = 0;
        double place[3];
        place_in_box(system->box_nm, system->input->x_nm + 3 * i, place);
        for (int d = 0; d < 3; d++) {
            int c = (int)(place[d] * cells[d]);
            cell = cell * (size_t)cells[d] + (size_t)(c < cells[d] ? c : cells[d] - 1);
        }
        count[cell]++;
    }
    double squares = 0.0;
    for (size_t c = 0; c < total; c++)
        squares += (double)count[c] * count[c];
    free(count);
    double atoms = (double)system->atom_count;
    return atoms * atoms / squares * cell_volume;
}

// As GROMACS counts: a partner much lighter than the atom does not hold it.
static void add_constraint(const struct md_molecule_type *type,
                           const struct md_constraint *constraint, int index, struct md_kind *kind)
{
    if (constraint->a != index && constraint->b != index)
        return;
    int partner = constraint->a == index ? constraint->b : constraint->a;
    double mass_u = type->atoms[partner].mass_u;
    if (mass_u > 0.4 * kind->mass_u && mass_u > kind->partner_mass_u) {
        kind->bond_nm = constraint->length_nm;
        kind->partner_mass_u = mass_u;
    }
}

// The kind of an atom, but for how many there are.
static struct md_kind kind_of(const struct md_system *system, const struct md_site *site)
{
    struct md_kind kind = {.type = site->type, .charge_e = site->charge_e, .mass_u = site->mass_u};
    const struct md_molecule_type *type = &system->topology->molecule_types[site->molecule_type];
    for (int s = 0; s < type->settle_count; s++) {
        int from_oxygen = site->index - type->settles[s].oxygen;
        if (from_oxygen == 1 || from_oxygen == 2) {
            kind.bond_nm = type->settles[s].d_oh_nm;
            kind.partner_mass_u = type->atoms[type->settles[s].oxygen].mass_u;
        }
    }
    for (int c = 0; c < type->constraint_count; c++)
        add_constraint(type, &type->constraints[c], site->index, &kind);
    return kind;
}

static int add_kind(struct md_kind *kinds, int count, struct md_kind kind)
{
    for (int k = 0; k < count; k++)
        if (kinds[k].type == kind.type && kinds[k].charge_e == kind.charge_e &&
            kinds[k].mass_u == kind.mass_u && kinds[k].bond_nm == kind.bond_nm &&
            kinds[k].partner_mass_u == kind.partner_mass_u) {
            kinds[k].number += kind.number;
            return count;
        }
    kinds[count] = kind;
    return count + 1;
}

static int collect_kinds(const struct md_system *system, struct md_kind *kinds)
{
    const struct md_topology *topology = system->topology;
    int count = 0;
    for (int t = 0; t < topology->molecule_type_count; t++) {
        double molecules = 0.0;
        for (int b = 0; b < topology->block_count; b++)
            if (topology->blocks[b].type == t)
                molecules += (double)topology->blocks[b].count;
        if (molecules == 0.0)
            continue;
        for (int i = 0; i < topology->molecule_types[t].atom_count; i++) {
            struct md_kind kind = kind_of(system, &system->sites[system->first_site[t] + i]);
            kind.number = molecules;
            count = add_kind(kinds, count, kind);
        }
    }
    return count;
}

// The temperature of the velocities in the file.
static double input_temperature(const struct md_system *system)
{
    const struct md_topology *topology = system->topology;
    const double *v = system->input->v_nm_ps;
    double twice = 0.0;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        const struct md_molecule_type *type = &topology->molecule_types[block->type];
        for (int64_t m = 0; m < block->count; m++)
            for (int i = 0; i < type->atom_count; i++, v += 3)
                twice += type->atoms[i].mass_u * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    }
    return system->degrees > 0.0 ? twice / (system->degrees * MD_BOLTZMANN) : 0.0;
}

static double run_temperature(const struct md_system *system)
{
    const struct md_settings *settings = &system->settings;
    double hottest_k = 0.0;
    for (int g = 0; g < settings->group_count; g++)
        hottest_k = settings->ref_t_k[g] > hottest_k ? settings->ref_t_k[g] : hottest_k;
    if (settings->tcoupl == MD_TCOUPL_V_RESCALE)
        return hottest_k;
    if (system->settings.gen_vel)
        return system->settings.gen_temp_k;
    return input_temperature(system);
}

static int fail_search(const struct md_system *system, double temperature)
{
    const struct md_settings *settings = &system->settings;
    const char *source = settings->tcoupl == MD_TCOUPL_V_RESCALE ? "'ref-t'"
                         : settings->gen_vel                     ? "'gen-temp'"
                                                                 : "the velocities of the input";
    return leat_fail(-EDOM,
                     "%s: no list cut-off can be found at %g K (from %s) for lists that live %d "
                     "steps ('nstlist') of %g ps ('dt'): atoms would fly through the whole box; "
                     "lower one of them",
                     settings->file, temperature, source, settings->nstlist, settings->dt_ps);
}

static int radius_from_tolerance(struct md_system *system, double temperature)
{
    const struct md_settings *settings = &system->settings;
    struct md_kind *kinds = calloc((size_t)system->site_count + 1, sizeof *kinds);
    double volume = filled_volume(system);
    if (!kinds || volume == 0.0) {
        free(kinds);
        return leat_fail(-ENOMEM, "no memory to estimate the buffer of the pair list");
    }
    int count = collect_kinds(system, kinds);
    int life = settings->nstlist > 1 ? settings->nstlist : 1;
    system->list_nm = md_list_cutoff(&system->interaction, settings->verlet_buffer_tolerance, life,
                                     settings->dt_ps, temperature, count, kinds, volume);
    if (life > INNER_CALLS) {
        system->inner_calls = INNER_CALLS;
        system->inner_nm =
            md_list_cutoff(&system->interaction, INNER_SHARE * settings->verlet_buffer_tolerance,
                           INNER_CALLS, settings->dt_ps, temperature, count, kinds, volume);
    }
    free(kinds);
    return isfinite(system->list_nm) && isfinite(system->inner_nm)
               ? 0
               : fail_search(system, temperature);
}

static int check_radius(const struct md_system *system)
{
    double image = md_box_image_nm(system->box_nm), cutoff = system->interaction.cutoff_nm;
    if (2.0 * cutoff > image)
        return leat_fail(-EDOM,
                         "%s: the cut-off, %g nm, is over half of %.5g nm, the distance between "
                         "images of an atom in this box, so an atom would meet two images of "
                         "another; use a cut-off of at most %.4g nm, a larger box, or repeat the "
                         "input with --tile",
                         system->settings.file, cutoff, image, 0.5 * image);
    // With images all of them are found, and beyond the cut-off none counts.
    if (!system->images && 2.0 * system->list_nm > image)
        return leat_fail(-EDOM,
                         "the list cut-off, %.4g nm (cut-off %g and a buffer of %.4g), is over "
                         "half of the shortest box edge, %.5g nm; use a smaller nstlist or "
                         "skin or a shorter cut-off for %s, repeat the input with --tile, or use "
                         "--images",
                         system->list_nm, cutoff, system->list_nm - cutoff, image,
                         system->settings.file);
    return 0;
}

int md_system_list_radius(struct md_system *system, bool notes)
{
    const struct md_settings *settings = &system->settings;
    double cutoff = system->interaction.cutoff_nm;
    double temperature = run_temperature(system);
    int error = 0;
    if (settings->integrator == MD_STEEPEST_DESCENT && settings->steps > 0) {
        // What atoms move until the next list is watched, so any buffer will do; this is GROMACS'.
        bool given = settings->verlet_buffer_tolerance < 0.0 && settings->rlist_nm > 1.1 * cutoff;
        system->list_nm = given ? settings->rlist_nm : 1.1 * cutoff;
        system->skin_nm = system->list_nm - cutoff;
    } else if (!(settings->verlet_buffer_tolerance > 0.0)) {
        system->list_nm = settings->rlist_nm > cutoff ? settings->rlist_nm : cutoff;
    } else if (!(temperature > 0.0)) {
        // Nothing moves yet, so nothing can be estimated: a tenth, as GROMACS takes.
        system->list_nm = 1.1 * cutoff;
        if (notes && settings->steps > 0)
            leat_log(LOG_WARN, LOG_WARN, -1,
                     "the velocities are zero and there is no thermostat, so the list gets a "
                     "buffer of a tenth of the cut-off, whatever verlet-buffer-tolerance says");
    } else {
        error = radius_from_tolerance(system, temperature);
    }
    return error ? error : check_radius(system);
}
