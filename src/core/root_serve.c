// SPDX-License-Identifier: Apache-2.0
// The root's thread: accepting, deadlines, and what rank 0 asks of it.
//
// Advantage: rank 0 computes while others come and go. Disadvantage: a thread that wakes for every
// stranger, which a flood of connections makes busy; it takes them one at a time.

#define _GNU_SOURCE
#include "core/root_internal.h"

#include "core/descriptor.h"
#include "core/log.h"
#include "core/thread.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define EVENTS      64
#define LINGER_NS   UINT64_C(1000000000)
#define STRANGER_NS UINT64_C(5000000000) // within which a connection has to prove the key

static struct root_peer *oldest_stranger(const struct root *root)
{
    struct root_peer *oldest = NULL;
    for (struct root_peer *peer = root->peers; peer; peer = peer->next)
        if (peer->rank < 0)
            oldest = peer; // new ones come first
    return oldest;
}

static void make_room(struct root *root, const char *why)
{
    struct root_peer *oldest = oldest_stranger(root);
    if (!oldest)
        return;
    root_turn_away(root, oldest, why);
    root_drop(root, oldest);
}

static int take_in(struct root *root, int fd, const char *address)
{
    struct root_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return -ENOMEM;
    *peer = (struct root_peer){.next = root->peers,
                               .link = &root->peers,
                               .fd = fd,
                               .rank = -1,
                               .deadline_ns = leat_now_ns() + STRANGER_NS,
                               .channel = {.root = true, .expected = HELLO_HELLO}};
    snprintf(peer->address, sizeof peer->address, "%s", address);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (epoll_ctl(root->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(peer);
        return -errno;
    }
    if (root->peers)
        root->peers->link = &peer->next;
    root->peers = peer;
    root->stranger_count++;
    return 0;
}

static void no_descriptors(struct root *root)
{
    if (root->stranger_count > 0) {
        make_room(root, "no descriptor is left (ulimit -n), this was the oldest");
        return;
    }
    struct epoll_event event = {.events = 0, .data.ptr = NULL};
    if (!root->deaf)
        leat_log(root->options.log_level, LOG_ERROR, 0,
                 "root %s: no descriptor is left for another rank: %s; raise the limit on open "
                 "files (ulimit -n)",
                 root->options.address, strerror(errno));
    root->deaf = !epoll_ctl(root->epoll, EPOLL_CTL_MOD, root->listener, &event);
}

static void accept_one(struct root *root)
{
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    char address[ROOT_ADDRESS_BYTES];
    int fd = leat_descriptor_keep(
        accept4(root->listener, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            no_descriptors(root);
        return;
    }
    root_print_address((struct sockaddr *)&from, bytes, address);
    if (root->stranger_count >= ROOT_STRANGERS)
        make_room(root, "too many connections at once, this was the oldest");
    if (take_in(root, fd, address))
        close(fd);
}

static void end_late_strangers(struct root *root)
{
    uint64_t now = leat_now_ns();
    for (struct root_peer *peer = root->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->rank >= 0 || now < peer->deadline_ns)
            continue;
        root_turn_away(root, peer, "it did not prove the job's key within 5 s");
        root_drop(root, peer);
    }
}

static void free_dropped(struct root *root)
{
    while (root->dropped) {
        struct root_peer *peer = root->dropped;
        root->dropped = peer->next;
        free(peer);
    }
}

// False once rank 0 leaves.
static bool obey_rank_0(struct root *root)
{
    uint64_t count;
    if (read(root->wake_fd, &count, sizeof count) < 0)
        return true;
    pthread_mutex_lock(&root->lock);
    bool ready = root->own_ready, closing = root->closing;
    root->own_ready = false;
    pthread_mutex_unlock(&root->lock);
    if (ready)
        root_count_ready(root);
    for (int kind = 0; kind < LEAT_CARDS; kind++)
        root_answer_all(root, kind * root->options.rank_count);
    return !closing;
}

// Waits for something to happen, and sees to it. False once rank 0 leaves.
static bool go_round(struct root *root, int limit_ms)
{
    struct epoll_event events[EVENTS];
    bool going_on = true;
    int count = epoll_wait(root->epoll, events, EVENTS, limit_ms);
    for (int i = 0; i < count; i++) {
        struct root_peer *peer = events[i].data.ptr;
        if (!peer && root->listener >= 0)
            accept_one(root);
        else if (!peer)
            continue; // of this round, from before the job has begun
        else if (events[i].data.ptr == (void *)&root->wake_fd)
            going_on = obey_rank_0(root);
        else if (peer->fd >= 0)
            root_hear(root, peer);
    }
    if (root->stranger_count)
        end_late_strangers(root);
    free_dropped(root);
    return going_on;
}

// Whether others may still want to know where somebody is.
static bool has_cards(struct root *root)
{
    bool any = false;
    pthread_mutex_lock(&root->lock);
    for (int number = 0; number < LEAT_CARDS * root->options.rank_count && !any; number++)
        any = root->rank[number % root->options.rank_count]
                  .card[number / root->options.rank_count]
                  .text != NULL;
    pthread_mutex_unlock(&root->lock);
    return any;
}

static void say_farewell(struct root *root)
{
    struct hello_event event = {.kind = root->started ? HELLO_GONE : HELLO_REFUSED,
                                .rank = 0,
                                .end = *root->reason ? END_FAILED : END_LEFT};
    snprintf(event.text, sizeof event.text, "%s",
             *root->reason || root->started ? root->reason : "it has left before the job began");
    // Words that have come meanwhile are read first: closing on unread ones cuts off our own.
    for (struct root_peer *peer = root->peers, *next; peer; peer = next) {
        next = peer->next;
        root_hear(root, peer);
    }
    root_tell_all(root, &event);
    uint64_t end_ns = leat_now_ns() + LINGER_NS;
    bool stays = root->started && !*root->reason && has_cards(root);
    while (stays && root->peers && leat_now_ns() < end_ns)
        go_round(root, leat_poll_ms(end_ns));
    while (root->peers) {
        shutdown(root->peers->fd, SHUT_WR);
        root_drop(root, root->peers);
    }
    free_dropped(root);
}

static void *serve(void *argument)
{
    struct root *root = argument;
    while (go_round(root, root->stranger_count ? 250 : -1))
        ;
    say_farewell(root);
    return NULL;
}

// ---- Rank 0's calls ----

// A name of the own host often is 127.0.1.1 there, and its true address on other hosts.
static void note_address(struct root *root, const struct addrinfo *at)
{
    if (!root_is_local(at->ai_addr))
        return;
    root_print_address(at->ai_addr, at->ai_addrlen, root->local);
    if (root_has_name(root->options.address) && root->options.rank_count > 1)
        leat_log(root->options.log_level, LOG_WARN, 0,
                 "LEAT_ROOT=%s is %s on this host, which no other host reaches; use rank 0's "
                 "address in the network if ranks are on other hosts",
                 root->options.address, root->local);
}

static int listen_at(struct root *root)
{
    struct addrinfo *found;
    int error = root_resolve(root->options.address, true, &found);
    if (error)
        return error;
    for (const struct addrinfo *at = found; at && root->listener < 0; at = at->ai_next) {
        const int yes = 1;
        int fd = leat_descriptor_keep(
            socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        // A port in TIME_WAIT from the job before may be taken again.
        if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) &&
            !bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 4096)) {
            root->listener = fd;
            note_address(root, at);
        } else {
            const char *remedy = leat_descriptor_remedy(errno);
            error = leat_fail(-errno, "rank 0 cannot listen at LEAT_ROOT=%s: %s%s",
                              root->options.address, strerror(errno),
                              *remedy ? remedy
                                      : "; it has to be an address of rank 0's host with a free "
                                        "port");
            if (fd >= 0)
                close(fd);
        }
    }
    freeaddrinfo(found);
    return root->listener >= 0 ? 0 : error;
}

