// SPDX-License-Identifier: Apache-2.0
// Transport nvshmem: memory of GPUs of ranks that are processes, in NVSHMEM's symmetric heap.
//
// Algorithm: once the device is open, all ranks agree whether each of them has what it takes; then
// they join NVSHMEM over the job, and take one piece of its heap, as large everywhere. From it each
// rank gives out its regions by itself: a put needs an address in the heap, not the same thing at
// the same place. Where nvshmem_ptr answers, kernels store to peers as they do to any other GPU;
// where it does not, or LEAT_PATHS says nvshmem-put, they put (nvshmem.cu). Advantage: making a
// region asks nobody. Disadvantage: how large the heap is has to be known when the job is opened.
//
// NVSHMEM is left to the end of the process: its own finalisation waits for all ranks, for ever
// where one has died.

#include "transport/nvshmem.h"

#include "device/ops.h"
#include "halo/halo_kernels.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_BYTES (UINT64_C(1) << 30)  /* unless NVSHMEM_SYMMETRIC_SIZE says */
#define HEAP_OWN   (UINT64_C(64) << 20) /* of that, for NVSHMEM itself */
#define HEAP_ALIGN 256
#define ID_WORDS   (NVSHMEM_ID_BYTES / 4)

struct span {
    struct span *next;
    uint64_t begin, end;
};

struct nvshmem {
    const struct nvshmem_library *library;
    int gpu;
    void *stream;
    bool puts; /* LEAT_PATHS: also where kernels could store */
    char *heap;
    uint64_t heap_bytes, used_bytes;
    struct span *free; /* by address */
    int fit[KERNEL_COUNT];
};

static int fail(int error, const struct leat_job *job, const char *why)
{
    return leat_fail(error, "NVSHMEM, rank %d: %s", job->rank, why);
}

// ---- Whether it can be used ----

static bool is_required(const struct leat_job *job)
{
    const char *rule = job->config.paths;
    return leat_path_rule(rule, "require:", "nvshmem") ||
           leat_path_rule(rule, "require:", "nvshmem-put");
}

static const char *missing(void)
{
#ifdef LEAT_HAVE_NVSHMEM
    return NULL;
#else
    return "this build has no NVSHMEM";
#endif
}

// Where libraries are looked for; or beside a program's folder, as in a build or an installation.
static void *open_library(void)
{
    char path[PATH_MAX + 64];
    void *handle = dlopen("libleat_nvshmem.so", RTLD_NOW | RTLD_LOCAL);
    ssize_t length = handle ? 0 : readlink("/proc/self/exe", path, PATH_MAX);
    if (length <= 0)
        return handle;
    while (length > 0 && path[length - 1] != '/')
        length--;
    snprintf(path + length, sizeof path - (size_t)length, "../lib/libleat_nvshmem.so");
    return access(path, R_OK) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static const struct nvshmem_library *load(char *why, size_t bytes)
{
    const struct nvshmem_library *library = NULL;
    snprintf(why, bytes, "%s", missing() ? missing() : "");
    if (!missing()) {
        void *handle = open_library();
        void *symbol = handle ? dlsym(handle, NVSHMEM_LIBRARY_SYMBOL) : NULL;
        library = symbol;
        if (!library)
            snprintf(why, bytes, "%s", dlerror());
    }
    if (library && library->layout != NVSHMEM_LIBRARY_LAYOUT) {
        snprintf(why, bytes, "libleat_nvshmem.so is of another build");
        library = NULL;
    }
    return library;
}

// Why it is not used, found again without any look at a peer.
static void why_not(const struct leat_job *job, char *why, size_t bytes)
{
    *why = 0;
    if (!job->device->ops->region_alloc)
        snprintf(why, bytes, "ranks compute on the CPU device, NVSHMEM moves memory of GPUs");
    else if (job->segment->head->threads && job->rank_count > 1)
        snprintf(why, bytes, "NVSHMEM wants one rank a process, these are threads");
    else if (job->first_away >= 0)
        snprintf(why, bytes, "some ranks are on other hosts, where leat does not use NVSHMEM yet");
    else if (!is_required(job))
        snprintf(why, bytes, "started only where LEAT_PATHS is require:nvshmem or nvshmem-put");
    else
        load(why, bytes);
}

static int can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON])
{
    if (!leat_on_device(kind))
        snprintf(reason, LEAT_REASON, "the host's memory, not a GPU's");
    else if (kind == REGION_DEVICE_REGISTERED)
        snprintf(reason, LEAT_REASON,
                 "registered: in NVSHMEM's heap lies only what leat_region_alloc has made");
    else if (job->nvshmem)
        snprintf(reason, LEAT_REASON, "NVSHMEM's heap, %s",
                 leat_nvshmem_stores(job, peer) ? "stored to directly" : "by puts from kernels");
    else
        why_not(job, reason, LEAT_REASON);
    if (kind == REGION_DEVICE && !job->nvshmem && !*reason)
        snprintf(reason, LEAT_REASON, "another rank of the job cannot use NVSHMEM");
    return kind == REGION_DEVICE && job->nvshmem ? 0 : -EHOSTUNREACH;
}

