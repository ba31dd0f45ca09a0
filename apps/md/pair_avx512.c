// SPDX-License-Identifier: Apache-2.0
// Pair loops with AVX-512 (F, DQ, VL): 16 floats, two atoms of i against eight of j, or 8 doubles.
//
// The inverse square root is the processor's estimate (14 bits) refined by one Newton step in float
// and three terms of a series in double; both end at rounding. Lanes beyond the cut-off are zeroed
// by the masks of instructions that are needed anyway. Advantage: 32 registers hold the i side;
// half as many instructions a pair as with AVX2. Disadvantage: in float the forces of a j cluster
// take twice the memory, see F_ALONG.

#include "md/list_internal.h"
#include "md/pair_words.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define M_NONE   0
#define M_ANY(m) ((m) != 0)

#define AHEAD
#define REAL                float
#define VEC                 __m512
#define MASK                __mmask16
#define ROWS                2
#define COLS                8
#define NAME(x)             x##_mixed
#define M_LESS(a, b)        _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define M_AND_BITS(m, bits) ((__mmask16)((m) & (bits)))
#define V_SET(a)            _mm512_set1_ps(a)
#define V_LOAD_J(p)         _mm512_broadcast_f32x8(_mm256_load_ps(p))
#define V_SPREAD_I(p, v)                                                                           \
    pair_of(_mm256_broadcast_ss((p) + 2 * (v)), _mm256_broadcast_ss((p) + 2 * (v) + 1))
#define V_FMA(a, b, c)           _mm512_fmadd_ps(a, b, c)
#define V_FMS(a, b, c)           _mm512_fmsub_ps(a, b, c)
#define V_KEEP(m, a)             _mm512_maskz_mov_ps(m, a)
#define V_MULTIPLY_KEEP(m, a, b) _mm512_maskz_mul_ps(m, a, b)
#define V_RSQRT_ESTIMATE(m, a)   _mm512_maskz_rsqrt14_ps(m, a)
#define V_RSQRT_REFINE(y, a)     refine_mixed(y, a)
#define V_GATHER(rows, type)     gather_pair(rows, type)
#define V_TABLE(rows)            pair_of(_mm256_load_ps((rows)[0]), _mm256_load_ps((rows)[1]))
#define V_TYPES(type)            _mm512_load_si512(type)
#define V_PERMUTE(table, types)  _mm512_permutexvar_ps(types, table)
#define V_SUBTRACT_J(p, a)       _mm512_store_ps(p, _mm512_load_ps(p) - (a))
#define V_SUM_I(v, sum)          sum_i_mixed(v, sum)
#define SCAN_WIDTH               16
#define V_LOAD_ALL(p)            _mm512_loadu_ps(p)
#define V_MAX(a, b)              _mm512_max_ps(a, b)
#define M_BITS(m)                ((unsigned)(m))
#undef STORE_INDICES
#define STORE_INDICES(out, first, near) store_indices(out, first, near)
#define V_SUM(a)                        sum_mixed(a)

INLINE __m512 pair_of(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

INLINE __m256i types_of(const int *type)
{
    return _mm256_load_si256((const __m256i *)(const void *)type);
}

INLINE __m512 gather_pair(const float *const *rows, const int *type)
{
    return pair_of(_mm256_i32gather_ps(rows[0], types_of(type), 4),
                   _mm256_i32gather_ps(rows[1], types_of(type), 4));
}

INLINE __m512 refine_mixed(__m512 y, __m512 a)
{
    const __m512 residue = _mm512_fnmadd_ps(a * y, y, V_SET(1));
    return V_FMA(V_SET(0.5f) * y, residue, y);
}

INLINE void sum_i_mixed(const __m512 *v, float *sum)
{
    const __m512 even = _mm512_shuffle_f32x4(v[0], v[1], 0x88);
    const __m512 odd = _mm512_shuffle_f32x4(v[0], v[1], 0xdd);
    __m512 lanes = even + odd; // atom a in the a-th 128 bits
    lanes += _mm512_permute_ps(lanes, 0x4e);
    lanes += _mm512_permute_ps(lanes, 0xb1);
    const __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    _mm_storeu_ps(sum, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, lanes)));
}

