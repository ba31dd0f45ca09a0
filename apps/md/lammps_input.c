// SPDX-License-Identifier: Apache-2.0
// A LAMMPS data file on its way to what the driver takes: opened, checked, put in order.
//
// Atoms come to lie molecule by molecule; where that is not the order of their ids, a table leads
// back to them. Advantage: any order of ids is read. Disadvantage: rank 0 holds the file's atoms
// and the driver's at the same time.

#ifdef LEAT_HAVE_ZLIB
#define _GNU_SOURCE // fopencookie
#include <zlib.h>
#endif

#include "md/lammps_parts.h"

#include "core/error.h"
#include "md/box.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int check_box(const struct lammps_file *file)
{
    const struct md_units *units = md_units(file->lammps->units);
    for (int d = 0; d < 3; d++) {
        double edge = (file->hi[d] - file->lo[d]) / units->length_out;
        if (!(edge >= 1e-3 && edge <= 1e5))
            return md_fail_at((struct md_place){file->name, file->box_line[d]}, -EINVAL,
                              "edge %c of the box is %g %s; expected %g to %g", "xyz"[d],
                              file -> hi[d] - file -> lo[d], units -> length,
                              1e-3 * units -> length_out, 1e5 * units -> length_out);
    }
    for (int i = 0; i < 3; i++)
        if (!(fabs(file->tilt[i]) <= 1e5 * units->length_out))
            return md_fail_at((struct md_place){file->name, file->tilt_line}, -EINVAL,
                              "a tilt of %g %s", file->tilt[i], units->length);
    return 0;
}

static void set_box(const struct lammps_file *file, struct gro *gro)
{
    double nm = 1.0 / md_units(file->lammps->units)->length_out;
    for (int d = 0; d < 3; d++)
        gro->box_nm[d][d] = (file->hi[d] - file->lo[d]) * nm;
    gro->box_nm[1][0] = file->tilt[0] * nm;
    gro->box_nm[2][0] = file->tilt[1] * nm;
    gro->box_nm[2][1] = file->tilt[2] * nm;
    gro->box_line = file->box_line[0];
    md_box_reduce(gro->box_nm);
}

static int make_labels(const struct lammps_file *file, struct gro *gro)
{
    size_t count = (size_t)file->atoms.count;
    gro->labels = calloc(count, sizeof *gro->labels);
    if (!gro->labels)
        return leat_fail(-ENOMEM, "no memory for %zu atoms", count);
    for (size_t i = 0; i < count; i++) {
        struct gro_label *label = &gro->labels[i];
        label->residue = abs(file->by_id[i].molecule);
        snprintf(label->residue_name, sizeof label->residue_name, "MOL");
        snprintf(label->atom_name, sizeof label->atom_name, "%d", file->by_id[i].type);
    }
    return 0;
}

// Positions and velocities by place; `v` is by id, in the file's units.
static int make_coordinates(const struct lammps_file *file,
                            const struct lammps_molecules *molecules, const double *v,
                            struct gro *gro)
{
    const struct md_units *units = md_units(file->lammps->units);
    double nm = 1.0 / units->length_out, nm_ps = nm * units->time_out;
    int64_t count = file->atoms.count;
    gro->atom_count = count;
    gro->has_velocities = file->velocities.count > 0;
    gro->x_nm = calloc(3 * (size_t)count, sizeof *gro->x_nm);
    gro->v_nm_ps = calloc(3 * (size_t)count, sizeof *gro->v_nm_ps);
    if (!gro->x_nm || !gro->v_nm_ps)
        return leat_fail(-ENOMEM, "no memory for %lld atoms", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int id = molecules->atom[i];
        for (int d = 0; d < 3; d++) {
            gro->x_nm[3 * i + d] = (file->by_id[id].x[d] - file->lo[d]) * nm;
            gro->v_nm_ps[3 * i + d] = v[3 * (int64_t)id + d] * nm_ps;
        }
        const double *x = gro->x_nm + 3 * i, *to = gro->v_nm_ps + 3 * i;
        // Beyond this nothing is left of where in the box an atom is.
        if (!(fabs(x[0]) + fabs(x[1]) + fabs(x[2]) < 1e9) ||
            !(fabs(to[0]) + fabs(to[1]) + fabs(to[2]) < 1e12))
            return md_fail_at((struct md_place){file->name, file->by_id[id].line}, -EINVAL,
                              "atom %d is too far away or too fast", id + 1);
    }
    return lammps_make_whole(file, molecules, gro->box_nm, gro->x_nm);
}

