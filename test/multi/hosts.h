/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts as network namespaces, each joined to one router, through which all they say passes.
 *
 * Host i is 10.78.i.2. The router drops packets at random, limits the rate, cuts a link, or hands
 * every connection to a relay that delays its bytes. Advantage: one place does to any two hosts
 * what networks do. Disadvantage: needs root and the commands ip, nft and tc; else tests are
 * skipped.
 */
#ifndef LEAT_TEST_MULTI_HOSTS_H
#define LEAT_TEST_MULTI_HOSTS_H

#include "multi/namespace.h"
#include "support/splitmix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOSTS      4
#define ROUTER     HOSTS
#define RELAY_PORT 9999
#define RELAY_SIZE 65536

static int host_network[HOSTS + 1]; // descriptors of the namespaces
static pid_t host_holder[HOSTS + 1];
static bool hosts_are_there;

/* ---- Namespaces ---- */

// A host's namespace; false where it is not permitted.
static bool host_hold(int host)
{
    char path[64];
    pid_t pid = hold_network();
    if (pid < 0)
        return false;
    host_holder[host] = pid;
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    host_network[host] = open(path, O_RDONLY | O_CLOEXEC);
    return host_network[host] >= 0;
}

// Runs a command in a namespace; its exit status.
static int host_run(int host, const char *command)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setns(host_network[host], CLONE_NEWNET))
            _exit(126);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static bool host_join(int host)
{
    char command[700];
    snprintf(command, sizeof command,
             "exec 2>/dev/null; ip link add h%d type veth peer name eth netns %d && "
             "ip addr add 10.78.%d.1/24 dev h%d && ip link set h%d up",
             host, (int)host_holder[host], host, host, host);
    if (host_run(ROUTER, command))
        return false;
    snprintf(command, sizeof command,
             "exec 2>/dev/null; ip addr add 10.78.%d.2/24 dev eth && ip link set eth up && "
             "ip link set lo up && ip route add default via 10.78.%d.1",
             host, host);
    return host_run(host, command) == 0;
}

static int hosts_open(void **state)
{
    (void)state;
    bool good = true;
    for (int host = 0; host <= HOSTS && good; host++)
        good = host_hold(host);
    good = good && host_run(ROUTER, "(ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward "
                                    "&& nft list tables && tc qdisc) >/dev/null 2>&1") == 0;
    for (int host = 0; host < HOSTS && good; host++)
        good = host_join(host);
    hosts_are_there = good;
    return 0;
}

static int hosts_close(void **state)
{
    (void)state;
    for (int host = 0; host <= HOSTS; host++)
        if (host_holder[host] > 0) {
            kill(host_holder[host], SIGKILL);
            waitpid(host_holder[host], NULL, 0);
        }
    return 0;
}

static void need_hosts(void)
{
    if (hosts_are_there)
        return;
    print_message("network namespaces cannot be made here, or there is no command ip, nft or tc\n");
    skip();
}

/* ---- What the router does ---- */

#define ROUTER_CHAIN                                                                               \
    "nft add table ip leat && nft 'add chain ip leat forward "                                     \
    "{ type filter hook forward priority 0; }' && "

static void router_does(const char *command)
{
    if (host_run(ROUTER, command))
        fail_msg("the router cannot do: %s", command);
}

// Of every hundred packets so many are lost.
static void router_drops(int percent)
{
    char command[300];
    snprintf(command, sizeof command,
             ROUTER_CHAIN "nft 'add rule ip leat forward numgen random mod 100 < %d counter drop'",
             percent);
    router_does(command);
}

static bool router_has_dropped(void)
{
    return host_run(ROUTER, "nft list ruleset | grep -q 'counter packets [1-9]'") == 0;
}

static void router_limits(const char *rate)
{
    char command[300];
    for (int host = 0; host < HOSTS; host++) {
        snprintf(command, sizeof command,
                 "tc qdisc add dev h%d root tbf rate %s burst 32k latency 50ms", host, rate);
        router_does(command);
    }
}

