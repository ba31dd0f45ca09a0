// SPDX-License-Identifier: Apache-2.0
// Holds of the rank's stream: a call of the file layer in the order of its work.
//
// Algorithm: three operations of the stream: a callback, which begins the call; a wait for a word;
// a store that tells that the wait is through and its words may serve again. Advantage: no thread
// waits for the stream, and a call begins also when the stream has failed, to say so.
// Disadvantage: a callback takes some ten microseconds, during which the stream stands.

#include "device/cuda_copy.h"

#include "core/error.h"
#include "device/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS 64 /* of a page of words */

enum hold_state { HOLD_FREE, HOLD_ENQUEUED, HOLD_BEGUN, HOLD_VOID };

/* Written and read by the stream too. */
struct hold_words {
    uint64_t over, through;
};

struct copies_hold {
    struct cuda_copies *copies;
    struct hold_words *words;
    void (*begin)(void *user, int error);
    void *user;
    enum hold_state state;
    bool released;
};

struct hold_page {
    struct hold_page *next;
    struct hold_words *words;
    struct copies_hold hold[HOLDS];
};

static int add_page(struct device *base, struct cuda_copies *copies)
{
    struct hold_page *page = calloc(1, sizeof *page);
    void *words = NULL;
    if (!page)
        return leat_fail(-ENOMEM, "no memory for calls in stream order");
    int error = base->ops->report_alloc(base, HOLDS * sizeof *page->words, &words);
    if (error) {
        free(page);
        return error;
    }
    page->words = words;
    for (int i = 0; i < HOLDS; i++)
        page->hold[i] = (struct copies_hold){.copies = copies, .words = &page->words[i]};
    page->next = copies->pages;
    copies->pages = page;
    return 0;
}

static int load_kernels(void)
{
    struct cudaFuncAttributes attributes;
    const void *few, *many;
    leat_cuda_scatter_entries(&few, &many);
    cudaError_t failed = cudaFuncGetAttributes(&attributes, few);
    if (failed == cudaSuccess)
        failed = cudaFuncGetAttributes(&attributes, many);
    for (unsigned i = 0; failed == cudaSuccess && i < CUDA_COMBINE_TYPES * CUDA_COMBINE_OPERATIONS;
         i++) {
        const void *entry =
            leat_cuda_combine_entry(i % CUDA_COMBINE_OPERATIONS, i / CUDA_COMBINE_OPERATIONS);
        if (entry)
            failed = cudaFuncGetAttributes(&attributes, entry);
    }
    return failed == cudaSuccess ? 0 : leat_cuda_fail(failed, "loading a kernel of files");
}

int leat_cuda_copies_open(struct device *base, struct cuda_copies **opened)
{
    struct cuda_copies *copies = calloc(1, sizeof *copies);
    if (!copies)
        return leat_fail(-ENOMEM, "no memory for copies of files");
    pthread_mutex_init(&copies->lock, NULL);
    leat_cuda_driver("cuPointerGetAttribute", 12000, &copies->attribute);
    leat_cuda_driver("cuPointerGetAttributes", 12000, &copies->attributes);
    leat_cuda_driver("cuPointerSetAttribute", 12000, &copies->set_attribute);
    int error = load_kernels();
    if (!error)
        error = add_page(base, copies);
    if (error)
        leat_cuda_copies_close(base, copies);
    else
        *opened = copies;
    return error;
}

void leat_cuda_copies_close(struct device *base, struct cuda_copies *copies)
{
    if (!copies)
        return;
    for (struct hold_page *page = copies->pages, *next; page; page = next) {
        next = page->next;
        base->ops->report_free(base, page->words);
        free(page);
    }
    pthread_mutex_destroy(&copies->lock);
    free(copies);
}

// ---- Holding ----