static int watch(struct root *root, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    return epoll_ctl(root->epoll, EPOLL_CTL_ADD, fd, &event);
}

// A connection a rank, strangers, and what the program itself has open.
static void raise_descriptor_limit(int rank_count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)rank_count + ROOT_STRANGERS + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); // where it is refused, accepting says so
}

static int prepare(struct root *root)
{
    int error = listen_at(root);
    if (error)
        return error;
    raise_descriptor_limit(root->options.rank_count);
    root->epoll = leat_descriptor_keep(epoll_create1(EPOLL_CLOEXEC));
    root->wake_fd = leat_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    root->told_fd = leat_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    size_t count = (size_t)root->options.rank_count;
    root->rank = calloc(count, sizeof *root->rank);
    root->host = calloc(count, sizeof *root->host);
    if (!root->rank || !root->host)
        return leat_fail(-ENOMEM, "no memory for a root of %zu ranks", count);
    if (root->epoll < 0 || root->wake_fd < 0 || root->told_fd < 0 ||
        watch(root, root->listener, NULL) || watch(root, root->wake_fd, &root->wake_fd))
        return leat_fail(-errno, "epoll for the root: %s%s", strerror(errno),
                         leat_descriptor_remedy(errno));
    return 0;
}

static void free_root(struct root *root)
{
    const int fds[] = {root->listener, root->epoll, root->wake_fd, root->told_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&root->lock);
    if (root->rank)
        root_cards_free(root);
    free(root->rank);
    free(root->host);
    free(root);
}

