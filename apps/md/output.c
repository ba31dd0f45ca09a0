// SPDX-License-Identifier: Apache-2.0
// Files: the last step's coordinates and forces, brought together on rank 0.
//
// Each rank publishes its atoms in a region with a name; rank 0 looks at one after the other and
// sorts by the atoms' numbers. Advantage: rank 0 pulls, so it needs room for one copy of the system
// and nobody sends anything. Disadvantage: rank 0 does all the work; fine once a run, no way to
// write a trajectory.

#include "core/error.h"
#include "core/writable.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGION_NAME "md.collect"

struct record {
    int64_t id;
    double x[3], v[3], f[3];
};

struct parcel {
    int64_t count;
    int64_t unused[7]; // records start on a line of their own
    struct record record[];
};

static int check_output(const char *option, const char *path)
{
    int error = path ? leat_check_writable(path) : 0;
    return error ? leat_fail(error, "%s names %s, which cannot be written: %s", option, path,
                             strerror(-error))
                 : 0;
}

int md_check_outputs(const struct md_options *options)
{
    int error = check_output("--out", options->out);
    if (!error)
        error = check_output("--forces", options->forces);
    if (!error)
        error = check_output("--energies", options->energies);
    return error ? error : check_output("--checkpoint", options->checkpoint);
}

static int publish(struct md_rank *rank, leat_region **region)
{
    const struct md_atoms *atoms = &rank->domain.atoms;
    leat_region_options options = {.size = sizeof options, .name = REGION_NAME};
    options.bytes = sizeof(struct parcel) + (uint64_t)atoms->count * sizeof(struct record);
    int error = leat_region_alloc(rank->job, &options, region);
    if (error)
        return error;
    leat_region_info info = {.size = sizeof info};
    error = leat_region_info_get(*region, &info);
    if (error)
        return error;
    struct parcel *parcel = info.address;
    parcel->count = atoms->count;
    for (int64_t i = 0; i < atoms->count; i++) {
        struct record *record = &parcel->record[i];
        record->id = atoms->id[i];
        memcpy(record->x, atoms->x_nm + 3 * i, sizeof record->x);
        memcpy(record->v, atoms->v_nm_ps + 3 * i, sizeof record->v);
        memcpy(record->f, atoms->f + 3 * i, sizeof record->f);
    }
    return 0;
}

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

static int sort_parcel(struct md_rank *rank, int from, const struct parcel *parcel)
{
    struct gro *gro = rank->system.input;
    for (int64_t i = 0; i < parcel->count; i++) {
        const struct record *record = &parcel->record[i];
        if (record->id < 0 || record->id >= rank->system.atom_count)
            return leat_fail(-EBADMSG,
                             "rank %d has an atom of number %lld; this is a fault of the "
                             "program",
                             from, (long long)record->id + 1);
        int64_t id = md_system_number(&rank->system, record->id);
        if (rank->options->out) {
            memcpy(gro->x_nm + 3 * id, record->x, sizeof record->x);
            memcpy(gro->v_nm_ps + 3 * id, record->v, sizeof record->v);
        }
        if (rank->forces)
            memcpy(rank->forces + 3 * id, record->f, sizeof record->f);
    }
    return 0;
}

static int fetch_from(struct md_rank *rank, int from, leat_region *own)
{
    leat_region_options options = {.size = sizeof options, .name = REGION_NAME, .owner = from};
    leat_region *view = NULL;
    int error = from == rank->rank ? 0 : leat_region_register(rank->job, &options, &view);
    if (error)
        return error;
    leat_region_info info = {.size = sizeof info};
    error = leat_region_info_get(view ? view : own, &info);
    if (!error && !info.address)
        error = leat_fail(-EHOSTUNREACH, "rank 0 cannot read the atoms of rank %d (path %s)", from,
                          info.path);
    if (!error)
        error = sort_parcel(rank, from, info.address);
    leat_region_free(view);
    return error;
}

int md_collect(struct md_rank *rank)
{
    if (!rank->options->out && !rank->options->forces)
        return 0;
    leat_region *region = NULL;
    int error = rank->gpu ? md_gpu_receive(rank) : 0;
    if (!error && rank->gpu)
        error = md_gpu_receive_forces(rank);
    if (!error)
        error = publish(rank, &region);
    error = md_agree(rank, error);
    if (!error && rank->rank == 0)
        error = make_room(rank);
    for (int from = 0; !error && rank->rank == 0 && from < rank->rank_count; from++)
        error = fetch_from(rank, from, region);
    // Nobody takes its atoms back before rank 0 has seen them.
    error = md_agree(rank, error);
    leat_region_free(region);
    return error;
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
