// SPDX-License-Identifier: Apache-2.0
// Puts a value into the settings file; the algorithm is told in the header.

#define _GNU_SOURCE
#include "bench_settings.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static bool sets(const char *line, const char *name)
{
    const char *at = skip_blanks(line);
    size_t length = strlen(name);
    return strncmp(at, name, length) == 0 && *skip_blanks(at + length) == '=';
}

static void copy_lines(FILE *from, FILE *to, const char *name, const char *value)
{
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (from && getline(&line, &room, from) >= 0) {
        bool ours = sets(line, name);
        const char *comment = ours ? strchr(line, '#') : NULL;
        line[strcspn(line, "\n")] = 0;
        if (ours)
            fprintf(to, "%s = %s%s%s\n", name, value, comment ? " " : "", comment ? comment : "");
        else
            fprintf(to, "%s\n", line);
        found |= ours;
    }
    free(line);
    if (!found)
        fprintf(to, "%s = %s\n", name, value);
}

static int make_directories(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) && errno != EEXIST)
            return leat_fail(-errno, "cannot make the directory %s: %s", part, strerror(errno));
        *slash = '/';
    }
    return 0;
}

static int replace(const char *path, FILE *from, const char *name, const char *value)
{
    char beside[PATH_MAX + 16];
    struct stat status;
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int fd = mkstemp(beside);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!to)
        return leat_fail(-errno, "cannot make a file beside %s: %s", path, strerror(errno));
    fchmod(fd, from && fstat(fileno(from), &status) == 0 ? status.st_mode & 07777 : 0644);
    copy_lines(from, to, name, value);
    int reason = 0;
    if ((from && ferror(from)) || fflush(to) || fsync(fd))
        reason = errno;
    if (fclose(to) && !reason)
        reason = errno;
    if (!reason && rename(beside, path))
        reason = errno;
    if (!reason)
        return 0;
    unlink(beside);
    return leat_fail(-reason, "cannot write %s: %s", path, strerror(reason));
}

int bench_settings_set(const char *path, const char *name, const char *value)
{
    char real[PATH_MAX]; // what a link leads to is replaced, not the link
    FILE *from = fopen(path, "re");
    if (!from && errno != ENOENT)
        return leat_fail(-errno, "cannot read %s: %s", path, strerror(errno));
    int error = 0;
    if (!from)
        error = make_directories(path);
    else if (!realpath(path, real))
        error = leat_fail(-errno, "cannot find %s: %s", path, strerror(errno));
    if (!error)
        error = replace(from ? real : path, from, name, value);
    if (from)
        fclose(from);
    return error;
}
