// SPDX-License-Identifier: Apache-2.0
// Past the page cache. Not built yet.

#include "file/internal.h"

#include <errno.h>
#include <stdio.h>

static int odirect_can(struct leat_file *file, const struct file_need *need,
                       char reason[LEAT_REASON])
{
    (void)file;
    (void)need;
    snprintf(reason, LEAT_REASON, "not built yet");
    return -ENOTSUP;
}

static int odirect_run(struct file_lane *lane, struct file_task *task)
{
    (void)lane;
    file_path_forbid(task->request->file, FILE_ODIRECT, "not built yet");
    return -EAGAIN;
}

const struct file_path file_path_odirect = {
    .name = "odirect", .can = odirect_can, .run = odirect_run};

void file_ring_free(struct file_ring *ring)
{
    (void)ring;
}
