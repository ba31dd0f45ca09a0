// SPDX-License-Identifier: Apache-2.0
// Bonded forces of molecules that lie one after the other.
//
// Algorithm: molecule by molecule, kind by kind, in groups of terms (bonded_lanes.inc). A group is
// of one molecule, and every energy and the virial is one running sum that the caller hands on, so
// how it splits molecules into calls changes no bit.
//
// Advantage: a molecule is in the nearest cache for all of its terms, however many there are beside
// it. Disadvantage: molecules of few terms leave lanes empty, such as the one angle of a water.

#include "md/bonded.h"

#include "md/bonded_internal.h"

#include <stddef.h>

static md_bonded_function *choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return md_bonded_avx2;
#endif
    return md_bonded_plain;
}

void md_bonded_forces(const struct md_molecule_type *type, int count, double coulomb,
                      const double *x, double *f, struct md_bonded_energy *energy, double *virial)
{
    md_bonded_function *forces = choose();
    ptrdiff_t stride = 3 * (ptrdiff_t)type->atom_count;
    for (int molecule = 0; molecule < count; molecule++, x += stride, f += stride)
        forces(type, coulomb, x, f, energy, virial);
}
