// SPDX-License-Identifier: Apache-2.0
// Launches on a GPU, and the gangs of ranks whose kernels have to run at once.
//
// Algorithm: kernels that wait for other ranks' kernels are launched cooperatively: the GPU takes
// all blocks at once or says no. Ranks that share a GPU are one grid, since a second grid might
// find no room beside a first that waits for it: each rank leaves its request and waits for the
// others; the last one joins all their streams, launches, and lets the streams go on behind it.
// Advantage: no order of launches can deadlock. Disadvantage: ranks of one GPU meet on the host for
// every exchange; a rank that has its GPU to itself meets nobody.

#include "device/cuda.h"

#include "core/job.h"
#include "transport/nvshmem.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct member {
    struct cuda_device *device; /* NULL once it has left */
    const struct device_launch *launch;
    int rank;
};

/* What the ranks of one GPU share for one halo; lives from the first that joins to the last that
 * leaves. */
struct gang {
    struct gang *next, **link;
    struct segment *segment;
    uint64_t number; /* of the halo */
    int gpu, member_count, left;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int arrived;
    uint64_t round; /* launches, whatever came of them */
    int result;     /* of the last */
    char detail[LEAT_DETAIL_BYTES];
    struct member member[CUDA_DOMAINS_MAX];
};

struct device_gang {
    struct gang *gang;
    int number;
};

// ---- Kernels ----

int leat_cuda_load_kernels(struct cuda_device *device)
{
    leat_cuda_kernels(device->entry);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        int least = INT_MAX;
        for (int kind = 0; kind < CUDA_ENTRIES; kind++) {
            struct cudaFuncAttributes attributes;
            const void *entry = device->entry[kernel][kind];
            int fit = 0;
            if (!entry)
                continue;
            cudaError_t failed = cudaFuncGetAttributes(&attributes, entry);
            if (failed == cudaSuccess)
                failed =
                    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, entry, CUDA_THREADS, 0);
            if (failed != cudaSuccess)
                return leat_cuda_fail(failed, "loading a kernel");
            if (fit < least)
                least = fit;
        }
        device->resident_blocks[kernel] = least * device->multiprocessors;
        if (least < 1)
            return leat_fail(-ENOTSUP, "kernel %d does not fit on GPU %d (%s)", kernel,
                             device->number, device->model);
    }
    return 0;
}

// One element a lane is the shortest way through; more blocks than fit at once would wait for each
// other for ever.
static uint32_t blocks_for(const struct cuda_device *device, const struct device_launch *launch)
{
    const struct config *config = &device->base.job->config;
    const int fit = launch->puts ? leat_nvshmem_fit(device->base.job, (int)launch->kernel)
                                 : device->resident_blocks[launch->kernel];
    uint32_t most = (uint32_t)(fit / device->rank_count);
    uint32_t wanted = (launch->work + CUDA_THREADS - 1) / CUDA_THREADS;
    if (config->source[SETTING_BLOCKS] != FROM_DEFAULT)
        wanted = (uint32_t)config->block_count;
    if (wanted > most)
        wanted = most;
    return wanted ? wanted : 1;
}

static int start(const struct cuda_device *device, const void *entry, uint32_t blocks,
                 bool cooperative, void *argument)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
    cudaLaunchConfig_t config = {.gridDim = {blocks, 1, 1},
                                 .blockDim = {CUDA_THREADS, 1, 1},
                                 .stream = device->stream,
                                 .attrs = &attribute,
                                 .numAttrs = cooperative ? 1 : 0};
    void *arguments[] = {argument};
    cudaError_t failed = cudaLaunchKernelExC(&config, entry, arguments);
    if (failed == cudaSuccess)
        return 0;
    char what[128];
    snprintf(what, sizeof what, "launching %u blocks of %d lanes%s on GPU %d", blocks, CUDA_THREADS,
             cooperative ? ", all at once," : "", device->number);
    return leat_cuda_fail(failed, what);
}

