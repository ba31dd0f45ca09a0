/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leat bench p2p --tune: measures the ways that messages can go between two ranks of this machine,
 * and proposes the settings that choose between them.
 *
 * Algorithm: leat's own ranks several times, each time with settings that leave one way only, as
 * the sides of one benchmark (bench_sides.h); bench_fit.h makes thresholds of the times.
 * Advantage: what is measured is the library itself, by turns. Disadvantage: half round trips
 * between two ranks, not the mix of sizes and ranks of a program.
 */
#ifndef LEAT_CLI_BENCH_TUNE_H
#define LEAT_CLI_BENCH_TUNE_H

#include "bench_options.h"

#define BENCH_TUNE_LEAST UINT64_C(512) /* smaller ones go by queue, whatever the settings */

/*
 * Measures `sizes`, which ascend from BENCH_TUNE_LEAST, and reports as `common` asks. `write` puts
 * the proposals that the measurement tells into the settings file. 0 or a negative errno.
 */
int bench_tune(const struct bench_common *common, const struct bench_sizes *sizes, bool write);

#endif
