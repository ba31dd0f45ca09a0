// SPDX-License-Identifier: Apache-2.0
// Waiting: the only place of the message layer that looks at the clock.
//
// Algorithm: rounds of progress; while they find nothing, spin for LEAT_SPIN, give the core away,
// then sleep in the network until something arrives, at most 20 ms at a time. Where giving the core
// away brings the message, whoever sent it needed this core: the next waits spin for half as long,
// until spinning succeeds again; where a short wait ended in sleep, the next one spins through it.
// Every time it has slept the
// peers in use are asked whether they are alive, and what waited for one that is not ends. A wait
// that lasts longer than the job's time-out says what it waits for, again and again. Advantage:
// more ranks than cores work, and nobody waits for the dead. Disadvantage: the death of a peer is
// seen after up to 20 ms.

#include "msg/wait.h"

#include "core/error.h"
#include "core/job.h"
#include "msg/gpu.h"
#include "msg/survivors.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLEEP_NS      20000000u
#define SPIN_LEAST_NS 500
#define LONG_WAITS    20 /* times LEAT_SPIN: what takes longer is worth a sleep */
#define COPY_SPINS    10 /* times LEAT_SPIN: for what a GPU copies */
#define YIELDS        16
#define CROWD_YIELDS  256
#define SPINS_A_LOOK  32 /* idle rounds between two looks at the clock */
#define BUSY_A_LOOK   64 /* busy ones */
#define POLLS_A_LOOK  256

void msg_waiter_begin(struct msg_waiter *waiter, struct msg_engine *engine, double timeout_s)
{
    *waiter = (struct msg_waiter){.engine = engine, .timeout_s = timeout_s};
}

void msg_spin_failed(struct msg_engine *engine)
{
    if (engine->spin_ns > SPIN_LEAST_NS)
        engine->spin_ns /= 2;
}

void msg_spin_succeeded(struct msg_engine *engine)
{
    uint64_t usual = engine->job ? engine->job->config.spin_ns : 0;
    engine->spin_ns = 2 * engine->spin_ns < usual ? 2 * engine->spin_ns : usual;
}

// What came after `waited_ns` found this rank asleep. Waking takes long, and makes the other side
// sleep in its turn: spinning through one such wait breaks the circle.
static void spin_slept(struct msg_engine *engine, uint64_t waited_ns)
{
    uint64_t usual = engine->job ? engine->job->config.spin_ns : 0;
    bool soon = waited_ns < LONG_WAITS * usual;
    engine->spin_ns = soon && 2 * waited_ns > usual ? 2 * waited_ns : usual;
}

// What a GPU copies comes soon, and sleeping until then would cost more than the copy.
static uint64_t spin_ns(const struct msg_waiter *waiter)
{
    const struct msg_engine *engine = waiter->engine;
    const struct msg_request *request = waiter->request;
    uint64_t usual = engine->job ? engine->job->config.spin_ns : 0;
    bool copied = request && request->kind != REQUEST_COLLECTIVE && request->gpu &&
                  request->data.bytes > MSG_GPU_EAGER;
    return copied ? COPY_SPINS * usual : engine->spin_ns;
}

static void begin_clock(struct msg_waiter *waiter, uint64_t now_ns)
{
    const struct leat_job *job = waiter->engine->job;
    waiter->begin_ns = waiter->idle_ns = now_ns;
    waiter->engine->wait_serial++;
    waiter->deadline_ns = waiter->timeout_s < 0 || waiter->timeout_s > 1e9
                              ? UINT64_MAX
                              : now_ns + (uint64_t)(waiter->timeout_s * 1e9);
    waiter->spin_until_ns = now_ns + spin_ns(waiter);
    waiter->report_ns = now_ns + (job ? job->timeout_ns : UINT64_C(30000000000));
    if (!waiter->engine->alive_ns)
        waiter->engine->alive_ns = now_ns + SLEEP_NS;
}

// Asks after peers, at most every SLEEP_NS; whether it did.
static bool check_alive(struct msg_engine *engine, uint64_t now_ns)
{
    if (now_ns < engine->alive_ns)
        return false;
    engine->alive_ns = now_ns + SLEEP_NS;
    msg_check_peers(engine);
    return true;
}