static bool router_has_limited(void)
{
    return host_run(ROUTER, "tc -s qdisc show dev h1 | grep -q 'overlimits [1-9]'") == 0;
}

// Nothing passes between two hosts any more.
static void router_cuts(int one, int other)
{
    char command[500];
    snprintf(command, sizeof command,
             ROUTER_CHAIN "nft add rule ip leat forward ip saddr 10.78.%d.2 ip daddr 10.78.%d.2 "
                          "counter drop && nft add rule ip leat forward ip saddr 10.78.%d.2 ip "
                          "daddr 10.78.%d.2 counter drop",
             one, other, other, one);
    router_does(command);
}

static void router_is_good_again(void)
{
    char command[100];
    router_does("nft flush ruleset");
    for (int host = 0; host < HOSTS; host++) {
        snprintf(command, sizeof command, "tc qdisc del dev h%d root 2>/dev/null; true", host);
        router_does(command);
    }
}

/* ---- A relay ---- */

// One way of a connection: pieces of any size, each after a delay of up to 2 ms. The first is
// whole: libfabric 1.17 takes a request for a connection that comes in two pieces for none, and
// waits.
static _Noreturn void relay_one_way(int from, int to, uint64_t seed)
{
    static char buffer[RELAY_SIZE];
    for (bool first = true;; first = false) {
        uint64_t word = splitmix_next(&seed);
        ssize_t got = read(from, buffer, first || word % 4 ? RELAY_SIZE : 1 + word % 97);
        if (got <= 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = (long)(splitmix_next(&seed) % 2000000)}, NULL);
        if (send(to, buffer, (size_t)got, MSG_NOSIGNAL) != got)
            break;
    }
    shutdown(to, SHUT_WR);
    shutdown(from, SHUT_RD);
    _exit(0);
}

// Goes on as from the host that it came from, by the mark of its packets.
static void relay_connection(int fd, uint64_t seed)
{
    enum { ORIGINAL_DESTINATION = 80 };
    struct sockaddr_in from, to;
    socklen_t bytes = sizeof to;
    int far = socket(AF_INET, SOCK_STREAM, 0);
    if (getpeername(fd, (struct sockaddr *)&from, &bytes))
        _exit(1);
    int mark = 1 + (int)(ntohl(from.sin_addr.s_addr) >> 8 & 255);
    if (getsockopt(fd, IPPROTO_IP, ORIGINAL_DESTINATION, &to, &bytes) ||
        setsockopt(far, SOL_SOCKET, SO_MARK, &mark, sizeof mark) ||
        connect(far, (struct sockaddr *)&to, sizeof to))
        _exit(1);
    if (fork() == 0)
        relay_one_way(fd, far, 2 * seed);
    relay_one_way(far, fd, 2 * seed + 1);
}

static _Noreturn void relay(int ready)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(RELAY_PORT)};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    if (setpgid(0, 0) || setns(host_network[ROUTER], CLONE_NEWNET))
        _exit(1);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (const struct sockaddr *)&any, sizeof any) || listen(listener, 64) ||
        write(ready, "r", 1) != 1)
        _exit(1);
    for (uint64_t count = 1;; count++) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0)
            relay_connection(fd, count);
        close(fd);
    }
}

// All connections between hosts go through it; its process.
static pid_t router_delays(void)
{
    int ready[2];
    char byte;
    router_does("nft add table ip leat && nft 'add chain ip leat to { type nat hook prerouting "
                "priority -100; }' && nft add rule ip leat to ip daddr 10.78.0.0/16 tcp dport "
                "1-65535 counter redirect to :9999 && nft 'add chain ip leat from { type nat hook "
                "postrouting priority 100; }'");
    for (int host = 0; host < HOSTS; host++) {
        char command[200];
        snprintf(command, sizeof command,
                 "nft add rule ip leat from meta mark %d snat to 10.78.%d.2", host + 1, host);
        router_does(command);
    }
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        relay(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void router_delays_no_more(pid_t pid)
{
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    router_is_good_again();
}

#endif
