// SPDX-License-Identifier: Apache-2.0
// leat_copy and leat_wait: the one-sided copy between two regions, and the wait for a signal.
//
// Algorithm: when one side has an address here, the other side's transport puts or gets; when
// neither has (both are registered memory of other processes), the bytes pass through a bounce
// buffer. The signal is raised after the bytes are in place. Advantage: one function moves
// everything. Disadvantage: it is complete on return, so a caller that wants overlap uses a thread
// or a halo.

#include "transport/far.h"
#include "transport/transport.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUNCE_BYTES (UINT64_C(1) << 20)

static int bounce(const struct leat_region *to, uint64_t to_offset, const struct leat_region *from,
                  uint64_t from_offset, uint64_t bytes)
{
    char *buffer = malloc(BOUNCE_BYTES);
    if (!buffer)
        return leat_fail(-ENOMEM, "no memory for a bounce buffer");
    int error = 0;
    for (uint64_t done = 0; !error && done < bytes; done += BOUNCE_BYTES) {
        uint64_t part = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        error = from->transport->get(buffer, from, from_offset + done, part);
        if (!error)
            error = to->transport->put(to, to_offset + done, buffer, part);
    }
    free(buffer);
    return error;
}

static int check_place(const leat_job *job, leat_place place, uint64_t bytes, const char *what)
{
    int error = leat_region_check(place.region, place.offset, bytes, what);
    if (!error && place.region->job != job)
        error = leat_fail(-EINVAL, "%s: the region belongs to another job's handle", what);
    return error;
}

int leat_signal_at(const leat_job *job, leat_place place, struct leat_signal **signal)
{
    int error = check_place(job, place, LEAT_SIGNAL_BYTES, "signal");
    if (error)
        return error;
    if (place.region->kind != REGION_ARENA || place.offset % LEAT_SIGNAL_BYTES)
        return leat_fail(-EINVAL,
                         "a signal lies in an allocated region, aligned to %d bytes (offset %llu)",
                         LEAT_SIGNAL_BYTES, (unsigned long long)place.offset);
    if (!place.region->address)
        return leat_fail(-EINVAL, "a signal of rank %d cannot be looked at from here (path %s)",
                         place.region->owner, place.region->transport->name);
    *signal = (struct leat_signal *)(void *)((char *)place.region->address + place.offset);
    return 0;
}

// Of a rank that is reached by the network; its owner looks at the rest.
static int raise_far(leat_place place, uint64_t value)
{
    struct far_operation raise = {.verb = FAR_DO_PUT,
                                  .rank = place.region->owner,
                                  .signal = leat_region_key(place.region),
                                  .signal_offset = place.offset,
                                  .value = value,
                                  .acknowledged = true};
    return far_do(place.region->job, &raise, "signal");
}

// Where copies made here find the region's bytes; NULL where only its own transport does. In one
// process a device's copies take addresses that loads and stores do not.
static char *reach(const struct leat_region *region)
{
    const bool threads = region->job->segment->head->threads;
    return leat_on_device(region->kind) && threads ? (char *)(uintptr_t)region->remote
                                                   : (char *)region->address;
}

static int transfer(leat_place to, leat_place from, uint64_t bytes)
{
    const struct leat_region *target = to.region, *source = from.region;
    const bool to_device = leat_on_device(target->kind);
    const bool from_device = leat_on_device(source->kind);
    char *there = reach(target), *here = reach(source);
    // A device's transport knows what to do with an address of either side, others with the host's.
    if (here && (to_device || !from_device))
        return target->transport->put(target, to.offset, here + from.offset, bytes);
    if (there && (from_device || !to_device))
        return source->transport->get(there + to.offset, source, from.offset, bytes);
    return bounce(target, to.offset, source, from.offset, bytes);
}

// Places in one region that share bytes; two regions never do, unless the caller registered them
// so.
static bool overlap(leat_place a, leat_place b, uint64_t bytes)
{
    return a.region->owner == b.region->owner && a.region->slot == b.region->slot &&
           a.offset < b.offset + bytes && b.offset < a.offset + bytes;
}