// ---- Starting ----

// Multicast is of no use here, and can take the GPUs of a host out of service where others share
// its switch. All ranks are on this host: they need neither a network card nor a network.
static void set_environment(uint64_t heap_bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(heap_bytes + HEAP_OWN));
    setenv("NVSHMEM_DISABLE_NVLS", "1", 0);
    setenv("NVSHMEM_SYMMETRIC_SIZE", text, 0);
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
}

// What the user gave NVSHMEM, less what it takes itself; or the default.
static uint64_t heap_bytes(void)
{
    const char *text = getenv("NVSHMEM_SYMMETRIC_SIZE");
    char *unit = NULL;
    double value = text ? strtod(text, &unit) : 0;
    if (!text || unit == text || !(value > 0) || value > 1e15)
        return HEAP_BYTES;
    const char *known = "kmgt";
    const char *at = *unit ? strchr(known, *unit | 0x20) : NULL;
    for (const char *each = known; at && each <= at; each++)
        value *= 1024;
    const uint64_t bytes = (uint64_t)value / HEAP_ALIGN * HEAP_ALIGN;
    return bytes > 2 * HEAP_OWN ? bytes - HEAP_OWN : bytes / 2 / HEAP_ALIGN * HEAP_ALIGN;
}

static int share_id(struct leat_job *job, unsigned char id[NVSHMEM_ID_BYTES])
{
    double words[ID_WORDS] = {0};
    uint32_t word;
    for (size_t i = 0; job->rank == 0 && i < ID_WORDS; i++) {
        memcpy(&word, id + 4 * i, sizeof word);
        words[i] = word;
    }
    int error = leat_reduce(job, REDUCE_SUM, words, ID_WORDS);
    for (size_t i = 0; !error && i < ID_WORDS; i++) {
        word = (uint32_t)words[i];
        memcpy(id + 4 * i, &word, sizeof word);
    }
    return error;
}

static int take_heap(struct leat_job *job, struct nvshmem *made)
{
    double bytes = (double)heap_bytes();
    int error = leat_reduce(job, REDUCE_MAX, &bytes, 1);
    if (error)
        return error;
    made->heap_bytes = (uint64_t)bytes;
    made->heap = made->library->heap(made->gpu, made->heap_bytes);
    made->free = malloc(sizeof *made->free);
    if (made->heap && made->free) {
        *made->free = (struct span){.end = made->heap_bytes};
        job->arena.head->symmetric = (uint64_t)(uintptr_t)made->heap;
        return 0;
    }
    return leat_fail(-ENOMEM,
                     "rank %d: no %llu bytes for NVSHMEM's symmetric heap on GPU %d; set "
                     "NVSHMEM_SYMMETRIC_SIZE smaller",
                     job->rank, (unsigned long long)made->heap_bytes, made->gpu);
}

