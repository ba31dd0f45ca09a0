/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: a 64-bit word that counts up, and the sleepers that wait for it.
 *
 * Raising is a sequentially consistent store and then a look at `sleepers`; a waiter announces
 * itself in `sleepers` before its last look at the word. One of the two therefore sees the other,
 * and no wake-up is lost. Advantage: no system call where the waiter spins. Disadvantage: on x86
 * the store is a locked exchange, about 20 cycles more than a plain one.
 */
#ifndef LEAT_CORE_SIGNAL_H
#define LEAT_CORE_SIGNAL_H

#include "leat/leat.h"

#include <stdint.h>

struct leat_signal {
    uint64_t value;
    uint32_t sleepers;
    uint32_t unused;
    uint8_t line[LEAT_SIGNAL_BYTES - 16]; /* a line each: no two events share one */
};

#ifdef __CUDACC__
#define LEAT_BOTH static __host__ __device__ inline
#else
#define LEAT_BOTH static inline
_Static_assert(sizeof(struct leat_signal) == LEAT_SIGNAL_BYTES, "one signal is one line");
#endif

/* Reached where seen - wanted, as a signed number, is not negative: counters may wrap. */
LEAT_BOTH int leat_signal_reached(uint64_t seen, uint64_t wanted)
{
    return (int64_t)(seen - wanted) >= 0;
}

/*
 * The memory orders of the protocol, each with a name, so that a test can weaken one at a time and
 * see it missed (docs/protocol.md). RAISE is a release for the data and, with LOOK and ANNOUNCE,
 * sequentially consistent lest a wake-up be lost.
 */
#ifndef SIGNAL_ORDER_RAISE
#define SIGNAL_ORDER_RAISE __ATOMIC_SEQ_CST /* the word is stored */
#endif
#ifndef SIGNAL_ORDER_READ
#define SIGNAL_ORDER_READ __ATOMIC_ACQUIRE /* the word is read */
#endif
#ifndef SIGNAL_ORDER_LOOK
#define SIGNAL_ORDER_LOOK __ATOMIC_SEQ_CST /* who raises looks for sleepers */
#endif
#ifndef SIGNAL_ORDER_ANNOUNCE
#define SIGNAL_ORDER_ANNOUNCE __ATOMIC_SEQ_CST /* who will sleep says so */
#endif

void leat_signal_raise(struct leat_signal *signal, uint64_t value);

static inline uint64_t leat_signal_read(const struct leat_signal *signal)
{
    return __atomic_load_n(&signal->value, SIGNAL_ORDER_READ);
}

/*
 * Waits until the signal has reached `wanted`: spins, yields, then sleeps on a futex, looking every
 * 20 ms whether rank `peer` (or nobody, -1) is still there. deadline_ns is on CLOCK_MONOTONIC.
 * 0, -ETIMEDOUT or -ECONNRESET; *seen gets the last value; no detail is set, since only the caller
 * knows what the signal meant (leat_wait_fail makes one).
 */
int leat_signal_wait(leat_job *job, struct leat_signal *signal, uint64_t wanted, int peer,
                     uint64_t deadline_ns, uint64_t *seen);

/* Raises the word by one, for those who may do so at the same time. */
void leat_signal_count(struct leat_signal *signal);
/* As leat_signal_wait, for threads of the library: no peer is watched, nothing is counted. */
int leat_signal_watch(leat_job *job, struct leat_signal *signal, uint64_t wanted,
                      uint64_t deadline_ns);

/* Sets the detail for a failed wait ("what" as in "halo pulse 2 of exchange 17") and returns error.
 */
int leat_wait_fail(const leat_job *job, int error, const char *what, int peer, uint64_t wanted,
                   uint64_t seen);
/* The same for a wait that was for something else, with what was seen of it, or "". */
int leat_peer_fail(const leat_job *job, int error, const char *what, int peer, const char *seen);
/* A rank of the job whose process is stopped, or -1: who waits in vain often waits for somebody who
 * waits in vain, and the one to name is further on. */
int leat_rank_stopped(const leat_job *job);

uint64_t leat_now_ns(void);

#endif
