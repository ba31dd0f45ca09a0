/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathering through an index map, 16 bytes of the result a thread.
 *
 * Advantage: stores of a warp are 512 contiguous bytes, which NVLink wants. Disadvantage: with
 * three floats an element a thread looks at up to two elements, whose index it loads itself.
 */
#ifndef LEAT_BENCH_GPU_GATHER_CUH
#define LEAT_BENCH_GPU_GATHER_CUH

#include <stdint.h>

__device__ __forceinline__ float gpu_gather_one(const float *__restrict__ home,
                                                const uint32_t *__restrict__ index, uint32_t at,
                                                uint32_t components)
{
    const uint32_t atom = at / components, c = at - atom * components;
    const float shift = c < 3 ? (float)(c + 1) : 0.0f;
    return home[(size_t)index[atom] * components + c] + shift;
}

/* Floats 4 * at to 4 * at + 3 of the gathered array. */
template <uint32_t components>
__device__ __forceinline__ float4 gpu_gather_four(const float *__restrict__ home,
                                                  const uint32_t *__restrict__ index, uint32_t at)
{
    if (components == 4) {
        const float4 x = reinterpret_cast<const float4 *>(home)[index[at]];
        return make_float4(x.x + 1.0f, x.y + 2.0f, x.z + 3.0f, x.w);
    }
    return make_float4(gpu_gather_one(home, index, 4 * at, components),
                       gpu_gather_one(home, index, 4 * at + 1, components),
                       gpu_gather_one(home, index, 4 * at + 2, components),
                       gpu_gather_one(home, index, 4 * at + 3, components));
}

/* Gathers floats [4 * begin, min(4 * end, count)) into `to`, by threads that stride. */
template <uint32_t components>
__device__ __forceinline__ void
gpu_gather(float *to, const float *__restrict__ home, const uint32_t *__restrict__ index,
           uint32_t count, uint32_t begin, uint32_t end, uint32_t thread, uint32_t threads)
{
    const uint32_t whole = count / 4;
    for (uint32_t at = begin + thread; at < end; at += threads) {
        if (at < whole) {
            reinterpret_cast<float4 *>(to)[at] = gpu_gather_four<components>(home, index, at);
        } else {
            for (uint32_t one = 4 * at; one < count; one++)
                to[one] = gpu_gather_one(home, index, one, components);
        }
    }
}

/* home[index[i]] += from[i]; every index occurs once. */
__device__ __forceinline__ void gpu_scatter_add(float *home, const uint32_t *__restrict__ index,
                                                const float *from, uint32_t components,
                                                uint32_t count, uint32_t thread, uint32_t threads)
{
    for (uint32_t at = thread; at < count; at += threads) {
        const uint32_t atom = at / components, c = at - atom * components;
        home[(size_t)index[atom] * components + c] += from[at];
    }
}

/* Reads `count` floats; the result depends on each. */
__device__ __forceinline__ float gpu_read(const float *from, uint32_t count, uint32_t thread,
                                          uint32_t threads)
{
    const uint32_t whole = count / 4;
    float sum = 0.0f;
    for (uint32_t at = thread; at < whole; at += threads) {
        const float4 x = reinterpret_cast<const float4 *>(from)[at];
        sum += x.x + x.y + x.z + x.w;
    }
    if (thread < count - 4 * whole)
        sum += from[4 * whole + thread];
    return sum;
}

#endif
