/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmarks of `leat bench`, each with its own options; cmd_bench.c has their table.
 *
 * Advantage: a benchmark's help names only what counts for it. Disadvantage: its name has to come
 * before its options.
 */
#ifndef LEAT_CLI_BENCH_H
#define LEAT_CLI_BENCH_H

/* argv[0] is the benchmark's name; the result is the exit status. */
int bench_halo(int argc, char **argv);
int bench_p2p(int argc, char **argv);
int bench_coll(int argc, char **argv);
int bench_memory(int argc, char **argv);
int bench_flood(int argc, char **argv);
int bench_file(int argc, char **argv);

/* A rank of one: DIRECTORY SIDE [MODE]. */
int bench_halo_serve(int argc, char **argv);
int bench_msg_serve(int argc, char **argv);
/* A side of bench file: WAY [DEVICE], led by lines on standard input. */
int bench_file_serve(int argc, char **argv);

#endif
