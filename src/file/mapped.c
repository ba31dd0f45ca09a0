// SPDX-License-Identifier: Apache-2.0
// Pages of the page cache, registered with a GPU. Not built yet.

#include "file/internal.h"

#include <errno.h>
#include <stdio.h>

static int mapped_can(struct leat_file *file, const struct file_need *need,
                      char reason[LEAT_REASON])
{
    (void)file;
    (void)need;
    snprintf(reason, LEAT_REASON, "not built yet");
    return -ENOTSUP;
}

static int mapped_run(struct file_lane *lane, struct file_task *task)
{
    (void)lane;
    file_path_forbid(task->request->file, FILE_MAPPED, "not built yet");
    return -EAGAIN;
}

const struct file_path file_path_mapped = {.name = "mapped", .can = mapped_can, .run = mapped_run};
