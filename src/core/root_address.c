// SPDX-License-Identifier: Apache-2.0
// Addresses of the root, and how long a silent link counts as alive.
//
// Advantage: the kernel keeps probing a link while the program computes, so no heartbeat of our own
// is needed. Disadvantage: its probes are whole seconds apart, so a time-out below three seconds
// is met late.

#define _GNU_SOURCE
#include "core/root.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

static int split(const char *address, char host[256], char port[8])
{
    const char *colon = strrchr(address, ':');
    const char *begin = address, *end = colon;
    if (colon && *address == '[' && colon > address && colon[-1] == ']') {
        begin++;
        end--;
    }
    bool good = colon && end > begin && end - begin < 256 && colon[1] && strlen(colon + 1) < 8 &&
                !colon[1 + strspn(colon + 1, "0123456789")];
    if (!good)
        return leat_fail(-EINVAL,
                         "LEAT_ROOT is \"%s\"; expected HOST:PORT of rank 0, as in node1:7000 or "
                         "[fe80::1]:7000",
                         address);
    snprintf(host, 256, "%.*s", (int)(end - begin), begin);
    snprintf(port, 8, "%s", colon + 1);
    return 0;
}

int root_resolve(const char *address, bool to_listen, struct addrinfo **found)
{
    char host[256], port[8];
    int error = split(address, host, port);
    if (error)
        return error;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0)};
    int code = getaddrinfo(host, port, &hints, found);
    if (code)
        return leat_fail(-EHOSTUNREACH, "LEAT_ROOT is \"%s\": %s", address,
                         code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    unsigned number = 0;
    if (sscanf(port, "%u", &number) != 1 || number < 1 || number > 65535) {
        freeaddrinfo(*found);
        return leat_fail(-EINVAL, "LEAT_ROOT is \"%s\": a port from 1 to 65535 was expected",
                         address);
    }
    return 0;
}

bool root_is_local(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in plain;
        memcpy(&plain, address, sizeof plain);
        return ntohl(plain.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    struct sockaddr_in6 wide;
    memcpy(&wide, address, sizeof wide);
    return IN6_IS_ADDR_LOOPBACK(&wide.sin6_addr);
}

bool root_has_name(const char *address)
{
    char host[256], port[8];
    struct in6_addr number;
    return !split(address, host, port) && inet_pton(AF_INET, host, &number) != 1 &&
           inet_pton(AF_INET6, host, &number) != 1 && !strstr(host, "localhost") &&
           !strstr(host, "loopback");
}

void root_print_address(const struct sockaddr *address, socklen_t bytes,
                        char text[ROOT_ADDRESS_BYTES])
{
    char host[64], port[8];
    if (getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, ROOT_ADDRESS_BYTES, "an unknown address");
    else
        snprintf(text, ROOT_ADDRESS_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static void set(int fd, int level, int option, int value)
{
    // A kernel without one of them notices later, by what it has.
    setsockopt(fd, level, option, &value, sizeof value);
}

void root_watch_link(int fd, double timeout_s)
{
    double third = timeout_s / 3 < 60 ? timeout_s / 3 : 60;
    int probe_s = third > 1 ? (int)third : 1;
    double most_ms = timeout_s * 900 < 180000 ? timeout_s * 900 : 180000;
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s > 1 ? probe_s / 2 : 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, most_ms > 500 ? (int)most_ms : 500);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}
