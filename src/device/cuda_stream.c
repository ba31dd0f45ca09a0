// SPDX-License-Identifier: Apache-2.0
// Operations of a GPU's stream: copies, signals raised and awaited, and the watchdog over the
// latter.
//
// Algorithm: a stream cannot give a wait up by itself. Around every wait the stream writes its
// number to a word of the host, when it begins and when it is through; a thread looks at the word
// from time to time, and a wait that has lasted too long is noted in the halo's report and released
// by storing what it waits for. Advantage: nobody has to ask for the stream to come free.
// Disadvantage: two more operations a wait, and a thread, both only where stream waits are used.
//
// What the watchdog needs is made when a halo is opened (waits_open), before any stream waits.

#include "device/cuda.h"

#include "core/job.h"
#include "core/thread.h"
#include "device/kernel.h"

#include <cuda.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAITS_MAX    1024 /* enqueued and not yet through */
#define LOOK_NS      5000000
#define PEER_LOOK_NS 20000000
#define AGAIN_NS     50000 /* after a release: the stream may be in the next wait already */

struct watched {
    struct leat_signal *signal;
    uint64_t wanted;
    struct k_wait wait;
    int peer, pulse;
};

struct cuda_watch {
    struct cuda_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stop;
    uint64_t begun; /* waits enqueued */
    /* 2n - 1 when wait n has begun, 2n when it is through; written by the stream. */
    uint64_t *progress;
    uint64_t *seen; /* behind it: what a signal says */
    struct watched waits[WAITS_MAX];
};

bool leat_cuda_driver(const char *name, int version, void *function)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult found;
    cudaError_t failed = cudaGetDriverEntryPointByVersion(name, &entry, (unsigned)version,
                                                          cudaEnableDefault, &found);
    if (failed != cudaSuccess || found != cudaDriverEntryPointSuccess) {
        cudaGetLastError();
        return false;
    }
    memcpy(function, &entry, sizeof entry);
    return true;
}

void leat_cuda_find_operations(struct cuda_device *device)
{
    leat_cuda_driver("cuStreamWriteValue64", 12000, &device->write_value);
    leat_cuda_driver("cuStreamWaitValue64", 12000, &device->wait_value);
}

static int call_driver(cuda_stream_value *operation, cudaStream_t stream, const void *address,
                       uint64_t value, unsigned int flags, const char *what)
{
    if (!operation)
        return leat_fail(-ENOTSUP,
                         "%s: the driver has no 64-bit values in streams; use another "
                         "mode than stream",
                         what);
    CUresult failed = operation((CUstream)stream, (CUdeviceptr)(uintptr_t)address, value, flags);
    return failed == CUDA_SUCCESS ? 0
                                  : leat_fail(-EIO, "%s: CUDA says error %d", what, (int)failed);
}

// ---- Copies and signals ----

int leat_cuda_put(struct device *base, void *to, const void *from, uint64_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    cudaError_t failed = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device->stream);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "a copy in a stream");
}

int leat_cuda_raise(struct device *base, struct leat_signal *signal, uint64_t value)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    return error ? error
                 : call_driver(device->write_value, device->stream, &signal->value, value,
                               CU_STREAM_WRITE_VALUE_DEFAULT, "a signal raised in a stream");
}

// ---- The watchdog ----

static void release(struct cuda_watch *watch, uint64_t number, int code)
{
    const struct watched *late = &watch->waits[number % WAITS_MAX];
    struct k_error *report = late->wait.report;
    cudaStream_t stream = watch->device->release_stream;
    cudaMemcpyAsync(watch->seen, &late->signal->value, sizeof *watch->seen, cudaMemcpyDefault,
                    stream);
    cudaStreamSynchronize(stream);
    const uint64_t seen = *watch->seen;
    if (!leat_signal_reached(seen, late->wanted) && !report->failed) {
        report->failed = 1;
        report->code = code;
        report->pulse = late->pulse;
        report->peer = late->peer;
        report->wanted = late->wanted;
        report->seen = seen;
        report->signal = late->signal;
        __atomic_store_n(&report->ready, 1, __ATOMIC_RELEASE);
    }
    call_driver(watch->device->write_value, stream, &late->signal->value, late->wanted,
                CU_STREAM_WRITE_VALUE_DEFAULT, "releasing a stream");
    cudaStreamSynchronize(stream);
}

// By a store that needs nothing of the GPU that a kernel may hold.
int leat_cuda_end_waits(struct device *base, struct k_error *error)
{
    struct cuda_device *device = (struct cuda_device *)base;
    const uint64_t failed = 1; // and nothing ready here: the report has that
    int code = leat_cuda_use(device);
    if (code)
        return code;
    if (device->write_value)
        code = call_driver(device->write_value, device->release_stream, error, failed,
                           CU_STREAM_WRITE_VALUE_DEFAULT, "ending the waits of kernels");
    else if (cudaMemcpyAsync(error, &failed, sizeof failed, cudaMemcpyDefault,
                             device->release_stream) != cudaSuccess)
        code = leat_fail(-EIO, "ending the waits of kernels");
    cudaStreamSynchronize(device->release_stream);
    return code;
}

// The wait that the stream is in: since when, by what we have seen.
struct standing {
    uint64_t progress, since_ns;
};

// A peer in another process, which a stream cannot look after either.
static bool has_died(const struct cuda_watch *watch, const struct watched *wait, uint64_t since_ns)
{
    const struct leat_job *job = watch->device->base.job;
    return !job->segment->head->threads && wait->peer >= 0 &&
           leat_now_ns() - since_ns > PEER_LOOK_NS && leat_rank_lost(job, wait->peer);
}

