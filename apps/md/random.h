/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC'11).
 *
 * Advantage: a number is a function of its key and counter alone, so any rank can make the number
 * of any atom and step without a state that would have to be kept, sent or checkpointed.
 * Disadvantage: about ten times the work of a small sequential generator a number, which shows only
 * where numbers are drawn for every atom at every step.
 */
#ifndef MD_RANDOM_H
#define MD_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* What the numbers are for: two uses of one seed never share a number. */
enum md_random_use { MD_RANDOM_VELOCITY = 1, MD_RANDOM_V_RESCALE = 2 };

/* A sequence of up to 2^33 uniform numbers; plain data on the caller's stack. */
struct md_random {
    uint32_t key[2], counter[4];
    uint64_t bits;   /* the block's second half, while has_bits */
    double gaussian; /* the second of a pair, while has_gaussian */
    bool has_bits, has_gaussian;
};

/* The bijection itself: ten rounds on one 128-bit counter. */
void md_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t output[4]);

/* Begins the sequence of (seed, use, index, part): index is an atom's global number or a step, part
 * an axis, or 0. Sequences of different arguments are independent. part is below 65,536. */
void md_random_start(struct md_random *random, int64_t seed, enum md_random_use use, int64_t index,
                     uint32_t part);

/* Uniform in the open interval (0, 1), in steps of 2^-52. */
double md_random_uniform(struct md_random *random);

/* Standard normal (Box and Muller); at most 8.6 from zero. */
double md_random_gaussian(struct md_random *random);

/* Gamma of unit scale and the given shape (Marsaglia and Tsang, ACM TOMS 26 (2000) 363); 0 where
 * the shape is not positive and finite. */
double md_random_gamma(struct md_random *random, double shape);

#endif
