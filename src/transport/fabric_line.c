// SPDX-License-Identifier: Apache-2.0
// Whether the network still reaches a peer that is waited for and silent.
//
// Nobody tells a rank that the link between two hosts is cut: what waits to be received is not in
// any connection's way, and what has been sent is given up by the system after a quarter of an
// hour. The peer itself cannot be asked, since it may compute for minutes without a call.
//
// Algorithm: once a peer in use has been silent for half of LEAT_TIMEOUT, a TCP connection of this
// file's own is opened to the port at which its provider listens, and stays: it carries nothing but
// the kernel's keepalives, which the peer's kernel answers whatever its process does, and also
// before that has accepted it. When they stay unanswered, or the connection is not made in several
// attempts, the peer is lost. One that the peer closes has proved the way, and is made anew after a
// while. Advantage: asks the way that data take, needs nobody's thread, and no alarm while the
// peer's host is up. Disadvantage: a descriptor for each silent peer, at both ends, so that at most
// FABRIC_LINES are watched at a time, and none by a rank that has no descriptor left; only where
// the provider speaks TCP; and a firewall that lets connections through one way only looks like a
// cut.

#include "transport/fabric_msg_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/signal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

enum {
    ATTEMPTS = 4,   // to connect: each begins with a packet that may be lost
    KEEPALIVES = 3, // least, unanswered, a second apart
    KEEPALIVES_MOST = 60
};

static uint64_t silence_ns(const struct fabric_net *net)
{
    return net->job->timeout_ns / 2;
}

static int keepalives(const struct fabric_net *net)
{
    const uint64_t seconds = silence_ns(net) / SECOND_NS;
    return seconds <= KEEPALIVES       ? KEEPALIVES
           : seconds > KEEPALIVES_MOST ? KEEPALIVES_MOST
                                       : (int)seconds - 1;
}

static void drop(struct fabric_net *net, struct fabric_line *line)
{
    if (line->fd >= 0)
        close(line->fd);
    *line = net->lines[--net->line_count];
}

void fabric_lines_close(struct fabric_net *net)
{
    while (net->line_count)
        drop(net, &net->lines[net->line_count - 1]);
}

static struct fabric_line *line_to(struct fabric_net *net, int rank)
{
    for (uint32_t i = 0; i < net->line_count; i++)
        if (net->lines[i].rank == rank)
            return &net->lines[i];
    return NULL;
}

// What the connection has come to: 0, or an errno; -1: it is closed by the other side.
static int look(const struct fabric_line *line)
{
    int error = 0;
    socklen_t length = sizeof error;
    char bytes[64];
    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &length) || error)
        return error ? error : errno;
    ssize_t got = recv(line->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0)
        return -1;
    return got > 0 || errno == EAGAIN || errno == ENOTCONN ? 0 : errno;
}

static bool is_up(const struct fabric_line *line)
{
    struct pollfd poll_it = {.fd = line->fd, .events = POLLOUT};
    return poll(&poll_it, 1, 0) == 1 && poll_it.revents & POLLOUT &&
           !(poll_it.revents & (POLLERR | POLLHUP));
}

