/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the GPU's kernels for teams of 32 lanes in one thread: lanes are coroutines that
 * take turns where all of them exchange something.
 *
 * What a lane hands over lies in one of two places by turns, so that it may go on to the next
 * exchange before others have looked at the last. Advantage: the order of lanes and what they tell
 * each other is a GPU's, and a lane that misses an exchange is found. Disadvantage: they never run
 * at the same time.
 */
#ifndef TEST_GPU_TEAM_WORDS_H
#define TEST_GPU_TEAM_WORDS_H

#include <stdint.h>

#define G_FN    static inline
#define G_LANES 32u

struct team_value {
    uint32_t kind; /* which word, so that no lane takes another's */
    double value;
};

uint32_t team_lane(void);
/* Hands a value over; returns all lanes' once they have come as far. */
const struct team_value *team_meet(uint32_t kind, double value);

G_FN uint32_t g_lane(void)
{
    return team_lane();
}
G_FN uint32_t g_ballot(int here)
{
    const struct team_value *all = team_meet(1, here ? 1.0 : 0.0);
    uint32_t bits = 0;
    for (uint32_t lane = 0; lane < G_LANES; lane++)
        bits |= all[lane].value != 0.0 ? 1u << lane : 0u;
    return bits;
}
G_FN uint32_t g_count(uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}
/* As a GPU does it: pairs of lanes, at half the distance each time. */
G_FN float g_sum_f(float value)
{
    for (uint32_t other = G_LANES / 2; other > 0; other /= 2)
        value += (float)team_meet(2, (double)value)[g_lane() ^ other].value;
    return value;
}
G_FN double g_sum_d(double value)
{
    for (uint32_t other = G_LANES / 2; other > 0; other /= 2)
        value += team_meet(3, value)[g_lane() ^ other].value;
    return value;
}
#include "md/gpu_words_plain.h"

#endif
