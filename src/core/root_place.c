// SPDX-License-Identifier: Apache-2.0
// Where rank 0 is, where a launcher carries the word: no LEAT_ROOT has to be given then.
//
// Algorithm: rank 0 listens at a free port of all its addresses and writes those, with their
// networks, and a key of its own drawing on a card; a reader takes the first one in a network that
// it is in itself, else the first. Advantage: nothing to configure. Disadvantage: addresses of
// version 4 only, and where several networks join the hosts the first may not be the fastest.

#define _GNU_SOURCE
#include "core/root.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_BYTES 16
#define PLACES    8

struct place {
    uint32_t address, mask; // network order
};

// The host's own addresses that others may reach.
static int find_places(struct place places[PLACES])
{
    struct ifaddrs *all;
    int count = 0;
    if (getifaddrs(&all))
        return leat_fail(-errno, "the addresses of this host: %s", strerror(errno));
    for (const struct ifaddrs *one = all; one && count < PLACES; one = one->ifa_next) {
        struct sockaddr_in address, mask;
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !one->ifa_netmask ||
            !(one->ifa_flags & IFF_UP) || one->ifa_flags & IFF_LOOPBACK)
            continue;
        memcpy(&address, one->ifa_addr, sizeof address);
        memcpy(&mask, one->ifa_netmask, sizeof mask);
        places[count++] = (struct place){address.sin_addr.s_addr, mask.sin_addr.s_addr};
    }
    freeifaddrs(all);
    return count;
}

static int free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t bytes = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 || bind(fd, (struct sockaddr *)&any, bytes) ||
                        getsockname(fd, (struct sockaddr *)&any, &bytes)
                    ? leat_fail(-errno, "a free port for rank 0: %s", strerror(errno))
                    : 0;
    if (fd >= 0)
        close(fd);
    return error ? error : ntohs(any.sin_port);
}

int root_place_draw(struct root_options *options)
{
    uint8_t key[KEY_BYTES];
    int port = free_port();
    if (port < 0)
        return port;
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    snprintf(options->address, sizeof options->address, "0.0.0.0:%d", port);
    for (size_t i = 0; i < KEY_BYTES; i++)
        snprintf(options->key.text + 2 * i, 3, "%02x", key[i]);
    options->key.bytes = 2 * KEY_BYTES;
    return 0;
}

int root_place_write(const struct root_options *options, char *card, size_t bytes)
{
    struct place places[PLACES];
    int count = find_places(places);
    if (count <= 0)
        return count ? count
                     : leat_fail(-EADDRNOTAVAIL, "rank 0's host has no address (of version 4) that "
                                                 "other hosts reach; use LEAT_ROOT");
    int used = snprintf(card, bytes, "%s %.*s", strrchr(options->address, ':') + 1,
                        (int)options->key.bytes, options->key.text);
    for (int i = 0; i < count && used > 0 && (size_t)used + 20 < bytes; i++)
        used += snprintf(card + used, bytes - (size_t)used, " %08x/%08x", ntohl(places[i].address),
                         ntohl(places[i].mask));
    return 0;
}

int root_place_read(const char *card, struct root_options *options)
{
    struct place own[PLACES] = {{0, 0}};
    struct in_addr found = {0};
    char key[2 * KEY_BYTES + 1], text[INET_ADDRSTRLEN];
    unsigned port, address, mask;
    int count = find_places(own), used = 0, step;
    bool near = false;
    if (count < 0)
        return count;
    if (sscanf(card, "%u %32s%n", &port, key, &used) != 2 || strlen(key) != 2 * KEY_BYTES)
        used = (int)strlen(card);
    for (; sscanf(card + used, " %8x/%8x%n", &address, &mask, &step) == 2; used += step) {
        bool here = false;
        for (int i = 0; i < count; i++)
            here |=
                (ntohl(own[i].address) & mask) == (address & mask) && ntohl(own[i].mask) == mask;
        if (!found.s_addr || (here && !near))
            found.s_addr = htonl(address);
        near |= here;
    }
    if (!found.s_addr)
        return leat_fail(-EPROTO, "rank 0 has published \"%.60s\", which is no place of a root",
                         card);
    inet_ntop(AF_INET, &found, text, sizeof text);
    snprintf(options->address, sizeof options->address, "%s:%u", text, port);
    memcpy(options->key.text, key, 2 * KEY_BYTES);
    options->key.bytes = 2 * KEY_BYTES;
    return 0;
}
