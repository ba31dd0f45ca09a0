// SPDX-License-Identifier: Apache-2.0
// Pair loops with SSE2: 4 floats or 2 doubles. Any x86-64 processor runs them.
//
// Advantage: square root and division are exact and run beside the rest. Disadvantage: 16 registers
// do not hold the i side, so part of it is loaded again for each j cluster.

#include "md/list_internal.h"
#include "md/pair_words.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ROWS 1
#define M_NONE                                                                                     \
    {                                                                                              \
        0                                                                                          \
    }
#define V_FMA(a, b, c)       ((a) * (b) + (c))
#define V_FMS(a, b, c)       ((a) * (b) - (c))
#define V_RSQRT_REFINE(y, a) (y)

#define REAL                   float
#define VEC                    __m128
#define MASK                   __m128i
#define COLS                   4
#define NAME(x)                x##_mixed
#define M_LESS(a, b)           _mm_castps_si128(_mm_cmplt_ps(a, b))
#define M_ANY(m)               (_mm_movemask_ps(_mm_castsi128_ps(m)) != 0)
#define V_SET(a)               _mm_set1_ps(a)
#define V_LOAD_J(p)            _mm_load_ps(p)
#define V_SPREAD_I(p, v)       _mm_set1_ps((p)[v])
#define V_KEEP(m, a)           _mm_and_ps(_mm_castsi128_ps(m), a)
#define V_RSQRT_ESTIMATE(m, a) V_KEEP(m, _mm_set1_ps(1) / _mm_sqrt_ps(a))
#define V_GATHER(rows, type)                                                                       \
    _mm_set_ps((*(rows))[(type)[3]], (*(rows))[(type)[2]], (*(rows))[(type)[1]], (*(rows))[*(type)])
#define V_MULTIPLY_KEEP(m, a, b) V_KEEP(m, (a) * (b))
#define V_SUBTRACT_J(p, a)       _mm_store_ps(p, _mm_load_ps(p) - (a))
#define V_SUM_I(v, sum)          sum_i_mixed(v, sum)
#define SCAN_WIDTH               4
#define V_LOAD_ALL(p)            _mm_loadu_ps(p)
#define V_MAX(a, b)              _mm_max_ps(a, b)
#define M_BITS(m)                ((unsigned)_mm_movemask_ps(_mm_castsi128_ps(m)))
#define V_SUM(a)                 sum_mixed(a)

INLINE __m128i and_bits_mixed(__m128i mask, uint32_t bits)
{
    const __m128i lane = _mm_set_epi32(8, 4, 2, 1);
    const __m128i set = _mm_and_si128(_mm_set1_epi32((int)bits), lane);
    return _mm_and_si128(mask, _mm_cmpeq_epi32(set, lane));
}
#define M_AND_BITS(m, bits) and_bits_mixed(m, bits)

INLINE void sum_i_mixed(const __m128 *v, float *sum)
{
    __m128 a = v[0], b = v[1], c = v[2], d = v[3];
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(sum, (a + b) + (c + d));
}

INLINE double sum_mixed(__m128 a)
{
    double sum;
    V_SUM_LANES(double, a, 4, sum);
    return sum;
}

#include "md/pair_kernels.inc"

#undef REAL
#undef VEC
#undef COLS
#undef NAME
#undef M_LESS
#undef M_AND_BITS
#undef M_ANY
#undef V_SET
#undef V_LOAD_J
#undef V_SPREAD_I
#undef V_KEEP
#undef V_RSQRT_ESTIMATE
#undef V_GATHER
#undef V_SUBTRACT_J
#undef V_SUM_I
#undef V_SUM
#undef SCAN_WIDTH

#define REAL                   double
#define VEC                    __m128d
#define COLS                   2
#define NAME(x)                x##_double
#define M_LESS(a, b)           _mm_castpd_si128(_mm_cmplt_pd(a, b))
#define M_ANY(m)               (_mm_movemask_pd(_mm_castsi128_pd(m)) != 0)
#define V_SET(a)               _mm_set1_pd(a)
#define V_LOAD_J(p)            _mm_load_pd(p)
#define V_SPREAD_I(p, v)       _mm_set1_pd((p)[v])
#define V_KEEP(m, a)           _mm_and_pd(_mm_castsi128_pd(m), a)
#define V_RSQRT_ESTIMATE(m, a) V_KEEP(m, _mm_set1_pd(1) / _mm_sqrt_pd(a))
#define V_GATHER(rows, type)   _mm_set_pd((*(rows))[(type)[1]], (*(rows))[*(type)])
#define V_SUBTRACT_J(p, a)     _mm_store_pd(p, _mm_load_pd(p) - (a))
#define V_SUM_I(v, sum)        sum_i_double(v, sum)
#define V_SUM(a)               ((a)[0] + (a)[1])

INLINE __m128i and_bits_double(__m128i mask, uint32_t bits)
{
    const __m128i lane = _mm_set_epi32(2, 2, 1, 1); // compared by halves: SSE2 has no wider one
    const __m128i set = _mm_and_si128(_mm_set1_epi32((int)bits), lane);
    return _mm_and_si128(mask, _mm_cmpeq_epi32(set, lane));
}
#define M_AND_BITS(m, bits) and_bits_double(m, bits)

INLINE void sum_i_double(const __m128d *v, double *sum)
{
    for (int a = 0; a < MD_I_ATOMS; a++)
        sum[a] = v[a][0] + v[a][1];
}

#include "md/pair_kernels.inc"

const struct md_pair_kernels md_pair_sse2 = {"sse2", scan, {&loops_mixed, &loops_double}};

#endif
