// SPDX-License-Identifier: Apache-2.0
// Energies as a table of comma-separated values, a row at each step of nstenergy and at the last.
//
// Advantage: 17 digits, so two runs can be compared to the bit, and each row is in the file as soon
// as it is known. Disadvantage: a system call a row.

#include "core/error.h"
#include "md/md.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *unit;
    size_t offset;
} terms[] = {
    {"lj", "_kj_mol", offsetof(struct md_energy, lj)},
    {"coulomb", "_kj_mol", offsetof(struct md_energy, coulomb)},
    {"coulomb_gross", "_kj_mol", offsetof(struct md_energy, coulomb_gross)},
    {"bond", "_kj_mol", offsetof(struct md_energy, bond)},
    {"angle", "_kj_mol", offsetof(struct md_energy, angle)},
    {"dihedral", "_kj_mol", offsetof(struct md_energy, dihedral)},
    {"ryckaert_bellemans", "_kj_mol", offsetof(struct md_energy, ryckaert_bellemans)},
    {"improper", "_kj_mol", offsetof(struct md_energy, improper)},
    {"lj14", "_kj_mol", offsetof(struct md_energy, lj14)},
    {"coulomb14", "_kj_mol", offsetof(struct md_energy, coulomb14)},
    {"potential", "_kj_mol", offsetof(struct md_energy, potential)},
    {"kinetic", "_kj_mol", offsetof(struct md_energy, kinetic)},
    {"total", "_kj_mol", offsetof(struct md_energy, total)},
    {"conserved", "_kj_mol", offsetof(struct md_energy, conserved)},
    {"temperature", "_k", offsetof(struct md_energy, temperature_k)},
};

static int fail_file(const struct md_rank *rank, int error)
{
    return leat_fail(error, "%s: at byte %llu: %s", rank->options->energies,
                     (unsigned long long)rank->files.energies_bytes, strerror(-error));
}

// Counts what has been printed, once it is out of this process.
static int flush(struct md_rank *rank, int printed)
{
    errno = 0;
    if (printed < 0 || fflush(rank->files.energies) || ferror(rank->files.energies))
        return fail_file(rank, errno ? -errno : -EIO);
    rank->files.energies_bytes += (uint64_t)printed;
    return 0;
}

static int begin_table(struct md_rank *rank)
{
    // Units other than the driver's own are those of the input, which its reader knows.
    bool own = rank->system.units == MD_UNITS_GROMACS;
    char line[1024] = "";
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, ",%s%s", terms[i].name, own ? terms[i].unit : "");
    }
    return flush(rank,
                 fprintf(rank->files.energies, "step,time%s%s,pressure%s,volume%s,net_force%s\n",
                         own ? "_ps" : "", line, own ? "_bar" : "", own ? "_nm3" : "",
                         own ? "_kj_mol_nm" : ""));
}

static int cut(struct md_rank *rank, uint64_t from)
{
    FILE *file = rank->files.energies;
    struct stat status;
    if (fstat(fileno(file), &status))
        return fail_file(rank, -errno);
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size < from)
        return leat_fail(-EINVAL,
                         "%s has less than the %llu bytes that it had when the checkpoint was "
                         "written; it is another file, name a new one",
                         rank->options->energies, (unsigned long long)from);
    if (ftruncate(fileno(file), (off_t)from) || fseeko(file, (off_t)from, SEEK_SET))
        return fail_file(rank, -errno);
    rank->files.energies_bytes = from;
    return 0;
}

int md_energies_open(struct md_rank *rank, uint64_t from)
{
    const char *path = rank->options->energies;
    if (!path || rank->rank > 0)
        return 0;
    rank->files.energies_bytes = 0;
    if (access(path, F_OK))
        from = 0;
    rank->files.energies = fopen(path, from ? "r+e" : "we");
    if (!rank->files.energies)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    return from ? cut(rank, from) : begin_table(rank);
}

static bool has_row(const struct md_rank *rank)
{
    const struct md_settings *settings = &rank->system.settings;
    return rank->step == settings->steps ||
           (settings->nstenergy > 0 && rank->step % settings->nstenergy == 0);
}

int md_energies_add(struct md_rank *rank)
{
    const struct md_units *units = md_units(rank->system.units);
    struct md_energy energy = rank->energy;
    const double *net = energy.net_force;
    if (!rank->files.energies || !has_row(rank))
        return 0;
    md_energy_in_units(units, &energy);
    char line[1024];
    int used = snprintf(line, sizeof line, "%lld,%.17g", (long long)rank->step,
                        (double)rank->step * rank->system.settings.dt_ps * units->time_out);
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        double value;
        memcpy(&value, (const char *)&energy + terms[i].offset, sizeof value);
        used += snprintf(line + used, sizeof line - (size_t)used, ",%.17g", value);
    }
    if (energy.has_pressure)
        used += snprintf(line + used, sizeof line - (size_t)used, ",%.17g", energy.pressure_bar);
    else
        used += snprintf(line + used, sizeof line - (size_t)used, ",");
    snprintf(line + used, sizeof line - (size_t)used, ",%.17g,%.17g",
             rank->system.volume_nm3 * pow(units->length_out, 3.0),
             sqrt(net[0] * net[0] + net[1] * net[1] + net[2] * net[2]));
    return flush(rank, fprintf(rank->files.energies, "%s\n", line));
}

int md_energies_sync(struct md_rank *rank)
{
    // A pipe or a terminal cannot be synced.
    if (rank->files.energies && fsync(fileno(rank->files.energies)) && errno != EINVAL &&
        errno != EROFS && errno != ENOTSUP)
        return fail_file(rank, -errno);
    return 0;
}

int md_energies_close(struct md_rank *rank)
{
    FILE *file = rank->files.energies;
    rank->files.energies = NULL;
    return file && fclose(file) ? fail_file(rank, -errno) : 0;
}
