// SPDX-License-Identifier: Apache-2.0
// Memory of other processes' GPUs, mapped here.
//
// Algorithm: the first view of a region asks its owner for a descriptor and maps what that stands
// for; further views, and those of later regions in the same allocation, find it by its serial,
// which is never two allocations'. What no view uses any more is kept, unless it is large, until
// its owner has given some allocation back to CUDA. A mapping holds the memory itself, so that a
// store to what its owner has freed, or left behind in dying, hits nobody else's. Advantage: halos
// that are opened again and again map nothing. Disadvantage: up to KEEP_BYTES a mapping of the
// owner's stay away from others when it has freed them, until this process deals with it again.

#define _GNU_SOURCE
#include "transport/door_internal.h"

#include "device/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP_BYTES (UINT64_C(64) << 20)

struct import {
    struct import *next;
    int owner, references;
    uint32_t serial;
    void *address;
    uint64_t bytes, given_back; /* the owner's count when it was mapped */
};

static uint64_t given_back(const struct leat_job *job, int owner)
{
    return __atomic_load_n(&leat_arena_head(job, owner)->gpu.given_back, __ATOMIC_ACQUIRE);
}

static bool is_over(const struct leat_job *job, const struct import *import)
{
    return !import->references &&
           (import->bytes > KEEP_BYTES || leat_rank_lost(job, import->owner) ||
            import->given_back != given_back(job, import->owner));
}

static void sweep(struct leat_job *job, bool all)
{
    const struct share_ops *share = job->device->ops->share;
    for (struct import **link = &job->door->imports; *link;) {
        struct import *import = *link;
        if (!all && !is_over(job, import)) {
            link = &import->next;
            continue;
        }
        *link = import->next;
        share->drop(job->device, import->address, import->bytes);
        free(import);
    }
}

static int map(struct leat_region *view, struct import *import)
{
    struct leat_job *job = view->job;
    struct door_ask ask = {.verb = DOOR_GIVE};
    struct door_answer answer;
    int fd = -1;
    int error = leat_door_ask(view, &ask, &answer, &fd);
    if (!error && fd < 0)
        error = leat_fail(-EMFILE,
                          "no descriptor for the memory of rank %d came; raise the limit on open "
                          "files (ulimit -n)",
                          view->owner);
    if (!error && answer.bytes < view->bytes)
        error = leat_fail(-EPROTO, "rank %d gave %llu bytes for a region of %llu", view->owner,
                          (unsigned long long)answer.bytes, (unsigned long long)view->bytes);
    if (!error) {
        error = job->device->ops->share->take(job->device, fd, answer.bytes, &import->address);
        if (error)
            error = leat_fail_in(error, "mapping the region in slot %u of rank %d", view->slot,
                                 view->owner);
    }
    if (fd >= 0)
        close(fd);
    import->bytes = answer.bytes;
    return error;
}

int leat_import(struct leat_region *view)
{
    struct leat_job *job = view->job;
    struct door *door;
    int error = leat_door_of(job, &door);
    if (error)
        return error;
    sweep(job, false);
    for (struct import *import = door->imports; import; import = import->next)
        if (import->owner == view->owner && import->serial == view->serial) {
            import->references++;
            view->import = import;
            return 0;
        }
    struct import *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a mapping of rank %d's memory", view->owner);
    *made = (struct import){.next = door->imports,
                            .owner = view->owner,
                            .references = 1,
                            .serial = view->serial,
                            .given_back = given_back(job, view->owner)};
    error = map(view, made);
    if (error) {
        free(made);
        return error;
    }
    view->import = door->imports = made;
    return 0;
}

void leat_import_drop(struct leat_region *view)
{
    if (!view->import)
        return;
    view->import->references--;
    view->import = NULL;
    sweep(view->job, false);
}

void *leat_import_address(const struct leat_region *view)
{
    return view->import ? view->import->address : NULL;
}

void leat_imports_close(struct leat_job *job)
{
    sweep(job, true);
}
