/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of the GPU's kernels that are the same wherever one thread of the CPU runs all lanes; G_FN
 * is set. Included by gpu_words.h and by what tests put in its place.
 */
#ifndef LEAT_MD_GPU_WORDS_PLAIN_H
#define LEAT_MD_GPU_WORDS_PLAIN_H

#include <math.h>

/* One thread runs all: plain stores will do. */
G_FN uint32_t g_add(uint32_t *word, uint32_t by)
{
    uint32_t before = *word;
    *word = before + by;
    return before;
}
G_FN int g_claim(uint32_t *word)
{
    return g_add(word, 1u) == 0u;
}
G_FN float g_rsqrt(float square)
{
    return 1.0f / sqrtf(square);
}
G_FN void g_load4(const float *from, float to[4])
{
    for (int k = 0; k < 4; k++)
        to[k] = from[k];
}
G_FN void g_load2(const float *from, float to[2])
{
    to[0] = from[0];
    to[1] = from[1];
}

#endif
