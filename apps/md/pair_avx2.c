// SPDX-License-Identifier: Apache-2.0
// Pair loops with AVX2 and FMA: 8 floats or 4 doubles.
//
// The inverse square root is the processor's estimate (12 bits) refined by one Newton step in float
// (2e-7) and three terms of a series in double (1e-13).
// Advantage: no division, which would bound the loop. Disadvantage: 16 registers, as with SSE2.

#include "md/list_internal.h"
#include "md/pair_words.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define ROWS 1
#define MASK __m256i
#define M_NONE                                                                                     \
    {                                                                                              \
        0                                                                                          \
    }

#define REAL                     float
#define VEC                      __m256
#define COLS                     8
#define NAME(x)                  x##_mixed
#define M_LESS(a, b)             _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define M_ANY(m)                 (_mm256_movemask_ps(_mm256_castsi256_ps(m)) != 0)
#define V_SET(a)                 _mm256_set1_ps(a)
#define V_LOAD_J(p)              _mm256_load_ps(p)
#define V_SPREAD_I(p, v)         _mm256_broadcast_ss((p) + (v))
#define V_FMA(a, b, c)           _mm256_fmadd_ps(a, b, c)
#define V_FMS(a, b, c)           _mm256_fmsub_ps(a, b, c)
#define V_KEEP(m, a)             _mm256_and_ps(_mm256_castsi256_ps(m), a)
#define V_MULTIPLY_KEEP(m, a, b) V_KEEP(m, (a) * (b))
#define V_RSQRT_ESTIMATE(m, a)   V_KEEP(m, _mm256_rsqrt_ps(a))
#define V_RSQRT_REFINE(y, a)     refine_mixed(y, a)
#define V_GATHER(rows, type)     _mm256_i32gather_ps(*(rows), V_TYPES(type), 4)
#define V_TABLE(rows)            _mm256_load_ps(*(rows))
#define V_TYPES(type)            _mm256_load_si256((const __m256i *)(const void *)(type))
#define V_PERMUTE(table, types)  _mm256_permutevar8x32_ps(table, types)
#define V_SUBTRACT_J(p, a)       _mm256_store_ps(p, _mm256_load_ps(p) - (a))
#define V_SUM_I(v, sum)          sum_i_mixed(v, sum)
#define SCAN_WIDTH               8
#define V_LOAD_ALL(p)            _mm256_loadu_ps(p)
#define V_MAX(a, b)              _mm256_max_ps(a, b)
#define M_BITS(m)                ((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m)))
#define V_SUM(a)                 sum_mixed(a)

INLINE __m256i and_bits_mixed(__m256i mask, uint32_t bits)
{
    const __m256i lane = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);
    return _mm256_and_si256(mask, _mm256_cmpeq_epi32(set, lane));
}
#define M_AND_BITS(m, bits) and_bits_mixed(m, bits)

INLINE __m256 refine_mixed(__m256 y, __m256 a)
{
    const __m256 residue = _mm256_fnmadd_ps(a * y, y, V_SET(1));
    return V_FMA(V_SET(0.5f) * y, residue, y);
}

INLINE void sum_i_mixed(const __m256 *v, float *sum)
{
    const __m256 ab = _mm256_hadd_ps(v[0], v[1]), cd = _mm256_hadd_ps(v[2], v[3]);
    const __m256 abcd = _mm256_hadd_ps(ab, cd);
    _mm_storeu_ps(sum, _mm256_castps256_ps128(abcd) + _mm256_extractf128_ps(abcd, 1));
}

INLINE double sum_mixed(__m256 a)
{
    double sum;
    V_SUM_LANES(double, a, 8, sum);
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
#undef V_FMA
#undef V_FMS
#undef V_KEEP
#undef V_RSQRT_ESTIMATE
#undef V_RSQRT_REFINE
#undef V_GATHER
#undef V_TABLE
#undef V_TYPES
#undef V_PERMUTE
#undef V_SUBTRACT_J
#undef V_SUM_I
#undef V_SUM
#undef SCAN_WIDTH

#define REAL                   double
#define VEC                    __m256d
#define COLS                   4
#define NAME(x)                x##_double
#define M_LESS(a, b)           _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_LT_OQ))
#define M_ANY(m)               (_mm256_movemask_pd(_mm256_castsi256_pd(m)) != 0)
#define V_SET(a)               _mm256_set1_pd(a)
#define V_LOAD_J(p)            _mm256_load_pd(p)
#define V_SPREAD_I(p, v)       _mm256_broadcast_sd((p) + (v))
#define V_FMA(a, b, c)         _mm256_fmadd_pd(a, b, c)
#define V_FMS(a, b, c)         _mm256_fmsub_pd(a, b, c)
#define V_KEEP(m, a)           _mm256_and_pd(_mm256_castsi256_pd(m), a)
#define V_RSQRT_ESTIMATE(m, a) V_KEEP(m, _mm256_cvtps_pd(_mm_rsqrt_ps(_mm256_cvtpd_ps(a))))
#define V_RSQRT_REFINE(y, a)   refine_double(y, a)
#define V_GATHER(rows, type)   _mm256_i32gather_pd(*(rows), V_TYPES(type), 8)
#define V_TYPES(type)          _mm_load_si128((const __m128i *)(const void *)(type))
#define V_SUBTRACT_J(p, a)     _mm256_store_pd(p, _mm256_load_pd(p) - (a))
#define V_SUM_I(v, sum)        sum_i_double(v, sum)
#define V_SUM(a)               (((a)[0] + (a)[1]) + ((a)[2] + (a)[3]))

INLINE __m256i and_bits_double(__m256i mask, uint32_t bits)
{
    const __m256i lane = _mm256_set_epi64x(8, 4, 2, 1);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi64x((long long)bits), lane);
    return _mm256_and_si256(mask, _mm256_cmpeq_epi64(set, lane));
}
#define M_AND_BITS(m, bits) and_bits_double(m, bits)

// With the residue e = 1 - a y^2 of the estimate y, a^-1/2 = y (1 - e)^-1/2; its series to e^3.
INLINE __m256d refine_double(__m256d y, __m256d a)
{
    const __m256d e = _mm256_fnmadd_pd(a * y, y, V_SET(1));
    const __m256d series = V_FMA(V_FMA(V_SET(5.0 / 16), e, V_SET(3.0 / 8)), e, V_SET(0.5));
    return V_FMA(y * e, series, y);
}

INLINE void sum_i_double(const __m256d *v, double *sum)
{
    for (int a = 0; a < MD_I_ATOMS; a++)
        sum[a] = V_SUM(v[a]);
}

#include "md/pair_kernels.inc"

const struct md_pair_kernels md_pair_avx2 = {"avx2", scan, {&loops_mixed, &loops_double}};

#endif
