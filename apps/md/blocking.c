// SPDX-License-Identifier: Apache-2.0
// Mean of a series of correlated values, and its standard error.
//
// Algorithm: neighbours are averaged again and again; the error that values of a level have as if
// they were independent grows until they are (Flyvbjerg & Petersen, J. Chem. Phys. 91 (1989) 461).
// The level taken is the first whose block length b has b^3 > 2 n (error_b / error_1)^4 (Lee et
// al., Phys. Rev. B 83 (2011) 035117). Advantage: no correlation time has to be known.
// Disadvantage: a series of few correlation times has no such level; the last one's error is then
// too small, and that is said.

#include "md/compare.h"

#include <math.h>

enum { BLOCKS_LEAST = 4 }; // fewer have no error worth the name

// Sum of squared distances to the mean, over values from an offset that costs no digits.
static void moments(const double *values, int64_t count, double *mean, double *square)
{
    double sum = 0.0, sum2 = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] - values[0];
    *mean = values[0] + sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        sum2 += (values[i] - *mean) * (values[i] - *mean);
    *square = sum2;
}

void md_blocking(double *values, int64_t count, struct md_mean *mean)
{
    *mean = (struct md_mean){.mean = NAN, .error = NAN, .count = count, .block = 1};
    if (count < 1)
        return;
    double level_mean, square, error1 = NAN;
    moments(values, count, &mean->mean, &square);
    for (int64_t block = 1, n = count; n >= BLOCKS_LEAST; block *= 2, n /= 2) {
        if (block > 1)
            for (int64_t i = 0; i < n; i++)
                values[i] = 0.5 * (values[2 * i] + values[2 * i + 1]);
        moments(values, n, &level_mean, &square);
        mean->error = sqrt(square / (double)(n - 1) / (double)n);
        mean->block = block;
        if (block == 1)
            error1 = mean->error;
        double ratio = error1 > 0.0 ? mean->error / error1 : 1.0, b = (double)block;
        // Values that do not vary have no correlation to wait for.
        mean->decided = square == 0.0 || b * b * b > 2.0 * (double)count * pow(ratio, 4.0);
        if (mean->decided)
            return;
    }
}
