/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read before each source by clang-tidy (scripts/lint.sh), never by a compiler.
 *
 * The analyzer sees one file at a time, so it does not know that leat_fail() returns its first
 * argument, and would follow paths on which an error is reported and success returned.
 * Advantage: it need not be told in the sources. Disadvantage: core/error.c, which defines the
 * functions, is analysed without.
 */
#include "core/error.h"

#define leat_fail(error, ...)    ((void)(leat_fail)(error, __VA_ARGS__), (error))
#define leat_fail_in(error, ...) ((void)(leat_fail_in)(error, __VA_ARGS__), (error))
