// SPDX-License-Identifier: Apache-2.0
// What lies behind a buffer, and buffers that callers have registered.
//
// Algorithm: a region says what it is; an address is asked of the device. A list of the registered
// ones is searched from the newest. Advantage: nothing is remembered of memory that is not
// registered, so that memory freed and allocated again is never mistaken. Disadvantage: on a GPU
// every call asks the driver, about a tenth of a microsecond.

#include "core/region.h"
#include "device/ops.h"
#include "file/internal.h"

#include <errno.h>

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

int file_memory_find(struct leat_job *job, const leat_buffer *buffer, uint64_t bytes,
                     struct file_memory *memory)
{
    char *address = NULL;
    int error = 0;
    if (buffer->region)
        error = find_region(job, buffer, bytes, &address);
    else if (buffer->address)
        address = (char *)buffer->address + buffer->offset;
    else if (bytes)
        error = leat_fail(-EINVAL, "buffer of a file's call: neither a region nor an address");
    if (error)
        return error;
    struct copies_found found = {.kind = COPIES_HOST, .gpu = -1};
    // Arenas and what their owners register are the host's.
    bool ask = bytes && (!buffer->region || buffer->region->kind != REGION_ARENA);
    if (ask)
        error = file_copies(job)->find(job->device, address, bytes, &found);
    if (!error && found.kind == COPIES_OTHER)
        error = leat_fail(-ENOTSUP, "buffer of a file's call: memory made by %s cannot be used",
                          found.made_by ? found.made_by : "another");
    if (error)
        return error;
    *memory = (struct file_memory){.address = address, .kind = found.kind, .gpu = found.gpu};
    return 0;
}
