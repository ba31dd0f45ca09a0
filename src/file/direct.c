// SPDX-License-Identifier: Apache-2.0
// Past the page cache: whether.
//
// Algorithm: under `auto`, where the file system tells the alignment of direct requests, the call
// is long, and less than half of it is in memory already; a write only where direct is on, since
// what the page cache takes comes back sooner, and is no slower with a sync behind it. Advantage:
// files that are read again stay in memory, others leave no trace there. Disadvantage: where pages
// are, has to be asked for each long call.

#include "file/internal.h"
#include "file/ranges.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define AUTO_BYTES (UINT64_C(1) << 20) /* shorter calls are not asked about, under auto */

// Of what there is of it: calls may ask for more than the file has.
static bool mostly_cached(struct leat_file *file, const struct file_need *need)
{
    struct stat status;
    uint64_t cached = 0;
    if (file->system->fstat(file->fd, &status) ||
        file_cached(file, need->offset, need->extent, &cached))
        return false;
    uint64_t size = (uint64_t)status.st_size;
    uint64_t there = need->offset < size ? size - need->offset : 0;
    there = there < need->extent ? there : need->extent;
    return cached >= there / 2;
}

static int say(char reason[LEAT_REASON], int error, const char *text)
{
    snprintf(reason, LEAT_REASON, "%s", text);
    return error;
}

static int odirect_can(struct leat_file *file, const struct file_need *need,
                       char reason[LEAT_REASON])
{
    bool automatic = file->direct == DIRECT_AUTO && file->require != FILE_ODIRECT;
    uint64_t slot = file_slot_bytes(file->job);
    if (automatic && need->operation == LEAT_FILE_OP_WRITE)
        return say(reason, -ENOTSUP, "writes go through the page cache unless direct is on");
    if (!file->offset_alignment)
        return say(reason, -ENOTSUP, "the file system tells no alignment of direct I/O");
    if (file->offset_alignment > slot || slot % file->offset_alignment)
        return say(reason, -ENOTSUP, "its blocks do not fit LEAT_FILE_BUFFER");
    if (automatic && need->bytes < AUTO_BYTES)
        return say(reason, -ENOTSUP, "shorter than 1 MiB");
    if (automatic && mostly_cached(file, need))
        return say(reason, -ENOTSUP, "half of it or more is in the page cache");
    char why[LEAT_REASON];
    int fd = file_open_direct(file, why);
    if (fd < 0) {
        if (!file_error_passes(fd))
            file_path_forbid(file, FILE_ODIRECT, "%s", why);
        return say(reason, -ENOTSUP, why);
    }
    int refused = __atomic_load_n(&file->ring_refused, __ATOMIC_RELAXED);
    snprintf(reason, LEAT_REASON, "past the page cache%s%s",
             refused ? ", a request at a time: io_uring is refused: " : "",
             refused ? strerror(refused) : "");
    return 0;
}

const struct file_path file_path_odirect = {
    .name = "odirect", .can = odirect_can, .run = file_ranges_run, .serve = file_uring_serve};
