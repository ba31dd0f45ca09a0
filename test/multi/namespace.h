/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network namespace and the process that holds it; for networks.h and hosts.h.
 *
 * Advantage: it goes when its process does, and that when the test does. Disadvantage: a process a
 * namespace.
 */
#ifndef LEAT_TEST_MULTI_NAMESPACE_H
#define LEAT_TEST_MULTI_NAMESPACE_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// A process that has a network namespace of its own and does nothing in it; -1 where that is not
// permitted.
static pid_t hold_network(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET))
            _exit(1);
        if (write(ready[1], "r", 1) == 1)
            while (pause())
                ;
        _exit(1);
    }
    close(ready[1]);
    bool good = pid > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    if (!good && pid > 0)
        waitpid(pid, NULL, 0);
    return good ? pid : -1;
}

#endif
