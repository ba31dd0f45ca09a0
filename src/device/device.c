// SPDX-License-Identifier: Apache-2.0
// The device of a rank, and the counts of what the host asks of it.
//
// Algorithm: LEAT_DEVICE names the kind and, for GPUs, their numbers; ranks of a process are dealt
// out in runs of equal length, so that neighbours in a grid share a GPU. Advantage: no rank has to
// ask another. Disadvantage: a run of ranks is a slab of the grid, which is not always the cut with
// the least traffic.

#include "device/ops.h"

#include "core/job.h"
#include "core/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX 64

// The numbers after "cuda:", or none. -1 when they cannot be read.
static int read_numbers(const char *text, int numbers[NUMBERS_MAX])
{
    int count = 0;
    if (strncmp(text, "cuda", 4) != 0 || (text[4] && text[4] != ':'))
        return -1;
    if (!text[4])
        return 0;
    for (const char *at = text + 5;;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || at[0] < '0' || at[0] > '9' || number > 4095 || count == NUMBERS_MAX)
            return -1;
        numbers[count++] = (int)number;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
        at = end + 1;
    }
}

const char *leat_device_wrong(const char *text)
{
    int numbers[NUMBERS_MAX];
    if (!strcmp(text, "cpu") || read_numbers(text, numbers) >= 0)
        return NULL;
    return "expected cpu, cuda, or cuda: with the GPUs' numbers, as in cuda:0,1";
}

int leat_device_number(const char *text, int device_count, int rank, int rank_count)
{
    int numbers[NUMBERS_MAX], count = read_numbers(text, numbers);
    int several = count > 0 ? count : device_count;
    int which = (int)((int64_t)rank * several / rank_count);
    return count > 0 ? numbers[which] : which;
}

int leat_device_open(struct leat_job *job, struct device **device)
{
    if (!strcmp(job->config.device, "cpu"))
        return leat_device_cpu_open(job, device);
#ifdef LEAT_HAVE_CUDA
    return leat_device_cuda_open(job, device);
#else
    return leat_fail(
        -ENOTSUP,
        "LEAT_DEVICE is \"%s\", but this build has no CUDA device: build where nvcc is "
        "found, or set LEAT_DEVICE=cpu",
        job->config.device);
#endif
}

#ifndef LEAT_HAVE_CUDA
int leat_device_describe(int number, char *text, size_t bytes)
{
    (void)number;
    (void)text;
    (void)bytes;
    return leat_fail(-ENODEV, "this build has no CUDA device");
}
#endif

int leat_gpu_sharers(const struct leat_job *job, int *first)
{
    const struct gpu_card *own = &job->arena.head->gpu;
    int count = 0;
    if (job->segment->head->threads || !own->there)
        return 0;
    for (int rank = 0; rank < job->rank_count; rank++) {
        const struct gpu_card *card = &leat_arena_head(job, rank)->gpu;
        if (leat_rank_away(job, rank) || !__atomic_load_n(&card->there, __ATOMIC_ACQUIRE) ||
            memcmp(card->id, own->id, LEAT_GPU_BYTES) != 0)
            continue;
        if (first && !count)
            *first = rank;
        count++;
    }
    return count;
}

int leat_device_launch(struct device *device, const struct device_launch *launch)
{
    leat_count(&device->job->counts.launches, 1);
    uint64_t begin = leat_trace_begin(device->job);
    int error = device->ops->launch(device, launch);
    leat_trace_end(device->job, TRACE_LAUNCH, 0, begin, (int64_t)launch->kernel, 0);
    return error;
}

int leat_device_sync(struct device *device)
{
    leat_count(&device->job->counts.blocking_waits, 1);
    uint64_t begin = leat_trace_begin(device->job);
    int error = device->ops->sync(device);
    leat_trace_end(device->job, TRACE_SYNC, 0, begin, 0, 0);
    return error;
}

int leat_device_copy(struct leat_job *job, void *to, const void *from, uint64_t bytes)
{
    const struct device_ops *ops = job->device->ops;
    // A copy of pageable memory keeps a GPU's driver busy until its turn in the stream has come.
    int error = bytes ? ops->sync(job->device) : 0;
    if (!error && bytes)
        error = ops->put(job->device, to, from, bytes);
    return error ? error : leat_device_sync(job->device);
}

int leat_device_info_get(const leat_job *job, leat_device_info *info)
{
    int error = leat_need(job, "leat_device_info_get", "job");
    if (!error)
        error = leat_need(info, "leat_device_info_get", "info");
    if (error)
        return error;
    if (!info->size)
        return leat_fail(-EINVAL, "leat_device_info.size is 0; set it to sizeof(leat_device_info)");
    leat_device_info full = {.size = info->size, .number = -1};
    job->device->ops->info(job->device, &full);
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}

int leat_device_wait(leat_job *job, double timeout_s)
{
    int error = leat_need(job, "leat_device_wait", "job");
    if (error)
        return error;
    if (timeout_s != timeout_s)
        return leat_fail(-EINVAL, "leat_device_wait: the time-out is not a number");
    error =
        job->device->ops->drain(job->device, timeout_s < 0 ? job->config.timeout_s + 1 : timeout_s);
    for (struct job_child *child = job->children; child; child = child->next) {
        int found = child->check ? child->check(child) : 0;
        error = found ? found : error;
    }
    return error;
}
