// SPDX-License-Identifier: Apache-2.0
// LEAT_ROOT: ranks that were started by hand find one another.
//
// Algorithm: rank 0 makes its host's segment and becomes the root; the others join it (root.h).
// leat_open returns on all of them once all of them have claimed their records, so a record of a
// host's segment that nobody has claimed then belongs to a rank elsewhere, and no table of hosts is
// sent. Advantage: constant work a rank. Disadvantage: unlike under `leat run`, the first waits for
// the last.

#define _GNU_SOURCE
#include "core/root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct root_tie {
    struct tie tie;
    struct root_options options;
    struct seat seat;
    struct root *root;      /* of rank 0 */
    struct root_link *link; /* of the others */
};

static struct root_tie *tie_of(struct tie *tie)
{
    return (struct root_tie *)tie;
}

static int await_ranks(struct root_tie *own, uint64_t deadline_ns)
{
    char missing[160];
    root_ready(own->root);
    int error = leat_seat_serve(&own->seat, root_told(own->root), deadline_ns);
    leat_seat_close(&own->seat);
    if (error != -ETIMEDOUT)
        return error ? error : root_verdict(own->root);
    root_missing(own->root, missing, sizeof missing);
    const char *local = root_local_address(own->root);
    char reach[160] = "";
    if (local)
        snprintf(reach, sizeof reach, "; rank 0 listens at %s, which only this host reaches",
                 local);
    return leat_fail(error,
                     "%s have not come to LEAT_ROOT=%s within %.3g s; start them with the same "
                     "LEAT_ROOT, LEAT_SIZE and LEAT_JOB_KEY, or raise LEAT_TIMEOUT%s",
                     missing, own->options.address, own->options.timeout_s, reach);
}

static int arrive(struct tie *tie, struct leat_job *job, uint64_t deadline_ns)
{
    struct root_tie *own = tie_of(tie);
    (void)job;
    return own->root ? await_ranks(own, deadline_ns)
                     : root_arrive(own->link, &own->seat, deadline_ns);
}

static void look(struct tie *tie, struct segment_head *head)
{
    // Rank 0's thread writes down by itself what it hears.
    if (tie_of(tie)->link)
        root_look(tie_of(tie)->link, head);
}

static void leave(struct tie *tie, const char *reason)
{
    struct root_tie *own = tie_of(tie);
    leat_seat_close(&own->seat);
    if (own->root)
        root_say_leave(own->root, reason);
    if (own->link)
        root_leave(own->link, reason);
}

static void end(struct tie *tie)
{
    struct root_tie *own = tie_of(tie);
    if (own->root)
        root_close(own->root);
    free(own);
}

static int publish(struct tie *tie, int number, const char *card)
{
    struct root_tie *own = tie_of(tie);
    return own->root ? root_publish(own->root, number, card)
                     : root_link_publish(own->link, number, card);
}

static int find(struct tie *tie, struct segment_head *head, int number, char card[LEAT_CARD_BYTES])
{
    struct root_tie *own = tie_of(tie);
    return own->root ? root_find(own->root, number, card)
                     : root_link_find(own->link, head, number, card);
}

static int secret(struct tie *tie, const struct segment_head *head, uint8_t key[MAC_BYTES])
{
    static const char purpose[] = "leat fabric";
    const struct hello_key *shared = &tie_of(tie)->options.key;
    const struct mac_piece pieces[] = {{purpose, sizeof purpose}, {head->job, sizeof head->job}};
    leat_mac(shared->text, shared->bytes, pieces, 2, key);
    return 0;
}

static void address(struct tie *tie, char text[64])
{
    struct root_tie *own = tie_of(tie);
    if (own->root)
        root_reached_at(own->root, text);
    else
        root_link_address(own->link, text);
}

static const struct tie_ops ops = {.arrive = arrive,
                                   .look = look,
                                   .publish = publish,
                                   .find = find,
                                   .secret = secret,
                                   .address = address,
                                   .leave = leave,
                                   .end = end};

static int read_key(struct hello_key *key)
{
    const char *text = getenv("LEAT_JOB_KEY");
    size_t bytes = text ? strlen(text) : 0;
    char found[48] = "is not set";
    if (text)
        snprintf(found, sizeof found, "has %zu characters", bytes);
    if (bytes < HELLO_KEY_LEAST || bytes > HELLO_KEY_MOST)
        return leat_fail(-EINVAL,
                         "LEAT_JOB_KEY %s; LEAT_ROOT needs the same secret of %d to %d on all "
                         "ranks, as from `openssl rand -hex 16`",
                         found, HELLO_KEY_LEAST, HELLO_KEY_MOST);
    memcpy(key->text, text, bytes);
    key->bytes = bytes;
    return 0;
}

static int read_environment(const struct config *config, struct root_options *options)
{
    *options =
        (struct root_options){.log_level = config->log_level, .timeout_s = config->timeout_s};
    const char *address = getenv("LEAT_ROOT");
    size_t length = address ? strlen(address) : 0;
    if (length >= sizeof options->address)
        return leat_fail(-EINVAL, "LEAT_ROOT has %zu characters; at most %zu are taken", length,
                         sizeof options->address - 1);
    snprintf(options->address, sizeof options->address, "%s", address ? address : "");
    int error = leat_environment_number("LEAT_SIZE", 1, 1 << 20, &options->rank_count);
    if (!error)
        error = leat_environment_number("LEAT_RANK", 0, options->rank_count - 1, &options->rank);
    if (!error)
        error = read_key(&options->key);
    if (error)
        return error;
    leat_host_identity(options->host);
    return 0;
}

static int begin_root(struct root_tie *own, const struct config *config)
{
    uint8_t job[HELLO_JOB_BYTES];
    if (getrandom(job, sizeof job, 0) != sizeof job)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    int error = leat_seat_make(config, own->options.rank_count, job, &own->seat);
    if (error)
        return error;
    error = root_open(&own->options, &own->seat, &own->root);
    if (error) {
        leat_seat_close(&own->seat);
        leat_segment_release(own->seat.segment);
    }
    return error;
}

int leat_bootstrap_root(const struct config *config, struct bootstrap *found)
{
    struct root_options options;
    int error = read_environment(config, &options);
    return error ? error : root_bootstrap(&options, config, found);
}

int root_bootstrap(const struct root_options *options, const struct config *config,
                   struct bootstrap *found)
{
    struct root_tie *own = calloc(1, sizeof *own);
    if (!own)
        return leat_fail(-ENOMEM, "no memory for a job handle");
    own->tie.ops = &ops;
    own->options = *options;
    uint64_t deadline_ns = leat_now_ns() + (uint64_t)(config->timeout_s * 1e9);
    int error = options->rank == 0
                    ? begin_root(own, config)
                    : root_join(&own->options, config, deadline_ns, &own->seat, &own->link);
    if (error) {
        free(own);
        return error;
    }
    *found = (struct bootstrap){own->seat.segment, own->options.rank, &own->tie};
    return 0;
}
