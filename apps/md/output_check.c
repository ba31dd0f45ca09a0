// SPDX-License-Identifier: Apache-2.0
// What a run is to write, looked at before it begins: whether it can be, and whether two of its
// files, or a file and an input, are one and the same.
//
// Algorithm: every path that is written is compared with every other one and with what is read, by
// what it leads to where that is there, by directory and name where it is not. Advantage: nothing
// is lost to a slip of the pen at the end of a long run. Disadvantage: files that the topology
// includes are not looked at.

#include "core/error.h"
#include "core/writable.h"
#include "md/md.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WRITTEN = 7, READ = 5 };

struct named {
    const char *option; /* or what it is */
    const char *path;   /* NULL: none */
};

// The directory, resolved, and the name in it; false where there is no such directory.
static bool place_of(const char *path, char place[2 * PATH_MAX])
{
    char copy[PATH_MAX], name[PATH_MAX], directory[PATH_MAX];
    if (strlen(path) >= sizeof copy)
        return false;
    memcpy(copy, path, strlen(path) + 1);
    memcpy(name, path, strlen(path) + 1);
    if (!realpath(dirname(copy), directory))
        return false;
    snprintf(place, 2 * PATH_MAX, "%s/%s", directory, basename(name));
    return true;
}

// What is no regular file (/dev/null, a pipe) may be named twice.
static bool is_same(const char *a, const char *b)
{
    struct stat first, second;
    char places[2][2 * PATH_MAX];
    bool there = stat(a, &first) == 0 && stat(b, &second) == 0;
    if (there)
        return S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
    return place_of(a, places[0]) && place_of(b, places[1]) && strcmp(places[0], places[1]) == 0;
}

static int check_apart(const struct named written[WRITTEN], const struct named read[READ])
{
    for (int i = 0; i < WRITTEN; i++)
        for (int j = 0; j < i; j++)
            if (written[i].path && written[j].path && is_same(written[i].path, written[j].path))
                return leat_fail(-EINVAL, "%s and %s both write %s; name different files",
                                 written[j].option, written[i].option, written[i].path);
    // A checkpoint may take the place of the one that the run has begun with.
    for (int i = 0; i < WRITTEN; i++)
        for (int j = 0; j < READ; j++) {
            bool goes_on = i >= WRITTEN - 3 && j == READ - 1;
            if (written[i].path && read[j].path && !goes_on &&
                is_same(written[i].path, read[j].path))
                return leat_fail(-EINVAL,
                                 "%s would write over %s, which %s reads; name another "
                                 "file",
                                 written[i].option, written[i].path, read[j].option);
        }
    return 0;
}

static int check_writable(const struct named *file)
{
    int error = file->path ? leat_check_writable(file->path) : 0;
    return error ? leat_fail(error, "%s names %s, which cannot be written: %s", file->option,
                             file->path, strerror(-error))
                 : 0;
}

int md_check_outputs(const struct md_options *options)
{
    char previous[PATH_MAX], beside[PATH_MAX];
    const char *checkpoint = options->checkpoint;
    snprintf(previous, sizeof previous, "%s.prev", checkpoint ? checkpoint : "");
    snprintf(beside, sizeof beside, "%s.tmp", checkpoint ? checkpoint : "");
    const struct named written[WRITTEN] = {{"--out", options->out},
                                           {"--forces", options->forces},
                                           {"--energies", options->energies},
                                           {"--trajectory", options->trajectory},
                                           {"--checkpoint", checkpoint},
                                           {"--checkpoint", checkpoint ? previous : NULL},
                                           {"--checkpoint", checkpoint ? beside : NULL}};
    const struct named read[READ] = {{"--gro", options->gro},
                                     {"--top", options->top},
                                     {"--mdp", options->mdp},
                                     {"--data", options->data},
                                     {"--restart", options->restart}};
    int error = 0;
    for (int i = 0; i < WRITTEN && !error; i++)
        error = check_writable(&written[i]);
    return error ? error : check_apart(written, read);
}
