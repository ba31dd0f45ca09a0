/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error detail: one text a thread.
 *
 * Advantage: a caller deep inside keeps returning plain negative errno, and whoever finally reports
 * it still knows rank, file and remedy. Disadvantage: the text is the thread's last one, so it has
 * to be read before the next failing call on that thread.
 */
#ifndef LEAT_CORE_ERROR_H
#define LEAT_CORE_ERROR_H

#include <stdarg.h>

#define LEAT_DETAIL_BYTES 1024

/*
 * Records why and returns `error` (a negative errno), so that `return leat_fail(-EINVAL, "...")` is
 * one line. The text is a full sentence's content without a final full stop: what was expected,
 * what was got, what to do. Called by whoever first decides the error, once.
 */
int leat_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the detail in place; returns `error`. */
int leat_fail_in(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* -EINVAL with detail where an argument that has to be there is NULL, else 0. */
int leat_need(const void *pointer, const char *function, const char *argument);

#endif