static struct copies_hold *find_free(struct cuda_copies *copies)
{
    for (struct hold_page *page = copies->pages; page; page = page->next)
        for (int i = 0; i < HOLDS; i++) {
            struct copies_hold *hold = &page->hold[i];
            if (hold->state != HOLD_FREE && hold->released &&
                __atomic_load_n(&hold->words->through, __ATOMIC_ACQUIRE))
                hold->state = HOLD_FREE;
            if (hold->state == HOLD_FREE)
                return hold;
        }
    return NULL;
}

static int take_hold(struct device *base, struct cuda_copies *copies, struct copies_hold **taken)
{
    int error = 0;
    pthread_mutex_lock(&copies->lock);
    struct copies_hold *hold = find_free(copies);
    if (!hold) {
        error = add_page(base, copies);
        hold = error ? NULL : find_free(copies);
    }
    if (hold) {
        hold->state = HOLD_ENQUEUED;
        hold->released = false;
        hold->words->over = hold->words->through = 0;
    }
    pthread_mutex_unlock(&copies->lock);
    *taken = hold;
    return error;
}

static void CUDART_CB begin(cudaStream_t stream, cudaError_t status, void *user)
{
    struct copies_hold *hold = user;
    (void)stream;
    pthread_mutex_lock(&hold->copies->lock);
    bool wanted = hold->state == HOLD_ENQUEUED;
    if (wanted)
        hold->state = HOLD_BEGUN;
    pthread_mutex_unlock(&hold->copies->lock);
    if (wanted)
        hold->begin(hold->user,
                    status == cudaSuccess
                        ? 0
                        : leat_fail(-EIO, "the stream has failed before the call: CUDA says: %s",
                                    cudaGetErrorString(status)));
}

static int enqueue(struct cuda_device *device, struct copies_hold *hold)
{
    cudaError_t failed = cudaStreamAddCallback(device->stream, begin, hold, 0);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "a file's call in stream order");
    CUresult refused =
        device->wait_value((CUstream)device->stream, (CUdeviceptr)(uintptr_t)&hold->words->over, 1,
                           CU_STREAM_WAIT_VALUE_GEQ);
    if (refused == CUDA_SUCCESS)
        refused = device->write_value((CUstream)device->stream,
                                      (CUdeviceptr)(uintptr_t)&hold->words->through, 1,
                                      CU_STREAM_WRITE_VALUE_DEFAULT);
    if (refused == CUDA_SUCCESS)
        return 0;
    // The callback is on its way: it finds that nobody wants it, unless it has been already.
    pthread_mutex_lock(&hold->copies->lock);
    bool begun = hold->state == HOLD_BEGUN;
    if (!begun)
        hold->state = HOLD_VOID;
    __atomic_store_n(&hold->words->over, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&hold->copies->lock);
    return begun
               ? 0
               : leat_fail(-EIO, "a file's call in stream order: CUDA says error %d", (int)refused);
}

int leat_cuda_hold(struct device *base, void (*begin_call)(void *user, int error), void *user,
                   struct copies_hold **held)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct copies_hold *hold = NULL;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    if (leat_cuda_captures(device))
        return leat_fail(-ENOTSUP, "a file's call cannot become part of a graph, which would begin "
                                   "it once only; end the capture first");
    if (!device->wait_value || !device->write_value)
        return leat_fail(-ENOTSUP, "the driver has no 64-bit values in streams; wait for the "
                                   "stream, and call without in_stream");
    error = take_hold(base, device->copies, &hold);
    if (error)
        return error;
    hold->begin = begin_call;
    hold->user = user;
    *held = hold; // begin may release it before this returns
    error = enqueue(device, hold);
    if (error)
        *held = NULL;
    return error;
}

void leat_cuda_release(struct device *base, struct copies_hold *hold)
{
    (void)base;
    pthread_mutex_lock(&hold->copies->lock);
    hold->released = true;
    pthread_mutex_unlock(&hold->copies->lock);
    __atomic_store_n(&hold->words->over, 1, __ATOMIC_RELEASE);
}
