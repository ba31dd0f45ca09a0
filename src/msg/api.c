// SPDX-License-Identifier: Apache-2.0
// The public calls for messages: what they are given is checked here, once.
//
// Algorithm: a blocking call is a request on the stack and a wait for it. Advantage: one way
// through the engine. Disadvantage: the checks cost a few nanoseconds a call, in calls that take
// two hundred.

#include "core/error.h"
#include "core/job.h"
#include "msg/gpu.h"
#include "msg/wait.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int check_ends(const leat_comm *comm, const char *what, int rank, int tag, bool wild)
{
    if (!comm)
        return leat_need(comm, what, "comm");
    int least = wild ? -1 : 0;
    if (rank < least || rank >= comm->rank_count)
        return leat_fail(-EINVAL, "%s: rank %d of a communicator of %d ranks", what, rank,
                         comm->rank_count);
    if (tag < least)
        return leat_fail(-EINVAL, "%s: tag %d; tags are 0 or more%s", what, tag,
                         wild ? ", or LEAT_ANY_TAG" : "");
    return 0;
}

static int check_data(const leat_data *data, const char *what, bool receive)
{
    uint64_t most = data->address ? UINTPTR_MAX - (uintptr_t)data->address : 0;
    if (!data->layout && data->bytes <= most)
        return 0;
    return receive ? msg_layout_check_receive(data, what) : msg_layout_check(data, what);
}

static int finish_call(struct msg_request *request)
{
    int error = msg_wait(request);
    if (error)
        msg_describe(request);
    request->kind = REQUEST_NONE;
    return error;
}

int leat_send(leat_comm *comm, leat_data data, int to, int tag, int flags, leat_request *request)
{
    int error = check_ends(comm, "leat_send", to, tag, false);
    if (!error)
        error = check_data(&data, "leat_send", false);
    if (!error && flags & ~LEAT_SEND_SYNCHRONOUS)
        error = leat_fail(-EINVAL, "leat_send: flags 0x%x are not known", (unsigned)flags);
    if (error)
        return error;
    leat_request own;
    struct msg_request *send = msg_request_of(request ? request : &own);
    msg_start_send(comm->engine, send, comm, comm->context, data, msg_comm_job_rank(comm, to), tag,
                   flags & LEAT_SEND_SYNCHRONOUS);
    return request ? 0 : finish_call(send);
}

int leat_recv(leat_comm *comm, leat_data data, int from, int tag, leat_status *status,
              leat_request *request)
{
    int error = check_ends(comm, "leat_recv", from, tag, true);
    if (!error)
        error = check_data(&data, "leat_recv", true);
    if (error)
        return error;
    leat_request own;
    struct msg_request *receive = msg_request_of(request ? request : &own);
    int rank = from < 0 ? from : msg_comm_job_rank(comm, from);
    msg_start_receive(comm->engine, receive, comm, comm->context, data, rank, tag);
    if (status && msg_finished(receive))
        *status = receive->status;
    receive->status_to = status;
    return request ? 0 : finish_call(receive);
}

int leat_cancel(leat_request *request)
{
    int error = leat_need(request, "leat_cancel", "request");
    if (error)
        return error;
    struct msg_request *receive = msg_request_of(request);
    if (receive->kind != REQUEST_RECEIVE)
        return leat_fail(-EINVAL, "leat_cancel: only receives can be cancelled");
    if (receive->state != STATE_PENDING)
        return leat_fail(-EALREADY, "leat_cancel: the receive is matched or finished; wait for it");
    msg_match_withdraw(&receive->engine->matcher, receive);
    msg_finish(receive, -ECANCELED);
    return 0;
}

// ---- Probes ----

struct wanted {
    leat_comm *comm;
    int from, tag; // ranks of the job
};

static void fill_status(const leat_comm *comm, const struct msg_envelope *envelope,
                        leat_status *status)
{
    if (status)
        *status = (leat_status){.source = msg_comm_rank_of(comm, envelope->source),
                                .tag = envelope->tag,
                                .bytes = envelope->bytes};
}

static void make_matched(struct msg_request *request, leat_comm *comm,
                         const struct msg_envelope *envelope)
{
    *request = (struct msg_request){.engine = comm->engine,
                                    .comm = comm,
                                    .context = comm->context,
                                    .peer = envelope->source,
                                    .tag = envelope->tag,
                                    .total = envelope->bytes,
                                    .kind = REQUEST_MATCHED,
                                    .state = STATE_PENDING};
}

// A message that is held back is asked for: the request is posted for it, so that nobody else gets
// it, with memory of its own unless the message stays with its sender until it is announced.
static int ask_for(const struct wanted *wanted, const struct msg_envelope *envelope,
                   struct msg_request *matched)
{
    struct msg_engine *engine = wanted->comm->engine;
    // What the sender may send without announcing it: by ring, or in the packet that gives it.
    bool whole =
        envelope->bytes <= engine->tuning.eager_most || envelope->bytes <= MSG_PACKET_PAYLOAD;
    uint64_t bytes = whole ? envelope->bytes : 0;
    void *memory = bytes ? msg_alloc(&engine->pools, POOL_WORK, bytes) : NULL;
    if (bytes && !memory)
        return leat_fail(-ENOBUFS,
                         "leat_probe: the message of %llu bytes that rank %d holds back for want "
                         "of room cannot be taken out; receive it, or set LEAT_MSG_BUDGET larger",
                         (unsigned long long)bytes, envelope->source);
    make_matched(matched, wanted->comm, envelope);
    matched->data = (leat_data){.address = memory, .bytes = bytes};
    msg_match_post(&engine->matcher, matched);
    msg_hold_wanted(engine);
    return 0;
}

