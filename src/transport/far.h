/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of ranks that are reached by the network: puts with a signal behind them, gets, and the
 * directory of their regions, while the rank itself is anywhere but in leat.
 *
 * Each rank that uses it has a service: an endpoint of its own, and a thread that answers what
 * others ask and moves on what this rank has begun. Whoever waits moves it on too, under one lock.
 * It is opened by what first needs it (a named region, an agreement of all ranks, an operation),
 * and a peer is met when it is first spoken to. Advantage: the target's program need not call leat.
 * Disadvantage: bytes are copied into a message and out of it, and a thread is woken for each.
 */
#ifndef LEAT_TRANSPORT_FAR_H
#define LEAT_TRANSPORT_FAR_H

#include "core/region.h"

enum far_verb {
    FAR_DO_PUT,  /* bytes, if any, then the signal, if any */
    FAR_DO_GET,  /* bytes */
    FAR_DO_FIND, /* the region called `name` */
    FAR_DO_LOOK, /* the region of the key */
    FAR_DO_SUM,
    FAR_DO_ANSWER,
    FAR_DO_BYE
};

/*
 * One operation; its memory is the caller's and stays where it is until it has finished. Those to
 * one rank are done there in the order in which they were begun.
 */
struct far_operation {
    enum far_verb verb;
    int rank;
    struct region_key key; /* where at `rank`: not looked at for a put of no bytes */
    uint64_t offset, bytes;
    void *local;              /* bytes of a put are not changed; NULL: none */
    struct region_key signal; /* generation 0: none */
    uint64_t signal_offset, value;
    /* A put has finished once it is done there, and not as soon as its bytes may be reused. */
    bool acknowledged;
    const char *name;
    struct {
        uint32_t slot, kind;
        uint64_t generation, bytes;
    } found; /* by FIND and LOOK */

    /* Released last; then nothing touches the operation any more. */
    uint32_t finished;
    int error;
    /* far.c's */
    struct far_operation *next;
    uint64_t id, posted, arrived;
};

/* Whether LEAT_PATHS wants ranks of one host to be reached in this way. */
bool far_required(const struct leat_job *job);
/* Whether the rank's memory is reached in this way: it is away, or LEAT_PATHS requires it. */
bool far_reaches(const struct leat_job *job, int rank);

/*
 * Opens the rank's service unless it is open; nobody else takes part. Of the rank's own thread.
 * -EHOSTUNREACH LEAT_PATHS forbids it; -ENOTSUP no libfabric, no provider, or no way to tell others
 * where the end is; -ENOMEM.
 */
int far_open(struct leat_job *job);
/* Waits until what was sent has arrived, a second at most, and tells all peers in use. */
void far_farewell(struct leat_job *job);
/* Ends the thread; for NULL, too. */
void far_close(struct leat_job *job);

/* Begins an operation on an open service; any thread. -ECONNRESET the rank is gone, with detail. */
int far_begin(struct leat_job *job, struct far_operation *operation);
static inline bool far_finished(const struct far_operation *operation)
{
    return __atomic_load_n(&operation->finished, __ATOMIC_ACQUIRE);
}
/*
 * Waits for it; its error, with detail, `what` in front. -ETIMEDOUT: it is taken back, and what has
 * not been done by then is not done. -ECONNRESET the rank is gone; -ESTALE it has freed the region;
 * -ERANGE the region is too small.
 */
int far_wait(struct leat_job *job, struct far_operation *operation, const char *what,
             uint64_t deadline_ns);
/* Begin and wait, for the job's time-out. */
int far_do(struct leat_job *job, struct far_operation *operation, const char *what);

/* What this rank's thread has written before, the service reads after; and what the service was
 * doing in a region is over. Nothing where there is no service. */
void far_settle(struct leat_job *job);
/* The directory has changed: somebody may wait for a name. */
void far_published(struct leat_job *job);

#endif
