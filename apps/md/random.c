// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 and the distributions made from it; see random.h for the algorithm, its advantage
// and its disadvantage.

#include "md/random.h"

#include <math.h>

void md_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t output[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0;
        uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
        uint32_t high0 = (uint32_t)(p0 >> 32), high1 = (uint32_t)(p1 >> 32);
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    output[0] = c0;
    output[1] = c1;
    output[2] = c2;
    output[3] = c3;
}

void md_random_start(struct md_random *random, int64_t seed, enum md_random_use use, int64_t index,
                     uint32_t part)
{
    uint64_t key = (uint64_t)seed, number = (uint64_t)index;
    *random = (struct md_random){
        .key = {(uint32_t)key, (uint32_t)(key >> 32)},
        .counter = {0, (uint32_t)use << 16 | (part & 0xFFFFu), (uint32_t)number,
                    (uint32_t)(number >> 32)},
    };
}

static uint64_t next_bits(struct md_random *random)
{
    if (random->has_bits) {
        random->has_bits = false;
        return random->bits;
    }
    uint32_t words[4];
    md_philox(random->counter, random->key, words);
    random->counter[0]++;
    random->bits = (uint64_t)words[3] << 32 | words[2];
    random->has_bits = true;
    return (uint64_t)words[1] << 32 | words[0];
}

double md_random_uniform(struct md_random *random)
{
    // 52 bits and a half are exact; with 53 the largest would round to 1, whose logarithm's square
    // root and the gamma method's comparison are no longer those of a number inside the interval.
    return ((double)(next_bits(random) >> 12) + 0.5) * 0x1p-52;
}

double md_random_gaussian(struct md_random *random)
{
    if (random->has_gaussian) {
        random->has_gaussian = false;
        return random->gaussian;
    }
    double radius = sqrt(-2.0 * log(md_random_uniform(random)));
    double angle = 6.283185307179586477 * md_random_uniform(random);
    random->gaussian = radius * sin(angle);
    random->has_gaussian = true;
    return radius * cos(angle);
}

double md_random_gamma(struct md_random *random, double shape)
{
    // Not finite would never be accepted below.
    if (!(shape > 0.0) || !isfinite(shape))
        return 0.0;
    double boost = 1.0;
    if (shape < 1.0) {
        boost = pow(md_random_uniform(random), 1.0 / shape);
        shape += 1.0;
    }
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = md_random_gaussian(random);
        double root = 1.0 + c * x;
        if (root <= 0.0)
            continue;
        double v = root * root * root;
        if (log(md_random_uniform(random)) < 0.5 * x * x + d - d * v + d * log(v))
            return boost * d * v;
    }
}
