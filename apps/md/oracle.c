// SPDX-License-Identifier: Apache-2.0
// All pairs at their nearest image, in double: what every other loop is compared with.
//
// Advantage: nothing to get wrong; no list, no buffer, no order of atoms, one formula a term.
// Disadvantage: the square of the number of atoms.

#include "md/nonbonded.h"
#include "md/box.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct lj_shift {
    double inverse6, inverse12; // what is taken off r^-6 and r^-12
};

// Adds the pair's energies, returns the force over the distance.
static double pair_terms(const struct md_interaction *interaction, const struct lj_shift *shift,
                         double qq, double c6, double c12, double r2, struct md_pair_energy *energy)
{
    const double inverse2 = 1 / r2, inverse6 = inverse2 * inverse2 * inverse2;
    const double inverse1 = sqrt(inverse2);
    energy->coulomb += qq * (inverse1 + interaction->krf * r2 - interaction->crf);
    energy->lj +=
        c12 * (inverse6 * inverse6 - shift->inverse12) - c6 * (inverse6 - shift->inverse6);
    return qq * (inverse1 * inverse2 - 2 * interaction->krf) +
           (12 * c12 * inverse6 - 6 * c6) * inverse6 * inverse2;
}

void md_oracle(const struct md_interaction *interaction, int atom_count, const double *x_nm,
               const int *type, const double *charge, const int *exclusion_start,
               const int *exclusion, const double box_nm[3][3], double *f,
               struct md_pair_output *output)
{
    const double cutoff2 = interaction->cutoff_nm * interaction->cutoff_nm;
    const double inverse6 = interaction->shift ? pow(interaction->cutoff_nm, -6) : 0;
    const struct lj_shift shift = {inverse6, inverse6 * inverse6};
    struct md_pair_output sum = {0};
    for (int i = 0; i < atom_count; i++) {
        const double *xi = &x_nm[3 * (size_t)i];
        const size_t row = (size_t)type[i] * (size_t)interaction->type_count;
        struct md_pair_energy energy = {0};
        double fi[3] = {0};
        int k = exclusion_start ? exclusion_start[i] : 0;
        const int end = exclusion_start ? exclusion_start[i + 1] : 0;
        for (int j = i + 1; j < atom_count; j++) {
            while (k < end && exclusion[k] < j)
                k++;
            if (k < end && exclusion[k] == j)
                continue;
            double d[3];
            const double r2 = md_box_nearest(box_nm, xi, &x_nm[3 * (size_t)j], d);
            if (!(r2 < cutoff2))
                continue;
            const size_t pair = row + (size_t)type[j];
            const double f_over_r =
                pair_terms(interaction, &shift, interaction->coulomb * charge[i] * charge[j],
                           interaction->c6[pair], interaction->c12[pair], r2, &energy);
            for (int a = 0; a < 3; a++) {
                fi[a] += f_over_r * d[a];
                f[3 * (size_t)j + (size_t)a] -= f_over_r * d[a];
                for (int b = 0; b < 3; b++)
                    sum.virial[3 * a + b] -= 0.5 * d[a] * d[b] * f_over_r;
            }
        }
        for (int a = 0; a < 3; a++)
            f[3 * (size_t)i + (size_t)a] += fi[a];
        sum.energy.lj +=
            energy.lj; // summed atom by atom, so that rounding does not grow with pairs
        sum.energy.coulomb += energy.coulomb;
    }
    *output = sum;
}
