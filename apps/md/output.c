// SPDX-License-Identifier: Apache-2.0
// Files: the last step's coordinates and forces, brought together on rank 0.
//
// Advantage: rank 0 holds one copy of the system, and only where it is asked for. Disadvantage: a
// system that does not fit into one rank's memory cannot be written like this.

#include "core/error.h"
#include "md/collect.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct md_rank *rank)
{
    struct gro *gro = rank->system.input;
    size_t count = 3 * (size_t)rank->system.atom_count;
    if (rank->options->out && !gro->x_nm) {
        gro->x_nm = malloc(count * sizeof(double));
        gro->v_nm_ps = malloc(count * sizeof(double));
    }
    if (rank->options->forces)
        rank->forces = malloc(count * sizeof(double));
    if ((rank->options->out && (!gro->x_nm || !gro->v_nm_ps)) ||
        (rank->options->forces && !rank->forces))
        return leat_fail(-ENOMEM, "no memory to collect %lld atoms on rank 0",
                         (long long)rank->system.atom_count);
    return 0;
}

static int keep_atom(void *user, int64_t id, const double *x_nm, const double *v_nm_ps,
                     const double *f)
{
    struct md_rank *rank = user;
    struct gro *gro = rank->system.input;
    if (x_nm)
        memcpy(gro->x_nm + 3 * id, x_nm, 3 * sizeof *x_nm);
    if (v_nm_ps)
        memcpy(gro->v_nm_ps + 3 * id, v_nm_ps, 3 * sizeof *v_nm_ps);
    if (f)
        memcpy(rank->forces + 3 * id, f, 3 * sizeof *f);
    return 0;
}

int md_collect(struct md_rank *rank)
{
    const struct md_options *options = rank->options;
    int wanted = (options->out ? MD_WANT_X | MD_WANT_V : 0) | (options->forces ? MD_WANT_F : 0);
    if (!wanted)
        return 0;
    const struct md_taker taker = {keep_atom, rank};
    return md_collect_atoms(rank, rank->rank == 0 ? make_room(rank) : 0, wanted, &taker);
}

int md_write_forces(const char *path, const struct md_system *system, const double *forces)
{
    const struct md_units *units = md_units(system->units);
    double out = units->energy_out / units->length_out;
    FILE *file = fopen(path, "w");
    if (!file)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    int failed = 0;
    for (int64_t i = 0; i < system->atom_count && !failed; i++)
        failed = fprintf(file, "%.14e %.14e %.14e\n", out * forces[3 * i], out * forces[3 * i + 1],
                         out * forces[3 * i + 2]) < 0;
    if (failed || fflush(file)) {
        int error = -errno;
        fclose(file);
        return leat_fail(error, "%s: %s", path, strerror(-error));
    }
    if (fclose(file))
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    return 0;
}

int md_write_files(struct md_rank *rank)
{
    const struct md_options *options = rank->options;
    struct gro *gro = rank->system.input;
    if (rank->rank != 0)
        return 0;
    if (options->out) {
        gro->has_velocities = true;
        int error = gro_write(options->out, gro, 3);
        if (error)
            return error;
    }
    return options->forces ? md_write_forces(options->forces, &rank->system, rank->forces) : 0;
}
