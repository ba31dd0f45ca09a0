/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that pair_kernels.inc is written in, as far as they are the same everywhere.
 *
 *   V_SET(a)                one real in every lane
 *   V_LOAD_J(p)             COLS reals, repeated for each of the ROWS
 *   V_SPREAD_I(p, v)        ROWS reals from p[v * ROWS], each in COLS lanes
 *   V_FMA(a, b, c), V_FMS   a b + c, a b - c
 *   M_LESS(a, b)            lanes where a < b; false where one is not a number
 *   M_AND_BITS(m, bits)     lanes of m whose bit is set, the lowest bit for the first lane
 *   M_NONE, M_ANY(m)        no lane; 1 if there is one
 *   V_KEEP(m, a)            a, and 0 outside m, whatever a is there
 *   V_MULTIPLY_KEEP(m, a, b)   a b likewise
 *   V_RSQRT_ESTIMATE(m, a)  about a^-1/2 likewise
 *   V_RSQRT_REFINE(y, a)    a^-1/2 from its estimate y, and 0 from 0
 *   V_GATHER(rows, type)    rows[r][type[c]] for lane (r, c)
 *   V_TABLE, V_TYPES, V_PERMUTE   the same from a register, where the unit can; else not defined
 *   V_SUBTRACT_J(p, a)      p[r, c] -= a, see F_ALONG
 *   V_SUM_I(v, sum)         sum[i atom] = sum over columns of the vectors v
 *   V_SUM(a)                sum of all lanes, in double
 * and in float, for the search:
 *   SCAN_WIDTH              lanes
 *   V_LOAD_ALL(p), V_MAX    as many reals from any address; the larger of two
 *   M_BITS(m)               a bit a lane, the lowest for the first
 *   STORE_INDICES(out, first, near)   out[k++] = first + b for each bit b of near, ascending
 *
 * Advantage: the pair loop reads as arithmetic. Disadvantage: macros, which have to be undefined
 * between the two precisions of a file.
 */
#ifndef MD_PAIR_WORDS_H
#define MD_PAIR_WORDS_H

/* Loops over vectors have to unroll for their arrays to live in registers. */
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define STORE_INDICES(out, first, near)                                                            \
    for (unsigned bits_ = (near), k_ = 0; bits_ != 0; bits_ &= bits_ - 1)                          \
    (out)[k_++] = (first) + __builtin_ctz(bits_)

/* Through memory: once a row, or once an energy step. */
#define V_SUM_LANES(type, from, lanes, to)                                                         \
    do {                                                                                           \
        (to) = 0;                                                                                  \
        for (int lane_ = 0; lane_ < (lanes); lane_++)                                              \
            (to) += (type)(from)[lane_];                                                           \
    } while (0)

#endif
