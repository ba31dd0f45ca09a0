// SPDX-License-Identifier: Apache-2.0
// Reads the runs of a load past the page cache, many under way at once.
//
// Algorithm: the lane's ring, which is empty between tasks, is kept full of requests, one a run,
// in any order of their ends. Advantage: a disk that serves single blocks slowly serves many of
// them at once. Disadvantage: the load's slot is done when its slowest run is.

#define _GNU_SOURCE
#include "file/ranges.h"
#include "file/ring.h"

#include <errno.h>
#include <sched.h>

#define DEPTH FILE_RING_DEPTH

struct flight {
    const struct file_run *run;
    uint64_t got;
};

struct deep {
    const struct file_deep_read *read;
    struct uring *ring;
    struct flight flight[DEPTH];
    int free[DEPTH], free_count;
    uint32_t next; // run to be asked for
    int refused;   // the kernel's no to direct reads, or 0
};

static void push(struct deep *deep, int number)
{
    const struct flight *flight = &deep->flight[number];
    const struct file_run *run = flight->run;
    uring_push(deep->ring, false, deep->read->file->direct_fd,
               deep->read->slot + run->slot + flight->got, (uint32_t)(run->bytes - flight->got),
               run->offset + flight->got, (uint64_t)number);
}

static void fill(struct deep *deep)
{
    while (!deep->refused && deep->free_count && deep->next < deep->read->run_count) {
        int number = deep->free[--deep->free_count];
        deep->flight[number] = (struct flight){.run = &deep->read->run[deep->next++]};
        push(deep, number);
    }
}

// False when the rest of the run has to be asked for again.
static bool settle(struct deep *deep, struct flight *flight, int result)
{
    const struct leat_file *file = deep->read->file;
    if (result == -EINTR)
        return deep->refused != 0;
    bool passes_end = flight->run->offset + flight->run->bytes > INT64_MAX; // not its fault
    if (!passes_end && (result == -EINVAL || result == -EOPNOTSUPP)) {
        deep->refused = result;
        return true;
    }
    flight->got += result > 0 ? (uint64_t)result : 0;
    if (flight->got >= flight->run->bytes)
        return true;
    if (result > 0 && flight->got % file->offset_alignment == 0 && !deep->refused)
        return false;
    deep->read->shorter(deep->read->user, flight->run, flight->got);
    return true;
}

static void reap(struct deep *deep)
{
    uint64_t number;
    int result;
    while (uring_pop(deep->ring, &number, &result)) {
        struct flight *flight = &deep->flight[number];
        result = deep->read->file->system->uring_result(result, flight->run->offset + flight->got,
                                                        flight->run->bytes - flight->got);
        if (settle(deep, flight, result))
            deep->free[deep->free_count++] = (int)number;
        else
            push(deep, (int)number);
    }
}

static int enter(const struct deep *deep)
{
    const struct file_system_calls *system = deep->read->file->system;
    return system->uring_enter() ? -errno : uring_enter(deep->ring, 1);
}

int file_runs_read(struct uring *ring, const struct file_deep_read *read, int *left)
{
    struct deep deep = {.read = read, .ring = ring};
    *left = 0;
    while (deep.free_count < DEPTH) {
        deep.free[deep.free_count] = deep.free_count;
        deep.free_count++;
    }
    for (;;) {
        fill(&deep);
        if (deep.free_count == DEPTH)
            return deep.refused;
        // The kernel takes what it can; what it cannot yet is handed over again.
        int error = enter(&deep);
        if (error && error != -EAGAIN && error != -EBUSY) {
            *left = error;
            return 0;
        }
        if (error)
            sched_yield();
        reap(&deep);
    }
}
