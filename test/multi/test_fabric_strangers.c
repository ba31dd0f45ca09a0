// SPDX-License-Identifier: Apache-2.0
// Who finds a rank's end in the network without being of its job: neither heard nor able to stop
// it.
//
// Strangers come by bare sockets, with bytes that libfabric itself has to survive, and by libfabric
// with messages that prove nobody. Ranks talk meanwhile and after. Advantage: the real provider is
// attacked. Disadvantage: what a provider does with bytes of no peer is its own affair; here is
// seen whether the job outlives it.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/root_job.h"
#include "transport/fabric.h"
#include "transport/fabric_wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, CROWD = 100, PORTS = 8 };

static struct started ranks[RANKS];
static int ports[PORTS], port_count; // of rank 0, of libfabric

static void need_fabric(void)
{
    if (!fabric_absent())
        return;
    print_message("%s\n", fabric_absent());
    skip();
}

// ---- Where rank 0 listens ----

static bool is_of(pid_t pid, unsigned long inode)
{
    char path[80], target[64], wanted[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", (int)pid, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        found = length > 0 && (size_t)length == strlen(wanted) &&
                !memcmp(target, wanted, (size_t)length);
    }
    if (folder)
        closedir(folder);
    return found;
}

static void find_ports(pid_t pid, int root_port)
{
    char line[300];
    FILE *file = fopen("/proc/net/tcp", "r");
    assert_non_null(file);
    port_count = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x %*s %*s %*s %*u %*u %lu", &port, &state,
                   &inode) == 3 &&
            state == 10 && (int)port != root_port && port_count < PORTS && is_of(pid, inode))
            ports[port_count++] = (int)port;
    }
    fclose(file);
}

static void start(void)
{
    int port = root_free_port();
    for (int rank = 0; rank < RANKS; rank++)
        root_start(&ranks[rank], &(struct root_rank_options){.port = port,
                                                             .paths = "require:fabric",
                                                             .rank = rank,
                                                             .size = RANKS,
                                                             .role = "persist"});
    for (int rank = 0; rank < RANKS; rank++)
        root_await(&ranks[rank], "open ");
    find_ports(ranks[0].pid, port);
}

static void finish(void)
{
    kill(ranks[0].pid, SIGUSR1);
    for (int rank = 0; rank < RANKS; rank++) {
        int status = root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "talk 0: all right");
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

// ---- By bare sockets ----

static int call(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void test_garbage_and_crowds_do_not_stop_a_job(void **state)
{
    static uint8_t bytes[8192];
    static const size_t counts[] = {1, 8, 64, 100, sizeof bytes};
    int crowd[CROWD], called = 0;
    (void)state;
    need_fabric();
    start();
    if (!port_count) { // a provider without sockets
        finish();
        skip();
    }
    for (int i = 0; i < CROWD; i++)
        crowd[i] = call(ports[i % port_count]);
    for (size_t fill = 0; fill < 3; fill++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            memset(bytes, fill == 0 ? 0 : fill == 1 ? 0xff : 'a', sizeof bytes);
            int fd = call(ports[i % (size_t)port_count]);
            called += fd >= 0;
            if (fd < 0 || send(fd, bytes, counts[i], MSG_NOSIGNAL) < 0)
                continue;
            close(fd);
        }
    assert_true(called > 0);
    for (int i = 0; i < CROWD; i++)
        if (crowd[i] >= 0)
            close(crowd[i]);
    finish();
}

// ---- By libfabric ----

#ifdef LEAT_HAVE_FABRIC
static void look(struct fabric *fabric)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    if (fi_cq_read(fabric->completions, &entry, 1) == -FI_EAVAIL)
        fi_cq_readerr(fabric->completions, &error, 0);
}

// Until the provider has taken it, or for so many looks.
static bool say(struct fabric *fabric, fi_addr_t to, const void *bytes, size_t count)
{
    static struct fi_context2 context;
    for (int i = 0; i < 20000; i++) {
        if (!fi_send(fabric->endpoint, bytes, count, NULL, to, &context)) {
            for (int n = 0; n < 2000; n++)
                look(fabric);
            return true;
        }
        look(fabric);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    return false;
}

static bool meet(struct fabric *fabric, int port, fi_addr_t *to)
{
    char card[256];
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    uint8_t bytes[sizeof name];
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(bytes, &name, sizeof name);
    int used = snprintf(card, sizeof card, "leat-fabric %s ", fabric->info->fabric_attr->prov_name);
    for (size_t i = 0; i < sizeof bytes; i++)
        used += snprintf(card + used, sizeof card - (size_t)used, "%02x", bytes[i]);
    return !fabric_meet(fabric, card, to);
}

static void test_messages_that_prove_nobody_are_thrown_away(void **state)
{
    static uint8_t message[2 * FABRIC_MESSAGE_BYTES];
    struct fabric fabric;
    int said = 0;
    (void)state;
    need_fabric();
    start();
    assert_int_equal(fabric_open("auto", "127.0.0.1", 64, FABRIC_SLEEPS, &fabric), 0);
    for (int i = 0; i < port_count; i++) {
        struct fabric_header header = {.rank = 1, .kind = FABRIC_BYE, .pieces = 1};
        fi_addr_t to;
        if (!meet(&fabric, ports[i], &to))
            continue;
        memset(message, 0x5a, sizeof message);
        memset(header.cookie, 7, sizeof header.cookie); // as of another job
        said += say(&fabric, to, message, 5);
        said += say(&fabric, to, message, FABRIC_MESSAGE_BYTES);
        said += say(&fabric, to, message, fabric_pack(message, &header));
        said += say(&fabric, to, message, sizeof message); // longer than any
    }
    fabric_close(&fabric);
    finish();
    if (!said)
        skip();
    root_expect(&ranks[0], "thrown away");
}
#endif

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_and_crowds_do_not_stop_a_job),
#ifdef LEAT_HAVE_FABRIC
        cmocka_unit_test(test_messages_that_prove_nobody_are_thrown_away),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
