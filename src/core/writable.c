// SPDX-License-Identifier: Apache-2.0
// Whether a file can be written later on; syncing the directory of one that was.
//
// Algorithm: what exists is asked for itself, what does not by its directory. Advantage: no file is
// made and removed again, which ranks that ask at once would do to each other. Disadvantage: file
// systems that decide only when opening (quotas, some network mounts) say yes too early.

#define _GNU_SOURCE
#include "core/writable.h"

#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash && !slash[1])
        return -EISDIR;
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    char *directory = slash ? strndup(path, length) : strdup(".");
    if (!directory)
        return -ENOMEM;
    struct stat status;
    int error = stat(directory, &status) ? -errno : S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
    if (!error && faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS))
        error = -errno;
    free(directory);
    return error;
}

int leat_check_writable(const char *path)
{
    struct stat status;
    if (stat(path, &status))
        return errno == ENOENT && *path ? check_directory(path) : -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) ? -errno : 0;
}

int leat_sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash == path ? strdup("/")
                      : slash       ? strndup(path, (size_t)(slash - path))
                                    : strdup(".");
    if (!directory)
        return leat_fail(-ENOMEM, "no memory for the name of the directory of %s", path);
    int error = 0, descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Where a directory cannot be synced, the rename has happened all the same.
    if (descriptor < 0 || (fsync(descriptor) && errno != EINVAL && errno != ENOTSUP))
        error = leat_fail(-errno, "%s: cannot sync the directory: %s", directory, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    free(directory);
    return error;
}
