// SPDX-License-Identifier: Apache-2.0
// Messages for people on stderr.
//
// Algorithm: a line is put together in a buffer on the stack and handed over in one write.
// Advantage: lines of several ranks on one terminal do not mix, and nothing is allocated, so it
// works when memory has run out. Disadvantage: no buffering, so it is no place for a trace.

#include "core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// POSIX keeps pipe writes of up to PIPE_BUF whole, and Linux has 4096 there.
#define LINE_BYTES 2048

// The level of an error is not printed: a program that fails says so by its status.
static const char *level_word(enum log_level level)
{
    switch (level) {
    case LOG_WARN:
        return "warning: ";
    case LOG_INFO:
        return "info: ";
    case LOG_DEBUG:
        return "debug: ";
    case LOG_ERROR:
        break;
    }
    return "";
}

static void write_line(const char *line, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, line, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; // there is nobody left to complain to
        line += written;
        bytes -= (size_t)written;
    }
}

void leat_log(int threshold, enum log_level level, int rank, const char *format, ...)
{
    if ((int)level > threshold)
        return;
    int saved = errno;
    char line[LINE_BYTES];
    int length = rank < 0 ? snprintf(line, sizeof line, "leat: %s", level_word(level))
                          : snprintf(line, sizeof line, "leat[%d]: %s", rank, level_word(level));
    size_t used = length < 0 ? 0 : (size_t)length;
    va_list arguments;
    va_start(arguments, format);
    length = vsnprintf(line + used, sizeof line - used, format, arguments);
    va_end(arguments);
    if (length > 0)
        used += (size_t)length;
    if (used > sizeof line - 2) {
        used = sizeof line - 2;
        memcpy(line + used - 3, "...", 3);
    }
    line[used] = '\n';
    write_line(line, used + 1);
    errno = saved;
}