static int make_numbers(const struct lammps_molecules *molecules, int count, int64_t **number)
{
    bool same = true;
    for (int i = 0; i < count && same; i++)
        same = molecules->atom[i] == i;
    if (same)
        return 0;
    *number = calloc((size_t)count, sizeof **number);
    if (!*number)
        return leat_fail(-ENOMEM, "no memory for the ids of %d atoms", count);
    for (int i = 0; i < count; i++)
        (*number)[i] = molecules->atom[i];
    return 0;
}

static int assemble(const struct lammps_file *file, const struct lammps_molecules *molecules,
                    const struct lammps_coeffs *coeffs, const double *v,
                    struct md_lammps_input *input)
{
    input->gro = calloc(1, sizeof *input->gro);
    if (!input->gro)
        return leat_fail(-ENOMEM, "no memory for coordinates");
    snprintf(input->gro->title, sizeof input->gro->title, "LAMMPS data file");
    set_box(file, input->gro);
    input->reduced = coeffs->reduced;
    int error = lammps_make_topology(file, molecules, coeffs, &input->topology);
    if (!error)
        error = make_labels(file, input->gro);
    if (!error)
        error = make_coordinates(file, molecules, v, input->gro);
    return error ? error : make_numbers(molecules, file->atoms.count, &input->number);
}

int lammps_make_input(struct lammps_file *file, struct md_lammps_input *input)
{
    struct lammps_molecules molecules = {0};
    struct lammps_coeffs coeffs = {0};
    double *v = calloc(3 * (size_t)file->atoms.count, sizeof *v);
    int error =
        v ? check_box(file) : leat_fail(-ENOMEM, "no memory for %d velocities", file->atoms.count);
    if (!error)
        error = lammps_sort_atoms(file, v);
    if (!error)
        error = lammps_find_molecules(file, &molecules);
    if (!error)
        error = lammps_read_coeffs(file, &coeffs);
    if (!error)
        error = assemble(file, &molecules, &coeffs, v, input);
    free(v);
    lammps_free_molecules(&molecules);
    lammps_free_coeffs(&coeffs);
    if (error)
        md_lammps_input_free(input);
    return error;
}

void md_lammps_input_free(struct md_lammps_input *input)
{
    md_topology_free(input->topology);
    gro_free(input->gro);
    free(input->number);
    *input = (struct md_lammps_input){0};
}

#ifdef LEAT_HAVE_ZLIB
static ssize_t inflate_some(void *cookie, char *buffer, size_t bytes)
{
    unsigned most = bytes > 1u << 20 ? 1u << 20 : (unsigned)bytes;
    int got = gzread(cookie, buffer, most), error = Z_OK;
    (void)gzerror(cookie, &error);
    // A stream that is cut is told by the last read only.
    if (got >= 0 && error != Z_BUF_ERROR)
        return got;
    errno = error == Z_ERRNO && errno ? errno : EBADMSG;
    return -1;
}

static int inflate_end(void *cookie)
{
    return gzclose(cookie);
}

static FILE *open_text(const char *path)
{
    gzFile file = gzopen(path, "re");
    if (!file)
        return NULL;
    FILE *stream =
        fopencookie(file, "r", (cookie_io_functions_t){.read = inflate_some, .close = inflate_end});
    if (!stream)
        gzclose(file);
    return stream;
}
#else
static FILE *open_text(const char *path)
{
    return fopen(path, "re");
}
#endif

static bool is_compressed(FILE *stream)
{
    int first = getc(stream);
    ungetc(first, stream);
    return first == 0x1f;
}

int md_lammps_read(const char *path, const struct md_lammps *lammps, struct md_lammps_input *input)
{
    *input = (struct md_lammps_input){0};
    errno = 0;
    FILE *stream = open_text(path);
    if (!stream)
        return leat_fail(errno ? -errno : -ENOMEM, "%s: %s", path,
                         strerror(errno ? errno : ENOMEM));
    int error =
        is_compressed(stream)
            ? leat_fail(-ENOTSUP, "%s is compressed, and this build has no zlib; run gunzip first",
                        path)
            : md_lammps_read_stream(stream, path, lammps, input);
    fclose(stream);
    return error;
}
