// SPDX-License-Identifier: Apache-2.0
// cuFile. Not built yet.

#include "file/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int cufile_can(struct leat_file *file, const struct file_need *need,
                      char reason[LEAT_REASON])
{
    (void)file;
    (void)need;
    snprintf(reason, LEAT_REASON, "not built yet");
    return -ENOTSUP;
}

static int cufile_run(struct file_lane *lane, struct file_task *task)
{
    (void)lane;
    file_path_forbid(task->request->file, FILE_CUFILE, "not built yet");
    return -EAGAIN;
}

const struct file_path file_path_cufile = {.name = "cufile", .can = cufile_can, .run = cufile_run};

int file_cufile_open(struct leat_file *file)
{
    return file->compat == COMPAT_OFF
               ? leat_fail(-ENOTSUP, "%s: cuFile is required and not built yet", file->path)
               : 0;
}

void file_cufile_close(struct leat_file *file)
{
    (void)file;
}

int file_cufile_buffer(struct leat_job *job, struct file_memory *memory, uint64_t bytes)
{
    (void)job;
    (void)memory;
    (void)bytes;
    return 0;
}

void file_cufile_buffer_gone(struct leat_job *job, const struct file_memory *memory)
{
    (void)job;
    (void)memory;
}

void file_cufile_cut(struct leat_job *job, uint64_t task_bytes, leat_file_cut *cut)
{
    (void)job;
    (void)task_bytes;
    (void)cut;
}

void file_cufile_free(struct leat_job *job)
{
    (void)job;
}

int leat_cufile_info_get(leat_job *job, leat_cufile_info *info)
{
    int error = leat_need(job, "leat_cufile_info_get", "job");
    if (!error)
        error = leat_need(info, "leat_cufile_info_get", "info");
    if (error)
        return error;
    leat_cufile_info full = {.size = info->size};
    snprintf(full.absent, sizeof full.absent, "not built yet");
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}