static int load_kernels(const struct leat_job *job, struct nvshmem *made)
{
    char why[LEAT_DETAIL_BYTES] = "";
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        int error = made->library->fit(made->gpu, kernel, &made->fit[kernel], why, sizeof why);
        if (!error && made->fit[kernel] < 1)
            error = -ENOTSUP;
        if (error)
            return fail(error, job, *why ? why : "a kernel does not fit on the GPU");
    }
    return 0;
}

// From here on all ranks take every step, so that none waits for one that has failed.
static int start(struct leat_job *job, struct nvshmem *made)
{
    unsigned char id[NVSHMEM_ID_BYTES] = {0};
    char why[LEAT_DETAIL_BYTES] = "";
    set_environment(heap_bytes());
    int error = job->rank == 0 ? made->library->draw(id, why, sizeof why) : 0;
    error = leat_agree(job, error ? fail(error, job, why) : 0);
    if (!error)
        error = share_id(job, id);
    if (error)
        return error;
    error = made->library->join(id, made->gpu, job->rank, job->rank_count, why, sizeof why);
    error = leat_agree(job, error ? fail(error, job, why) : 0);
    if (!error)
        error = leat_agree(job, take_heap(job, made));
    return error ? error : leat_agree(job, load_kernels(job, made));
}

static void let_go(struct nvshmem *nvshmem)
{
    for (struct span *span = nvshmem ? nvshmem->free : NULL, *next; span; span = next) {
        next = span->next;
        free(span);
    }
    free(nvshmem);
}

int leat_nvshmem_open(struct leat_job *job)
{
    char why[LEAT_DETAIL_BYTES];
    if (!is_required(job) || (job->segment->head->threads && job->rank_count > 1))
        return 0;
    why_not(job, why, sizeof why);
    double able = !*why;
    int error = leat_reduce(job, REDUCE_MIN, &able, 1);
    if (error || able < 1)
        return error;
    struct nvshmem *made = calloc(1, sizeof *made);
    leat_device_info info = {.size = sizeof info};
    job->device->ops->info(job->device, &info);
    if (made) {
        made->library = load(why, sizeof why);
        made->gpu = info.number;
        made->stream = info.stream;
        made->puts = leat_path_rule(job->config.paths, "require:", "nvshmem-put");
    }
    error = leat_agree(job, made ? 0 : leat_fail(-ENOMEM, "no memory for NVSHMEM's books"));
    if (!error)
        error = start(job, made);
    if (error) {
        let_go(made);
        return leat_fail_in(error, "starting NVSHMEM");
    }
    job->nvshmem = made;
    return 0;
}

void leat_nvshmem_close(struct leat_job *job)
{
    let_go(job->nvshmem);
    job->nvshmem = NULL;
}

// ---- Regions ----

