// SPDX-License-Identifier: Apache-2.0
// Reaction-field terms of excluded pairs and of each atom with itself.
//
// An excluded pair keeps the field's part of the interaction, qq (krf r^2 - crf), without the
// charges' own 1/r; an atom with itself keeps half of it at r = 0. One pass over the exclusion
// table, apart from the pair list. Advantage: the pair loop need not know excluded pairs, and these
// large terms, which nearly cancel, are summed in double on either precision. Disadvantage:
// coordinates of bonded neighbours are read a second time.

#include "md/nonbonded.h"
#include "md/minimum_image.h"

#include <math.h>
#include <stddef.h>

static void add_virial(double *virial, const double d[3], double f_over_r)
{
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            virial[3 * a + b] -= 0.5 * d[a] * d[b] * f_over_r;
}

double md_exclusion_forces(const struct md_interaction *interaction, int home_count,
                           const double *x_nm, const double *charge, const int *exclusion_start,
                           const int *exclusion, const double box_nm[3], double *f, double *virial,
                           double *gross)
{
    return md_exclusion_share(interaction, 0, home_count, x_nm, charge, exclusion_start, exclusion,
                              box_nm, f, virial, gross);
}

double md_exclusion_share(const struct md_interaction *interaction, int begin, int end,
                          const double *x_nm, const double *charge, const int *exclusion_start,
                          const int *exclusion, const double box_nm[3], double *f, double *virial,
                          double *gross)
{
    // Copies, which the compiler cannot know to survive a store of forces.
    const double cutoff2 = interaction->cutoff_nm * interaction->cutoff_nm;
    const double coulomb = interaction->coulomb, krf = interaction->krf, crf = interaction->crf;
    double excluded = 0, self = 0;
    for (int i = begin; i < end; i++) {
        const double qi = coulomb * charge[i];
        self -= 0.5 * qi * charge[i] * crf;
        if (!exclusion_start)
            continue;
        for (int k = exclusion_start[i]; k < exclusion_start[i + 1]; k++) {
            const int j = exclusion[k];
            if (j <= i) // the table is symmetric, a pair counts once
                continue;
            double d[3];
            const double *xi = &x_nm[3 * (size_t)i], *xj = &x_nm[3 * (size_t)j];
            const double r2 =
                box_nm ? md_minimum_image(xi, xj, box_nm, d) : md_difference(xi, xj, d);
            if (!(r2 < cutoff2))
                continue;
            const double qq = qi * charge[j];
            const double f_over_r = -2 * qq * krf;
            excluded += qq * (krf * r2 - crf);
            for (int a = 0; a < 3; a++) {
                f[3 * (size_t)i + (size_t)a] += f_over_r * d[a];
                f[3 * (size_t)j + (size_t)a] -= f_over_r * d[a];
            }
            if (virial)
                add_virial(virial, d, f_over_r);
        }
    }
    if (gross)
        *gross = fabs(excluded) + fabs(self);
    return excluded + self;
}
