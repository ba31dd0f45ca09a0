// SPDX-License-Identifier: Apache-2.0
// What lies behind a buffer, and buffers that callers have registered.
//
// Algorithm: a region says what it is; an address is asked of the device. A list of the registered
// ones is searched from the newest. Advantage: nothing is remembered of memory that is not
// registered, so that memory freed and allocated again is never mistaken. Disadvantage: on a GPU
// every call asks the driver, some microseconds a buffer; many are asked about at once.

#include "core/region.h"
#include "device/ops.h"
#include "file/internal.h"

#include <errno.h>

#define MANY 4 /* buffers, from which on it is first asked about all of them at once */

const struct copies_ops *file_copies(const struct leat_job *job)
{
    const struct copies_ops *copies = job->device->ops->copies;
    return copies ? copies : &leat_copies_host;
}

static int find_region(struct leat_job *job, const leat_buffer *buffer, uint64_t bytes,
                       char **address)
{
    const struct leat_region *region = buffer->region;
    int error = leat_region_check(region, buffer->offset, bytes, "buffer of a file's call");
    if (error)
        return error;
    if (region->job != job)
        return leat_fail(-EINVAL, "buffer of a file's call: the region belongs to another job's "
                                  "handle");
    char *start = region->kind == REGION_DEVICE && region->owner == job->rank
                      ? (char *)(uintptr_t)region->remote
                      : (char *)region->address;
    if (!start)
        return leat_fail(-ENOTSUP,
                         "buffer of a file's call: rank %d reaches memory of rank %d by copies "
                         "only; read into memory of its own, and leat_copy it",
                         job->rank, region->owner);
    *address = start + buffer->offset;
    return 0;
}

static int find_address(struct leat_job *job, const leat_buffer *buffer, uint64_t bytes,
                        char **address)
{
    *address = NULL;
    if (buffer->region)
        return find_region(job, buffer, bytes, address);
    if (buffer->address)
        *address = (char *)buffer->address + buffer->offset;
    else if (bytes)
        return leat_fail(-EINVAL, "buffer of a file's call: neither a region nor an address");
    return 0;
}

// Arenas and what their owners register are the host's.
static bool must_ask(const leat_buffer *buffer, uint64_t bytes)
{
    return bytes && (!buffer->region || buffer->region->kind != REGION_ARENA);
}

static int find_kind(struct leat_job *job, uint64_t bytes, struct file_memory *memory)
{
    struct copies_found found = {.kind = COPIES_HOST, .gpu = -1};
    int error = file_copies(job)->find(job->device, memory->address, bytes, &found);
    if (!error && found.kind == COPIES_OTHER)
        error = leat_fail(-ENOTSUP, "buffer of a file's call: memory made by %s cannot be used",
                          found.made_by ? found.made_by : "another");
    if (error)
        return error;
    memory->kind = found.kind;
    memory->gpu = found.gpu;
    return 0;
}

int file_memory_find(struct leat_job *job, const leat_buffer *buffer, uint64_t bytes,
                     struct file_memory *memory)
{
    struct file_memory made = {.kind = COPIES_HOST, .gpu = -1};
    int error = find_address(job, buffer, bytes, &made.address);
    if (!error && must_ask(buffer, bytes))
        error = find_kind(job, bytes, &made);
    if (!error)
        *memory = made;
    return error;
}

// Whether all that has to be asked about is one allocation of a GPU; then it is `whole`.
static bool is_one(struct leat_job *job, const leat_file_range *ranges, size_t count,
                   const struct file_memory *memory, struct file_memory *whole)
{
    char *low = NULL, *high = NULL;
    for (size_t i = 0; i < count; i++) {
        char *at = memory[i].address;
        if (!must_ask(&ranges[i].buffer, ranges[i].bytes))
            continue;
        low = !low || at < low ? at : low;
        high = !high || at + ranges[i].bytes > high ? at + ranges[i].bytes : high;
    }
    *whole = (struct file_memory){.address = low};
    // Of memory of the host the device does not tell how far it goes.
    return low && !find_kind(job, (uint64_t)(high - low), whole) && whole->kind == COPIES_DEVICE;
}

int file_memory_find_all(struct leat_job *job, const leat_file_range *ranges, size_t count,
                         struct file_memory *memory)
{
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        memory[i] = (struct file_memory){.kind = COPIES_HOST, .gpu = -1};
        error = find_address(job, &ranges[i].buffer, ranges[i].bytes, &memory[i].address);
    }
    struct file_memory whole;
    bool one = !error && count >= MANY && is_one(job, ranges, count, memory, &whole);
    for (size_t i = 0; i < count && !error; i++) {
        if (!must_ask(&ranges[i].buffer, ranges[i].bytes))
            continue;
        if (one) {
            memory[i].kind = whole.kind;
            memory[i].gpu = whole.gpu;
        } else {
            error = find_kind(job, ranges[i].bytes, &memory[i]);
        }
    }
    return error;
}