static uint64_t rounded(uint64_t bytes)
{
    return bytes ? (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN : HEAP_ALIGN;
}

int leat_nvshmem_alloc(struct leat_job *job, uint64_t bytes, void **address)
{
    struct nvshmem *nvshmem = job->nvshmem;
    char why[LEAT_DETAIL_BYTES];
    struct span **link = &nvshmem->free, *span;
    const uint64_t wanted = bytes <= nvshmem->heap_bytes ? rounded(bytes) : bytes;
    while ((span = *link) && span->end - span->begin < wanted)
        link = &span->next;
    if (!span)
        return leat_fail(-ENOMEM,
                         "no %llu bytes in NVSHMEM's symmetric heap: %llu of %llu are in use on "
                         "rank %d; set NVSHMEM_SYMMETRIC_SIZE larger",
                         (unsigned long long)bytes, (unsigned long long)nvshmem->used_bytes,
                         (unsigned long long)nvshmem->heap_bytes, job->rank);
    int error =
        nvshmem->library->clear(nvshmem->gpu, nvshmem->heap + span->begin, wanted, why, sizeof why);
    if (error)
        return fail(error, job, why);
    *address = nvshmem->heap + span->begin;
    nvshmem->used_bytes += wanted;
    span->begin += wanted;
    if (span->begin == span->end) {
        *link = span->next;
        free(span);
    }
    return 0;
}

void leat_nvshmem_free(struct leat_job *job, void *address, uint64_t bytes)
{
    struct nvshmem *nvshmem = job->nvshmem;
    const uint64_t begin = (uint64_t)((char *)address - nvshmem->heap),
                   end = begin + rounded(bytes);
    struct span **link = &nvshmem->free, *before = NULL, *made;
    // Kernels of this rank may still be at it.
    job->device->ops->drain(job->device, job->config.timeout_s);
    nvshmem->used_bytes -= end - begin;
    while (*link && (*link)->begin < begin) {
        before = *link;
        link = &before->next;
    }
    struct span *after = *link;
    if (before && before->end == begin) {
        before->end = end;
        if (after && after->begin == end) {
            before->end = after->end;
            before->next = after->next;
            free(after);
        }
    } else if (after && after->begin == end) {
        after->begin = begin;
    } else if ((made = malloc(sizeof *made))) { // else it is lost, and never handed out twice
        *made = (struct span){.next = after, .begin = begin, .end = end};
        *link = made;
    }
}

static uint64_t offset_in_heap(const struct leat_region *region)
{
    return region->remote - leat_arena_head(region->job, region->owner)->symmetric;
}

static void *direct(const struct leat_region *region)
{
    const struct nvshmem *nvshmem = region->job->nvshmem;
    char *there = nvshmem->library->address(nvshmem->heap, region->owner);
    return there ? there + offset_in_heap(region) : NULL;
}

bool leat_nvshmem_stores(const struct leat_job *job, int rank)
{
    const struct nvshmem *nvshmem = job->nvshmem;
    return rank == job->rank || (!nvshmem->puts && nvshmem->library->address(nvshmem->heap, rank));
}

void *leat_nvshmem_symmetric(const struct leat_region *view, uint64_t offset)
{
    return view->job->nvshmem->heap + offset_in_heap(view) + offset;
}

static void *map(const struct leat_region *region)
{
    return leat_nvshmem_stores(region->job, region->owner) ? direct(region) : NULL;
}

static int copy(const struct leat_region *region, uint64_t offset, void *here, const void *from,
                uint64_t bytes)
{
    char *there = direct(region);
    if (!there)
        return leat_fail(-EHOSTUNREACH,
                         "rank %d's memory is in NVSHMEM's heap, and nvshmem_ptr says that copies "
                         "do not reach it: only a halo's kernels do, by puts",
                         region->owner);
    return leat_device_copy(region->job, here ? here : there + offset, from ? from : there + offset,
                            bytes);
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    return copy(to, offset, NULL, from, bytes);
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    return copy(from, offset, to, NULL, bytes);
}

// ---- Kernels and the stream ----

int leat_nvshmem_put(struct leat_job *job, const struct k_put *order, uint64_t value)
{
    const struct nvshmem *nvshmem = job->nvshmem;
    char why[LEAT_DETAIL_BYTES];
    int error = nvshmem->library->put(nvshmem->gpu, order, value, nvshmem->stream, why, sizeof why);
    return error ? fail(error, job, why) : 0;
}

int leat_nvshmem_fit(const struct leat_job *job, int kernel)
{
    return job->nvshmem->fit[kernel];
}

int leat_nvshmem_launch(struct leat_job *job, int kernel, uint32_t blocks, bool together,
                        const struct cuda_far *far)
{
    const struct nvshmem *nvshmem = job->nvshmem;
    char why[LEAT_DETAIL_BYTES];
    int error = nvshmem->library->launch(nvshmem->gpu, kernel, blocks, together, nvshmem->stream,
                                         far, why, sizeof why);
    return error ? fail(error, job, why) : 0;
}

const struct transport leat_transport_nvshmem = {.name = "nvshmem",
                                                 .missing = missing,
                                                 .can_reach = can_reach,
                                                 .map = map,
                                                 .put = put,
                                                 .get = get};
