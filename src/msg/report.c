// SPDX-License-Identifier: Apache-2.0
// What is said of a wait that fails or lasts: what, for whom, since when, what came instead.
//
// Advantage: a program that hangs for want of a message says for which one. Disadvantage: a rank
// that never waits in leat says nothing.

#include "core/error.h"
#include "core/job.h"
#include "core/log.h"
#include "msg/coll.h"
#include "msg/gpu.h"
#include "msg/rendezvous.h"
#include "msg/wait.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t step = used < 0 ? 0 : (size_t)used < text->left ? (size_t)used : text->left - 1;
    text->at += step;
    text->left -= step;
}

static void add_tag(struct text *text, int tag)
{
    if (tag < 0)
        add(text, "any tag");
    else
        add(text, "tag %d", tag);
}

static void add_request(struct text *text, const struct msg_request *request)
{
    unsigned long long bytes = request->data.bytes;
    if (request->kind == REQUEST_COLLECTIVE) {
        char what[240];
        msg_collective_describe(request, what, sizeof what);
        add(text, "%s", what);
        return;
    }
    if (request->kind == REQUEST_MATCHED) {
        add(text,
            "the message of %llu bytes from rank %d, tag %d, that leat_probe took out: it ends "
            "once leat_recv_matched was called for it",
            (unsigned long long)request->total, request->peer, request->tag);
        return;
    }
    if (request->kind == REQUEST_SEND)
        add(text, "the send of %llu bytes to rank %d, ", bytes, request->peer);
    else if (request->peer < 0)
        add(text, "a receive of up to %llu bytes from any rank, ", bytes);
    else
        add(text, "the receive of up to %llu bytes from rank %d, ", bytes, request->peer);
    add_tag(text, request->tag);
    if (request->kind == REQUEST_SEND && request->mode == MODE_PUT)
        add(text, " (being sent)");
    else if (request->kind == REQUEST_SEND && request->state == STATE_RENDEZVOUS)
        add(text, " (announced; not received yet)");
    else if (request->kind == REQUEST_SEND && request->state != STATE_FINISHED)
        add(text, " (waiting for room at the receiver)");
    else if (request->state == STATE_RENDEZVOUS)
        add(text, " (matched, %llu of %llu bytes are here)", (unsigned long long)request->done,
            (unsigned long long)request->total);
}

// What is there and was not asked for.
static void add_unexpected(struct text *text, const struct msg_engine *engine)
{
    const struct msg_matcher *matcher = &engine->matcher;
    add(text, "; %llu messages came that no receive fits",
        (unsigned long long)matcher->unexpected_count);
    if (!matcher->unexpected_count)
        return;
    const struct msg_unexpected *first = msg_slab_at(&matcher->headers, matcher->head);
    add(text, ", the oldest from rank %d, tag %d, %llu bytes", first->envelope.source,
        first->envelope.tag, (unsigned long long)first->envelope.bytes);
    if (engine->holding)
        add(text, "; %u ranks hold messages back for want of room (LEAT_MSG_BUDGET)",
            engine->holding);
}

// The rank whose end a failed request is told of: its peer, or, where anybody would have done, the
// first one of those that are all gone.
static int gone_of(const struct msg_request *request)
{
    if (request->peer >= 0 || !request->comm)
        return request->peer >= 0 ? request->peer : request->engine->net->rank;
    return msg_comm_job_rank(request->comm, request->comm->rank == 0 ? 1 : 0);
}

static void add_fate(const struct msg_request *request, char *fate, size_t bytes)
{
    const struct leat_job *job = request->engine->job;
    int rank = gone_of(request);
    const struct msg_net *net = request->engine->net;
    const bool ended = leat_rank_lost(job, rank) != 0;
    // It lives, and only the network has lost it, or another rank's network, as over a cut link.
    if (!ended && net->ops->alive && net->ops->alive(request->engine->net, rank))
        snprintf(fate, bytes, "%s", leat_error_detail());
    else if (!ended && request->kind == REQUEST_COLLECTIVE)
        snprintf(fate, bytes, "rank %d is lost, as another rank of the communicator says", rank);
    else
        leat_rank_fate(job, rank, fate, bytes);
}

void msg_describe(const struct msg_request *request)
{
    char buffer[600], fate[240] = "";
    struct text text = {buffer, sizeof buffer};
    add_request(&text, request);
    switch (request->status.error) {
    case -EMSGSIZE:
        leat_fail(-EMSGSIZE, "%s: the message has %llu bytes; make the receive larger", buffer,
                  (unsigned long long)request->total);
        break;
    case -ECONNRESET:
        if (request->engine->job)
            add_fate(request, fate, sizeof fate);
        leat_fail(-ECONNRESET, "%s: %s", buffer, fate[0] ? fate : "the peer is gone");
        break;
    case -EDEADLK: {
        char whole[700];
        msg_deadlock_describe(request->engine, whole, sizeof whole);
        leat_fail(-EDEADLK, "deadlock: %s: %s; one of them has to do something else first", buffer,
                  whole);
        break;
    }
    case -ECANCELED:
        leat_fail(-ECANCELED, "%s was cancelled", buffer);
        break;
    case -ENOBUFS:
        leat_fail(-ENOBUFS,
                  "%s: the message layer has no memory left for it; set LEAT_MSG_BUDGET "
                  "larger",
                  buffer);
        break;
    case -EINVAL:
        leat_fail(-EINVAL,
                  "%s: the layout's piece function gave no bytes, or none could be had "
                  "there; it has to give at least 1",
                  buffer);
        break;
    case -EPROTO:
        if (request->engine->nonsense && request->peer == request->engine->nonsense_rank) {
            leat_fail(-EPROTO,
                      "%s: rank %d has sent what cannot be: %s; all ranks have to run the same "
                      "build of leat, and none may store beyond its own memory",
                      buffer, request->peer, request->engine->nonsense);
            break;
        }
        // fall through
    default:
        if (request->kind != REQUEST_COLLECTIVE) // a collective has said it itself
            leat_fail(request->status.error, "%s failed: %s", buffer,
                      request->engine->gpu && request->engine->gpu->why[0]
                          ? request->engine->gpu->why
                          : strerror(-request->status.error));
        break;
    }
}

int msg_timed_out(const struct msg_waiter *waiter)
{
    char buffer[600] = "no request";
    struct text text = {buffer, sizeof buffer};
    if (waiter->request)
        add_request(&text, waiter->request);
    add_unexpected(&text, waiter->engine);
    return leat_fail(-ETIMEDOUT, "not finished after %g s: %s", waiter->timeout_s, buffer);
}

void msg_report_waiting(const struct msg_waiter *waiter, uint64_t now_ns)
{
    const struct msg_engine *engine = waiter->engine;
    char buffer[800];
    struct text text = {buffer, sizeof buffer};
    add_request(&text, waiter->request);
    add(&text, ", for %.0f s now", (double)(now_ns - waiter->begin_ns) * 1e-9);
    add_unexpected(&text, engine);
    if (engine->job)
        // A collective's text says itself that it waits.
        leat_log(engine->job->config.log_level, LOG_WARN, engine->net->rank, "%s%s",
                 waiter->request->kind == REQUEST_COLLECTIVE ? "" : "waits for ", buffer);
}
