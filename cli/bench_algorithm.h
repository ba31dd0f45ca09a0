/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of collectives and of their algorithms, as `leat bench coll` takes and lists them.
 *
 * Advantage: the list is the library's own. Disadvantage: the help of a command is otherwise a
 * constant, and this part of it is not.
 */
#ifndef LEAT_CLI_BENCH_ALGORITHM_H
#define LEAT_CLI_BENCH_ALGORITHM_H

#include <leat/msg.h>

#include <stdbool.h>

#define BENCH_OPERATION_COUNT 3
/* The commands of bench/msg_slice.h. */
extern const char *const bench_operation_names[BENCH_OPERATION_COUNT];
extern const enum leat_collective_kind bench_operation_kinds[BENCH_OPERATION_COUNT];

struct bench_algorithm {
    enum leat_collective_kind kind;
    const char *name; /* NULL: the library chooses */
};

/* "OPERATION=NAME", from argument to argument; false: no such operation or algorithm. */
bool bench_algorithm_read(const char *text, struct bench_algorithm *algorithm);

/* "barrier: dissemination; broadcast: binomial, ...": of all collectives, measured here or not. */
void bench_algorithm_list(char *text, size_t bytes);

#endif
