// SPDX-License-Identifier: Apache-2.0
// Bonded forces of molecules that lie one after the other.
//
// Algorithm: molecule by molecule, kind by kind, term by term; the formulas are those of
// bonded_terms.inc, with the kind known where they are compiled in. Every energy and the virial is
// one running sum that the caller hands on, so how it splits molecules into calls changes no bit.
//
// Advantage: a molecule is in the nearest cache for all of its terms, however many there are beside
// it. Disadvantage: no vector instructions; a term that needs an angle waits for the library.

#include "md/bonded.h"

#define G_FN static inline
#include <math.h>
#include <stddef.h>
#include "md/bonded_terms.inc"

struct sums {
    double energy, coulomb;
    double *virial; // NULL where no sums are wanted
};

static inline void add_virial(double *virial, struct g_vector arm, struct g_vector f)
{
    double a[3] = {-0.5 * arm.x, -0.5 * arm.y, -0.5 * arm.z}, b[3] = {f.x, f.y, f.z};
    for (int k = 0; k < 9; k++)
        virial[k] += a[k / 3] * b[k % 3];
}

// Inlined once a kind, so that each has a loop of its own.
static inline __attribute__((always_inline)) void add_terms(const struct md_molecule_type *type,
                                                            int kind, double coulomb,
                                                            const double *x, double *f,
                                                            struct sums *sums)
{
    int atoms = g_term_atoms(kind);
    for (int k = type->term_start[kind]; k < type->term_start[kind + 1]; k++) {
        const struct md_term *term = &type->terms[k];
        struct g_vector site[MD_TERM_ATOMS];
        struct g_bonded part;
        for (int i = 0; i < atoms; i++)
            site[i] = g_at(x + 3 * (ptrdiff_t)term->atom[i]);
        g_bonded_term(kind, term->parameter, site, coulomb, &part);
        for (int i = 0; i < atoms; i++)
            g_push(f + 3 * (ptrdiff_t)term->atom[i], 1.0, part.f[i]);
        if (!sums)
            continue;
        sums->energy += part.energy;
        sums->coulomb += part.coulomb;
        // The forces add up to zero, so arms from the first atom serve for positions, without the
        // box's digits.
        for (int i = 1; sums->virial && i < atoms; i++)
            add_virial(sums->virial, g_difference(site[i], site[0]), part.f[i]);
    }
}

static void add_kind(const struct md_molecule_type *type, int kind, double coulomb, const double *x,
                     double *f, struct sums *sums)
{
    switch (kind) {
    case MD_TERM_DIHEDRAL:
        add_terms(type, MD_TERM_DIHEDRAL, coulomb, x, f, sums);
        break;
    case MD_TERM_PERIODIC_IMPROPER:
        add_terms(type, MD_TERM_PERIODIC_IMPROPER, coulomb, x, f, sums);
        break;
    case MD_TERM_BOND:
        add_terms(type, MD_TERM_BOND, coulomb, x, f, sums);
        break;
    case MD_TERM_ANGLE:
        add_terms(type, MD_TERM_ANGLE, coulomb, x, f, sums);
        break;
    case MD_TERM_RYCKAERT_BELLEMANS:
        add_terms(type, MD_TERM_RYCKAERT_BELLEMANS, coulomb, x, f, sums);
        break;
    case MD_TERM_IMPROPER:
        add_terms(type, MD_TERM_IMPROPER, coulomb, x, f, sums);
        break;
    default:
        add_terms(type, MD_TERM_PAIR, coulomb, x, f, sums);
    }
}

void md_bonded_forces(const struct md_molecule_type *type, int count, double coulomb,
                      const double *x, double *f, struct md_bonded_energy *energy, double *virial)
{
    ptrdiff_t stride = 3 * (ptrdiff_t)type->atom_count;
    for (int molecule = 0; molecule < count; molecule++, x += stride, f += stride)
        for (int kind = 0; kind < MD_TERM_KINDS; kind++) {
            if (type->term_start[kind] == type->term_start[kind + 1])
                continue;
            if (!energy) {
                add_kind(type, kind, coulomb, x, f, NULL);
                continue;
            }
            struct sums sums = {energy->term[kind], energy->coulomb14, virial};
            add_kind(type, kind, coulomb, x, f, &sums);
            energy->term[kind] = sums.energy;
            energy->coulomb14 = sums.coulomb;
        }
}
