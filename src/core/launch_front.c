// SPDX-License-Identifier: Apache-2.0
// The launcher's front: it waits for the keeper and hands signals on; see launch_front.h.
//
// Algorithm: the keeper asks the kernel for a signal at the front's death. The front adopts orphans
// too, but gets any only when the keeper has died. What the keeper found out comes back through a
// pipe. Advantage: the front does almost nothing, so there is little that could go wrong in it.
// Disadvantage: a signal sent to both reaches the keeper twice, which it has to bear.

#define _GNU_SOURCE
#include "core/launch_front.h"

#include "core/error.h"
#include "core/log.h"
#include "core/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_NS  UINT64_C(5000000000) // for what a killed keeper has left
#define TICK_NS 20000000L

struct outcome {
    int error, exit_status;
    char detail[LEAT_DETAIL_BYTES];
};

size_t leat_list_children(pid_t *pids, size_t capacity)
{
    FILE *file = fopen("/proc/thread-self/children", "re");
    size_t count = 0;
    if (!file)
        return 0;
    while (count < capacity && fscanf(file, "%d", &pids[count]) == 1)
        count++;
    fclose(file);
    return count;
}

void leat_front_begin(struct launch_front *front, int log_level)
{
    static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP};
    *front = (struct launch_front){.log_level = log_level, .self = getpid()};
    front->bystander_count = leat_list_children(front->bystander, LAUNCH_CHILDREN);
    if (prctl(PR_GET_CHILD_SUBREAPER, &front->old_subreaper, 0, 0, 0))
        front->old_subreaper = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigemptyset(&front->signals);
    sigaddset(&front->signals, SIGCHLD);
    for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++) {
        // A signal that our parent ignores for us (nohup, a shell's background job) stays ignored.
        struct sigaction action;
        if (!sigaction(handed_on[i], NULL, &action) && action.sa_handler != SIG_IGN)
            sigaddset(&front->signals, handed_on[i]);
    }
    // Ignored SIGCHLD would let the kernel reap ranks before their status is read.
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, &front->old_child);
    pthread_sigmask(SIG_BLOCK, &front->signals, &front->old_signals);
}

void leat_front_end(struct launch_front *front)
{
    sigaction(SIGCHLD, &front->old_child, NULL);
    pthread_sigmask(SIG_SETMASK, &front->old_signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)front->old_subreaper, 0, 0, 0);
}

bool leat_front_there(const struct launch_front *front)
{
    return getppid() == front->self;
}

static _Noreturn void be_keeper(struct launch_front *front,
                                int (*body)(void *argument, int *exit_status), void *argument,
                                int report)
{
    struct outcome outcome = {0};
    prctl(PR_SET_NAME, "leat-keeper");
    sigaddset(&front->signals, LAUNCH_FRONT_GONE);
    pthread_sigmask(SIG_BLOCK, &front->signals, NULL);
    prctl(PR_SET_PDEATHSIG, LAUNCH_FRONT_GONE);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    // It may have died before that.
    if (!leat_front_there(front))
        _exit(1);
    outcome.error = body(argument, &outcome.exit_status);
    if (outcome.error)
        snprintf(outcome.detail, sizeof outcome.detail, "%s", leat_error_detail());
    // Less than a pipe takes at once.
    _exit(write(report, &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
}

static bool is_bystander(const struct launch_front *front, pid_t pid)
{
    for (size_t i = 0; i < front->bystander_count; i++)
        if (front->bystander[i] == pid)
            return true;
    return false;
}

// Ends what the keeper has left, again and again: whoever dies may leave children, who come then.
static void end_orphans(const struct launch_front *front)
{
    static const struct timespec tick = {.tv_nsec = TICK_NS};
    uint64_t until_ns = leat_now_ns() + END_NS;
    for (size_t left = 1; left > 0 && leat_now_ns() < until_ns;) {
        pid_t pids[LAUNCH_CHILDREN];
        size_t count = leat_list_children(pids, LAUNCH_CHILDREN);
        left = 0;
        if (front->bystander_count == LAUNCH_CHILDREN)
            return; // there may have been more, so strangers could not be told apart
        for (size_t i = 0; i < count; i++) {
            if (is_bystander(front, pids[i]))
                continue;
            left++;
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, WNOHANG);
        }
        if (left)
            sigtimedwait(&front->signals, NULL, &tick);
    }
}

// Until the keeper has ended; its wait status.
static int await_keeper(const struct launch_front *front, pid_t keeper)
{
    for (;;) {
        siginfo_t info;
        int status, number = sigwaitinfo(&front->signals, &info);
        // What the terminal sends reaches the keeper as well.
        if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL)
            kill(keeper, number);
        pid_t ended = waitpid(keeper, &status, WNOHANG);
        if (ended == keeper)
            return status;
        if (ended < 0 && errno == ECHILD)
            return 1 << 8;
    }
}

int leat_front_run(struct launch_front *front, int (*body)(void *argument, int *exit_status),
                   void *argument, bool *forked, int *exit_status)
{
    struct outcome outcome = {0};
    int report[2];
    if (pipe2(report, O_CLOEXEC))
        return leat_fail(-errno,
                         "cannot make a pipe: %s; raise the limit on open files (ulimit -n)",
                         strerror(errno));
    fflush(NULL); // or the keeper would print what is buffered once more
    pid_t keeper = fork();
    if (keeper == 0) {
        close(report[0]);
        be_keeper(front, body, argument, report[1]);
    }
    int error = keeper < 0 ? -errno : 0;
    *forked = keeper >= 0;
    close(report[1]);
    if (!error) {
        int status = await_keeper(front, keeper);
        if (read(report[0], &outcome, sizeof outcome) != sizeof outcome) {
            outcome.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
            leat_log(front->log_level, LOG_ERROR, -1,
                     "the keeper of the ranks (pid %d) was killed%s%s; what it has left is ended",
                     (int)keeper, WIFSIGNALED(status) ? " by signal: " : "",
                     WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
            end_orphans(front);
        }
        if (outcome.error)
            leat_fail(outcome.error, "%s", outcome.detail);
        error = outcome.error;
        *exit_status = outcome.exit_status;
    }
    close(report[0]);
    return error;
}
