// SPDX-License-Identifier: Apache-2.0
// Where `leat file cp` puts its copy; see file.h.

#define _GNU_SOURCE
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_target_find(const char *from, const char *given, char to[PATH_MAX])
{
    struct stat source, target;
    char real[PATH_MAX];
    if (stat(from, &source))
        return leat_fail(-errno, "cannot open %s: %s", from, strerror(errno));
    int length = snprintf(to, PATH_MAX, "%s", given);
    if (!stat(given, &target) && S_ISDIR(target.st_mode)) {
        const char *slash = strrchr(from, '/');
        length = snprintf(to, PATH_MAX, "%s/%s", given, slash ? slash + 1 : from);
    }
    if (length >= PATH_MAX)
        return leat_fail(-ENAMETOOLONG, "%s is too long a path", given);
    if (stat(to, &target))
        return 0; // what else is wrong with it, opening says
    if (source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return leat_fail(-EINVAL, "%s and %s are the same file", from, to);
    if (!S_ISREG(target.st_mode))
        return leat_fail(-EINVAL, "%s is no regular file; a copy takes a file's name", to);
    if (!realpath(to, real)) // what a link leads to is replaced, not the link
        return leat_fail(-errno, "cannot find %s: %s", to, strerror(errno));
    snprintf(to, PATH_MAX, "%s", real);
    return 0;
}

int file_target_sync(const char *path)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = 0;
    int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0)
        close(fd);
    // Some file systems have no sync of directories.
    return reason && reason != EINVAL
               ? leat_fail(-reason, "cannot sync the directory of %s: %s", path, strerror(reason))
               : 0;
}
