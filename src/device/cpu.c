// SPDX-License-Identifier: Apache-2.0
// The CPU device: kernels with threads as blocks.
//
// Algorithm: block 0 of a kernel runs in the thread that launches it, further blocks (LEAT_BLOCKS)
// in workers that sleep between kernels; the launch returns when all blocks have ended, so the
// stream is empty whenever the host looks. Advantage: the GPU's kernels, with their waits, on any
// machine and under ThreadSanitizer. Disadvantage: no overlap of host and device.

#define _GNU_SOURCE
#include "device/ops.h"

#include "core/job.h"
#include "core/thread.h"
#include "device/copies.h"
#include "device/kernel.h"
#include "halo/halo_kernels.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define K_KERNEL(name)                                                                             \
    static void name(const struct k_grid *grid, void *arguments, uint32_t choice, uint64_t turn)

#include "halo/kernels.inc"

typedef void kernel_function(const struct k_grid *grid, void *arguments, uint32_t choice,
                             uint64_t turn);

#define ENTRY(id, name) [KERNEL_##id] = name,
static kernel_function *const kernels[KERNEL_COUNT] = {LEAT_KERNELS(ENTRY)};
#undef ENTRY

/* A kernel of the library, or one of the caller's. */
struct cpu_work {
    kernel_function *kernel;
    void *arguments;
    uint64_t turn;
    uint32_t choice, block_count;
    const leat_kernel *caller; /* where `kernel` is NULL */
    const leat_kernel_call *launch;
    const void *work;
};

struct worker {
    struct cpu_device *device;
    pthread_t thread;
    uint32_t block;
};

struct cpu_device {
    struct device base;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t launches; /* kernels handed out; workers run each once */
    uint32_t running;  /* workers not yet through with the present one */
    int stop;
    struct cpu_work now;
    uint32_t block_count, worker_count;
    struct worker *workers;
};

static void run_block(const struct cpu_work *now, uint32_t block)
{
    if (block >= now->block_count)
        return;
    if (now->kernel) {
        struct k_grid grid = {block, now->block_count};
        now->kernel(&grid, now->arguments, now->choice, now->turn);
        return;
    }
    leat_grid grid = {
        .block = block, .block_count = now->block_count, .lane_count = 1, .launch = now->launch};
    now->caller->host(&grid, now->work);
}

