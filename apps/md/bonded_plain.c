// SPDX-License-Identifier: Apache-2.0
// Bonded forces two terms at a time, as any 64-bit processor can.
//
// Advantage: the same file everywhere. Disadvantage: square roots one by one where the compiler
// knows no better.

#define LANES 2
#if defined(__SSE2__)
#include <emmintrin.h>
#define LANES_SQRT(a) _mm_sqrt_pd(a)
#else
#define LANES_SQRT(a)                                                                              \
    (lanes)                                                                                        \
    {                                                                                              \
        sqrt((a)[0]), sqrt((a)[1])                                                                 \
    }
#endif
#define LANES_FORCES md_bonded_plain
#include "md/bonded_lanes.inc"
