/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's service (transport/far.h) over an endpoint of no network, without its thread.
 *
 * Advantage: what arrives, and when, is the test's. Disadvantage: what the thread does between two
 * calls, the test has to ask for (far_progress).
 */
#ifndef LEAT_TEST_FUZZ_FAKE_SERVICE_H
#define LEAT_TEST_FUZZ_FAKE_SERVICE_H

#include "fuzz/fake_endpoint.h"
#include "transport/far_internal.h"

#include <time.h>

static inline void fake_slots(struct far *far)
{
    const size_t count = FAR_RECEIVING + FAR_SENDING;
    far->slots = aligned_alloc(64, (count * sizeof(struct far_slot) + 63) / 64 * 64);
    fake_demand(far->slots != NULL);
    for (size_t i = 0; i < count; i++) {
        struct far_slot *slot = &far->slots[i];
        slot->sends = i >= FAR_RECEIVING;
        slot->next = slot->sends ? far->free_slots : far->idle_slots;
        *(slot->sends ? &far->free_slots : &far->idle_slots) = slot;
    }
}

/* The service of `job`, which others know already. */
static inline void fake_service_open(struct far *far, struct fake_endpoint *fake, leat_job *job)
{
    far->job = job;
    job->config.log_level = -1;
    fake_open(fake, &far->fabric);
    pthread_mutex_init(&far->lock, NULL);
    pthread_condattr_t clock; // as far_open has it: waits are timed by this one
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&far->changed, &clock);
    pthread_condattr_destroy(&clock);
    far->wake_fd = -1;
    far->peer = calloc((size_t)job->rank_count, sizeof(struct far_peer *));
    fake_demand(far->peer != NULL);
    fake_slots(far);
    for (int rank = 0; rank < job->rank_count; rank++) {
        struct far_peer *peer;
        fake_demand(rank == job->rank || far_peer_find(far, rank, &peer) == 0);
    }
    far_progress(far);
}

static inline void fake_service_close(struct far *far)
{
    far_peers_free(far);
    free(far->slots);
    pthread_cond_destroy(&far->changed);
    pthread_mutex_destroy(&far->lock);
}

#endif
