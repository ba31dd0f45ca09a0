// SPDX-License-Identifier: Apache-2.0
// Bonded forces four terms at a time, with AVX2 and FMA.
//
// Advantage: twice as many as with SSE2, in fewer instructions. Disadvantage: rounding differs from
// it by a fused multiplication here and there.

#if defined(__x86_64__)

#include <immintrin.h>

#define LANES         4
#define LANES_SQRT(a) _mm256_sqrt_pd(a)
#define LANES_FORCES  md_bonded_avx2
#include "md/bonded_lanes.inc"

#endif
