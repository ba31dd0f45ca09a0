/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two network namespaces joined by a link, which leat takes for two hosts.
 *
 * Making a namespace needs a right (root, or CAP_SYS_ADMIN) and the command ip. Advantage: what
 * crosses a network is tested on one machine. Disadvantage: where that is not permitted, the tests
 * are skipped.
 */
#ifndef LEAT_TEST_MULTI_NETWORKS_H
#define LEAT_TEST_MULTI_NETWORKS_H

#include "multi/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int network[2]; // descriptors of the namespaces
static pid_t holder[2];

// Runs `ip` in a namespace; its exit status.
static int run_ip(int where, const char *arguments)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char command[256];
        if (where >= 0 && setns(network[where], CLONE_NEWNET))
            _exit(126);
        snprintf(command, sizeof command, "ip %s 2>/dev/null", arguments);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int join_networks(void **state)
{
    char command[160], path[64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        holder[i] = hold_network();
        if (holder[i] < 0)
            return 0;
        snprintf(path, sizeof path, "/proc/%d/ns/net", (int)holder[i]);
        network[i] = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(network[i] >= 0);
    }
    snprintf(command, sizeof command,
             "link add leat-a netns %d type veth peer name leat-b netns %d", (int)holder[0],
             (int)holder[1]);
    bool linked = run_ip(-1, command) == 0 && run_ip(0, "addr add 10.77.0.1/24 dev leat-a") == 0 &&
                  run_ip(1, "addr add 10.77.0.2/24 dev leat-b") == 0 &&
                  run_ip(0, "link set leat-a up") == 0 && run_ip(1, "link set leat-b up") == 0 &&
                  run_ip(0, "link set lo up") == 0 && run_ip(1, "link set lo up") == 0;
    if (!linked)
        network[0] = 0;
    return 0;
}

static int leave_networks(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        if (holder[i] > 0) {
            kill(holder[i], SIGKILL);
            waitpid(holder[i], NULL, 0);
        }
    return 0;
}

static void need_networks(void)
{
    if (holder[0] > 0 && holder[1] > 0 && network[0])
        return;
    print_message("network namespaces cannot be made here, or there is no command ip\n");
    skip();
}

#endif
