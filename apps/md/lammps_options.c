// SPDX-License-Identifier: Apache-2.0
// What stands on the command line beside a LAMMPS data file.
//
// Advantage: one text an option, in the words of LAMMPS' own commands. Disadvantage: an input
// script is not read, so what it says has to be said again.

#include "md/lammps.h"

#include "core/error.h"
#include "md/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { REBUILD = 20, WORD = 40 };

void md_lammps_begin(struct md_lammps *lammps)
{
    *lammps = (struct md_lammps){.dt = -1.0, .skin = -1.0, .rebuild = REBUILD};
}

void md_lammps_end(struct md_lammps *lammps)
{
    free(lammps->coeffs);
    lammps->coeffs = NULL;
}

// Numbers between commas; how many, `most` + 1 where there are more, -1 where one is none.
static int split_numbers(const char *text, double *value, int most)
{
    for (int count = 0;; count++) {
        size_t length = strcspn(text, ",");
        char word[WORD];
        if (count == most)
            return most + 1;
        if (length >= sizeof word)
            return -1;
        memcpy(word, text, length);
        word[length] = 0;
        if (!md_parse_real(word, &value[count]))
            return -1;
        if (!text[length])
            return count + 1;
        text += length + 1;
    }
}

int md_lammps_pair(struct md_lammps *lammps, const char *text)
{
    static const char plain[] = "lj/cut:", charged[] = "lj/cut/coul/cut:";
    bool coulomb = strncmp(text, charged, strlen(charged)) == 0;
    if (!coulomb && strncmp(text, plain, strlen(plain)) != 0)
        return leat_fail(-ENOTSUP,
                         "pair style '%.60s'; there are lj/cut:RC and lj/cut/coul/cut:RC, with the "
                         "cut-off in the file's units",
                         text);
    double cutoff[2];
    int count = split_numbers(strchr(text, ':') + 1, cutoff, 2);
    if (count < 1 || count > (coulomb ? 2 : 1) || !(cutoff[0] > 0.0))
        return leat_fail(-EINVAL, "'%.60s': expected a cut-off after the colon%s", text,
                         coulomb ? ", or two" : "");
    if (count == 2 && (cutoff[0] < cutoff[1] || cutoff[0] > cutoff[1]))
        return leat_fail(-ENOTSUP, "'%.60s': two different cut-offs; they have to be equal", text);
    lammps->coulomb = coulomb;
    lammps->cutoff = cutoff[0];
    return 0;
}

int md_lammps_pair_coeff(struct md_lammps *lammps, const char *text)
{
    double value[4];
    int count = split_numbers(text, value, 4);
    bool fits = count == 4 && value[0] >= 1.0 && value[0] <= 1e9 && value[1] >= 1.0 &&
                value[1] <= 1e9 && value[2] >= 0.0 && value[3] >= 0.0;
    struct md_lammps_coeff coeff = {0};
    if (fits)
        coeff = (struct md_lammps_coeff){(int)value[0], (int)value[1], value[2], value[3]};
    if (!fits || coeff.i < value[0] || coeff.j < value[1])
        return leat_fail(-EINVAL,
                         "'%.60s': expected I,J,EPSILON,SIGMA: two atom types from 1 and two "
                         "numbers that are not negative",
                         text);
    struct md_lammps_coeff *grown =
        md_reserve(lammps->coeffs, lammps->coeff_count, &lammps->coeff_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    lammps->coeffs = grown;
    lammps->coeffs[lammps->coeff_count++] = coeff;
    return 0;
}

int md_lammps_special(struct md_lammps *lammps, const char *text)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool both = length == 7 && strncmp(text, "lj/coul", length) == 0;
    bool lj = both || (length == 2 && strncmp(text, "lj", length) == 0);
    bool coulomb = both || (length == 4 && strncmp(text, "coul", length) == 0);
    double weight[3];
    if ((!lj && !coulomb) || split_numbers(colon + 1, weight, 3) != 3)
        return leat_fail(-EINVAL,
                         "'%.60s': expected lj/coul:W12,W13,W14, lj:W12,W13,W14 or "
                         "coul:W12,W13,W14",
                         text);
    for (int i = 0; i < 3; i++)
        if (!(weight[i] >= 0.0 && weight[i] <= 1.0))
            return leat_fail(-EINVAL, "'%.60s': weights go from 0 to 1", text);
    if (lj)
        memcpy(lammps->special_lj, weight, sizeof weight);
    if (coulomb)
        memcpy(lammps->special_coulomb, weight, sizeof weight);
    return 0;
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

int md_lammps_check_special(const struct md_lammps *lammps)
{
    const double *lj = lammps->special_lj;
    const double *coulomb = lammps->coulomb ? lammps->special_coulomb : lj;
    bool near = !differ(lj[0], coulomb[0]) && !differ(lj[1], coulomb[1]);
    bool whole = (lj[0] == 0.0 || lj[0] == 1.0) && (lj[1] == 0.0 || lj[1] == 1.0);
    bool fall = lj[0] > lj[1] || lj[1] > lj[2] || lj[1] > coulomb[2];
    if (near && whole && !fall)
        return 0;
    return leat_fail(-ENOTSUP,
                     "weights lj:%g,%g,%g and coul:%g,%g,%g; those of 1-2 and 1-3 pairs have to be "
                     "0 or 1 and the same for both, and none below one before it",
                     lj[0], lj[1], lj[2], coulomb[0], coulomb[1], coulomb[2]);
}
