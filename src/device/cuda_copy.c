// SPDX-License-Identifier: Apache-2.0
// Copies between files' buffers and GPUs, beside the rank's own stream.
//
// Algorithm: a lane has a stream of the highest priority, which is a queue of its own on the GPU:
// in another one a copy might stand behind a wait of the rank's stream for that very copy. Marks
// are events, or, where they are polled, words of pinned memory that the stream stores into: a look
// at an event asks the driver, 1.3 us under a lock that the next copy wants too, where setting one
// takes 0.2; a look at a word is a load, and setting one takes 0.9. A slab that is to be scattered
// is copied into memory of the lane's stream (cudaMallocAsync), from where a kernel takes it.
// Advantage: nothing a lane does waits for the rank's kernels, nor for other lanes. Disadvantage:
// memory for a slab a mark on the GPU; a word says nothing of errors, so the stream is asked too,
// now and then.

#define _GNU_SOURCE
#include "device/cuda_copy.h"

#include "core/error.h"
#include "device/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES      4096u
#define LOOKS_A_QUERY   512u   /* at a word, between two at the stream; of rounds of progress */
#define SPINS_A_QUERY   16384u /* the same where nothing is done between two looks */
#define SPINS_OF_A_WAIT 65536u /* before the core is given away */

struct mark {
    cudaEvent_t event;
    uint64_t value; /* that its word has once it has passed; 0: it was never set */
    void *slab;     /* on the GPU */
    uint64_t slab_bytes;
};

struct copies_lane {
    struct cuda_device *device;
    int gpu;
    cudaStream_t stream;
    cpu_set_t before; /* where the thread ran until it was placed */
    bool placed;
    uint64_t *words; /* of the marks, pinned; NULL: they are events */
    uint64_t set;    /* the last value that a mark was given */
    uint32_t looks;
    int mark_count;
    struct mark mark[];
};

// ---- The calling thread's GPU ----

static int cuda_enter(void)
{
    int current = -1;
    return cudaGetDevice(&current) == cudaSuccess ? current : -1;
}

static void cuda_leave(int before)
{
    if (before < 0 || cudaSetDevice(before) != cudaSuccess)
        cudaGetLastError();
}

// ---- Memory ----

// The rank's operations choose the rank's GPU; the calling thread may be a lane of another one.
static int cuda_alloc(struct device *base, int gpu, uint64_t bytes, void **address)
{
    (void)gpu; // the calling thread has been placed near it, and that is where its pages go
    void *made = NULL;
    int before = cuda_enter();
    // The word in front says what is to be freed: CUDA promises no alignment to pages.
    int error = base->ops->report_alloc(base, bytes + PAGE_BYTES + sizeof made, &made);
    cuda_leave(before);
    if (error)
        return error;
    uintptr_t at = (uintptr_t)made + sizeof made;
    at = (at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    memcpy((char *)at - sizeof made, &made, sizeof made);
    *address = (void *)at;
    return 0;
}

static void cuda_free(struct device *base, void *address, uint64_t bytes)
{
    void *made;
    int before = cuda_enter();
    (void)bytes;
    memcpy(&made, (char *)address - sizeof made, sizeof made);
    base->ops->report_free(base, made);
    cuda_leave(before);
}

static int cuda_pin(struct device *base, void *address, uint64_t bytes, bool read_only)
{
    int error = leat_cuda_use((const struct cuda_device *)base);
    if (error)
        return error;
    unsigned flags = cudaHostRegisterPortable | (read_only ? cudaHostRegisterReadOnly : 0);
    cudaError_t failed = cudaHostRegister(address, bytes, flags);
    if (failed == cudaErrorHostMemoryAlreadyRegistered) {
        cudaGetLastError();
        return leat_fail(-EALREADY, "these pages are registered with CUDA already");
    }
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "registering pages of the host");
}

static void cuda_unpin(struct device *base, void *address, uint64_t bytes)
{
    (void)base;
    (void)bytes;
    if (cudaHostUnregister(address) != cudaSuccess)
        cudaGetLastError();
}

// ---- Memory of other processes ----

_Static_assert(sizeof(cudaIpcMemHandle_t) <= sizeof(((struct copies_share *)0)->handle),
               "a handle fits");

static int cuda_share(struct device *base, const void *address, struct copies_share *share)
{
    cudaIpcMemHandle_t handle;
    int error = leat_cuda_range(base, address, &share->base, &share->bytes);
    if (error)
        return error;
    cudaError_t failed = cudaIpcGetMemHandle(&handle, (void *)(uintptr_t)share->base);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "a name of a GPU's memory for other processes");
    memset(share->handle, 0, sizeof share->handle);
    memcpy(share->handle, &handle, sizeof handle);
    return 0;
}

static int cuda_attach(struct device *base, const struct copies_share *share, void **address)
{
    cudaIpcMemHandle_t handle;
    int error = leat_cuda_use((const struct cuda_device *)base);
    if (error)
        return error;
    memcpy(&handle, share->handle, sizeof handle);
    cudaError_t failed = cudaIpcOpenMemHandle(address, handle, cudaIpcMemLazyEnablePeerAccess);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "mapping another process's memory");
}