// What a graph replays has to count by itself, and so has everything after it: the host does not
// see replays.
static uint64_t turn_of(struct cuda_device *device, const struct device_launch *launch)
{
    if (leat_cuda_captures(device))
        device->base.captured = true;
    return device->base.captured ? 0 : launch->turn;
}

// The smallest kind that carries so many bytes along, or CUDA_FAR.
static enum cuda_entry kind_for(const void *const entry[CUDA_ENTRIES], size_t bytes, bool bulk)
{
    if (bulk && entry[CUDA_BULK_NEAR])
        return bytes <= CUDA_NEAR_BYTES ? CUDA_BULK_NEAR : CUDA_FAR;
    return entry[CUDA_SMALL] && bytes <= CUDA_SMALL_BYTES ? CUDA_SMALL
           : entry[CUDA_NEAR] && bytes <= CUDA_NEAR_BYTES ? CUDA_NEAR
                                                          : CUDA_FAR;
}

// What takes a struct cuda_far: most kernels have none that writes orders or copies in bulk. A
// halo that needs orders has no bulk copies.
static const void *far_entry(const void *const entry[CUDA_ENTRIES], bool orders, bool bulk)
{
    return entry[orders && entry[CUDA_ORDERS]   ? CUDA_ORDERS
                 : bulk && entry[CUDA_BULK_FAR] ? CUDA_BULK_FAR
                                                : CUDA_FAR];
}

static int launch_one(struct cuda_device *device, const struct device_launch *launch)
{
    const uint32_t blocks = blocks_for(device, launch);
    const uint64_t turn = turn_of(device, launch);
    const struct device_memory *arguments = launch->arguments;
    const void *const *entry = device->entry[launch->kernel];
    enum cuda_entry kind =
        launch->puts || launch->orders ? CUDA_FAR : kind_for(entry, arguments->bytes, launch->bulk);
    if (kind == CUDA_FAR) {
        struct cuda_far far = {.end = {blocks},
                               .choice = {launch->choice},
                               .turn = {turn},
                               .arguments = {arguments->address}};
        if (launch->puts)
            return leat_nvshmem_launch(device->base.job, (int)launch->kernel, blocks, launch->gang,
                                       &far);
        return start(device, far_entry(entry, launch->orders, launch->bulk), blocks, launch->gang,
                     &far);
    }
    struct cuda_near carried; // or what of it the kernel takes
    carried.turn = turn;
    carried.choice = launch->choice;
    memcpy(carried.arguments, arguments->host, arguments->bytes);
    return start(device, entry[kind], blocks, launch->gang, &carried);
}

// ---- Gangs ----

static int find_or_make(struct segment *segment, uint64_t number, int gpu, struct gang **found)
{
    for (struct gang *gang = segment->gangs; gang; gang = gang->next)
        if (gang->number == number && gang->gpu == gpu) {
            *found = gang;
            return 0;
        }
    struct gang *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for the ranks of GPU %d", gpu);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->turned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&made->lock, NULL);
    made->number = number;
    made->gpu = gpu;
    made->segment = segment;
    made->next = segment->gangs;
    made->link = &segment->gangs;
    if (made->next)
        made->next->link = &made->next;
    segment->gangs = made;
    *found = made;
    return 0;
}

int leat_cuda_gang_join(struct device *base, uint64_t number, struct device_gang **joined)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct segment *segment = base->job->segment;
    struct device_gang *seat = calloc(1, sizeof *seat);
    if (!seat)
        return leat_fail(-ENOMEM, "no memory for the ranks of GPU %d", device->number);
    pthread_mutex_lock(&segment->lock);
    int error = find_or_make(segment, number, device->number, &seat->gang);
    if (!error) {
        struct gang *gang = seat->gang;
        pthread_mutex_lock(&gang->lock);
        seat->number = gang->member_count++;
        gang->member[seat->number] = (struct member){.device = device, .rank = base->job->rank};
        pthread_mutex_unlock(&gang->lock);
    }
    pthread_mutex_unlock(&segment->lock);
    if (error) {
        free(seat);
        return error;
    }
    *joined = seat;
    return 0;
}

