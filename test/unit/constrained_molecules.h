/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Molecules with constraints for tests, each in a shape that satisfies them.
 */
#ifndef CONSTRAINED_MOLECULES_H
#define CONSTRAINED_MOLECULES_H

#include "md/constrain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOLECULE_ATOMS = 320, MOLECULE_BARS = 320 };

struct molecule {
    struct md_molecule_type type;
    struct md_atom atom[MOLECULE_ATOMS];
    struct md_constraint bar[MOLECULE_BARS];
    int64_t id[MOLECULE_ATOMS];
    double x[3 * MOLECULE_ATOMS], v[3 * MOLECULE_ATOMS];
    struct md_constrainer *constrainer;
};

static inline uint64_t next_number(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Between -1 and 1. */
static inline double even(uint64_t *state)
{
    return (double)(int64_t)next_number(state) * 0x1p-63;
}

static inline struct molecule *molecule_new(const char *name)
{
    struct molecule *m = calloc(1, sizeof *m);
    assert_non_null(m);
    snprintf(m->type.name, sizeof m->type.name, "%s", name);
    m->type.atoms = m->atom;
    m->type.constraints = m->bar;
    for (int i = 0; i < MOLECULE_ATOMS; i++)
        m->id[i] = 900 + i;
    return m;
}

static inline void molecule_free(struct molecule *m)
{
    md_constrainer_free(m->constrainer);
    free(m);
}

static inline int add_atom(struct molecule *m, double mass_u, double x, double y, double z)
{
    int i = m->type.atom_count++;
    assert_true(i < MOLECULE_ATOMS);
    m->atom[i].mass_u = mass_u;
    m->x[3 * i] = x;
    m->x[3 * i + 1] = y;
    m->x[3 * i + 2] = z;
    return i;
}

static inline double apart(const double *x, int a, int b)
{
    double square = 0.0;
    for (int d = 0; d < 3; d++)
        square += (x[3 * a + d] - x[3 * b + d]) * (x[3 * a + d] - x[3 * b + d]);
    return sqrt(square);
}

/* At the distance that the atoms have now. */
static inline void add_bar(struct molecule *m, int a, int b)
{
    int k = m->type.constraint_count++;
    assert_true(k < MOLECULE_BARS);
    m->bar[k] = (struct md_constraint){a, b, apart(m->x, a, b)};
}

static inline void prepare(struct molecule *m)
{
    assert_int_equal(md_constrainer_make(&m->type, 1e-10, &m->constrainer), 0);
    assert_non_null(m->constrainer);
}

/* Somewhere in a box, turned, and with thermal velocities of about 300 K, hydrogen's not held. */
static inline void scatter(struct molecule *m, uint64_t seed)
{
    double place[3], axis[3], length = 0.0, angle = 3.0 * even(&seed);
    for (int d = 0; d < 3; d++) {
        place[d] = 5.0 + 4.0 * even(&seed);
        axis[d] = even(&seed) + 0.01;
        length += axis[d] * axis[d];
    }
    for (int d = 0; d < 3; d++)
        axis[d] /= sqrt(length);
    for (int i = 0; i < m->type.atom_count; i++) {
        double *x = m->x + 3 * i, old[3] = {x[0], x[1], x[2]};
        double along = axis[0] * old[0] + axis[1] * old[1] + axis[2] * old[2];
        for (int d = 0; d < 3; d++) {
            int e = (d + 1) % 3, g = (d + 2) % 3;
            x[d] = place[d] + cos(angle) * old[d] + (1.0 - cos(angle)) * along * axis[d] +
                   sin(angle) * (axis[e] * old[g] - axis[g] * old[e]);
            m->v[3 * i + d] = 2.5 * even(&seed) / sqrt(m->atom[i].mass_u / 1.008);
        }
    }
}

/* ---- Kinds ---- */

/* CnH2n+2, all carbons in a zigzag; `all`: carbons are held too. */
static inline struct molecule *alkane(int carbons, bool all)
{
    struct molecule *m = molecule_new("alkane");
    int before = -1;
    for (int c = 0; c < carbons; c++) {
        double side = c % 2 ? 1.0 : -1.0, x = 0.125 * c, y = 0.044 * side;
        int carbon = add_atom(m, 12.011, x, y, 0.0);
        if (all && before >= 0)
            add_bar(m, before, carbon);
        for (int h = -1; h <= 1; h += 2)
            add_bar(m, carbon, add_atom(m, 1.008, x, y + 0.063 * side, 0.089 * h));
        if (c == 0)
            add_bar(m, carbon, add_atom(m, 1.008, x - 0.089, y - 0.063 * side, 0.0));
        if (c == carbons - 1)
            add_bar(m, carbon, add_atom(m, 1.008, x + 0.089, y - 0.063 * side, 0.0));
        before = carbon;
    }
    prepare(m);
    return m;
}

/* Six carbons and six hydrogens, all bonds held. */
static inline struct molecule *benzene(void)
{
    struct molecule *m = molecule_new("benzene");
    for (int k = 0; k < 6; k++) {
        double c = cos(k * 1.0471975511965976), s = sin(k * 1.0471975511965976);
        add_atom(m, 12.011, 0.139 * c, 0.139 * s, 0.0);
        add_atom(m, 1.008, 0.248 * c, 0.248 * s, 0.0);
    }
    for (int k = 0; k < 6; k++) {
        add_bar(m, 2 * k, (2 * k + 2) % 12);
        add_bar(m, 2 * k + 1, 2 * k);
    }
    prepare(m);
    return m;
}

static inline struct molecule *water(void)
{
    struct molecule *m = molecule_new("water");
    add_atom(m, 15.9994, 0.0, 0.0, 0.0);
    add_atom(m, 1.008, sqrt(0.1 * 0.1 - 0.08165 * 0.08165), 0.08165, 0.0);
    add_atom(m, 1.008, sqrt(0.1 * 0.1 - 0.08165 * 0.08165), -0.08165, 0.0);
    add_bar(m, 0, 1);
    add_bar(m, 2, 0);
    add_bar(m, 1, 2);
    for (int k = 0; k < 3; k++)
        m->bar[k].length_nm = k == 2 ? 0.1633 : 0.1;
    prepare(m);
    return m;
}

/* Four atoms, all distances held. */
static inline struct molecule *tetrahedron(void)
{
    struct molecule *m = molecule_new("tetrahedron");
    add_atom(m, 31.0, 0.1, 0.1, 0.1);
    add_atom(m, 31.0, 0.1, -0.1, -0.1);
    add_atom(m, 31.0, -0.1, 0.1, -0.1);
    add_atom(m, 14.0, -0.1, -0.1, 0.1);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            add_bar(m, a, b);
    prepare(m);
    return m;
}

/* Methyl, methylene and hydroxyl apart, as with hydrogen's bonds held. */
static inline struct molecule *ethanol(void)
{
    struct molecule *m = molecule_new("ethanol");
    int c1 = add_atom(m, 12.011, 0.0, 0.0, 0.0);
    add_bar(m, c1, add_atom(m, 1.008, -0.0363, 0.1028, 0.0));
    add_bar(m, c1, add_atom(m, 1.008, -0.0363, -0.0514, 0.089));
    add_bar(m, c1, add_atom(m, 1.008, -0.0363, -0.0514, -0.089));
    int c2 = add_atom(m, 12.011, 0.153, 0.0, 0.0);
    add_bar(m, add_atom(m, 1.008, 0.1893, -0.0514, 0.089), c2);
    add_bar(m, add_atom(m, 1.008, 0.1893, -0.0514, -0.089), c2);
    int o = add_atom(m, 15.9994, 0.2, 0.134, 0.0);
    add_bar(m, o, add_atom(m, 1.008, 0.296, 0.134, 0.0));
    prepare(m);
    return m;
}

#endif
