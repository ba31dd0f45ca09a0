/* SPDX-License-Identifier: Apache-2.0 */
/* A small generator with a seed, so that every run sees the same input (splitmix64, Vigna). */
#ifndef LEAT_TEST_SUPPORT_SPLITMIX_H
#define LEAT_TEST_SUPPORT_SPLITMIX_H

#include <stdint.h>

static inline uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [0, limit). */
static inline uint64_t splitmix_below(uint64_t *state, uint64_t limit)
{
    return splitmix_next(state) % limit;
}

#endif
