/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of `leat bench halo`: waits for slices on its pipe of `side` in `directory` and runs them
 * in `mode`. 0 or a negative errno with detail.
 */
#ifndef LEAT_CLI_BENCH_HALO_H
#define LEAT_CLI_BENCH_HALO_H

#include <leat/halo.h>

int bench_halo_rank(const char *directory, const char *side, enum leat_mode mode);

#endif