// Whether a wait has been released.
static bool look(struct cuda_watch *watch, struct standing *standing)
{
    uint64_t progress = __atomic_load_n(watch->progress, __ATOMIC_ACQUIRE), now = leat_now_ns();
    if (progress != standing->progress)
        *standing = (struct standing){progress, now};
    if (!(progress & 1))
        return false;
    uint64_t number = (progress + 1) / 2;
    const struct watched *watched = &watch->waits[number % WAITS_MAX];
    const struct k_wait *wait = &watched->wait;
    // What follows a failed wait is void: it is let through without delay.
    bool failed = __atomic_load_n(&wait->report->ready, __ATOMIC_ACQUIRE);
    bool died = !failed && has_died(watch, watched, standing->since_ns);
    if (!failed && !died && now - standing->since_ns < wait->timeout_ns)
        return false;
    release(watch, number, died ? -ECONNRESET : -ETIMEDOUT);
    standing->since_ns = now;
    return true;
}

static void *watch_stream(void *user)
{
    struct cuda_watch *watch = user;
    struct standing standing = {0};
    bool released = false;
    leat_cuda_use(watch->device);
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += released ? AGAIN_NS : LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watch->change, &watch->lock, &until);
        released = !watch->stop && look(watch, &standing);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static void free_watch(struct cuda_watch *watch)
{
    if (watch->progress)
        leat_cuda_report_free(&watch->device->base, watch->progress);
    pthread_cond_destroy(&watch->change);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

// Of the highest priority, which is a queue of its own on the GPU: in another one a release might
// stand behind the very wait that it is to end.
int leat_cuda_make_release_stream(struct cuda_device *device)
{
    int lowest = 0, highest = 0;
    cudaError_t failed = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (failed == cudaSuccess && !device->release_stream)
        failed =
            cudaStreamCreateWithPriority(&device->release_stream, cudaStreamNonBlocking, highest);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "the watchdog of stream waits");
}

static int start_watch(struct cuda_device *device)
{
    struct cuda_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return leat_fail(-ENOMEM, "no memory for the watchdog of stream waits");
    watch->device = device;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&watch->lock, NULL);
    void *word = NULL;
    int error = leat_cuda_report_alloc(&device->base, 2 * sizeof(uint64_t), &word);
    if (!error) {
        watch->progress = word;
        watch->seen = watch->progress + 1;
        error = leat_cuda_make_release_stream(device);
    }
    if (!error) {
        int code = leat_thread_start(&watch->thread, watch_stream, watch);
        if (code)
            error =
                leat_fail(-code, "cannot start the watchdog of stream waits: %s", strerror(code));
    }
    if (error) {
        free_watch(watch);
        return error;
    }
    device->watch = watch;
    return 0;
}

int leat_cuda_waits_open(struct device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    return error || device->watch ? error : start_watch(device);
}

void leat_cuda_watch_end(struct cuda_device *device)
{
    struct cuda_watch *watch = device->watch;
    if (!watch)
        return;
    // It goes on while the stream is in a wait: nobody else would end that.
    cudaStreamSynchronize(device->stream);
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_cond_broadcast(&watch->change);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
    device->watch = NULL;
}

// Notes the wait where the watchdog finds it; waits for room, which the stream itself makes.
static uint64_t note(struct cuda_watch *watch, const struct watched *wait)
{
    while (watch->begun - __atomic_load_n(watch->progress, __ATOMIC_ACQUIRE) / 2 >= WAITS_MAX - 1)
        sched_yield();
    pthread_mutex_lock(&watch->lock);
    uint64_t number = ++watch->begun;
    watch->waits[number % WAITS_MAX] = *wait;
    pthread_mutex_unlock(&watch->lock);
    return number;
}

int leat_cuda_wait(struct device *base, const struct k_wait *wait, struct leat_signal *signal,
                   uint64_t wanted, int peer, int pulse)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    if (!error && leat_cuda_captures(device))
        error = leat_fail(-ENOTSUP, "mode stream's signals have their numbers baked in, so a graph "
                                    "of it would not replay; use mode fused or pulse");
    if (error)
        return error;
    struct cuda_watch *watch = device->watch;
    const struct watched watched = {signal, wanted, *wait, peer, pulse};
    uint64_t number = note(watch, &watched);
    error = call_driver(device->write_value, device->stream, watch->progress, 2 * number - 1,
                        CU_STREAM_WRITE_VALUE_DEFAULT, "a wait in a stream");
    if (!error)
        error = call_driver(device->wait_value, device->stream, &signal->value, wanted,
                            CU_STREAM_WAIT_VALUE_GEQ, "a wait in a stream");
    if (!error)
        error = call_driver(device->write_value, device->stream, watch->progress, 2 * number,
                            CU_STREAM_WRITE_VALUE_DEFAULT, "a wait in a stream");
    return error;
}

// ---- Waiting for the stream ----

int leat_cuda_sync(struct device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    const uint64_t frees = leat_cuda_frees(device);
    cudaError_t failed = cudaStreamSynchronize(device->stream);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "waiting for a stream");
    leat_cuda_saw_idle(device, frees);
    return 0;
}

int leat_cuda_drain(struct device *base, double timeout_s)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    const uint64_t begin = leat_now_ns(), frees = leat_cuda_frees(device);
    leat_count(&base->job->counts.blocking_waits, 1);
    for (;;) {
        cudaError_t failed = cudaStreamQuery(device->stream);
        if (failed == cudaSuccess) {
            leat_cuda_saw_idle(device, frees);
            return 0;
        }
        if (failed != cudaErrorNotReady)
            return leat_cuda_fail(failed, "waiting for a stream");
        if ((double)(leat_now_ns() - begin) * 1e-9 >= timeout_s)
            return leat_fail(-ETIMEDOUT, "the stream of GPU %d is not empty after %.3g s",
                             device->number, timeout_s);
        sched_yield();
    }
}
