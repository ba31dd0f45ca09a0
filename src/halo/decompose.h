/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan while it is being built, pulse after pulse.
 *
 * A pulse is told apart by its displacement: how many domains up its receiver looks in each
 * dimension. A forwarded plan has steps of one domain that hand on what earlier ones brought, a
 * onehop plan every displacement within the cut-off, of home elements alone; frames, selection and
 * letters are the same. Advantage: one rule of what has to travel, for both kinds and all boxes.
 * Disadvantage: none of the shortcuts that a single kind would allow.
 */
#ifndef LEAT_HALO_DECOMPOSE_H
#define LEAT_HALO_DECOMPOSE_H

#include "halo/domains.h"
#include "halo/plan.h"

/* Coordinates may have passed through single precision on their way here (a rounding of 6e-8 of the
 * box edge), and pairs are often searched in it. Within this part of the longest edge, an element
 * at the limit is sent and a centre at the bound of a domain counts as inside. */
#define ROUNDING 1e-6

struct building {
    struct leat_job *job;
    struct domains domains;
    struct leat_plan *plan;
    double *x_nm; /* [3 * element_capacity], of all elements there so far */
    size_t element_capacity;
    size_t index_count, index_capacity;
    unsigned char *letter;
    size_t letter_capacity;
    double reach_nm; /* distance from a receiver's corner up to which elements are sent */
    /* This rank's first failure. It goes on swapping letters, empty ones, so that nobody waits for
     * it in vain; the verdict is agreed on at the end. */
    int error;
};

struct hop {
    int displacement[3];
    uint32_t first, last; /* of the elements there, those that may be sent */
};

/* Room for so many elements. */
int building_grow(struct building *b, size_t elements);

/* The plan's pulse p: frame, selection, exchange. Returns only what makes going on pointless, a
 * peer that cannot be reached any more; what else goes wrong is noted in b->error. */
int building_pulse(struct building *b, int p, const struct hop *hop);

#endif
