/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a TRR frame begins: words that its reader and its writer share.
 */
#ifndef LEAT_FORMAT_TRR_LAYOUT_H
#define LEAT_FORMAT_TRR_LAYOUT_H

#define TRR_MAGIC   1993
#define TRR_VERSION "GMX_trn_file"

/* 32-bit fields behind the version, in order. Those of no name are for what GROMACS once kept. */
enum trr_field {
    TRR_INPUT_BYTES,
    TRR_ENERGY_BYTES,
    TRR_BOX_BYTES,
    TRR_VIRIAL_BYTES,
    TRR_PRESSURE_BYTES,
    TRR_TOPOLOGY_BYTES,
    TRR_SYMBOL_BYTES,
    TRR_X_BYTES,
    TRR_V_BYTES,
    TRR_F_BYTES,
    TRR_ATOMS,
    TRR_STEP,
    TRR_ENERGIES,
    TRR_FIELD_COUNT
};

/* Magic, length twice, version, fields; then time and lambda, box, arrays. */
enum { TRR_HEAD_BYTES = 4 + 8 + 12 + 4 * TRR_FIELD_COUNT };

#endif