static void cuda_detach(struct device *base, void *address)
{
    if (leat_cuda_use((const struct cuda_device *)base) ||
        cudaIpcCloseMemHandle(address) != cudaSuccess)
        cudaGetLastError();
}

// ---- Lanes ----

// "0-3,8" as sysfs writes it. Whether there was any.
static bool read_cpu_list(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            break;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set);
        text = end + (*end == ',');
    }
    return CPU_COUNT(set) > 0;
}

static bool near_gpu(int gpu, cpu_set_t *set)
{
    char bus[32] = "", path[96], text[1024] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    for (char *at = bus; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'F' ? *at - 'A' + 'a' : *at);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", bus);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fgets(text, sizeof text, file) && read_cpu_list(text, set);
    fclose(file);
    return found;
}

// Where that is not known, or where the thread may not run, it stays where it is.
static void place(struct copies_lane *lane)
{
    cpu_set_t near, both;
    if (sched_getaffinity(0, sizeof lane->before, &lane->before) || !near_gpu(lane->gpu, &near))
        return;
    CPU_AND(&both, &near, &lane->before);
    lane->placed = CPU_COUNT(&both) > 0 && !sched_setaffinity(0, sizeof both, &both);
}

static int use(const struct copies_lane *lane)
{
    cudaError_t failed = cudaSetDevice(lane->gpu);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "choosing a buffer's GPU");
}

static void cuda_close(struct copies_lane *lane)
{
    if (lane->stream && !use(lane)) {
        for (int i = 0; i < lane->mark_count; i++) {
            if (lane->mark[i].slab)
                cudaFreeAsync(lane->mark[i].slab, lane->stream);
            if (lane->mark[i].event)
                cudaEventDestroy(lane->mark[i].event);
        }
        cudaStreamDestroy(lane->stream);
    }
    if (lane->words)
        lane->device->base.ops->report_free(&lane->device->base, lane->words);
    if (lane->placed)
        sched_setaffinity(0, sizeof lane->before, &lane->before);
    free(lane);
}

static int cuda_open(struct device *base, int gpu, int marks, unsigned flags,
                     struct copies_lane **opened)
{
    struct copies_lane *lane = calloc(1, sizeof *lane + (size_t)marks * sizeof lane->mark[0]);
    int lowest = 0, highest = 0;
    if (!lane)
        return leat_fail(-ENOMEM, "no memory for a lane of copies");
    lane->device = (struct cuda_device *)base;
    lane->gpu = gpu;
    lane->mark_count = marks;
    int error = gpu < 0 ? 0 : use(lane);
    if (!error && gpu >= 0) {
        if (flags & COPIES_PLACE)
            place(lane);
        cudaError_t failed = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
        if (failed == cudaSuccess)
            failed = cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, highest);
        error = failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "a stream of copies");
    }
    if (!error && gpu >= 0 && flags & COPIES_POLL && lane->device->write_value)
        error = base->ops->report_alloc(base, (size_t)marks * sizeof *lane->words,
                                        (void **)&lane->words);
    if (error)
        cuda_close(lane);
    else
        *opened = lane;
    return error;
}

static int cuda_copy(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    if (lane->gpu < 0) {
        memcpy(to, from, bytes);
        return 0;
    }
    int error = use(lane);
    if (error)
        return error;
    cudaError_t failed = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, lane->stream);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "a copy of a file's bytes");
}

#define COMBINE_THREADS 256u
#define COMBINE_BLOCKS  (132u * 8u)

static int cuda_combine(struct copies_lane *lane, unsigned operation, unsigned type, const void *in,
                        void *inout, uint64_t count)
{
    const void *entry = leat_cuda_combine_entry(operation, type);
    void *arguments[] = {&in, &inout, &count};
    uint64_t blocks = (count + COMBINE_THREADS - 1) / COMBINE_THREADS;
    if (!entry)
        return leat_fail(-EINVAL, "no kernel for operation %u of type %u", operation, type);
    int error = use(lane);
    if (error || !count)
        return error;
    cudaError_t failed = cudaLaunchKernel(
        entry, (dim3){(unsigned)(blocks < COMBINE_BLOCKS ? blocks : COMBINE_BLOCKS), 1, 1},
        (dim3){COMBINE_THREADS, 1, 1}, arguments, 0, lane->stream);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "combining values of a collective");
}

static int set_word(struct copies_lane *lane, int index)
{
    uint64_t value = ++lane->set;
    CUresult failed = lane->device->write_value(
        (CUstream)lane->stream, (CUdeviceptr)(uintptr_t)&lane->words[index], value,
        CU_STREAM_WRITE_VALUE_DEFAULT); // behind a fence: who sees it sees what was copied
    if (failed != CUDA_SUCCESS)
        return leat_fail(-EIO, "a mark of copies: CUDA says error %d", (int)failed);
    lane->mark[index].value = value;
    return 0;
}

