// SPDX-License-Identifier: Apache-2.0
// Descriptors out of the way of the standard ones; see descriptor.h.

#define _GNU_SOURCE
#include "core/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int leat_descriptor_keep(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int reason = errno;
    close(fd);
    errno = reason;
    return kept;
}

const char *leat_descriptor_remedy(int error)
{
    if (error == EMFILE)
        return "; raise the limit on open files (ulimit -n)";
    return error == ENFILE ? "; the machine's limit on open files (fs.file-max) is reached" : "";
}
