/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constraints of a molecule kind, sorted out: clusters, and in which order their linear equations
 * are eliminated. C and CUDA; tables are flat, so that they can be copied to a device as they are.
 *
 * A cluster's matrix has a row and a column a constraint, in the order of elimination, and room for
 * what elimination fills in. Its values: the diagonal, then of each pair (row k, later column j)
 * the value at (k, j) and the one at (j, k).
 */
#ifndef MD_CONSTRAIN_PLAN_H
#define MD_CONSTRAIN_PLAN_H

#include <stdint.h>

/* Constraints that share atoms, directly or through others. Starts are places in the tables. */
struct md_cluster {
    int32_t bar_count, atom_count, pair_count, entry_count;
    int32_t first_bar, first_atom, first_pair, first_entry, first_update;
};

/* A constraint; a and b are atoms of the cluster. */
struct md_bar {
    int32_t a, b;
    int32_t pair_end; /* of its row's pairs in the cluster */
    double length2;
};

/* An element of the matrix that is not filled in: coupling times the product of row's bond now and
 * column's bond before. */
struct md_coupling {
    int32_t value, row, column;
    double coupling;
};

struct md_constraint_tables {
    const struct md_cluster *clusters;
    const struct md_bar *bars;
    const struct md_coupling *entries;
    const int32_t *atom; /* of clusters' atoms: index in the molecule */
    const double *inverse_mass;
    const int32_t *column; /* of pairs */
    /* For each row, for each two of its pairs: the value that eliminating the row changes. */
    const int32_t *update;
    int32_t cluster_count, bar_count, entry_count, atom_count, pair_count, update_count;
    int32_t scratch_count; /* doubles that the largest cluster needs */
    double tolerance;
};

struct md_constrainer {
    char name[64]; /* of the molecule kind */
    struct md_constraint_tables tables;
};

#endif