void msg_polled(struct msg_engine *engine)
{
    if (++engine->polls % POLLS_A_LOOK == 0)
        check_alive(engine, leat_now_ns());
}

static bool sleep_a_while(struct msg_waiter *waiter, uint64_t now_ns)
{
    struct msg_engine *engine = waiter->engine;
    const struct msg_net_ops *ops = engine->net->ops;
    // What is owed to a full queue, or under way in steps, wakes nobody.
    uint64_t ns = engine->todo_head || engine->rendezvous ? 50000 : SLEEP_NS;
    if (waiter->deadline_ns - now_ns < ns)
        ns = waiter->deadline_ns - now_ns;
    if (!ops->sleep) {
        sched_yield();
        return false;
    }
    ops->sleep_prepare(engine->net);
    if (msg_progress(engine, now_ns)) {
        ops->sleep_cancel(engine->net);
        return true;
    }
    if (engine->job)
        leat_count(&engine->job->counts.blocking_waits, 1);
    ops->sleep(engine->net, ns);
    return false;
}

int msg_waiter_idle(struct msg_waiter *waiter)
{
    struct msg_engine *engine = waiter->engine;
    // A round of progress is long enough: a pause instruction would only delay the next look.
    if (++waiter->idle % SPINS_A_LOOK && !engine->crowded)
        return 0;
    uint64_t now_ns = leat_now_ns();
    if (!waiter->begin_ns)
        begin_clock(waiter, now_ns);
    if (now_ns >= waiter->deadline_ns)
        return -ETIMEDOUT;
    int found = engine->quest || !engine->net->rank ? msg_deadlock_look(waiter, now_ns) : 0;
    if (found)
        return found < 0 ? found : 0;
    if (now_ns < waiter->spin_until_ns && !engine->crowded)
        return 0;
    if (waiter->yields++ < (engine->crowded ? CROWD_YIELDS : YIELDS)) {
        sched_yield();
        waiter->idle = (uint64_t)-1; // the clock was moved by others: look at it next time too
        return 0;
    }
    waiter->idle = (uint64_t)-1;
    if (sleep_a_while(waiter, now_ns))
        return 0;
    now_ns = leat_now_ns();
    waiter->checked |= check_alive(engine, now_ns);
    if (now_ns >= waiter->report_ns && now_ns < waiter->deadline_ns) {
        waiter->report_ns = now_ns + (engine->job ? engine->job->timeout_ns : SLEEP_NS);
        if (waiter->request)
            msg_report_waiting(waiter, now_ns);
        else if (engine->agreement)
            msg_agreement_report(engine, (double)(now_ns - waiter->begin_ns) * 1e-9);
    }
    return 0;
}

int msg_waiter_busy(struct msg_waiter *waiter)
{
    struct msg_engine *engine = waiter->engine;
    bool slept = waiter->yields > YIELDS;
    if (waiter->yields && !slept)
        msg_spin_failed(engine);
    else if (waiter->begin_ns && !slept)
        msg_spin_succeeded(engine);
    waiter->idle = 0;
    waiter->yields = 0;
    // Messages of others must neither stretch a deadline nor hide a death.
    bool look = ++waiter->busy % BUSY_A_LOOK == 0;
    if (!look && !waiter->begin_ns)
        return 0;
    uint64_t now_ns = leat_now_ns();
    if (!waiter->begin_ns)
        begin_clock(waiter, now_ns);
    if (slept)
        spin_slept(engine, now_ns - waiter->idle_ns);
    // Something moved: spinning is worth its while again.
    waiter->idle_ns = now_ns;
    waiter->spin_until_ns = now_ns + spin_ns(waiter);
    if (look)
        waiter->checked |= check_alive(engine, now_ns);
    return now_ns >= waiter->deadline_ns ? -ETIMEDOUT : 0;
}

int msg_wait(struct msg_request *request)
{
    struct msg_engine *engine = request->engine;
    if (msg_finished(request))
        return request->status.error;
    struct msg_waiter waiter;
    msg_waiter_begin(&waiter, engine, -1);
    waiter.request = request;
    while (!msg_finished(request)) {
        if (msg_progress(engine, engine->now_ns))
            (void)msg_waiter_busy(&waiter);
        else if (!msg_finished(request) && msg_waiter_idle(&waiter) == -EDEADLK)
            msg_give_up(request);
    }
    return request->status.error;
}

