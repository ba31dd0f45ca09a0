// SPDX-License-Identifier: Apache-2.0
// Letters between two ranks while plans are made and groups migrate.
//
// Algorithm: a letter is a message, or two: the first holds its size and its beginning, the second
// the rest, for which the receiver has made room by then. Both are sent before anything is
// received, so no order of swaps can deadlock. They go under a number that no communicator has, so
// no receive of the caller's takes them. Letters are sent from a copy in the own arena, which peers
// may still read when this rank has given up and the caller's memory is somebody else's. Advantage:
// letters of any size, and memory for peers in use only. Disadvantage: one copy more than it takes.

#include "halo/letter.h"

#include "msg/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Communicators are numbered from below, and end before it. */
#define LETTER_CONTEXT (UINT32_MAX - 1)
#define FIRST_BYTES    8192       /* of the first message, head included */
#define NO_LETTER      UINT64_MAX /* instead of a size: the sender failed */

struct letter_head {
    uint64_t bytes, unused;
};

enum { SEND_FIRST, SEND_REST, RECEIVE_FIRST, RECEIVE_REST, REQUESTS };

struct letters {
    struct job_child child;
    leat_request request[REQUESTS];
    uint64_t outbox, outbox_bytes; /* in the arena */
    char *inbox;
    uint64_t inbox_bytes;
};

struct swap {
    struct leat_job *job;
    struct letters *letters;
    int to, from;
    uint64_t deadline_ns;
};

// ---- Memory ----

static void orphan(struct job_child *child)
{
    struct letters *letters = (struct letters *)(void *)child;
    *child->link = child->next;
    if (child->next)
        child->next->link = child->link;
    free(letters->inbox);
    free(letters);
}

// Behind all others: the message layer may hold requests until it is closed.
static void adopt(struct leat_job *job, struct job_child *child)
{
    struct job_child **link = &job->children;
    while (*link)
        link = &(*link)->next;
    *child = (struct job_child){.orphan = orphan, .link = link};
    *link = child;
}

static int grow_outbox(struct leat_job *job, struct letters *letters, uint64_t bytes)
{
    if (bytes <= letters->outbox_bytes)
        return 0;
    uint64_t wanted = bytes + bytes / 2, made;
    int error = leat_arena_alloc(job, wanted, &made);
    if (error)
        return error;
    if (letters->outbox_bytes)
        leat_arena_free(job, letters->outbox, letters->outbox_bytes);
    letters->outbox = made;
    letters->outbox_bytes = wanted;
    return 0;
}

static int grow_inbox(struct letters *letters, uint64_t bytes)
{
    if (bytes <= letters->inbox_bytes)
        return 0;
    uint64_t wanted = bytes + bytes / 2;
    char *grown = realloc(letters->inbox, wanted);
    if (!grown)
        return leat_fail(-ENOMEM, "no memory for a letter of %llu bytes",
                         (unsigned long long)bytes);
    letters->inbox = grown;
    letters->inbox_bytes = wanted;
    return 0;
}

static int make(struct leat_job *job)
{
    struct letters *made = calloc(1, sizeof *made);
    int error = made ? grow_inbox(made, FIRST_BYTES) : leat_fail(-ENOMEM, "no memory for letters");
    if (!error)
        error = grow_outbox(job, made, FIRST_BYTES);
    if (error) {
        if (made)
            free(made->inbox);
        free(made);
        return error;
    }
    adopt(job, &made->child);
    job->letters = made;
    return 0;
}

int leat_letters_open(struct leat_job *job)
{
    struct msg_engine *engine;
    if (job->rank_count == 1)
        return 0;
    int error = msg_engine_of(job, &engine);
    return error || job->letters ? error : make(job);
}

// ---- Sending and receiving ----

static void start_send(const struct swap *swap, int which, uint64_t from, uint64_t to)
{
    char *outbox = (char *)swap->job->arena.head + swap->letters->outbox;
    leat_data data = {.address = outbox + from, .bytes = to - from};
    msg_start_send(swap->job->msg, msg_request_of(&swap->letters->request[which]), NULL,
                   LETTER_CONTEXT, data, swap->to, which, false);
}

static void start_receive(const struct swap *swap, int which, uint64_t from, uint64_t to)
{
    leat_data data = {.address = swap->letters->inbox + from, .bytes = to - from};
    int tag = which == RECEIVE_FIRST ? SEND_FIRST : SEND_REST;
    msg_start_receive(swap->job->msg, msg_request_of(&swap->letters->request[which]), NULL,
                      LETTER_CONTEXT, data, swap->from, tag);
}