static void *worker_main(void *user)
{
    struct worker *worker = user;
    struct cpu_device *device = worker->device;
    uint64_t seen = 0;
    pthread_mutex_lock(&device->lock);
    for (;;) {
        while (!device->stop && device->launches == seen)
            pthread_cond_wait(&device->work, &device->lock);
        if (device->stop)
            break;
        seen = device->launches;
        pthread_mutex_unlock(&device->lock);
        run_block(&device->now, worker->block);
        pthread_mutex_lock(&device->lock);
        if (--device->running == 0)
            pthread_cond_signal(&device->done);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static void run_blocks(struct cpu_device *device, const struct cpu_work *now)
{
    if (!device->worker_count || now->block_count == 1) {
        run_block(now, 0);
        return;
    }
    pthread_mutex_lock(&device->lock);
    device->now = *now;
    device->running = device->worker_count;
    device->launches++;
    pthread_cond_broadcast(&device->work);
    pthread_mutex_unlock(&device->lock);
    run_block(now, 0);
    pthread_mutex_lock(&device->lock);
    while (device->running)
        pthread_cond_wait(&device->done, &device->lock);
    pthread_mutex_unlock(&device->lock);
}

static int cpu_launch(struct device *base, const struct device_launch *launch)
{
    struct cpu_device *device = (struct cpu_device *)base;
    const struct cpu_work now = {.kernel = kernels[launch->kernel],
                                 .arguments = launch->arguments->address,
                                 .turn = launch->turn,
                                 .choice = launch->choice,
                                 .block_count = device->block_count};
    run_blocks(device, &now);
    return 0;
}

static int cpu_run(struct device *base, const leat_kernel *kernel, const leat_kernel_call *launch,
                   const void *work, const leat_run_options *options)
{
    struct cpu_device *device = (struct cpu_device *)base;
    const struct cpu_work now = {
        .caller = kernel, .launch = launch, .work = work, .block_count = options->block_count};
    if (options->block_count > device->block_count)
        return leat_fail(
            -EINVAL, "kernel %s: %u blocks, and the CPU device runs %u at once; set LEAT_BLOCKS",
            kernel->name, options->block_count, device->block_count);
    run_blocks(device, &now);
    return 0;
}

// The stream's operations run where they are enqueued: nothing before them is still under way.
static int cpu_put(struct device *base, void *to, const void *from, uint64_t bytes)
{
    (void)base;
    if (bytes)
        memcpy(to, from, bytes);
    return 0;
}

static int cpu_raise(struct device *base, struct leat_signal *signal, uint64_t value)
{
    (void)base;
    leat_signal_raise(signal, value);
    return 0;
}

static int cpu_wait(struct device *base, const struct k_wait *wait, struct leat_signal *signal,
                    uint64_t wanted, int peer, int pulse)
{
    (void)base;
    struct k_grid grid = {0, 1};
    k_signal_wait(&grid, wait, signal, wanted, peer, pulse);
    return 0;
}

static int cpu_sync(struct device *base)
{
    (void)base;
    return 0;
}

static int cpu_drain(struct device *base, double timeout_s)
{
    (void)base;
    (void)timeout_s;
    return 0;
}

static int cpu_alloc(struct device *base, size_t bytes, struct device_memory *memory)
{
    (void)base;
    void *made = NULL;
    if (posix_memalign(&made, 64, bytes ? bytes : 1))
        return leat_fail(-ENOMEM, "no memory on the CPU device for %zu bytes", bytes);
    memset(made, 0, bytes);
    *memory = (struct device_memory){made, made, bytes};
    return 0;
}

static void cpu_free(struct device *base, struct device_memory *memory)
{
    (void)base;
    free(memory->address);
    *memory = (struct device_memory){0};
}

static int cpu_same(struct device *base, const struct device_memory *memory)
{
    (void)base;
    (void)memory;
    return 0;
}

static void cpu_info(const struct device *base, leat_device_info *info)
{
    strcpy(info->name, "cpu");
    strcpy(info->model, "threads of the host as blocks");
    info->rank_count = base->job->segment->head->threads ? base->job->rank_count : 1;
    info->block_count = (int)((const struct cpu_device *)base)->block_count;
}

static void cpu_close(struct device *base)
{
    struct cpu_device *device = (struct cpu_device *)base;
    pthread_mutex_lock(&device->lock);
    device->stop = 1;
    pthread_cond_broadcast(&device->work);
    pthread_mutex_unlock(&device->lock);
    for (uint32_t i = 0; i < device->worker_count; i++)
        pthread_join(device->workers[i].thread, NULL);
    pthread_cond_destroy(&device->done);
    pthread_cond_destroy(&device->work);
    pthread_mutex_destroy(&device->lock);
    free(device->workers);
    free(device);
}

static const struct device_ops cpu_ops = {.name = "cpu",
                                          .close = cpu_close,
                                          .info = cpu_info,
                                          .alloc = cpu_alloc,
                                          .free = cpu_free,
                                          .publish = cpu_same,
                                          .fetch = cpu_same,
                                          .launch = cpu_launch,
                                          .run = cpu_run,
                                          .put = cpu_put,
                                          .raise = cpu_raise,
                                          .wait = cpu_wait,
                                          .sync = cpu_sync,
                                          .drain = cpu_drain,
                                          .copies = &leat_copies_host};

int leat_device_cpu_open(struct leat_job *job, struct device **opened)
{
    uint32_t blocks = (uint32_t)job->config.block_count;
    struct cpu_device *device = calloc(1, sizeof *device);
    struct worker *workers = calloc(blocks, sizeof *workers);
    if (!device || !workers) {
        free(device);
        free(workers);
        return leat_fail(-ENOMEM, "no memory for the CPU device");
    }
    device->base = (struct device){.ops = &cpu_ops, .job = job};
    device->block_count = blocks;
    device->workers = workers;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->work, NULL);
    pthread_cond_init(&device->done, NULL);
    for (uint32_t i = 0; i + 1 < blocks; i++) {
        workers[i].device = device;
        workers[i].block = i + 1;
        int error = leat_thread_start(&workers[i].thread, worker_main, &workers[i]);
        if (error) {
            cpu_close(&device->base);
            return leat_fail(-error,
                             "cannot start block %u of %u of the CPU device: %s; set "
                             "LEAT_BLOCKS smaller",
                             i + 1, blocks, strerror(error));
        }
        device->worker_count++;
    }
    *opened = &device->base;
    return 0;
}
