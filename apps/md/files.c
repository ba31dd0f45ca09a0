// SPDX-License-Identifier: Apache-2.0
// Files of a run from its beginning to its end.
//
// Advantage: one place opens and closes all of them. Disadvantage: each is known here by name.

#include "md/files.h"

#include "core/error.h"
#include "md/checkpoint_format.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Whether somebody else's file stands where one of a checkpoint's three is to be. What is no
// checkpoint is somebody's file; a damaged one is not.
static int check_replaced(const char *path, bool link_allowed)
{
    unsigned char begin[MD_CHECKPOINT_BEGIN_BYTES] = {0};
    static const unsigned char zeros[MD_CHECKPOINT_BEGIN_BYTES];
    uint64_t head_bytes;
    struct stat status;
    int found = link_allowed ? stat(path, &status) : lstat(path, &status);
    if (found == 0 && !S_ISREG(status.st_mode))
        return leat_fail(-EINVAL, "--checkpoint names %s, which is no regular file", path);
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(begin, 1, sizeof begin, file) : 0;
    if (file)
        fclose(file);
    if (bytes == 0 || memcmp(begin, zeros, sizeof begin) == 0 ||
        md_get_head_bytes(path, begin, sizeof begin, &head_bytes) != -EINVAL)
        return 0;
    return leat_fail(-EEXIST,
                     "--checkpoint names %s, which is there and is no checkpoint; name another "
                     "file, or remove it",
                     path);
}

// It is written beside itself first, and the one before it is kept.
static int check_beside(const char *path, const char *suffix)
{
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(bytes);
    if (!name)
        return leat_fail(-ENOMEM, "no memory for the name of %s%s", path, suffix);
    snprintf(name, bytes, "%s%s", path, suffix);
    int error = check_replaced(name, false);
    free(name);
    return error;
}

int md_files_begin(struct md_rank *rank)
{
    const char *path = rank->options->checkpoint;
    rank->files.checkpoint_step = -1;
    int error = md_stop_begin(rank);
    if (error)
        return error;
    if (md_system_minimises(&rank->system) &&
        (path || rank->options->restart || rank->options->trajectory))
        return leat_fail(-ENOTSUP,
                         "%s: integrator = steep: a minimisation writes --out and --energies; "
                         "--checkpoint, --restart and --trajectory are for steps in time",
                         rank->system.settings.file);
    if (!path)
        return 0;
    if (rank->rank == 0 && (error = check_replaced(path, true)) != 0)
        return error;
    // Renaming would put a file in the place of a link to it.
    rank->files.checkpoint = realpath(path, NULL);
    if (!rank->files.checkpoint)
        rank->files.checkpoint = strdup(path);
    if (!rank->files.checkpoint)
        return leat_fail(-ENOMEM, "no memory for the name of %s", path);
    if (rank->rank == 0)
        error = check_beside(rank->files.checkpoint, ".prev");
    if (!error && rank->rank == 0)
        error = check_beside(rank->files.checkpoint, ".tmp");
    return error;
}

int md_files_open(struct md_rank *rank)
{
    int error = md_energies_open(rank, rank->options->restart ? rank->files.energies_bytes : 0);
    return error ? error : md_trajectory_open(rank);
}

int md_files_close(struct md_rank *rank)
{
    int error = md_trajectory_close(rank), other = md_energies_close(rank);
    return error ? error : other;
}

void md_files_end(struct md_rank *rank)
{
    (void)md_files_close(rank);
    md_stop_end(rank);
    free(rank->files.checkpoint);
    free(rank->files.section);
    rank->files = (struct md_files){0};
}