// ---- The public wait ----

struct set {
    leat_request *const *requests;
    size_t count;
};

static struct msg_request *request_at(const struct set *set, size_t i)
{
    struct msg_request *request = set->requests[i] ? msg_request_of(set->requests[i]) : NULL;
    return request && request->kind != REQUEST_NONE ? request : NULL;
}

static int take_any(const struct set *set, size_t *index, bool *none)
{
    *none = true;
    for (size_t i = 0; i < set->count; i++) {
        struct msg_request *request = request_at(set, i);
        if (!request)
            continue;
        *none = false;
        if (!msg_finished(request))
            continue;
        *index = i;
        request->kind = REQUEST_NONE;
        return 1;
    }
    *index = set->count;
    return *none;
}

// The first from `from` on that is not finished; count: all are.
static size_t first_open(const struct set *set, size_t from)
{
    while (from < set->count) {
        struct msg_request *request = request_at(set, from);
        if (request && !msg_finished(request))
            break;
        from++;
    }
    return from;
}

static int all_error(const struct set *set)
{
    int error = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct msg_request *request = request_at(set, i);
        if (!request)
            continue;
        if (!error && request->status.error) {
            error = request->status.error;
            msg_describe(request);
        }
        request->kind = REQUEST_NONE;
    }
    return error;
}

// One round; -ETIMEDOUT: the deadline has passed. A deadlock ends all requests of the set.
static int go_round(const struct set *set, struct msg_waiter *waiter)
{
    if (waiter->timeout_s == 0)
        return -ETIMEDOUT;
    if (msg_progress(waiter->engine, waiter->engine->now_ns))
        return msg_waiter_busy(waiter);
    int error = msg_waiter_idle(waiter);
    if (error != -EDEADLK)
        return error;
    for (size_t i = first_open(set, 0); i < set->count; i = first_open(set, i + 1))
        msg_give_up(request_at(set, i));
    return 0;
}

static int wait_any(const struct set *set, struct msg_waiter *waiter, size_t *index)
{
    bool none = false;
    if (waiter->timeout_s == 0) {
        msg_progress(waiter->engine, waiter->engine->now_ns);
        msg_polled(waiter->engine);
    }
    while (!take_any(set, index, &none))
        if (go_round(set, waiter))
            return msg_timed_out(waiter);
    if (none)
        return 0;
    struct msg_request *request = msg_request_of(set->requests[*index]);
    if (request->status.error)
        msg_describe(request);
    return request->status.error;
}

static int wait_all(const struct set *set, struct msg_waiter *waiter)
{
    size_t open = first_open(set, 0);
    if (waiter->timeout_s == 0) {
        msg_progress(waiter->engine, waiter->engine->now_ns);
        msg_polled(waiter->engine);
    }
    while ((open = first_open(set, open)) < set->count) {
        waiter->request = request_at(set, open);
        if (go_round(set, waiter))
            return msg_timed_out(waiter);
    }
    return all_error(set);
}

int leat_request_wait(leat_request *const *requests, size_t count, enum leat_wait_mode mode,
                      double timeout_s, size_t *index)
{
    if (count && !requests)
        return leat_need(requests, "leat_request_wait", "requests");
    if (isnan(timeout_s))
        return leat_fail(-EINVAL, "leat_request_wait: the time-out is not a number");
    if (mode != LEAT_WAIT_ALL && mode != LEAT_WAIT_ANY)
        return leat_fail(-EINVAL, "leat_request_wait: %d is no mode", (int)mode);
    struct set set = {requests, count};
    struct msg_waiter waiter;
    msg_waiter_begin(&waiter, NULL, timeout_s);
    for (size_t i = 0; i < count && !waiter.engine; i++) {
        struct msg_request *request = request_at(&set, i);
        if (request) {
            waiter.engine = request->engine;
            waiter.request = request;
        }
    }
    size_t found = count;
    int error = 0;
    if (waiter.engine)
        error = mode == LEAT_WAIT_ANY ? wait_any(&set, &waiter, &found) : wait_all(&set, &waiter);
    if (index && mode == LEAT_WAIT_ANY && error != -ETIMEDOUT)
        *index = found;
    return error;
}
