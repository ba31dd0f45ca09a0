// SPDX-License-Identifier: Apache-2.0
// A rank's connection to the root.
//
// Algorithm: connect, again and again until the root listens; prove the key; hear where the host's
// segment is, or make it; say that this rank is in; wait for all. Afterwards nobody waits for this
// connection: whoever waits for a peer looks at it now and then, without waiting, for news of ranks
// elsewhere. Advantage: no thread in the ranks. Disadvantage: a rank that never waits for a peer
// hears nothing.

#define _GNU_SOURCE
#include "core/root.h"

#include "core/descriptor.h"
#include "core/log.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define RETRY_MS      5 // between two tries to connect, at first
#define RETRY_MOST_MS 100
#define SHARE_MOST_NS UINT64_C(3000000000) // of one address of several: a SYN is sent twice in it
#define WHY_NS        UINT64_C(1000000000) // for what the root has to say to a failure

// A question, and its answer once that is there.
struct link_card {
    struct link_card *next;
    int number; // core/card.h
    bool there;
    char text[LEAT_CARD_BYTES];
};

struct root_link {
    int fd;
    bool lost;
    bool left; /* rank 0 has, in order; its root may answer for a while */
    int rank;
    pthread_mutex_t lock; // of those who look
    struct hello_channel channel;
    struct hello_key key;
    char address[256]; // as given
    uint8_t bytes[HELLO_FRAME_BYTES];
    size_t have, at;
    struct link_card *cards; /* asked for and not taken yet; under the lock */
};

// ---- Frames ----

static int send_frame(struct root_link *link, const struct hello_frame *frame)
{
    // Frames are small and few, so the socket's buffer has room for them.
    ssize_t sent = send(link->fd, frame->byte, frame->bytes, MSG_NOSIGNAL);
    if (sent == (ssize_t)frame->bytes)
        return 0;
    return leat_fail(-ECONNRESET, "cannot write to the root (rank 0) at %s: %s", link->address,
                     sent < 0 ? strerror(errno) : "too slow");
}

static int say(struct root_link *link, const struct hello_event *event)
{
    struct hello_frame frame;
    hello_say(&link->channel, event, &frame);
    return send_frame(link, &frame);
}

