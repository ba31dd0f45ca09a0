/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's two processes: the front, which is the caller, and the keeper, its child, which
 * starts the ranks and watches over them.
 *
 * What ranks start in turn has to end with the job too, and only an ancestor that adopts orphans
 * finds it. So there are two of them: whichever is killed by force, the other one is left to end
 * what remains. Advantage: kill -9 of the launcher leaves nothing behind. Disadvantage: one more
 * process a job; and who kills both at once is only helped by the kernel, which ends the ranks
 * themselves.
 */
#ifndef LEAT_CORE_LAUNCH_FRONT_H
#define LEAT_CORE_LAUNCH_FRONT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LAUNCH_CHILDREN 256 /* that are told apart */

/* The keeper gets this when the front is gone. */
#define LAUNCH_FRONT_GONE SIGUSR2

struct launch_front {
    int log_level;
    pid_t self;
    sigset_t signals, old_signals; /* fetched, and what was blocked before */
    struct sigaction old_child;
    int old_subreaper;
    /* Children that this process had before (a shell may execute leat with some). */
    pid_t bystander[LAUNCH_CHILDREN];
    size_t bystander_count;
};

/* Signals are blocked and fetched from here on, so none can arrive between a look and a sleep. */
void leat_front_begin(struct launch_front *front, int log_level);
void leat_front_end(struct launch_front *front);

/*
 * Forks the keeper, which runs body(argument, &status) and ends; hands SIGINT, SIGTERM and SIGHUP
 * on to it, and returns what the body did, with its detail. A keeper that is killed is named, what
 * it leaves is ended, and *exit_status is 128 + the signal. -errno of fork is not described, and
 * *forked then false.
 */
int leat_front_run(struct launch_front *front, int (*body)(void *argument, int *exit_status),
                   void *argument, bool *forked, int *exit_status);

/* In the keeper: the front is still there. */
bool leat_front_there(const struct launch_front *front);

/* Fills `pids` with this thread's children. 0 where the kernel does not list them. */
size_t leat_list_children(pid_t *pids, size_t capacity);

#endif