static int post(const struct swap *swap, const void *letter, uint64_t bytes)
{
    struct letter_head head = {.bytes = bytes};
    uint64_t all = sizeof head + bytes;
    int error = bytes > UINT64_MAX / 4 ? -ENOMEM : grow_outbox(swap->job, swap->letters, all);
    if (error) { // whoever waits for it must not wait in vain
        head.bytes = NO_LETTER;
        all = sizeof head;
    }
    char *outbox = (char *)swap->job->arena.head + swap->letters->outbox;
    memcpy(outbox, &head, sizeof head);
    if (all > sizeof head)
        memcpy(outbox + sizeof head, letter, bytes);
    start_send(swap, SEND_FIRST, 0, all < FIRST_BYTES ? all : FIRST_BYTES);
    if (all > FIRST_BYTES)
        start_send(swap, SEND_REST, FIRST_BYTES, all);
    if (!error)
        return 0;
    return leat_fail(error,
                     "rank %d has no room in its arena for a letter of %llu bytes to rank %d; set "
                     "LEAT_ARENA larger",
                     swap->job->rank, (unsigned long long)bytes, swap->to);
}

static int await(const struct swap *swap, int first, int last, const char *what, int peer)
{
    leat_request *wanted[REQUESTS];
    size_t count = 0;
    for (int i = first; i <= last; i++)
        wanted[count++] = &swap->letters->request[i];
    uint64_t now_ns = leat_now_ns();
    double left_s = now_ns < swap->deadline_ns ? (double)(swap->deadline_ns - now_ns) * 1e-9 : 0.0;
    int error = leat_request_wait(wanted, count, LEAT_WAIT_ALL, left_s, NULL);
    if (error == -ETIMEDOUT || error == -ECONNRESET)
        return leat_peer_fail(swap->job, error, what, peer, "");
    return error;
}

static int take(const struct swap *swap, uint64_t *bytes)
{
    struct letter_head head = {0};
    start_receive(swap, RECEIVE_FIRST, 0, FIRST_BYTES);
    int error = await(swap, RECEIVE_FIRST, RECEIVE_FIRST, "letter", swap->from);
    if (error)
        return error;
    memcpy(&head, swap->letters->inbox, sizeof head);
    if (head.bytes == NO_LETTER)
        return leat_fail(-EREMOTEIO, "rank %d had no memory for its letter", swap->from);
    *bytes = head.bytes;
    uint64_t all = sizeof head + head.bytes;
    if (all <= FIRST_BYTES)
        return 0;
    int unkept = grow_inbox(swap->letters, all);
    // Without room for it the rest is received all the same, into nothing, so that it is gone.
    start_receive(swap, RECEIVE_REST, FIRST_BYTES, unkept ? FIRST_BYTES : all);
    error = await(swap, RECEIVE_REST, RECEIVE_REST, "letter", swap->from);
    if (unkept && error == -EMSGSIZE)
        return leat_fail(unkept, "no memory for a letter of %llu bytes from rank %d",
                         (unsigned long long)head.bytes, swap->from);
    return error;
}

// What the message layer cannot let go of stays where it is until the job is closed.
static void give_up(const struct swap *swap)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct msg_request *request = msg_request_of(&swap->letters->request[i]);
        if (request->kind != REQUEST_NONE && !msg_finished(request) && msg_drop(request))
            swap->job->letters = NULL;
    }
}

// ---- The call ----

static int swap_with_oneself(struct leat_job *job, const void *letter, uint64_t letter_bytes,
                             const void **data, uint64_t *bytes)
{
    int error = job->letters ? 0 : make(job);
    if (!error)
        error = grow_inbox(job->letters, letter_bytes);
    if (error)
        return error;
    if (letter_bytes)
        memcpy(job->letters->inbox, letter, letter_bytes);
    *data = job->letters->inbox;
    *bytes = letter_bytes;
    return 0;
}

int leat_letter_swap(struct leat_job *job, int to, const void *letter, uint64_t letter_bytes,
                     int from, const void **data, uint64_t *bytes)
{
    if (to == job->rank && from == job->rank)
        return swap_with_oneself(job, letter, letter_bytes, data, bytes);
    int error = leat_letters_open(job);
    if (error)
        return error;
    struct swap swap = {.job = job,
                        .letters = job->letters,
                        .to = to,
                        .from = from,
                        .deadline_ns = leat_now_ns() + job->timeout_ns};
    memset(swap.letters->request, 0, sizeof swap.letters->request);
    int unsent = post(&swap, letter, letter_bytes);
    char detail[LEAT_DETAIL_BYTES] = "";
    if (unsent)
        memcpy(detail, leat_error_detail(), strnlen(leat_error_detail(), sizeof detail - 1));
    uint64_t received = 0;
    error = take(&swap, &received);
    if (!error || error == -ENOMEM || error == -EREMOTEIO) {
        int untaken = await(&swap, SEND_FIRST, SEND_REST, "letter taken", to);
        error = error ? error : untaken;
    }
    give_up(&swap);
    if (unsent)
        return leat_fail(unsent, "%s", detail);
    if (!error) {
        *data = swap.letters->inbox + sizeof(struct letter_head);
        *bytes = received;
    }
    return error;
}