// When the peer's host last answered, as its connection knows.
static uint64_t answered_ns(const struct fabric_line *line, uint64_t now_ns)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (!line->up || getsockopt(line->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
        return line->answered_ns;
    const uint64_t ns = now_ns - (uint64_t)info.tcpi_last_ack_recv * (SECOND_NS / 1000);
    return ns > line->answered_ns && ns < now_ns ? ns : line->answered_ns;
}

static bool is_unreachable(int error)
{
    return error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
           error == EHOSTDOWN || error == ETIMEDOUT;
}

// A new attempt. No descriptor is left if there was nothing to ask with, or it was refused.
static void connect_line(struct fabric_net *net, struct fabric_line *line, const char *card)
{
    struct sockaddr_storage address;
    socklen_t length;
    const int on = 1, idle_s = 1, interval_s = 1, count = keepalives(net);
    if (line->fd >= 0)
        close(line->fd);
    line->fd = -1;
    line->attempts++;
    line->begun_ns = leat_now_ns();
    if (fabric_card_address(card, &address, &length))
        return;
    line->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (line->fd < 0)
        return;
    setsockopt(line->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(line->fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    if (!connect(line->fd, (const struct sockaddr *)&address, length) || errno == EINPROGRESS ||
        is_unreachable(errno))
        return;
    close(line->fd);
    line->fd = -1;
}

// As "10.0.0.1 port 4242".
static void name_place(struct fabric_net *net, int rank, char *text, size_t bytes)
{
    char card[LEAT_CARD_BYTES], number[INET6_ADDRSTRLEN] = "?";
    struct sockaddr_storage address;
    socklen_t length;
    uint16_t port = 0;
    if (!leat_card_find(net->job, CARD_MESSAGES, rank, card) &&
        !fabric_card_address(card, &address, &length)) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&address;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&address;
        const bool old = address.ss_family == AF_INET;
        inet_ntop(address.ss_family, old ? (const void *)&four->sin_addr : &six->sin6_addr, number,
                  sizeof number);
        port = ntohs(old ? four->sin_port : six->sin6_port);
    }
    snprintf(text, bytes, "%s port %u", number, port);
}

static void lose(struct fabric_net *net, struct fabric_line *line, const struct fabric_peer *peer,
                 uint64_t now_ns)
{
    char why[240], where[INET6_ADDRSTRLEN + 16];
    name_place(net, peer->rank, where, sizeof where);
    snprintf(
        why, sizeof why,
        "was lost: silent for %.1f s; for the last %.1f s its host has not answered at %s: the "
        "network is cut, that host is down, or a firewall drops connections to it",
        (double)(now_ns - peer->heard_ns) * 1e-9,
        (double)(now_ns - answered_ns(line, now_ns)) * 1e-9, where);
    drop(net, line);
    fabric_peer_lose(net, peer->rank, why);
}

// The way has been proved now, or this rank cannot ask: until it is asked again.
static void put_off(struct fabric_net *net, struct fabric_line *line, struct fabric_peer *peer,
                    uint64_t now_ns)
{
    peer->proved_ns = now_ns;
    drop(net, line);
}

static void begin(struct fabric_net *net, struct fabric_peer *peer, uint64_t now_ns)
{
    char card[LEAT_CARD_BYTES];
    struct sockaddr_storage address;
    socklen_t length;
    if (net->line_count == FABRIC_LINES ||
        leat_card_find(net->job, CARD_MESSAGES, peer->rank, card))
        return;
    peer->proved_ns = now_ns; // should there be no way to ask, not at every look
    if (fabric_card_address(card, &address, &length))
        return;
    struct fabric_line *line = &net->lines[net->line_count++];
    *line = (struct fabric_line){
        .rank = peer->rank, .fd = -1, .first_ns = now_ns, .answered_ns = now_ns};
    connect_line(net, line, card);
}

static void go_on(struct fabric_net *net, struct fabric_line *line, struct fabric_peer *peer,
                  uint64_t now_ns)
{
    char card[LEAT_CARD_BYTES];
    const uint64_t patience_ns = (uint64_t)keepalives(net) * SECOND_NS / ATTEMPTS;
    int error = line->fd < 0 ? -1 : look(line);
    if (error == -1 || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) {
        put_off(net, line, peer, now_ns);
    } else if (line->up) {
        if (error)
            lose(net, line, peer, now_ns);
    } else if (!error && is_up(line)) {
        line->up = true;
        line->answered_ns = now_ns;
    } else if (now_ns - line->begun_ns > patience_ns) {
        if (line->attempts >= ATTEMPTS)
            lose(net, line, peer, now_ns);
        else if (!leat_card_find(net->job, CARD_MESSAGES, peer->rank, card))
            connect_line(net, line, card);
    }
}

void fabric_line_watch(struct fabric_net *net, int rank)
{
    struct fabric_peer *peer;
    if (rank == net->net.rank || !leat_rank_away(net->job, rank) ||
        fabric_peer_find(net, rank, &peer) || peer->state == FABRIC_PEER_LOST || peer->bye)
        return;
    const uint64_t now_ns = leat_now_ns();
    if (!peer->heard_ns)
        peer->heard_ns = now_ns;
    struct fabric_line *line = line_to(net, rank);
    const uint64_t last_ns = peer->heard_ns > peer->proved_ns ? peer->heard_ns : peer->proved_ns;
    if (line && peer->heard_ns > line->first_ns)
        drop(net, line);
    else if (line)
        go_on(net, line, peer, now_ns);
    else if (now_ns - last_ns > silence_ns(net))
        begin(net, peer, now_ns);
}

#endif
