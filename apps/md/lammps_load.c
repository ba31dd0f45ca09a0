// SPDX-License-Identifier: Apache-2.0
// A system from a LAMMPS data file and the settings of the command line.
//
// Settings are those that an empty .mdp gives, with what LAMMPS does in its place: plain cut-offs,
// no thermostat, and a list of fixed width. Advantage: the rest of the driver sees settings as
// ever. Disadvantage: what a new setting means for these runs has to be thought of here.

#include "core/error.h"
#include "core/log.h"
#include "md/lammps.h"
#include "md/system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int begin_settings(const char *name, struct md_settings *settings)
{
    char text[] = "integrator = md-vv\n";
    FILE *stream = fmemopen(text, strlen(text), "r");
    if (!stream)
        return leat_fail(-errno, "%s: %s", name, strerror(errno));
    int error = md_settings_read_stream(stream, name, settings);
    fclose(stream);
    return error;
}

static void set_settings(const struct md_lammps *lammps, struct md_settings *settings)
{
    const struct md_units *units = md_units(lammps->units);
    double skin = lammps->skin >= 0.0 ? lammps->skin : units->skin;
    double dt = lammps->dt >= 0.0 ? lammps->dt : units->dt;
    settings->dt_ps = dt / units->time_out;
    settings->nstlist = lammps->rebuild;
    settings->rcoulomb_nm = settings->rvdw_nm = lammps->cutoff / units->length_out;
    settings->verlet_buffer_tolerance = -1.0;
    settings->rlist_nm = (lammps->cutoff + skin) / units->length_out;
    settings->vdw_modifier = MD_VDW_NONE;
    // Three degrees of freedom fewer, as LAMMPS counts, but nothing is taken out of the motion.
    settings->remove_com = true;
    settings->nstcomm = 0;
    settings->continuation = true;
}

int md_lammps_load(const char *path, const struct md_lammps *lammps, struct md_system *system)
{
    struct md_lammps_input input = {0};
    int error = begin_settings(path, &system->settings);
    if (error)
        return error;
    set_settings(lammps, &system->settings);
    error = md_lammps_read(path, lammps, &input);
    if (error)
        return error;
    if (input.reduced)
        leat_log(LOG_WARN, LOG_WARN, -1,
                 "%s and the options have no pair coefficients; epsilon and sigma of its only atom "
                 "type are taken as 1, the units",
                 path);
    system->topology = input.topology;
    system->input = input.gro;
    system->number = input.number;
    system->number_count = input.number ? input.gro->atom_count : 0;
    system->units = lammps->units;
    system->skin_nm = system->settings.rlist_nm - system->settings.rvdw_nm;
    return 0;
}
