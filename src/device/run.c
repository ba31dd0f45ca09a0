// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller's own: what a launch of theirs needs, and what it had to say.
//
// Algorithm: a rank has one gate, a few counters and one record of the first failure for all such
// kernels, made at the first one: they follow one another in its stream, and each leaves gate and
// counters as it found them, unless a wait failed. Then they are cleared before the next one, once
// the stream is empty. Advantage: nothing is made or awaited in the steady state. Disadvantage: a
// failure is told by a later call, as that of every kernel of a GPU.

#include "core/job.h"
#include "device/kernel.h"
#include "device/lookout.h"
#include "device/ops.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES_DEFAULT 256
#define LANES_MAX     1024

/* In the device's memory. */
struct meeting {
    struct leat_signal gate;
    uint32_t counters[1 + LEAT_GRID_COUNTERS];
};

/* A caller's kernel fills the one as the library's fill the other. */
#define AS_K_ERROR(member)                                                                         \
    _Static_assert(offsetof(struct leat_device_failure, member) ==                                 \
                       offsetof(struct k_error, member),                                           \
                   #member " lies elsewhere")
AS_K_ERROR(failed);
AS_K_ERROR(ready);
AS_K_ERROR(code);
AS_K_ERROR(peer);
AS_K_ERROR(wanted);
AS_K_ERROR(seen);
AS_K_ERROR(signal);
_Static_assert(sizeof(struct leat_device_failure) == sizeof(struct k_error), "one record");

struct runs {
    struct job_child child; /* first */
    struct device *device;
    struct device_memory meeting, error; /* struct meeting, struct k_error */
    struct k_error *report;
    struct lookout_item lookout;
    const char *last; /* the kernel that was started last, for messages */
    bool told;        /* the failure in `report` */
};

static void free_runs(struct runs *runs)
{
    const struct device_ops *ops = runs->device->ops;
    leat_lookout_remove(runs->device->job, &runs->lookout);
    if (runs->report && ops->report_free)
        ops->report_free(runs->device, runs->report);
    ops->free(runs->device, &runs->meeting);
    ops->free(runs->device, &runs->error);
    free(runs);
}

static void orphan(struct job_child *child)
{
    struct runs *runs = (struct runs *)(void *)child;
    *child->link = child->next;
    if (child->next)
        child->next->link = child->link;
    runs->device->job->runs = NULL;
    free_runs(runs);
}

static int check(struct job_child *child)
{
    struct runs *runs = (struct runs *)(void *)child;
    const struct k_error *report = runs->report;
    const bool ready = __atomic_load_n(&report->ready, __ATOMIC_ACQUIRE);
    const int lost = runs->lookout.link ? leat_lookout_lost(&runs->lookout) : -1;
    if (runs->told || (!ready && lost < 0))
        return 0;
    runs->told = true;
    struct leat_job *job = runs->device->job;
    char what[80];
    snprintf(what, sizeof what, "kernel %.64s", runs->last);
    if (!ready) {
        // Later kernels may have nothing to do with that rank.
        leat_lookout_remove(job, &runs->lookout);
        return leat_peer_fail(job, -ECONNRESET, what, lost, "");
    }
    if (report->peer >= 0 || report->code != -ETIMEDOUT)
        return leat_wait_fail(job, report->code, what, report->peer, report->wanted, report->seen);
    const struct meeting *meeting = runs->meeting.address;
    if (report->signal == &meeting->gate)
        return leat_fail(-ETIMEDOUT,
                         "%s: its blocks did not meet: one of them has not come to leat_grid_sync "
                         "for twice LEAT_TIMEOUT; every block calls it as often as every other",
                         what);
    return leat_fail(-ETIMEDOUT,
                     "%s: a signal that no rank was named for was not raised within %.3g s (wanted "
                     "%llu, seen %llu); see who raises it, or raise LEAT_TIMEOUT",
                     what, (double)job->timeout_ns * 1e-9, (unsigned long long)report->wanted,
                     (unsigned long long)report->seen);
}

static int make_runs(struct leat_job *job, struct runs **made)
{
    const struct device_ops *ops = job->device->ops;
    struct runs *runs = calloc(1, sizeof *runs);
    if (!runs)
        return leat_fail(-ENOMEM, "no memory for a kernel of the caller's");
    runs->device = job->device;
    int error = ops->alloc(job->device, sizeof(struct meeting), &runs->meeting);
    if (!error)
        error = ops->alloc(job->device, sizeof(struct k_error), &runs->error);
    void *report = runs->error.address;
    if (!error && ops->report_alloc)
        error = ops->report_alloc(job->device, sizeof(struct k_error), &report);
    if (error) {
        free_runs(runs);
        return error;
    }
    runs->report = report;
    runs->last = "(none yet)";
    runs->lookout = (struct lookout_item){.error = runs->error.address, .peer_count = -1};
    error = leat_lookout_add(job, &runs->lookout);
    if (error) {
        free_runs(runs);
        return error;
    }
    runs->child = (struct job_child){
        .orphan = orphan, .check = check, .next = job->children, .link = &job->children};
    if (runs->child.next)
        runs->child.next->link = &runs->child.next;
    job->children = &runs->child;
    *made = job->runs = runs;
    return 0;
}

// What a kernel that failed has left behind.
static int clear(struct runs *runs)
{
    struct device *device = runs->device;
    int error = leat_device_sync(device);
    if (error)
        return error;
    memset(runs->meeting.host, 0, sizeof(struct meeting));
    memset(runs->error.host, 0, sizeof(struct k_error));
    memset(runs->report, 0, sizeof(struct k_error));
    error = device->ops->publish(device, &runs->meeting);
    if (!error)
        error = device->ops->publish(device, &runs->error);
    runs->told = error != 0;
    return error;
}

static int read_options(const struct leat_job *job, const leat_run_options *given,
                        leat_run_options *full)
{
    leat_device_info info = {.size = sizeof info};
    job->device->ops->info(job->device, &info);
    *full = (leat_run_options){.size = sizeof *full};
    if (given && !given->size)
        return leat_fail(-EINVAL, "leat_run_options.size is 0; set it to sizeof");
    if (given)
        memcpy(full, given, given->size < sizeof *full ? given->size : sizeof *full);
    if (!full->block_count)
        full->block_count = (uint32_t)info.block_count;
    if (!full->lane_count)
        full->lane_count = LANES_DEFAULT;
    if (full->lane_count > LANES_MAX)
        return leat_fail(-EINVAL, "blocks of %u lanes; at most %d", full->lane_count, LANES_MAX);
    return 0;
}

static int run(struct runs *runs, const leat_kernel *kernel, const void *work,
               const leat_run_options *options)
{
    struct device *device = runs->device;
    struct meeting *meeting = runs->meeting.address;
    const leat_kernel_call launch = {.job = device->job,
                                     .timeout_ns = device->job->timeout_ns,
                                     .error = runs->error.address,
                                     .report = (void *)runs->report,
                                     .gate = &meeting->gate,
                                     .counters = meeting->counters};
    runs->last = kernel->name;
    leat_count(&device->job->counts.launches, 1);
    int error = device->ops->run(device, kernel, &launch, work, options);
    return error || device->ops->asynchronous ? error : check(&runs->child);
}

int leat_device_run(leat_job *job, const leat_kernel *kernel, const void *work, size_t work_bytes,
                    const leat_run_options *options)
{
    int error = leat_need(job, "leat_device_run", "job");
    if (!error)
        error = leat_need(kernel, "leat_device_run", "kernel");
    if (!error && work_bytes != kernel->work_bytes)
        error = leat_fail(-EINVAL,
                          "leat_device_run: %zu bytes of work for kernel %.64s, which reads %zu",
                          work_bytes, kernel->name, kernel->work_bytes);
    if (!error)
        error = leat_need(work, "leat_device_run", "work");
    leat_run_options full;
    if (!error)
        error = read_options(job, options, &full);
    struct runs *runs = error ? NULL : job->runs;
    if (!error && !runs)
        error = make_runs(job, &runs);
    if (!error)
        error = check(&runs->child);
    if (!error && runs->told)
        error = clear(runs);
    return error ? error : run(runs, kernel, work, &full);
}

// ---- The CPU device's half of device_inline.h ----

void leat_kernel_raise(leat_signal *signal, uint64_t value)
{
    leat_signal_raise(signal, value);
}

int leat_kernel_wait(const leat_kernel_call *launch, leat_signal *signal, uint64_t at_least,
                     int peer)
{
    const struct k_grid grid = {0, 1};
    // Blocks that wait for one that waits for a peer must not be the first to give up.
    const struct k_wait wait = {.job = launch->job,
                                .timeout_ns = launch->timeout_ns * (signal == launch->gate ? 2 : 1),
                                .error = (void *)launch->error,
                                .report = (void *)launch->report};
    return (int)k_signal_wait(&grid, &wait, signal, at_least, peer, -1);
}
