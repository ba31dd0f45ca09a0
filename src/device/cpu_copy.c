// SPDX-License-Identifier: Apache-2.0
// Copies of the CPU device: memcpy, over when it returns.
//
// Advantage: the file layer's pipeline, with its slots and marks, runs without a GPU. Disadvantage:
// nothing overlaps, so that a mark that is asked for too late or never is not seen here; tests put
// a table with late marks in this one's place.

#include "core/error.h"
#include "device/copies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u

struct copies_lane {
    struct device *device;
};

static int host_find(struct device *device, const void *address, uint64_t bytes,
                     struct copies_found *found)
{
    (void)device;
    (void)address;
    (void)bytes;
    *found = (struct copies_found){.kind = COPIES_HOST, .gpu = -1, .made_by = "the host"};
    return 0;
}

static int host_alloc(struct device *device, int gpu, uint64_t bytes, void **address)
{
    (void)device;
    (void)gpu;
    if (posix_memalign(address, PAGE_BYTES, bytes))
        return leat_fail(-ENOMEM, "no memory for a buffer of %llu bytes; lower LEAT_FILE_BUFFER",
                         (unsigned long long)bytes);
    return 0;
}

static void host_free(struct device *device, void *address, uint64_t bytes)
{
    (void)device;
    (void)bytes;
    free(address);
}

static int host_open(struct device *device, int gpu, int marks, unsigned flags,
                     struct copies_lane **lane)
{
    (void)gpu;
    (void)marks;
    (void)flags;
    struct copies_lane *made = malloc(sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a lane of copies");
    made->device = device;
    *lane = made;
    return 0;
}

static void host_close(struct copies_lane *lane)
{
    free(lane);
}

static int host_copy(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    (void)lane;
    memcpy(to, from, bytes);
    return 0;
}

static int host_scatter(struct copies_lane *lane, int mark, const void *slab, uint64_t bytes,
                        const struct copies_piece *pieces, uint32_t count)
{
    (void)lane;
    (void)mark;
    (void)bytes;
    for (uint32_t i = 0; i < count; i++)
        memcpy((void *)(uintptr_t)pieces[i].to, (const char *)slab + pieces[i].from,
               pieces[i].bytes);
    return 0;
}

static int host_mark(struct copies_lane *lane, int mark)
{
    (void)lane;
    (void)mark;
    return 0;
}

static int host_passed(struct copies_lane *lane, int mark, bool wait)
{
    (void)lane;
    (void)mark;
    (void)wait;
    return 1;
}

static int host_pin(struct device *device, void *address, uint64_t bytes, bool read_only)
{
    (void)read_only;
    (void)device;
    (void)address;
    (void)bytes;
    return 0;
}

static void host_unpin(struct device *device, void *address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

// No hold: the stream is always empty.
const struct copies_ops leat_copies_host = {.find = host_find,
                                            .alloc = host_alloc,
                                            .free = host_free,
                                            .open = host_open,
                                            .close = host_close,
                                            .copy = host_copy,
                                            .scatter = host_scatter,
                                            .mark = host_mark,
                                            .passed = host_passed,
                                            .pin = host_pin,
                                            .unpin = host_unpin};
