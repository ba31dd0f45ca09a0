/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that the kernels of `leat md` are written in: C17 and CUDA from one source.
 *
 * A kernel is a function of one argument structure and the number of what it works on: an atom, a
 * cell, a part of a sum. Those that say so are called by a team of lanes instead, all with the same
 * number: 32 on a GPU, one on the CPU. What lanes add up is added in one order, so that two runs
 * give the same bits.
 *
 * Advantage: what runs on a GPU is tested without one, against the oracle. Disadvantage: kernels
 * share no memory but what they were given, so what a block could keep close is read again.
 */
#ifndef MD_GPU_WORDS_H
#define MD_GPU_WORDS_H

#include <math.h>
#include <stdint.h>

#if defined(MD_GPU_WORDS)

#include MD_GPU_WORDS /* a test's own */

#elif defined(__CUDACC__)

#define G_FN    static __device__ __forceinline__
#define G_LANES 32u

G_FN uint32_t g_lane(void)
{
    return threadIdx.x & (G_LANES - 1u);
}
/* A bit a lane. */
G_FN uint32_t g_ballot(int here)
{
    return __ballot_sync(0xffffffffu, here);
}
G_FN uint32_t g_count(uint32_t bits)
{
    return (uint32_t)__popc(bits);
}
G_FN float g_sum_f(float value)
{
    for (int other = 16; other > 0; other >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}
G_FN double g_sum_d(double value)
{
    for (int other = 16; other > 0; other >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}
G_FN uint32_t g_add(uint32_t *word, uint32_t by)
{
    return atomicAdd(word, by);
}
G_FN int g_claim(uint32_t *word)
{
    return atomicCAS(word, 0u, 1u) == 0u;
}
G_FN float g_rsqrt(float square)
{
    return rsqrtf(square);
}
/* Floats at an address that is a multiple of their bytes, in one load. */
G_FN void g_load4(const float *from, float to[4])
{
    const float4 all = __ldg((const float4 *)from);
    to[0] = all.x;
    to[1] = all.y;
    to[2] = all.z;
    to[3] = all.w;
}
G_FN void g_load2(const float *from, float to[2])
{
    const float2 all = __ldg((const float2 *)from);
    to[0] = all.x;
    to[1] = all.y;
}

#else

#define G_FN    static inline
#define G_LANES 1u

G_FN uint32_t g_lane(void)
{
    return 0;
}
G_FN uint32_t g_ballot(int here)
{
    return here ? 1u : 0u;
}
G_FN uint32_t g_count(uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}
G_FN float g_sum_f(float value)
{
    return value;
}
G_FN double g_sum_d(double value)
{
    return value;
}
#include "md/gpu_words_plain.h"

#endif

#endif
