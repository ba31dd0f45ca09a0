/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bonded forces of one molecule by the vector instructions that the processor has.
 */
#ifndef MD_BONDED_INTERNAL_H
#define MD_BONDED_INTERNAL_H

#include "md/bonded.h"

/* Arguments of md_bonded_forces, for one molecule. */
typedef void md_bonded_function(const struct md_molecule_type *type, double coulomb,
                                const double *x, double *f, struct md_bonded_energy *energy,
                                double *virial);

md_bonded_function md_bonded_plain;
#if defined(__x86_64__)
md_bonded_function md_bonded_avx2; /* with FMA */
#endif

#endif