int leat_copy(leat_job *job, leat_place to, leat_place from, uint64_t bytes, leat_place signal,
              uint64_t value)
{
    struct leat_signal *raised = NULL;
    int error = leat_need(job, "leat_copy", "job");
    if (!error)
        error = check_place(job, to, bytes, "copy to");
    if (!error)
        error = check_place(job, from, bytes, "copy from");
    if (!error && overlap(to, from, bytes))
        error = leat_fail(-EINVAL,
                          "copy: %llu bytes from offset %llu to offset %llu of one region "
                          "overlap",
                          (unsigned long long)bytes, (unsigned long long)from.offset,
                          (unsigned long long)to.offset);
    const bool raises_far = signal.region && signal.region->far;
    if (!error && raises_far)
        error = check_place(job, signal, LEAT_SIGNAL_BYTES, "signal");
    else if (!error && signal.region)
        error = leat_signal_at(job, signal, &raised);
    if (!error && bytes)
        error = transfer(to, from, bytes);
    if (error)
        return error;
    // The path is that of the side that is not ours.
    const struct leat_region *far = to.region->owner != job->rank ? to.region : from.region;
    leat_count_path(job, far->owner, far->row, bytes, 1);
    if (raised)
        leat_signal_raise(raised, value);
    return raises_far ? raise_far(signal, value) : 0;
}

static int check_event(const leat_job *job, const leat_event *event, struct leat_signal **signal)
{
    if (event->from < -1 || event->from >= job->rank_count)
        return leat_fail(-EINVAL, "an event from rank %d in a job of %d ranks", event->from,
                         job->rank_count);
    return leat_signal_at(job, event->signal, signal);
}

static int wait_one(leat_job *job, const leat_event *event, uint64_t deadline_ns, double timeout_s)
{
    struct leat_signal *signal;
    uint64_t seen;
    int error = check_event(job, event, &signal);
    if (error)
        return error;
    error = leat_signal_wait(job, signal, event->at_least, event->from, deadline_ns, &seen);
    if (error == -ETIMEDOUT && timeout_s == 0)
        return leat_fail(error, "the signal is not in yet (wanted %llu, seen %llu)",
                         (unsigned long long)event->at_least, (unsigned long long)seen);
    return error ? leat_wait_fail(job, error, "leat_wait", event->from, event->at_least, seen) : 0;
}

// Looks at each in turn; sleeps on the first for a slice, so a later one is seen within a slice.
static int wait_any(leat_job *job, const leat_event *events, size_t count, uint64_t deadline_ns,
                    size_t *index)
{
    const uint64_t slice_ns = 100000;
    for (;;) {
        uint64_t now = leat_now_ns();
        for (size_t i = 0; i < count; i++) {
            struct leat_signal *signal;
            int error = check_event(job, &events[i], &signal);
            if (error)
                return error;
            // Before the word, as in every wait: a raise before the end is not a loss.
            int lost = events[i].from >= 0 ? leat_rank_lost(job, events[i].from) : 0;
            uint64_t seen = leat_signal_read(signal);
            if (leat_signal_reached(seen, events[i].at_least)) {
                if (index)
                    *index = i;
                return 0;
            }
            if (lost || now >= deadline_ns)
                return leat_wait_fail(job, lost ? lost : -ETIMEDOUT, "leat_wait (any)",
                                      events[i].from, events[i].at_least, seen);
        }
        struct leat_signal *first;
        if (!check_event(job, &events[0], &first))
            leat_signal_wait(job, first, events[0].at_least, -1, now + slice_ns, NULL);
    }
}

int leat_wait(leat_job *job, const leat_event *events, size_t count, enum leat_wait_mode mode,
              double timeout_s, size_t *index)
{
    const double century_s = 3.2e9; // as long as for ever, and still a number of nanoseconds
    int error = leat_need(job, "leat_wait", "job");
    if (!error && count)
        error = leat_need(events, "leat_wait", "events");
    if (error)
        return error;
    if (mode != LEAT_WAIT_ALL && mode != LEAT_WAIT_ANY)
        return leat_fail(-EINVAL, "leat_wait: no mode has the number %d", (int)mode);
    if (isnan(timeout_s))
        return leat_fail(-EINVAL, "leat_wait: the time-out is not a number");
    if (!count && mode == LEAT_WAIT_ANY)
        return leat_fail(-EINVAL, "leat_wait: any of no events never comes");
    double limit_s = timeout_s < 0 ? (double)job->timeout_ns * 1e-9 : fmin(timeout_s, century_s);
    uint64_t deadline_ns = leat_now_ns() + (uint64_t)(limit_s * 1e9);
    if (mode == LEAT_WAIT_ANY)
        return wait_any(job, events, count, deadline_ns, index);
    for (size_t i = 0; i < count; i++) {
        error = wait_one(job, &events[i], deadline_ns, timeout_s);
        if (error)
            return error;
    }
    return 0;
}