// 0 with HELLO_NONE: nothing has come; it waits for no byte.
static int next_event(struct root_link *link, struct hello_event *event)
{
    for (;;) {
        size_t used;
        int error = hello_take(&link->channel, &link->key, leat_build_id(), link->bytes + link->at,
                               link->have - link->at, &used, event);
        link->at += used;
        if (error || event->kind != HELLO_NONE)
            return error;
        ssize_t got = recv(link->fd, link->bytes, sizeof link->bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (got <= 0)
            return leat_fail(-ECONNRESET, "the link to the root (rank 0) at %s %s%s", link->address,
                             got ? "was cut: " : "was closed", got ? strerror(errno) : "");
        link->at = 0;
        link->have = (size_t)got;
    }
}

// The next frame, which has to be of a kind; REFUSED and GONE end the start.
static int await_event(struct root_link *link, uint64_t deadline_ns, struct hello_event *event)
{
    for (;;) {
        int error = next_event(link, event);
        if (error)
            return error;
        if (event->kind == HELLO_REFUSED)
            return leat_fail(-ECONNREFUSED, "the root (rank 0) at %s says: %s", link->address,
                             event->text);
        if (event->kind == HELLO_GONE)
            return leat_fail(-ECONNRESET, "the job has not begun: rank %u %s%s", event->rank,
                             hello_verb(event->end), event->text);
        if (event->kind != HELLO_NONE)
            return 0;
        struct pollfd poller = {.fd = link->fd, .events = POLLIN};
        if (poll(&poller, 1, leat_poll_ms(deadline_ns)) == 0)
            return leat_fail(-ETIMEDOUT, "the root (rank 0) at %s does not answer", link->address);
    }
}

// ---- Joining ----

static int wait_writable(int fd, uint64_t deadline_ns)
{
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t bytes = sizeof error;
    int ready = poll(&poller, 1, leat_poll_ms(deadline_ns));
    if (ready <= 0)
        return ready ? -errno : -ETIMEDOUT;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    return -error;
}

// Where nobody listens, a port of the range that the kernel draws a connection's own from may be
// drawn for it: the socket is then connected to itself, and keeps the root from listening there.
static bool is_own_echo(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return !getsockname(fd, (struct sockaddr *)&here, &here_bytes) &&
           !getpeername(fd, (struct sockaddr *)&there, &there_bytes) && here_bytes == there_bytes &&
           !memcmp(&here, &there, here_bytes);
}

static int connect_to(struct root_link *link, const struct addrinfo *at, uint64_t deadline_ns)
{
    link->fd =
        leat_descriptor_keep(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (link->fd < 0)
        return -errno;
    // The root may be on this host, and listen at the very port that this end is given.
    const int yes = 1;
    setsockopt(link->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    int error = connect(link->fd, at->ai_addr, at->ai_addrlen) ? -errno : 0;
    if (error == -EINPROGRESS)
        error = wait_writable(link->fd, deadline_ns);
    if (!error && is_own_echo(link->fd)) {
        // Without TIME_WAIT, which would keep the port.
        const struct linger at_once = {.l_onoff = 1};
        setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        error = -ECONNREFUSED;
    }
    if (error) {
        close(link->fd);
        link->fd = -1;
    }
    return error;
}

// Something that does not answer gets its share of the time; the root may need all of it to say
// where the segment is.
static int shake_hands(struct root_link *link, const struct hello_claim *claim, uint64_t share_ns,
                       uint64_t deadline_ns, struct hello_event *event)
{
    uint8_t nonce[HELLO_NONCE_BYTES];
    struct hello_frame frame;
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    hello_make(&link->channel, claim, nonce, &frame);
    link->at = link->have = 0;
    int error = send_frame(link, &frame);
    if (!error)
        error = await_event(link, share_ns, event);
    if (error)
        return error;
    hello_make_proof(&link->channel, &link->key, &frame);
    error = send_frame(link, &frame);
    return error ? error : await_event(link, deadline_ns, event);
}

// Not there yet, or so beset by strangers that it has dropped this rank among them.
static bool worth_another_try(int error)
{
    return error == -ECONNREFUSED || error == -ECONNRESET || error == -ETIMEDOUT ||
           error == -EHOSTUNREACH || error == -ENETUNREACH || error == -EPIPE;
}

// Until when one of the addresses is tried: a silent one must not take the time of the others,
// which may be tried again, too, since the root may not listen yet.
static uint64_t share_of(const struct addrinfo *found, uint64_t deadline_ns)
{
    uint64_t now_ns = leat_now_ns(), count = 1;
    if (!found->ai_next || now_ns >= deadline_ns)
        return deadline_ns;
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        count++;
    uint64_t share_ns = (deadline_ns - now_ns) / count;
    return now_ns + (share_ns < SHARE_MOST_NS ? share_ns : SHARE_MOST_NS);
}

// One address; true where the others need not be asked.
static bool try_address(struct root_link *link, const struct hello_claim *claim,
                        const struct addrinfo *at, uint64_t share_ns, uint64_t deadline_ns,
                        struct hello_event *event, int *error)
{
    *error = connect_to(link, at, share_ns);
    if (*error) {
        const char *remedy = leat_descriptor_remedy(-*error);
        leat_fail(*error, "cannot reach the root (rank 0) at %s: %s%s", link->address,
                  strerror(-*error),
                  *remedy ? remedy
                          : "; is rank 0 started? It does not listen any more once "
                            "the job has begun");
        return *remedy != 0;
    }
    root_watch_link(link->fd, 30);
    *event = (struct hello_event){.kind = HELLO_NONE};
    *error = shake_hands(link, claim, share_ns, deadline_ns, event);
    if (*error)
        close(link->fd);
    // What the root has said is the reason, and no other address knows better.
    return event->kind == HELLO_REFUSED || !worth_another_try(*error);
}

static int meet_root(struct root_link *link, const struct hello_claim *claim,
                     const struct addrinfo *found, uint64_t deadline_ns, struct hello_event *event)
{
    for (int pause_ms = RETRY_MS;;
         pause_ms = pause_ms * 2 < RETRY_MOST_MS ? pause_ms * 2 : RETRY_MOST_MS) {
        int error = -EHOSTUNREACH;
        bool decided = false;
        for (const struct addrinfo *at = found; at && !decided; at = at->ai_next)
            decided = try_address(link, claim, at, share_of(found, deadline_ns), deadline_ns, event,
                                  &error);
        if (!error || event->kind == HELLO_REFUSED)
            return error;
        if (!worth_another_try(error) || leat_now_ns() >= deadline_ns)
            return leat_fail_in(error, "LEAT_ROOT=%s", link->address);
        int left_ms = leat_poll_ms(deadline_ns);
        poll(NULL, 0, pause_ms < left_ms ? pause_ms : left_ms);
    }
}

// The giver of the segment is not there: the root knows why, if somebody's death ended the start.
static int say_why(struct root_link *link, int error)
{
    struct hello_event event;
    char text[LEAT_DETAIL_BYTES];
    snprintf(text, sizeof text, "%s", leat_error_detail());
    int told = await_event(link, leat_now_ns() + WHY_NS, &event);
    return told && told != -ETIMEDOUT ? told : leat_fail(error, "%s", text);
}

static int find_seat(struct root_link *link, const struct root_options *options,
                     const struct config *config, const struct hello_event *event,
                     uint64_t deadline_ns, struct seat *seat)
{
    if (event->kind == HELLO_FOLLOW) {
        *seat = (struct seat){.listener = -1};
        int error = leat_seat_take(event->seat, event->job, options->rank_count, deadline_ns,
                                   &seat->segment);
        return error ? say_why(link, error) : 0;
    }
    if (event->kind != HELLO_LEAD)
        return leat_fail(-EPROTO, "the root (rank 0) at %s sent a frame of kind %d too early",
                         link->address, event->kind);
    int error = leat_seat_make(config, options->rank_count, event->job, seat);
    if (error)
        return error;
    struct hello_event answer = {.kind = HELLO_SEAT};
    memcpy(answer.seat, seat->name, sizeof answer.seat);
    error = say(link, &answer);
    if (error) {
        leat_seat_close(seat);
        leat_segment_release(seat->segment);
    }
    return error;
}

static void free_link(struct root_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    while (link->cards) {
        struct link_card *card = link->cards;
        link->cards = card->next;
        free(card);
    }
    pthread_mutex_destroy(&link->lock);
    free(link);
}

int root_join(const struct root_options *options, const struct config *config, uint64_t deadline_ns,
              struct seat *seat, struct root_link **joined)
{
    struct addrinfo *found;
    struct hello_event event = {0};
    struct hello_claim claim = {.rank = (uint32_t)options->rank,
                                .size = (uint32_t)options->rank_count};
    snprintf(claim.build, sizeof claim.build, "%s", leat_build_id());
    memcpy(claim.host, options->host, sizeof claim.host);
    int error = root_resolve(options->address, false, &found);
    if (error)
        return error;
    struct root_link *link = calloc(1, sizeof *link);
    if (!link) {
        freeaddrinfo(found);
        return leat_fail(-ENOMEM, "no memory for the link to the root");
    }
    pthread_mutex_init(&link->lock, NULL);
    link->fd = -1;
    link->rank = options->rank;
    link->key = options->key;
    snprintf(link->address, sizeof link->address, "%s", options->address);
    error = meet_root(link, &claim, found, deadline_ns, &event);
    freeaddrinfo(found);
    if (error) {
        link->fd = -1;
    } else {
        root_watch_link(link->fd, options->timeout_s);
        error = find_seat(link, options, config, &event, deadline_ns, seat);
    }
    if (error) {
        free_link(link);
        return error;
    }
    leat_log(options->log_level, LOG_INFO, options->rank,
             "joined the job of %d ranks at LEAT_ROOT=%s; waiting for the others",
             options->rank_count, link->address);
    *joined = link;
    return 0;
}

int root_arrive(struct root_link *link, struct seat *seat, uint64_t deadline_ns)
{
    struct hello_event event = {.kind = HELLO_READY};
    int error = say(link, &event);
    if (!error && seat->listener >= 0)
        error = leat_seat_serve(seat, link->fd, deadline_ns);
    if (!error)
        error = await_event(link, deadline_ns, &event);
    leat_seat_close(seat);
    if (error == -ETIMEDOUT) {
        char missing[160];
        leat_absent_ranks(seat->segment->head, false, missing, sizeof missing);
        return leat_fail(error,
                         "the job at LEAT_ROOT=%s is not complete: %s have not come to this host; "
                         "rank 0 says who is missing everywhere",
                         link->address, missing);
    }
    return error;
}

// ---- Afterwards ----

static void lose(struct root_link *link, struct segment_head *head)
{
    char text[320];
    link->lost = true;
    // In order: then nobody is lost, though nobody is watched any more either.
    if (link->left)
        return;
    snprintf(text, sizeof text, "was lost: %.300s", leat_error_detail());
    leat_rank_gone(head, 0, RANK_LOST, text);
    // Nobody tells us about the others any more.
    for (uint32_t rank = 1; rank < head->rank_count; rank++)
        leat_rank_gone(head, (int)rank, RANK_LOST, text);
}

static void keep_card(struct root_link *link, const struct hello_event *event)
{
    for (struct link_card *card = link->cards; card; card = card->next)
        if ((uint32_t)card->number == event->rank) {
            snprintf(card->text, sizeof card->text, "%.*s", LEAT_CARD_BYTES - 1, event->text);
            card->there = true;
        }
}

static void hear(struct root_link *link, struct segment_head *head, const struct hello_event *event)
{
    if (event->kind == HELLO_CARD)
        keep_card(link, event);
    if (event->kind != HELLO_GONE || event->rank >= head->rank_count)
        return;
    link->left |= event->rank == 0 && event->end != END_DIED;
    leat_rank_gone(head, (int)event->rank,
                   event->end == END_DIED     ? RANK_LOST
                   : event->end == END_FAILED ? RANK_FAILED
                                              : RANK_UNHARMED,
                   event->text);
}

static void hear_all(struct root_link *link, struct segment_head *head)
{
    while (!link->lost) {
        struct hello_event event;
        if (next_event(link, &event))
            lose(link, head);
        else if (event.kind == HELLO_NONE)
            break;
        else
            hear(link, head, &event);
    }
}

void root_look(struct root_link *link, struct segment_head *head)
{
    if (pthread_mutex_trylock(&link->lock))
        return; // somebody is looking
    hear_all(link, head);
    pthread_mutex_unlock(&link->lock);
}

int root_link_publish(struct root_link *link, int number, const char *card)
{
    struct hello_event event = {.kind = HELLO_CARD, .rank = (uint32_t)number};
    snprintf(event.text, sizeof event.text, "%s", card);
    pthread_mutex_lock(&link->lock);
    int error = link->lost ? leat_fail(-EHOSTUNREACH, "the root (rank 0) has left, so nobody can "
                                                      "be told where this rank is")
                           : say(link, &event);
    pthread_mutex_unlock(&link->lock);
    return error;
}

static int ask(struct root_link *link, int number)
{
    struct hello_event event = {.kind = HELLO_ASK, .rank = (uint32_t)number};
    struct link_card *card = calloc(1, sizeof *card);
    if (!card)
        return leat_fail(-ENOMEM, "no memory to ask where a rank is");
    *card = (struct link_card){.next = link->cards, .number = number};
    link->cards = card;
    int error = say(link, &event);
    return error ? error : -EAGAIN;
}

static int find_card(struct root_link *link, int number, char card[LEAT_CARD_BYTES])
{
    struct link_card **at = &link->cards;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    struct link_card *found = *at;
    if (found && found->there) {
        memcpy(card, found->text, LEAT_CARD_BYTES);
        *at = found->next;
        free(found);
        return 0;
    }
    if (link->lost)
        return leat_fail(-EHOSTUNREACH,
                         "the root (rank 0) has left before it said where the rank is");
    return found ? -EAGAIN : ask(link, number);
}

int root_link_find(struct root_link *link, struct segment_head *head, int number,
                   char card[LEAT_CARD_BYTES])
{
    pthread_mutex_lock(&link->lock);
    hear_all(link, head);
    int error = find_card(link, number, card);
    pthread_mutex_unlock(&link->lock);
    return error;
}

void root_link_address(const struct root_link *link, char address[64])
{
    root_own_address(link->fd, address);
}

void root_leave(struct root_link *link, const char *reason)
{
    struct hello_event event = {.kind = HELLO_LEAVE, .end = reason ? END_FAILED : END_LEFT};
    snprintf(event.text, sizeof event.text, "%s", reason ? reason : "");
    // What has come and was not read would turn the good-bye into a reset.
    uint8_t rest[1024];
    while (recv(link->fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    if (!link->lost && !say(link, &event))
        shutdown(link->fd, SHUT_WR);
    free_link(link);
}