void leat_cuda_gang_leave(struct device_gang *seat)
{
    struct gang *gang = seat->gang;
    struct segment *segment = gang->segment;
    pthread_mutex_lock(&segment->lock);
    pthread_mutex_lock(&gang->lock);
    gang->member[seat->number].device = NULL;
    bool last = ++gang->left == gang->member_count;
    pthread_cond_broadcast(&gang->turned);
    pthread_mutex_unlock(&gang->lock);
    if (last) {
        *gang->link = gang->next;
        if (gang->next)
            gang->next->link = gang->link;
        pthread_cond_destroy(&gang->turned);
        pthread_mutex_destroy(&gang->lock);
        free(gang);
    }
    pthread_mutex_unlock(&segment->lock);
    free(seat);
}

// The first error of calls that have to be made one after another.
static void then(cudaError_t *first, cudaError_t next)
{
    if (*first == cudaSuccess)
        *first = next;
}

// The leader's stream waits for all the others', or they for it.
static int join_streams(struct gang *gang, const struct cuda_device *leader, bool before)
{
    cudaError_t failed = cudaSuccess;
    if (!before)
        failed = cudaEventRecord(leader->event, leader->stream);
    for (int i = 0; i < gang->member_count; i++) {
        const struct cuda_device *other = gang->member[i].device;
        if (other == leader)
            continue;
        if (before)
            then(&failed, cudaEventRecord(other->event, other->stream));
        then(&failed, cudaStreamWaitEvent(before ? leader->stream : other->stream,
                                          before ? other->event : leader->event, 0));
    }
    return failed == cudaSuccess ? 0
                                 : leat_cuda_fail(failed, "joining the streams of a GPU's ranks");
}

static int launch_all(struct gang *gang, const struct cuda_device *leader)
{
    const enum kernel_id kernel = gang->member[0].launch->kernel;
    struct cuda_far far;
    uint32_t blocks = 0;
    bool orders = false, bulk = false;
    for (int i = 0; i < gang->member_count; i++) {
        const struct member *member = &gang->member[i];
        orders |= member->launch->orders;
        bulk |= member->launch->bulk;
        if (member->launch->kernel != kernel)
            return leat_fail(-EPROTO,
                             "ranks %d and %d share GPU %d and call different exchanges (kernels "
                             "%d and %d); all ranks make the same exchanges in the same order",
                             gang->member[0].rank, member->rank, gang->gpu, (int)kernel,
                             (int)member->launch->kernel);
        blocks += blocks_for(member->device, member->launch);
        far.end[i] = blocks;
        far.choice[i] = member->launch->choice;
        far.turn[i] = turn_of(member->device, member->launch);
        far.arguments[i] = member->launch->arguments->address;
    }
    int error = join_streams(gang, leader, true);
    if (!error)
        error = start(leader, far_entry(leader->entry[kernel], orders, bulk), blocks, true, &far);
    return error ? error : join_streams(gang, leader, false);
}

// Who is missing: the rank that has left, or the first that has not come.
static int fail_missing(const struct gang *gang, bool has_left, double timeout_s)
{
    for (int i = 0; i < gang->member_count; i++) {
        const struct member *member = &gang->member[i];
        if (has_left && !member->device)
            return leat_fail(-ECONNRESET,
                             "rank %d shares GPU %d with this rank and has closed its halo",
                             member->rank, gang->gpu);
        if (!has_left && !member->launch)
            return leat_fail(
                -ETIMEDOUT,
                "rank %d shares GPU %d with this rank and has not come to the exchange "
                "within %.3g s; all of them start at once",
                member->rank, gang->gpu, timeout_s);
    }
    return leat_fail(-ECANCELED, "the ranks of GPU %d did not meet", gang->gpu);
}

