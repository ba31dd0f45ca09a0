// SPDX-License-Identifier: Apache-2.0
// See emulated_gpu.h.

#define _GNU_SOURCE
#include "support/emulated_gpu.h"

#include "core/error.h"
#include "core/job.h"
#include "device/copies.h"
#include "device/ops.h"
#include "msg/op.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECES 256
#define PAGE   4096
#define MARKS  128

struct piece {
    char *address, *bytes; /* NULL: a free place */
    uint64_t size, whole, number;
    int fd; /* other processes map it by this; -1: it is another's itself */
};

static struct {
    pthread_mutex_t lock;
    struct piece piece[PIECES];
    const char *fails;
    uint64_t copies, lost, numbers;
    int64_t pins;
    bool ready;
    struct copies_ops table;
    struct device_ops ops;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- Memory ----

// The piece that an address is in, copied, since others come and go.
static bool piece_of(const void *address, struct piece *found)
{
    const char *at = address;
    bool inside = false;
    pthread_mutex_lock(&gpu.lock);
    for (int i = 0; i < PIECES && !inside; i++) {
        const struct piece *piece = &gpu.piece[i];
        inside = piece->address && at >= piece->address && at < piece->address + piece->size;
        if (inside)
            *found = *piece;
    }
    pthread_mutex_unlock(&gpu.lock);
    return inside;
}

void *emulated_gpu_bytes(const void *address)
{
    struct piece piece;
    if (!piece_of(address, &piece))
        return (void *)(uintptr_t)address;
    return piece.bytes + ((const char *)address - piece.address);
}

static bool place(const struct piece *made)
{
    bool placed = false;
    pthread_mutex_lock(&gpu.lock);
    for (int i = 0; i < PIECES && !placed; i++)
        if (!gpu.piece[i].address) {
            gpu.piece[i] = *made;
            placed = true;
        }
    pthread_mutex_unlock(&gpu.lock);
    return placed;
}

static void *map(struct piece *made, int fd)
{
    void *address = mmap(NULL, made->whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *seen = mmap(NULL, made->whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED || seen == MAP_FAILED)
        return NULL;
    made->address = address;
    made->bytes = seen;
    made->number = 1 + __atomic_fetch_add(&gpu.numbers, 1, __ATOMIC_RELAXED);
    return place(made) ? address : NULL;
}

void *emulated_gpu_alloc(uint64_t bytes)
{
    struct piece made = {.size = bytes, .whole = (bytes + PAGE) / PAGE * PAGE};
    int fd = memfd_create("gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)made.whole)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    made.fd = fd;
    return map(&made, fd);
}

void emulated_gpu_free(void *address)
{
    struct piece gone = {0};
    pthread_mutex_lock(&gpu.lock);
    for (int i = 0; i < PIECES; i++)
        if (address && gpu.piece[i].address == address) {
            gone = gpu.piece[i];
            gpu.piece[i] = (struct piece){0};
        }
    pthread_mutex_unlock(&gpu.lock);
    if (gone.address) {
        munmap(gone.address, gone.whole);
        munmap(gone.bytes, gone.whole);
        if (gone.fd >= 0)
            close(gone.fd);
    }
}

static bool on_gpu(struct device *device, const void *address)
{
    struct piece piece;
    (void)device;
    return piece_of(address, &piece);
}

static int find(struct device *device, const void *address, uint64_t bytes,
                struct copies_found *found)
{
    struct piece piece;
    (void)device;
    if (!piece_of(address, &piece)) {
        *found = (struct copies_found){COPIES_HOST, -1, "the host"};
        return 0;
    }
    uint64_t left = piece.size - (uint64_t)((const char *)address - piece.address);
    if (bytes > left)
        return leat_fail(-ERANGE, "a buffer of %llu bytes: the memory ends %llu bytes after it",
                         (unsigned long long)bytes, (unsigned long long)left);
    *found = (struct copies_found){COPIES_DEVICE, 0, "cudaMalloc"};
    return 0;
}

static uint64_t number(struct device *device, const void *address)
{
    struct piece piece;
    (void)device;
    return piece_of(address, &piece) ? piece.number : 0;
}

struct handle {
    uint64_t size, whole;
    int pid, fd;
};

static int share(struct device *device, const void *address, struct copies_share *made)
{
    struct piece piece;
    (void)device;
    if (!piece_of(address, &piece) || piece.fd < 0)
        return leat_fail(-ENOTSUP, "others cannot map this memory");
    struct handle handle = {piece.size, piece.whole, getpid(), piece.fd};
    *made = (struct copies_share){.base = (uint64_t)(uintptr_t)piece.address, .bytes = piece.size};
    memcpy(made->handle, &handle, sizeof handle);
    return 0;
}

static int attach(struct device *device, const struct copies_share *seen, void **address)
{
    struct handle handle;
    char path[64];
    (void)device;
    memcpy(&handle, seen->handle, sizeof handle);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    struct piece made = {.size = handle.size, .whole = handle.whole, .fd = -1};
    *address = map(&made, fd);
    close(fd);
    __atomic_fetch_add(&gpu.pins, 1, __ATOMIC_RELAXED);
    return *address ? 0 : -ENOMEM;
}

static void detach(struct device *device, void *address)
{
    (void)device;
    emulated_gpu_free(address);
    __atomic_fetch_sub(&gpu.pins, 1, __ATOMIC_RELAXED);
}

// ---- Counts ----

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

uint64_t emulated_gpu_copies(void)
{
    return __atomic_load_n(&gpu.copies, __ATOMIC_RELAXED);
}

uint64_t emulated_gpu_lost(void)
{
    return __atomic_load_n(&gpu.lost, __ATOMIC_RELAXED);
}

int64_t emulated_gpu_pins(void)
{
    return __atomic_load_n(&gpu.pins, __ATOMIC_RELAXED);
}

void emulated_gpu_fail_at(const void *address)
{
    __atomic_store_n(&gpu.fails, (const char *)address, __ATOMIC_RELAXED);
}

static int pin(struct device *device, void *address, uint64_t bytes, bool read_only)
{
    (void)device;
    (void)address;
    (void)bytes;
    (void)read_only;
    __atomic_fetch_add(&gpu.pins, 1, __ATOMIC_RELAXED);
    return 0;
}

static void unpin(struct device *device, void *address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
    __atomic_fetch_sub(&gpu.pins, 1, __ATOMIC_RELAXED);
}

// ---- Copies ----

struct late {
    struct late *next;
    char *to;
    const char *from; /* NULL: a mark */
    uint64_t bytes;
    int mark, looks;
};

struct copies_lane {
    struct late *first, **last;
    unsigned seed;
    int error;
    int pending[MARKS]; /* marks of each number */
};

static int lane_open(struct device *device, int number, int marks, unsigned flags,
                     struct copies_lane **lane)
{
    (void)number;
    (void)marks;
    (void)flags;
    struct copies_lane *made = calloc(1, sizeof *made);
    if (!made)
        return -ENOMEM;
    made->last = &made->first;
    made->seed = (unsigned)device->job->rank + 1;
    *lane = made;
    return 0;
}

static void lane_close(struct copies_lane *lane)
{
    if (lane->first)
        count(&gpu.lost);
    while (lane->first) {
        struct late *gone = lane->first;
        lane->first = gone->next;
        free(gone);
    }
    free(lane);
}

static void enqueue(struct copies_lane *lane, const struct late *late)
{
    struct late *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = *late;
    made->next = NULL;
    made->looks = rand_r(&lane->seed) % 6;
    *lane->last = made;
    lane->last = &made->next;
}

static int lane_copy(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    count(&gpu.copies);
    enqueue(lane, &(struct late){.to = to, .from = from, .bytes = bytes, .mark = -1});
    return lane->error ? leat_fail(lane->error, "an earlier copy has failed") : 0;
}

static int region_alloc(struct device *device, uint64_t bytes, void **address)
{
    (void)device;
    *address = emulated_gpu_alloc(bytes);
    return *address ? 0 : leat_fail(-ENOMEM, "no memory of the emulated GPU");
}

static void region_free(struct device *device, void *address)
{
    (void)device;
    emulated_gpu_free(address);
}

static int lane_mark(struct copies_lane *lane, int mark)
{
    if (mark < 0 || mark >= MARKS)
        return leat_fail(-EINVAL, "mark %d", mark);
    lane->pending[mark]++;
    enqueue(lane, &(struct late){.mark = mark});
    return 0;
}

static bool touches(const char *address, uint64_t bytes)
{
    const char *fails = __atomic_load_n(&gpu.fails, __ATOMIC_RELAXED);
    return fails && fails >= address && fails < address + bytes;
}

static void carry_out_first(struct copies_lane *lane)
{
    struct late *late = lane->first;
    lane->first = late->next;
    if (!lane->first)
        lane->last = &lane->first;
    if (late->from && (touches(late->to, late->bytes) || touches(late->from, late->bytes)))
        lane->error = -EIO;
    else if (late->from)
        memcpy(emulated_gpu_bytes(late->to), emulated_gpu_bytes(late->from), late->bytes);
    else
        lane->pending[late->mark]--;
    free(late);
}

static int lane_combine(struct copies_lane *lane, unsigned operation, unsigned type, const void *in,
                        void *inout, uint64_t elements)
{
    // Copies before it are waited for by whoever combines what they bring.
    while (lane->first)
        carry_out_first(lane);
    msg_combine((enum leat_operation)operation, (enum leat_type)type, NULL, emulated_gpu_bytes(in),
                emulated_gpu_bytes(inout), elements);
    return 0;
}

static int lane_passed(struct copies_lane *lane, int mark, bool wait)
{
    while (lane->pending[mark] && (wait || lane->first->looks-- <= 0))
        carry_out_first(lane);
    if (lane->error)
        return leat_fail(lane->error, "a copy has failed");
    return !lane->pending[mark];
}

void emulated_gpu_begin(struct leat_job *job)
{
    pthread_mutex_lock(&gpu.lock);
    if (!gpu.ready) {
        gpu.table = leat_copies_host;
        gpu.table.find = find;
        gpu.table.on_gpu = on_gpu;
        gpu.table.open = lane_open;
        gpu.table.close = lane_close;
        gpu.table.copy = lane_copy;
        gpu.table.mark = lane_mark;
        gpu.table.combine = lane_combine;
        gpu.table.passed = lane_passed;
        gpu.table.pin = pin;
        gpu.table.number = number;
        gpu.table.share = share;
        gpu.table.attach = attach;
        gpu.table.detach = detach;
        gpu.table.unpin = unpin;
        gpu.ops = *job->device->ops;
        gpu.ops.copies = &gpu.table;
        gpu.ops.region_alloc = region_alloc;
        gpu.ops.region_free = region_free;
        gpu.ready = true;
    }
    pthread_mutex_unlock(&gpu.lock);
    job->device->ops = &gpu.ops;
}
