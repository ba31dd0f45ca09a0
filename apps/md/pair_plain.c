// SPDX-License-Identifier: Apache-2.0
// Pair loops, one pair at a time: the twin of the SIMD loops for any processor.
//
// Advantage: portable, and exact square roots. Disadvantage: several times slower than the others.

#include "md/list_internal.h"
#include "md/pair_words.h"

#include <math.h>
#include <string.h>

#define ROWS                     1
#define COLS                     1
#define MASK                     int
#define M_LESS(a, b)             ((a) < (b))
#define M_AND_BITS(m, bits)      ((m) & (int)((bits)&1u))
#define M_NONE                   0
#define M_ANY(m)                 (m)
#define V_SET(a)                 ((REAL)(a))
#define V_LOAD_J(p)              (*(p))
#define V_SPREAD_I(p, v)         ((p)[v])
#define V_FMA(a, b, c)           ((a) * (b) + (c))
#define V_FMS(a, b, c)           ((a) * (b) - (c))
#define V_KEEP(m, a)             ((m) ? (a) : 0)
#define V_MULTIPLY_KEEP(m, a, b) ((m) ? (a) * (b) : 0)
#define V_GATHER(rows, type)     ((*(rows))[*(type)])
#define V_SUBTRACT_J(p, a)       (*(p) -= (a))
#define V_SUM_I(v, sum)          memcpy(sum, v, sizeof(v))
#define V_SUM(a)                 ((double)(a))

#define V_RSQRT_REFINE(y, a) (y)

#define REAL                   float
#define VEC                    float
#define NAME(x)                x##_mixed
#define V_RSQRT_ESTIMATE(m, a) ((m) ? 1 / sqrtf(a) : 0)
#define SCAN_WIDTH             1
#define V_LOAD_ALL(p)          (*(p))
#define V_MAX(a, b)            ((a) > (b) ? (a) : (b))
#define M_BITS(m)              ((unsigned)(m))
#include "md/pair_kernels.inc"
#undef REAL
#undef VEC
#undef NAME
#undef V_RSQRT_ESTIMATE
#undef SCAN_WIDTH

#define REAL                   double
#define VEC                    double
#define NAME(x)                x##_double
#define V_RSQRT_ESTIMATE(m, a) ((m) ? 1 / sqrt(a) : 0)
#include "md/pair_kernels.inc"

const struct md_pair_kernels md_pair_plain = {"plain", scan, {&loops_mixed, &loops_double}};