static void end_round(struct gang *gang, int result)
{
    gang->result = result;
    if (result)
        snprintf(gang->detail, sizeof gang->detail, "%s", leat_error_detail());
    for (int i = 0; i < gang->member_count; i++)
        gang->member[i].launch = NULL;
    gang->arrived = 0;
    gang->round++;
    pthread_cond_broadcast(&gang->turned);
}

static int await_round(struct gang *gang, struct member *self, const struct leat_job *job)
{
    const uint64_t round = gang->round, deadline_ns = leat_now_ns() + job->timeout_ns;
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                      .tv_nsec = (long)(deadline_ns % 1000000000)};
    int late = 0;
    while (gang->round == round && !gang->left && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&gang->turned, &gang->lock, &deadline);
    if (gang->round != round)
        return gang->result ? leat_fail(gang->result, "%s", gang->detail) : 0;
    int error = fail_missing(gang, gang->left, (double)job->timeout_ns * 1e-9);
    self->launch = NULL;
    gang->arrived--;
    return error;
}

static int launch_together(struct device_gang *seat, const struct cuda_device *device,
                           const struct device_launch *launch)
{
    struct gang *gang = seat->gang;
    struct member *self = &gang->member[seat->number];
    int error = 0;
    pthread_mutex_lock(&gang->lock);
    self->launch = launch;
    if (gang->left) {
        error = fail_missing(gang, true, 0);
    } else if (++gang->arrived < gang->member_count) {
        error = await_round(gang, self, device->base.job);
    } else {
        error = launch_all(gang, device);
        end_round(gang, error);
    }
    pthread_mutex_unlock(&gang->lock);
    return error;
}

int leat_cuda_launch(struct device *base, const struct device_launch *launch)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    // Joining was over when all ranks had opened the halo, so the count stands.
    bool alone = !launch->gang || launch->gang->gang->member_count == 1;
    if (!alone && leat_cuda_captures(device))
        return leat_fail(-ENOTSUP,
                         "ranks that share GPU %d start their exchanges together, which a graph "
                         "cannot hold; give each rank a GPU of its own",
                         device->number);
    return alone ? launch_one(device, launch) : launch_together(launch->gang, device, launch);
}

// ---- The caller's kernels ----

// Started by the caller's own copy of the runtime library, which alone knows them.
int leat_cuda_run(struct device *base, const leat_kernel *kernel, const leat_kernel_call *launch,
                  const void *work, const leat_run_options *options)
{
    struct cuda_device *device = (struct cuda_device *)base;
    const char *words = NULL;
    if (!kernel->start)
        return leat_fail(-ENOTSUP,
                         "kernel %s was made by a C compiler and runs on the CPU device only; "
                         "compile it with nvcc -x cu, or set LEAT_DEVICE=cpu",
                         kernel->name);
    if (device->rank_count > 1)
        return leat_fail(-ENOTSUP,
                         "kernel %s: %d ranks share GPU %d, and kernels that wait for one another "
                         "have to run at once; give each rank a GPU of its own",
                         kernel->name, device->rank_count, device->number);
    if (base->job->gpus_shared != GPUS_IGNORED && leat_gpu_sharers(base->job, NULL) > 1)
        return leat_fail(-ENOTSUP,
                         "kernel %s: other processes of the job share GPU %d, and CUDA does not "
                         "promise that kernels which wait for one another run at once; give each "
                         "rank a GPU of its own",
                         kernel->name, device->number);
    int error = leat_cuda_use(device);
    if (error)
        return error;
    int failed = kernel->start(launch, work, options->block_count, options->lane_count,
                               device->stream, &words);
    if (!failed)
        return 0;
    return leat_fail(failed == cudaErrorCooperativeLaunchTooLarge ? -EINVAL : -EIO,
                     "launching kernel %s, %u blocks of %u lanes, all at once, on GPU %d: CUDA "
                     "says: %s",
                     kernel->name, options->block_count, options->lane_count, device->number,
                     words ? words : "nothing");
}
