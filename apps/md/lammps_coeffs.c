// SPDX-License-Identifier: Apache-2.0
// Coefficients of a LAMMPS data file and of the command line as parameters of the driver.
//
// lj/cut: 4 epsilon ((sigma/r)^12 - (sigma/r)^6). Bonds K (r - r0)^2 and angles K (theta -
// theta0)^2 lack the half that ours have, dihedrals are K (1 + d cos(n phi)), impropers K (chi -
// chi0)^2 where chi is |xi|. Advantage: what the driver computes has one form, whatever file it is
// from. Disadvantage: sigma and epsilon cannot be told from a table of c6 and c12 any more.

#include "md/lammps_parts.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEGREE (M_PI / 180.0)

static struct md_place at(const struct lammps_file *file, int line)
{
    return (struct md_place){file->name, line};
}

static int make_room(const struct lammps_file *file, struct lammps_coeffs *coeffs)
{
    size_t types = (size_t)file->type_count[LAMMPS_ATOMS] + 1;
    coeffs->mass_u = calloc(types, sizeof *coeffs->mass_u);
    coeffs->epsilon = calloc(types * types, sizeof *coeffs->epsilon);
    coeffs->sigma = calloc(types * types, sizeof *coeffs->sigma);
    bool failed = !coeffs->mass_u || !coeffs->epsilon || !coeffs->sigma;
    for (size_t i = 0; i < types * types && !failed; i++)
        coeffs->epsilon[i] = -1.0;
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS; k++) {
        size_t count = (size_t)file->type_count[k] + 1;
        coeffs->parameter[k] = calloc(count, sizeof *coeffs->parameter[k]);
        coeffs->line[k] = calloc(count, sizeof *coeffs->line[k]);
        failed = failed || !coeffs->parameter[k] || !coeffs->line[k];
    }
    return failed ? leat_fail(-ENOMEM, "no memory for the coefficients of %s", file->name) : 0;
}

static void set_pair(const struct lammps_file *file, struct lammps_coeffs *coeffs, int i, int j,
                     double epsilon, double sigma)
{
    const struct md_units *units = md_units(file->lammps->units);
    size_t types = (size_t)file->type_count[LAMMPS_ATOMS] + 1;
    size_t one = (size_t)i * types + (size_t)j, other = (size_t)j * types + (size_t)i;
    coeffs->epsilon[one] = coeffs->epsilon[other] = epsilon / units->energy_out;
    coeffs->sigma[one] = coeffs->sigma[other] = sigma / units->length_out;
}

static int read_pairs(const struct lammps_file *file, struct lammps_coeffs *coeffs)
{
    const struct lammps_pair *pair = file->pairs.entries;
    for (int i = 0; i < file->pairs.count; i++)
        set_pair(file, coeffs, pair[i].i, pair[i].j, pair[i].epsilon, pair[i].sigma);
    const struct md_lammps *lammps = file->lammps;
    for (int i = 0; i < lammps->coeff_count; i++) {
        const struct md_lammps_coeff *coeff = &lammps->coeffs[i];
        int types = file->type_count[LAMMPS_ATOMS];
        if (coeff->i > types || coeff->j > types)
            return leat_fail(-EINVAL, "--pair-coeff %d,%d: %s has %d atom types", coeff->i,
                             coeff->j, file->name, types);
        set_pair(file, coeffs, coeff->i, coeff->j, coeff->epsilon, coeff->sigma);
    }
    // Where there is one kind of atom, it is what reduced units are reduced by.
    coeffs->reduced = lammps->units == MD_UNITS_LJ && file->type_count[LAMMPS_ATOMS] == 1 &&
                      file->pairs.count == 0 && lammps->coeff_count == 0;
    if (coeffs->reduced)
        set_pair(file, coeffs, 1, 1, 1.0, 1.0);
    return 0;
}

static int read_bonded(const struct lammps_file *file, int kind, struct lammps_coeffs *coeffs)
{
    const struct lammps_bonded *bonded = file->bonded[kind].entries;
    for (int i = 0; i < file->bonded[kind].count; i++, bonded++) {
        int *line = &coeffs->line[kind][bonded->type];
        if (*line)
            return md_fail_at(at(file, bonded->line), -EINVAL,
                              "%s type %d stands already in line %d", lammps_names[kind],
                              bonded->type, *line);
        *line = bonded->line;
        memcpy(coeffs->parameter[kind][bonded->type], bonded->value, sizeof bonded->value);
    }
    return 0;
}

