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

// What is there already.
static int look(struct file_target *to, const char *from, const struct stat *source,
                const struct stat *target)
{
    char real[PATH_MAX];
    if (source->st_dev == target->st_dev && source->st_ino == target->st_ino)
        return leat_fail(-EINVAL, "%s and %s are the same file", from, to->path);
    if (!S_ISREG(target->st_mode))
        return leat_fail(-EINVAL, "%s is no regular file; a copy takes a file's name", to->path);
    if (!realpath(to->path, real)) // what a link leads to is replaced, not the link
        return leat_fail(-errno, "cannot find %s: %s", to->path, strerror(errno));
    snprintf(to->path, PATH_MAX, "%s", real);
    to->permissions = (unsigned)target->st_mode & 0777;
    to->owner = (int)target->st_uid;
    to->group = (int)target->st_gid;
    return 0;
}

int file_target_find(const char *from, const char *given, struct file_target *to)
{
    struct stat source, target;
    mode_t mask = umask(0);
    umask(mask);
    if (stat(from, &source))
        return leat_fail(-errno, "cannot open %s: %s", from, strerror(errno));
    if (!*given)
        return leat_fail(-EINVAL, "the name of the copy is empty");
    *to = (struct file_target){
        .permissions = (unsigned)(source.st_mode & ~mask) & 0777, .owner = -1, .group = -1};
    int length = snprintf(to->path, PATH_MAX, "%s", given);
    if (!stat(given, &target) && S_ISDIR(target.st_mode)) {
        const char *slash = strrchr(from, '/');
        length = snprintf(to->path, PATH_MAX, "%s/%s", given, slash ? slash + 1 : from);
    }
    if (length >= PATH_MAX)
        return leat_fail(-ENAMETOOLONG, "%s is too long a path", given);
    if (!stat(to->path, &target))
        return look(to, from, &source, &target);
    if (errno != ENOENT)
        return leat_fail(-errno, "cannot make %s: %s", to->path, strerror(errno));
    if (!lstat(to->path, &target))
        return leat_fail(-ENOENT, "%s is a link to what is not there; remove it, or make that file",
                         to->path);
    if (to->path[strlen(to->path) - 1] == '/')
        return leat_fail(-ENOENT, "there is no directory %s", to->path);
    return 0;
}

// The directory with its slash; "" where there is none.
static void directory_of(const char *path, char directory[PATH_MAX])
{
    snprintf(directory, PATH_MAX, "%s", path);
    char *slash = strrchr(directory, '/');
    directory[slash ? slash + 1 - directory : 0] = 0;
}

int file_target_beside(const struct file_target *to, char beside[PATH_MAX])
{
    char directory[PATH_MAX];
    directory_of(to->path, directory);
    return file_leftover_name(directory, ".leat-", beside)
               ? leat_fail(-ENAMETOOLONG, "%s is too long a path", to->path)
               : 0;
}

static int sync_directory(const char *path)
{
    char directory[PATH_MAX];
    directory_of(path, directory);
    int fd = open(*directory ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason = fd < 0 || fsync(fd) ? errno : 0;
    if (fd >= 0)
        close(fd);
    // Some file systems have no sync of directories.
    return reason && reason != EINVAL
               ? leat_fail(-reason, "cannot sync the directory of %s: %s", path, strerror(reason))
               : 0;
}

int file_target_take(const struct file_target *to, const char *beside)
{
    // Who may not give files away becomes the owner of the copy; some file systems keep neither
    // owners nor modes.
    if (to->owner >= 0 && chown(beside, (uid_t)to->owner, (gid_t)to->group) && errno != EPERM &&
        errno != EINVAL && errno != ENOSYS)
        return leat_fail(-errno, "cannot set the owner of %s: %s", beside, strerror(errno));
    if (chmod(beside, to->permissions) && errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP)
        return leat_fail(-errno, "cannot set the permissions of %s: %s", beside, strerror(errno));
    if (rename(beside, to->path))
        return leat_fail(-errno, "cannot rename %s to %s: %s", beside, to->path, strerror(errno));
    file_leftover_kept();
    return sync_directory(to->path);
}
