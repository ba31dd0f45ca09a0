// SPDX-License-Identifier: Apache-2.0
// "Did you mean": how far two names are from each other.
//
// Algorithm: the edit distance of Damerau and Levenshtein (insert, delete, replace, swap
// neighbours), three rows of its table at a time. Advantage: finds what a typing error does.
// Disadvantage: quadratic in the length, so long names are far from everything.

#include "core/config.h"

#include <string.h>

unsigned leat_name_distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b);
    if (m >= LEAT_NAME_FAR || n >= LEAT_NAME_FAR)
        return LEAT_NAME_FAR;
    // Row i holds the distances of a's first i characters to every beginning of b; a swap looks two
    // rows back.
    unsigned rows[3][LEAT_NAME_FAR];
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= m; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[m % 3][n];
}

void leat_name_consider(struct name_guess *guess, const char *candidate)
{
    unsigned distance = leat_name_distance(guess->wanted, candidate);
    // What begins alike is meant more often than what is merely short.
    size_t length = strlen(guess->wanted);
    bool beginning = length >= 2 && !strncmp(guess->wanted, candidate, length);
    if (beginning && distance > 1)
        distance = 1;
    if (distance <= 1 + length / 4 && (!guess->best || distance < guess->distance)) {
        guess->best = candidate;
        guess->distance = distance;
    }
}