int lammps_read_coeffs(const struct lammps_file *file, struct lammps_coeffs *coeffs)
{
    int error = make_room(file, coeffs);
    const struct lammps_mass *mass = file->masses.entries;
    for (int i = 0; i < file->masses.count && !error; i++)
        coeffs->mass_u[mass[i].type] = mass[i].mass;
    if (!error)
        error = read_pairs(file, coeffs);
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS && !error; k++)
        error = read_bonded(file, k, coeffs);
    return error;
}

void lammps_free_coeffs(struct lammps_coeffs *coeffs)
{
    free(coeffs->mass_u);
    free(coeffs->epsilon);
    free(coeffs->sigma);
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS; k++) {
        free(coeffs->parameter[k]);
        free(coeffs->line[k]);
    }
}

static int fail_pair(const struct lammps_file *file, int i)
{
    return leat_fail(-EINVAL,
                     "atom type %d has no epsilon and sigma: %s has no line for it in a section "
                     "Pair Coeffs, and there is no --pair-coeff %d,%d,EPSILON,SIGMA",
                     i, file->name, i, i);
}

int lammps_pair_parameters(const struct lammps_file *file, const struct lammps_coeffs *coeffs,
                           int i, int j, double *c6, double *c12)
{
    size_t types = (size_t)file->type_count[LAMMPS_ATOMS] + 1;
    size_t ii = (size_t)i * types + (size_t)i, jj = (size_t)j * types + (size_t)j;
    size_t ij = (size_t)i * types + (size_t)j;
    double epsilon = coeffs->epsilon[ij], sigma = coeffs->sigma[ij];
    if (epsilon < 0.0) {
        if (coeffs->epsilon[ii] < 0.0 || coeffs->epsilon[jj] < 0.0)
            return fail_pair(file, coeffs->epsilon[ii] < 0.0 ? i : j);
        double a = coeffs->sigma[ii], b = coeffs->sigma[jj];
        epsilon = sqrt(coeffs->epsilon[ii] * coeffs->epsilon[jj]);
        sigma = file->lammps->arithmetic ? 0.5 * (a + b) : sqrt(a * b);
    }
    double cube = sigma * sigma * sigma;
    *c6 = 4.0 * epsilon * cube * cube;
    *c12 = *c6 * cube * cube;
    if (isfinite(*c6) && isfinite(*c12))
        return 0;
    return leat_fail(-EINVAL, "%s: epsilon and sigma of atom types %d and %d are too large",
                     file->name, i, j);
}

int lammps_term(const struct lammps_file *file, const struct lammps_coeffs *coeffs,
                const struct lammps_link *link, enum md_term_kind *kind, struct md_term *term)
{
    static const enum md_term_kind kinds[] = {MD_TERM_KINDS, MD_TERM_BOND, MD_TERM_ANGLE,
                                              MD_TERM_DIHEDRAL, MD_TERM_IMPROPER};
    const struct md_units *units = md_units(file->lammps->units);
    const double *value = coeffs->parameter[link->kind][link->type];
    double k = value[0] / units->energy_out, nm = 1.0 / units->length_out;
    if (!coeffs->line[link->kind][link->type])
        return md_fail_at(at(file, link->line), -EINVAL,
                          "%s type %d has no coefficients: no line for it in a section %c%s Coeffs",
                          lammps_names[link->kind], link->type, lammps_names[link->kind][0] - 32,
                          lammps_names[link->kind] + 1);
    *kind = kinds[link->kind];
    *term = (struct md_term){0};
    for (int i = 0; i < lammps_arity[link->kind]; i++)
        term->atom[i] = link->atom[i];
    double *parameter = term->parameter;
    switch (*kind) {
    case MD_TERM_BOND:
        parameter[0] = value[1] * nm;
        parameter[1] = 2.0 * k / (nm * nm);
        break;
    case MD_TERM_DIHEDRAL:
        parameter[0] = value[1] > 0.0 ? 0.0 : M_PI;
        parameter[1] = k;
        parameter[2] = value[2];
        break;
    default:
        parameter[0] = value[1] * DEGREE;
        parameter[1] = 2.0 * k;
        parameter[2] = *kind == MD_TERM_IMPROPER ? 1.0 : 0.0;
    }
    return 0;
}
