// SPDX-License-Identifier: Apache-2.0
// The root: rank 0's thread, to which every other rank keeps a connection.
//
// Algorithm: one thread and one epoll set. A connection is a stranger until its key is proven
// (hello.h); strangers have a short deadline and a table of bounded size, where the oldest makes
// room. A proven one becomes its rank's, once; its end before LEAVE is that rank's death, which all
// others are told. Advantage: whatever strangers do costs them a connection and the job nothing.
// Disadvantage: a rank whose link is down for longer than the time-out is dead for good.

#define _GNU_SOURCE
#include "core/root_internal.h"

#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

// ---- Connections ----

// A stranger that misbehaves is named once, by address without port, and the list is bounded.
void root_turn_away(struct root *root, const struct root_peer *peer, const char *why)
{
    char line[sizeof root->told[0]];
    const char *colon = strrchr(peer->address, ':');
    int host = colon ? (int)(colon - peer->address) : (int)strlen(peer->address);
    snprintf(line, sizeof line, "%.*s %.*s", host, peer->address, 60, why);
    for (size_t i = 0; i < root->told_count; i++)
        if (!strcmp(root->told[i], line))
            return;
    if (root->told_count == ROOT_TOLD)
        return;
    snprintf(root->told[root->told_count++], sizeof line, "%s", line);
    leat_log(root->options.log_level, LOG_WARN, 0, "root %s: turned away %s: %s%s",
             root->options.address, peer->address, why,
             root->told_count == ROOT_TOLD ? "; further ones are not named" : "");
}

// This round of events may still name the peer, so it is freed afterwards.
void root_drop(struct root *root, struct root_peer *peer)
{
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    peer->next = root->dropped;
    root->dropped = peer;
    root->stranger_count -= peer->rank < 0;
    close(peer->fd);
    peer->fd = -1;
    if (root->deaf) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        root->deaf = epoll_ctl(root->epoll, EPOLL_CTL_MOD, root->listener, &event) != 0;
    }
}

static bool send_frame(const struct root_peer *peer, const struct hello_frame *frame)
{
    return send(peer->fd, frame->byte, frame->bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)frame->bytes;
}

// Whoever does not read what little is sent is found dead by its connection later.
void root_say(struct root_peer *peer, const struct hello_event *event)
{
    struct hello_frame frame;
    hello_say(&peer->channel, event, &frame);
    if (!send_frame(peer, &frame))
        shutdown(peer->fd, SHUT_RDWR);
}

static void refuse(struct root *root, struct root_peer *peer, const char *why)
{
    struct hello_event event = {.kind = HELLO_REFUSED};
    struct hello_frame frame;
    snprintf(event.text, sizeof event.text, "%s", why);
    hello_say(&peer->channel, &event, &frame);
    send_frame(peer, &frame);
    root_turn_away(root, peer, why);
    root_drop(root, peer);
}

void root_tell_all(struct root *root, const struct hello_event *event)
{
    for (int rank = 1; rank < root->options.rank_count; rank++)
        if (root->rank[rank].peer)
            root_say(root->rank[rank].peer, event);
}

// ---- The job ----

static void tell_rank_0(struct root *root)
{
    uint64_t one = 1;
    if (write(root->told_fd, &one, sizeof one) < 0)
        leat_log(root->options.log_level, LOG_ERROR, 0, "eventfd: %s", strerror(errno));
}

static void gone(struct root *root, struct root_peer *peer, enum hello_end end, const char *text)
{
    struct hello_event event = {.kind = HELLO_GONE, .rank = (uint32_t)peer->rank, .end = end};
    snprintf(event.text, sizeof event.text, "%s", text);
    root->rank[peer->rank].peer = NULL;
    root->rank[peer->rank].ended = true;
    leat_rank_gone(root->head, peer->rank,
                   end == END_DIED     ? RANK_LOST
                   : end == END_FAILED ? RANK_FAILED
                                       : RANK_UNHARMED,
                   text);
    root_drop(root, peer);
    // The others first: rank 0 may end because of it, and so take the segment's giver away.
    root_tell_all(root, &event);
    if (!root->started && !root->broken) {
        pthread_mutex_lock(&root->lock);
        root->broken = true;
        snprintf(root->why, sizeof root->why, "rank %u %s%.300s", event.rank, hello_verb(end),
                 text);
        pthread_mutex_unlock(&root->lock);
        tell_rank_0(root);
    }
}

static void seat_of(struct root *root, struct root_peer *peer, const struct root_host *host)
{
    struct hello_event event = {.kind = HELLO_FOLLOW};
    memcpy(event.job, root->head->job, sizeof event.job);
    memcpy(event.seat, host->seat, sizeof event.seat);
    peer->seated = true;
    root_say(peer, &event);
}

static struct root_host *host_of(struct root *root, const uint8_t id[HELLO_HOST_BYTES])
{
    for (size_t i = 0; i < root->host_count; i++)
        if (!memcmp(root->host[i].id, id, HELLO_HOST_BYTES))
            return &root->host[i];
    return NULL;
}

// The first rank of a host makes its segment, the others wait until it says where.
static void give_seat(struct root *root, struct root_peer *peer)
{
    struct root_host *host = host_of(root, peer->channel.claim.host);
    if (host && host->seated) {
        seat_of(root, peer, host);
        return;
    }
    if (host)
        return;
    // There are at most as many hosts as ranks.
    host = &root->host[root->host_count++];
    *host = (struct root_host){.leader = peer->rank};
    memcpy(host->id, peer->channel.claim.host, HELLO_HOST_BYTES);
    struct hello_event event = {.kind = HELLO_LEAD};
    memcpy(event.job, root->head->job, sizeof event.job);
    peer->seated = true;
    root_say(peer, &event);
}