static int cuda_mark(struct copies_lane *lane, int index)
{
    struct mark *mark = &lane->mark[index];
    if (lane->gpu < 0)
        return 0;
    int error = use(lane);
    if (error)
        return error;
    if (lane->words)
        return set_word(lane, index);
    cudaError_t failed = cudaSuccess;
    if (!mark->event)
        failed = cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming);
    if (failed == cudaSuccess)
        failed = cudaEventRecord(mark->event, lane->stream);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "a mark of copies");
}

static bool word_set(const struct copies_lane *lane, int index)
{
    return __atomic_load_n(&lane->words[index], __ATOMIC_ACQUIRE) == lane->mark[index].value;
}

// A stream that has failed never comes to the word.
static int ask_stream(struct copies_lane *lane, int index)
{
    int error = use(lane);
    if (error)
        return error;
    cudaError_t failed = cudaStreamQuery(lane->stream);
    if (failed == cudaErrorNotReady)
        return 0;
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "copies of a buffer");
    return word_set(lane, index) ? 1 : leat_fail(-EIO, "a mark of copies was never set");
}

static int word_passed(struct copies_lane *lane, int index, bool wait)
{
    const uint32_t between = wait ? SPINS_A_QUERY : LOOKS_A_QUERY;
    for (uint32_t spins = 0; !word_set(lane, index); spins++) {
        int over = ++lane->looks % between ? 0 : ask_stream(lane, index);
        if (over || !wait)
            return over;
        if (spins >= SPINS_OF_A_WAIT)
            sched_yield();
    }
    return 1;
}

static int cuda_passed(struct copies_lane *lane, int index, bool wait)
{
    if (lane->words)
        return word_passed(lane, index, wait);
    cudaEvent_t event = lane->mark[index].event;
    if (!event)
        return 1;
    int error = use(lane);
    if (error)
        return error;
    cudaError_t failed = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (failed == cudaErrorNotReady)
        return 0;
    return failed == cudaSuccess ? 1 : leat_cuda_fail(failed, "copies of a file's bytes");
}

// ---- Scattering ----

static int make_slab(struct copies_lane *lane, struct mark *mark, uint64_t bytes)
{
    if (mark->slab_bytes >= bytes)
        return 0;
    cudaError_t failed = cudaSuccess;
    if (mark->slab)
        failed = cudaFreeAsync(mark->slab, lane->stream);
    mark->slab = NULL;
    mark->slab_bytes = 0;
    if (failed == cudaSuccess)
        failed = cudaMallocAsync(&mark->slab, bytes, lane->stream);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "memory of a GPU for a file's ranges");
    mark->slab_bytes = bytes;
    return 0;
}

static int launch(struct copies_lane *lane, const void *slab, const struct copies_piece *pieces,
                  uint32_t count)
{
    struct cuda_scatter_many carried;
    const void *few, *many;
    void *arguments[] = {&carried};
    leat_cuda_scatter_entries(&few, &many);
    carried.slab = slab;
    carried.count = count;
    carried.unused = 0;
    memcpy(carried.piece, pieces, count * sizeof *pieces);
    cudaError_t failed =
        cudaLaunchKernel(count > CUDA_PIECES_FEW ? many : few, (dim3){count, 1, 1},
                         (dim3){CUDA_COPY_THREADS, 1, 1}, arguments, 0, lane->stream);
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "scattering a file's ranges");
}

static int cuda_scatter(struct copies_lane *lane, int index, const void *slab, uint64_t bytes,
                        const struct copies_piece *pieces, uint32_t count)
{
    struct mark *mark = &lane->mark[index];
    int error =
        lane->gpu < 0 ? leat_fail(-EINVAL, "pieces of the host are none to scatter") : use(lane);
    if (!error)
        error = make_slab(lane, mark, bytes);
    if (!error)
        error = cuda_copy(lane, mark->slab, slab, bytes);
    for (uint32_t done = 0; !error && done < count;) {
        uint32_t now = count - done < CUDA_PIECES_MANY ? count - done : CUDA_PIECES_MANY;
        error = launch(lane, mark->slab, pieces + done, now);
        done += now;
    }
    return error ? error : cuda_mark(lane, index);
}

const struct copies_ops leat_copies_cuda = {.find = leat_cuda_find,
                                            .on_gpu = leat_cuda_on_gpu,
                                            .number = leat_cuda_number,
                                            .share = cuda_share,
                                            .attach = cuda_attach,
                                            .detach = cuda_detach,
                                            .alloc = cuda_alloc,
                                            .free = cuda_free,
                                            .open = cuda_open,
                                            .close = cuda_close,
                                            .copy = cuda_copy,
                                            .combine = cuda_combine,
                                            .scatter = cuda_scatter,
                                            .mark = cuda_mark,
                                            .passed = cuda_passed,
                                            .enter = cuda_enter,
                                            .leave = cuda_leave,
                                            .pin = cuda_pin,
                                            .unpin = cuda_unpin,
                                            .hold = leat_cuda_hold,
                                            .release = leat_cuda_release};
