/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for people, on stderr, prefixed "leat[rank]". Warnings are on by default.
 */
#ifndef LEAT_CORE_LOG_H
#define LEAT_CORE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* rank < 0 prints "leat:" alone. One write a line, so lines of several ranks do not mix. */
void leat_log(int threshold, enum log_level level, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