static void take_seat(struct root *root, struct root_peer *leader, const struct hello_event *event)
{
    struct root_host *host = host_of(root, leader->channel.claim.host);
    if (!host || host->leader != leader->rank || host->seated)
        return;
    host->seated = true;
    memcpy(host->seat, event->seat, sizeof host->seat);
    for (int rank = 1; rank < root->options.rank_count; rank++) {
        struct root_peer *peer = root->rank[rank].peer;
        if (peer && !peer->seated && host_of(root, peer->channel.claim.host) == host)
            seat_of(root, peer, host);
    }
}

void root_count_ready(struct root *root)
{
    if (++root->ready_count != root->options.rank_count || root->broken)
        return;
    // Nobody else may join, so strangers have nothing to gain by a connection any more.
    close(root->listener);
    root->listener = -1;
    root->deaf = false;
    const struct hello_event start = {.kind = HELLO_START};
    root_tell_all(root, &start);
    pthread_mutex_lock(&root->lock);
    root->started = true;
    pthread_mutex_unlock(&root->lock);
    tell_rank_0(root);
}

// Why a rank that has the key may not have its place, or "".
static void find_fault(const struct root *root, const struct hello_claim *claim, char why[200])
{
    int size = root->options.rank_count;
    *why = 0;
    if (claim->size != (uint32_t)size)
        snprintf(why, 200, "LEAT_SIZE is %u there and %d here", claim->size, size);
    else if (claim->rank < 1 || claim->rank >= (uint32_t)size)
        snprintf(why, 200, "LEAT_RANK is %u: a rank from 1 to %d was expected", claim->rank,
                 size - 1);
    else if (root->rank[claim->rank].peer)
        snprintf(why, 200, "rank %u is in the job already, from %s", claim->rank,
                 root->rank[claim->rank].peer->address);
    else if (root->rank[claim->rank].ended)
        snprintf(why, 200, "rank %u has been in the job and has ended", claim->rank);
}

// By the way that ranks of other hosts come, the others find this one.
static void note_way(struct root *root, const struct root_peer *peer)
{
    if (!memcmp(peer->channel.claim.host, root->options.host, HELLO_HOST_BYTES))
        return;
    pthread_mutex_lock(&root->lock);
    if (!*root->reached)
        root_own_address(peer->fd, root->reached);
    pthread_mutex_unlock(&root->lock);
}

// False where it was refused, and is no more.
static bool prove(struct root *root, struct root_peer *peer)
{
    char why[200];
    find_fault(root, &peer->channel.claim, why);
    if (*why) {
        refuse(root, peer, why);
        return false;
    }
    peer->rank = (int)peer->channel.claim.rank;
    note_way(root, peer);
    root->stranger_count--;
    root->rank[peer->rank].peer = peer;
    root_watch_link(peer->fd, root->options.timeout_s);
    give_seat(root, peer);
    return true;
}

// ---- Input ----

static bool challenge(struct root *root, struct root_peer *peer)
{
    uint8_t nonce[HELLO_NONCE_BYTES];
    struct hello_frame frame;
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return false;
    hello_make_challenge(&peer->channel, &root->options.key, leat_build_id(), nonce, &frame);
    return send_frame(peer, &frame);
}

// False once the peer is no more.
static bool obey(struct root *root, struct root_peer *peer, const struct hello_event *event)
{
    switch (event->kind) {
    case HELLO_HELLO:
        if (challenge(root, peer))
            return true;
        root_drop(root, peer);
        return false;
    case HELLO_PROOF:
        return prove(root, peer);
    case HELLO_SEAT:
        take_seat(root, peer, event);
        return true;
    case HELLO_READY:
        if (!root->rank[peer->rank].ready) {
            pthread_mutex_lock(&root->lock);
            root->rank[peer->rank].ready = true;
            pthread_mutex_unlock(&root->lock);
            root_count_ready(root);
        }
        return true;
    case HELLO_CARD:
        root_take_card(root, peer->rank, event->rank, event->text);
        return true;
    case HELLO_ASK:
        root_answer(root, peer, event->rank);
        return true;
    case HELLO_LEAVE:
        gone(root, peer, event->end == END_LEFT ? END_LEFT : END_FAILED, event->text);
        return false;
    default:
        return true;
    }
}

static void end_of(struct root *root, struct root_peer *peer, int error)
{
    char text[200];
    if (peer->rank < 0) {
        // A connection that says nothing (a port scan) or that was refused by its own rank.
        root_turn_away(root, peer,
                       error ? strerror(error) : "it left without proving the job's key");
        root_drop(root, peer);
        return;
    }
    if (error)
        snprintf(text, sizeof text, "was lost: the link to %s was cut: %s", peer->address,
                 strerror(error));
    else
        snprintf(text, sizeof text, "was lost: its process at %s has ended", peer->address);
    gone(root, peer, END_DIED, text);
}

void root_hear(struct root *root, struct root_peer *peer)
{
    uint8_t bytes[HELLO_FRAME_BYTES];
    ssize_t got = recv(peer->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        end_of(root, peer, got ? errno : 0);
        return;
    }
    for (size_t at = 0, used; at < (size_t)got; at += used) {
        struct hello_event event;
        int error = hello_take(&peer->channel, &root->options.key, leat_build_id(), bytes + at,
                               (size_t)got - at, &used, &event);
        if (error && peer->rank >= 0) {
            char text[200];
            snprintf(text, sizeof text, "was lost: %.180s", leat_error_detail());
            gone(root, peer, END_DIED, text);
            return;
        }
        if (error) {
            refuse(root, peer, leat_error_detail());
            return;
        }
        if (!obey(root, peer, &event))
            return;
    }
}