int root_open(const struct root_options *options, const struct seat *seat, struct root **opened)
{
    struct root *root = calloc(1, sizeof *root);
    if (!root)
        return leat_fail(-ENOMEM, "no memory for a root of %d ranks", options->rank_count);
    root->options = *options;
    root->head = seat->segment->head;
    root->listener = root->epoll = root->wake_fd = root->told_fd = -1;
    pthread_mutex_init(&root->lock, NULL);
    int error = prepare(root);
    if (!error) {
        root->host[root->host_count++] = (struct root_host){.leader = 0, .seated = true};
        memcpy(root->host[0].id, options->host, HELLO_HOST_BYTES);
        memcpy(root->host[0].seat, seat->name, sizeof seat->name);
        int code = leat_thread_start(&root->thread, serve, root);
        if (code)
            error = leat_fail(-code, "cannot start the root's thread: %s", strerror(code));
    }
    if (error) {
        free_root(root);
        return error;
    }
    *opened = root;
    return 0;
}

static void wake(struct root *root)
{
    uint64_t one = 1;
    if (write(root->wake_fd, &one, sizeof one) < 0)
        leat_log(root->options.log_level, LOG_ERROR, 0, "eventfd: %s", strerror(errno));
}

void root_ready(struct root *root)
{
    pthread_mutex_lock(&root->lock);
    root->own_ready = true;
    pthread_mutex_unlock(&root->lock);
    wake(root);
}

int root_told(const struct root *root)
{
    return root->told_fd;
}

int root_verdict(struct root *root)
{
    pthread_mutex_lock(&root->lock);
    int error = root->broken ? leat_fail(-ECONNRESET, "the job has not begun: %s", root->why) : 0;
    pthread_mutex_unlock(&root->lock);
    return error;
}

const char *root_local_address(const struct root *root)
{
    return *root->local ? root->local : NULL;
}

void root_missing(struct root *root, char *text, size_t bytes)
{
    char list[96] = "";
    size_t used = 0;
    int missing = 0;
    pthread_mutex_lock(&root->lock);
    for (int rank = 1; rank < root->options.rank_count; rank++)
        if (!root->rank[rank].ready && missing++ < 8 && used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", rank);
    pthread_mutex_unlock(&root->lock);
    snprintf(text, bytes, "%d of %d ranks (%s%s)", missing, root->options.rank_count, list,
             missing > 8 ? ", ..." : "");
}

void root_say_leave(struct root *root, const char *reason)
{
    pthread_mutex_lock(&root->lock);
    root->closing = true;
    snprintf(root->reason, sizeof root->reason, "%s", reason ? reason : "");
    pthread_mutex_unlock(&root->lock);
    wake(root);
}

void root_close(struct root *root)
{
    pthread_join(root->thread, NULL);
    free_root(root);
}
