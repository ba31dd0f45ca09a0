// SPDX-License-Identifier: Apache-2.0
// Error detail of the calling thread; see error.h.

#include "core/error.h"

#include "leat/leat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char detail[LEAT_DETAIL_BYTES];

int leat_fail(int error, const char *format, ...)
{
    // The arguments may point into the old text, so the new one is made beside it.
    char text[LEAT_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(detail, text, sizeof detail);
    return error;
}

int leat_fail_in(int error, const char *format, ...)
{
    char text[LEAT_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, ": %s", detail);
    memcpy(detail, text, sizeof detail);
    return error;
}

const char *leat_error_detail(void)
{
    return detail;
}

int leat_need(const void *pointer, const char *function, const char *argument)
{
    return pointer ? 0 : leat_fail(-EINVAL, "%s: %s is NULL", function, argument);
}