// 1: there is one, 0: there is none, -EAGAIN: not known yet, or an error.
static int look(const struct wanted *wanted, leat_status *status, leat_request *matched)
{
    struct msg_engine *engine = wanted->comm->engine;
    struct msg_envelope envelope;
    struct msg_unexpected *message =
        msg_match_find(&engine->matcher, wanted->comm->context, wanted->from, wanted->tag);
    if (message) {
        fill_status(wanted->comm, &message->envelope, status);
        if (!matched)
            return 1;
        msg_match_take(&engine->matcher, message);
        make_matched(msg_request_of(matched), wanted->comm, &message->envelope);
        msg_request_of(matched)->message_taken = message;
        return 1;
    }
    if (!engine->holding)
        return 0;
    int found = msg_hold_probe(engine, wanted->comm->context, wanted->from, wanted->tag, &envelope);
    if (found <= 0)
        return found;
    fill_status(wanted->comm, &envelope, status);
    int error = matched ? ask_for(wanted, &envelope, msg_request_of(matched)) : 0;
    return error ? error : 1;
}

// Whether nobody can send what a probe waits for any more.
static bool nobody_left(const struct wanted *wanted, uint32_t peer, struct msg_waiter *waiter)
{
    struct msg_engine *engine = wanted->comm->engine;
    if (peer)
        return msg_peer_at(engine, peer)->flags & PEER_LOST;
    // With a deadline of 0 there is no wait in which peers are asked after.
    bool ask = waiter->checked || (waiter->timeout_s == 0 && engine->polls % 256 == 0);
    waiter->checked = false;
    return ask && engine->net->ops->alive && msg_all_lost(wanted->comm);
}

int leat_probe(leat_comm *comm, int from, int tag, double timeout_s, leat_status *status,
               leat_request *matched)
{
    int error = check_ends(comm, "leat_probe", from, tag, true);
    if (!error && isnan(timeout_s))
        error = leat_fail(-EINVAL, "leat_probe: the time-out is not a number");
    if (error)
        return error;
    struct wanted wanted = {comm, from < 0 ? from : msg_comm_job_rank(comm, from), tag};
    struct msg_engine *engine = comm->engine;
    // What the report of a long wait says is waited for.
    struct msg_request what = {.engine = engine,
                               .comm = comm,
                               .peer = wanted.from,
                               .tag = tag,
                               .kind = REQUEST_RECEIVE,
                               .state = STATE_PENDING};
    // Who is waited for is a peer in use, so that its death is seen.
    uint32_t peer = wanted.from < 0 ? 0 : msg_peer_make(engine, wanted.from);
    struct msg_waiter waiter;
    msg_waiter_begin(&waiter, engine, timeout_s);
    waiter.request = &what;
    if (timeout_s == 0)
        msg_polled(engine);
    for (;;) {
        bool busy = msg_progress(engine, engine->now_ns);
        int found = look(&wanted, status, matched);
        if (found == 1)
            return 0;
        if (found < 0 && found != -EAGAIN)
            return found;
        if (found == 0 && nobody_left(&wanted, peer, &waiter)) {
            what.status.error = msg_lost_error(engine, wanted.from);
            msg_describe(&what);
            return what.status.error;
        }
        if (timeout_s == 0 && found == 0)
            return -ETIMEDOUT; // the usual answer of a look: no detail is made for it
        int ended = busy ? msg_waiter_busy(&waiter) : msg_waiter_idle(&waiter);
        if (ended == -EDEADLK) {
            what.status.error = ended;
            msg_describe(&what);
        } else if (ended && timeout_s != 0) {
            msg_timed_out(&waiter);
        }
        if (ended)
            return ended;
    }
}

// Whatever has become of the message meanwhile, it goes on into the caller's data.
static void receive_matched(struct msg_request *request, leat_data brought)
{
    struct msg_engine *engine = request->engine;
    uint64_t here = request->state == STATE_FINISHED  ? request->total
                    : request->state == STATE_PARTIAL ? request->done
                                                      : 0;
    if (here > brought.bytes)
        here = brought.bytes;
    uint64_t bytes = here < request->data.bytes ? here : request->data.bytes;
    msg_put_bytes(request, 0, brought.address, bytes);
    if (brought.bytes)
        msg_free(&engine->pools, POOL_WORK, brought.address, brought.bytes);
    if (request->state == STATE_FINISHED) {
        int error = request->status.error;
        request->status.bytes = bytes;
        if (!error && request->total > request->data.bytes)
            error = -EMSGSIZE;
        msg_finish(request, error);
    } else if (request->state == STATE_ANNOUNCED) {
        const struct msg_envelope envelope = {.source = request->peer,
                                              .tag = request->tag,
                                              .bytes = request->total,
                                              .handle = request->remote,
                                              .token = request->token};
        msg_note_match(request, &envelope);
        msg_fetch(engine, request, &envelope);
    }
}

int leat_recv_matched(leat_data data, leat_status *status, leat_request *matched, int wait)
{
    int error = leat_need(matched, "leat_recv_matched", "matched");
    if (!error)
        error = check_data(&data, "leat_recv_matched", true);
    if (error)
        return error;
    struct msg_request *request = msg_request_of(matched);
    if (request->kind != REQUEST_MATCHED)
        return leat_fail(-EINVAL, "leat_recv_matched: the request is not a message that leat_probe "
                                  "took out");
    struct msg_unexpected *message = request->message_taken;
    leat_data brought = request->data;
    int found = msg_gpu_look(request->engine, &data);
    if (found < 0)
        return found;
    request->kind = REQUEST_RECEIVE;
    request->data = data;
    request->gpu = found > 0;
    request->status_to = status;
    if (message) {
        request->done = 0;
        msg_deliver(request->engine, request, message);
    } else {
        receive_matched(request, brought);
    }
    return wait ? finish_call(request) : 0;
}
