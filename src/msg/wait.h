/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait in progress, and what is said of it.
 *
 * Advantage: every blocking call of the layer waits in one way. Disadvantage: a wait's state is
 * spread over the calls of a loop that its user writes.
 */
#ifndef LEAT_MSG_WAIT_H
#define LEAT_MSG_WAIT_H

#include "msg/engine.h"

struct msg_waiter {
    struct msg_engine *engine;
    const struct msg_request *request; /* what is waited for, for the report; may be NULL */
    double timeout_s;
    uint64_t begin_ns; /* 0: the clock has not been looked at */
    uint64_t deadline_ns, spin_until_ns, report_ns;
    uint64_t idle_ns;    /* since when nothing has come */
    uint64_t idle, busy; /* rounds */
    bool checked;        /* peers were asked after; the caller may clear it */
    unsigned yields;
};

void msg_waiter_begin(struct msg_waiter *waiter, struct msg_engine *engine, double timeout_s);
/* A round of progress found nothing: spins, yields or sleeps. -ETIMEDOUT: the deadline passed;
 * -EDEADLK: so it will stay (msg_give_up). */
int msg_waiter_idle(struct msg_waiter *waiter);
/* A round of progress found something. -ETIMEDOUT: the deadline has passed all the same. */
int msg_waiter_busy(struct msg_waiter *waiter);
/* A call that only looks was made: now and then it asks after peers. */
void msg_polled(struct msg_engine *engine);

/* A message came only after the core was given away; or while spinning. Sets how long to spin. */
void msg_spin_failed(struct msg_engine *engine);
void msg_spin_succeeded(struct msg_engine *engine);

/* ---- deadlock.c ---- */
/* Takes part in the search for a deadlock, from a wait in which progress has just found nothing.
 * -EDEADLK: it is proven, and the wait has to end; 1: something has happened; 0. */
int msg_deadlock_look(const struct msg_waiter *waiter, uint64_t now_ns);

/* ---- report.c ---- */
/* Sets the error detail of a finished request that has failed. */
void msg_describe(const struct msg_request *request);
/* -ETIMEDOUT, with the detail set. */
int msg_timed_out(const struct msg_waiter *waiter);
/* Says on stderr what the wait is for, whom, since when, and what has come instead. */
void msg_report_waiting(const struct msg_waiter *waiter, uint64_t now_ns);

#endif
