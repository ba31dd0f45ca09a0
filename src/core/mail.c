// SPDX-License-Identifier: Apache-2.0
// Letters between two ranks while plans are made and groups migrate.
//
// Algorithm: the sender lays the letter in a buffer of its own arena, notes place and size in its
// cell at the receiver and raises the cell's signal; the receiver copies the letter and raises the
// answering signal. Advantage: letters of any size, no ring to fill, and since everybody posts
// before it takes, no order of swaps can deadlock. Disadvantage: a rendezvous each, so not for
// steps; the message layer replaces it.

#include "core/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LETTER UINT64_MAX /* instead of a size: the sender failed */

struct mail {
    uint64_t outbox, outbox_bytes; /* in the arena */
    char *inbox;
    uint64_t inbox_bytes;
};

static int grow_outbox(struct leat_job *job, uint64_t bytes)
{
    struct mail *mail = job->mail;
    if (bytes <= mail->outbox_bytes)
        return 0;
    uint64_t wanted = bytes + bytes / 2;
    if (mail->outbox_bytes)
        leat_arena_free(job, mail->outbox, mail->outbox_bytes);
    mail->outbox_bytes = 0;
    int error = leat_arena_alloc(job, wanted, &mail->outbox);
    if (!error)
        mail->outbox_bytes = wanted;
    return error;
}

static int grow_inbox(struct mail *mail, uint64_t bytes)
{
    if (bytes <= mail->inbox_bytes)
        return 0;
    uint64_t wanted = bytes + bytes / 2;
    char *grown = realloc(mail->inbox, wanted);
    if (!grown)
        return leat_fail(-ENOMEM, "no memory for a letter of %llu bytes",
                         (unsigned long long)bytes);
    mail->inbox = grown;
    mail->inbox_bytes = wanted;
    return 0;
}

static int post(struct leat_job *job, int to, const void *letter, uint64_t bytes)
{
    struct mail_cell *own = &job->arena.head->mail[to];
    struct mail_cell *theirs = &leat_arena_head(job, to)->mail[job->rank];
    int error = grow_outbox(job, bytes);
    if (!error && bytes)
        memcpy((char *)job->arena.head + job->mail->outbox, letter, bytes);
    theirs->offset = job->mail->outbox;
    theirs->bytes = error ? NO_LETTER : bytes; // whoever waits for it must not wait in vain
    leat_signal_raise(&theirs->arrived, ++own->sent);
    return error;
}

static int take(struct leat_job *job, int from, uint64_t deadline_ns, uint64_t *bytes)
{
    struct mail_cell *own = &job->arena.head->mail[from];
    struct arena_head *sender = leat_arena_head(job, from);
    uint64_t seen;
    uint64_t wanted = own->received + 1;
    int error = leat_signal_wait(job, &own->arrived, wanted, from, deadline_ns, &seen);
    if (error)
        return leat_wait_fail(job, error, "letter", from, wanted, seen);
    own->received = wanted;
    *bytes = own->bytes;
    if (own->bytes == NO_LETTER)
        error = leat_fail(-EREMOTEIO, "rank %d had no memory for its letter", from);
    else
        error = grow_inbox(job->mail, own->bytes);
    if (!error && own->bytes)
        memcpy(job->mail->inbox, (const char *)sender + own->offset, own->bytes);
    leat_signal_raise(&sender->mail[job->rank].taken, wanted);
    return error;
}

static int await_taken(struct leat_job *job, int to, uint64_t deadline_ns)
{
    struct mail_cell *own = &job->arena.head->mail[to];
    uint64_t seen;
    int error = leat_signal_wait(job, &own->taken, own->sent, to, deadline_ns, &seen);
    return error ? leat_wait_fail(job, error, "letter taken", to, own->sent, seen) : 0;
}

int leat_mail_swap(struct leat_job *job, int to, const void *letter, uint64_t letter_bytes,
                   int from, const void **data, uint64_t *bytes)
{
    if (!job->mail && !(job->mail = calloc(1, sizeof *job->mail)))
        return leat_fail(-ENOMEM, "no memory for mail");
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    int unsent = post(job, to, letter, letter_bytes);
    int error = take(job, from, deadline_ns, bytes);
    if (!error || error == -ENOMEM || error == -EREMOTEIO) {
        int untaken = await_taken(job, to, deadline_ns);
        error = error ? error : untaken;
    }
    if (unsent)
        return leat_fail(unsent,
                         "rank %d has no room in its arena for a letter of %llu bytes to "
                         "rank %d; set LEAT_ARENA larger",
                         job->rank, (unsigned long long)letter_bytes, to);
    if (!error)
        *data = job->mail->inbox;
    return error;
}

void leat_mail_close(struct leat_job *job)
{
    if (!job->mail)
        return;
    if (job->mail->outbox_bytes)
        leat_arena_free(job, job->mail->outbox, job->mail->outbox_bytes);
    free(job->mail->inbox);
    free(job->mail);
    job->mail = NULL;
}