INLINE void store_indices(int *out, int first, unsigned near)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i index = _mm512_add_epi32(_mm512_set1_epi32(first), lane);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)near, index));
}

INLINE double sum_mixed(__m512 a)
{
    double sum;
    V_SUM_LANES(double, a, 16, sum);
    return sum;
}

#include "md/pair_kernels.inc"

#undef REAL
#undef VEC
#undef MASK
#undef ROWS
#undef NAME
#undef M_LESS
#undef M_AND_BITS
#undef V_SET
#undef V_LOAD_J
#undef V_SPREAD_I
#undef V_FMA
#undef V_FMS
#undef V_KEEP
#undef V_MULTIPLY_KEEP
#undef V_RSQRT_ESTIMATE
#undef AHEAD
#undef V_RSQRT_REFINE
#undef V_GATHER
#undef V_TABLE
#undef V_TYPES
#undef V_PERMUTE
#undef V_SUBTRACT_J
#undef V_SUM_I
#undef V_SUM
#undef SCAN_WIDTH

#define REAL                     double
#define VEC                      __m512d
#define MASK                     __mmask8
#define ROWS                     1
#define NAME(x)                  x##_double
#define M_LESS(a, b)             _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)
#define M_AND_BITS(m, bits)      ((__mmask8)((m) & (bits)))
#define V_SET(a)                 _mm512_set1_pd(a)
#define V_LOAD_J(p)              _mm512_load_pd(p)
#define V_SPREAD_I(p, v)         _mm512_set1_pd((p)[v])
#define V_FMA(a, b, c)           _mm512_fmadd_pd(a, b, c)
#define V_FMS(a, b, c)           _mm512_fmsub_pd(a, b, c)
#define V_KEEP(m, a)             _mm512_maskz_mov_pd(m, a)
#define V_MULTIPLY_KEEP(m, a, b) _mm512_maskz_mul_pd(m, a, b)
#define V_RSQRT_ESTIMATE(m, a)   _mm512_maskz_rsqrt14_pd(m, a)
#define V_RSQRT_REFINE(y, a)     refine_double(y, a)
#define V_GATHER(rows, type)     _mm512_i32gather_pd(types_of(type), *(rows), 8)
#define V_TABLE(rows)            _mm512_load_pd(*(rows))
#define V_TYPES(type)            _mm512_cvtepi32_epi64(types_of(type))
#define V_PERMUTE(table, types)  _mm512_permutexvar_pd(types, table)
#define V_SUBTRACT_J(p, a)       _mm512_store_pd(p, _mm512_load_pd(p) - (a))
#define V_SUM_I(v, sum)          sum_i_double(v, sum)
#define V_SUM(a)                 _mm512_reduce_add_pd(a)

// With the residue e = 1 - a y^2 of the estimate y, a^-1/2 = y (1 - e)^-1/2; its series to e^3.
INLINE __m512d refine_double(__m512d y, __m512d a)
{
    const __m512d e = _mm512_fnmadd_pd(a * y, y, V_SET(1));
    const __m512d series = V_FMA(V_FMA(V_SET(5.0 / 16), e, V_SET(3.0 / 8)), e, V_SET(0.5));
    return V_FMA(y * e, series, y);
}

INLINE void sum_i_double(const __m512d *v, double *sum)
{
    for (int a = 0; a < MD_I_ATOMS; a++)
        sum[a] = V_SUM(v[a]);
}

#include "md/pair_kernels.inc"

const struct md_pair_kernels md_pair_avx512 = {"avx512", scan, {&loops_mixed, &loops_double}};

#endif
