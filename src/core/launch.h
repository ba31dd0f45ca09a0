/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the ranks of a job on this host and watches over them.
 */
#ifndef LEAT_CORE_LAUNCH_H
#define LEAT_CORE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

struct launch_options {
    int rank_count;
    int grid[3];          /* a hint for leat_open, or zeros; its product is rank_count */
    uint64_t arena_bytes; /* 0: the setting */
    bool survive;         /* other ranks go on when one dies */
    bool reports_itself; /* the program says why it failed: only ranks that were killed are named */
    const char *program; /* as execvp takes it */
    char *const *argv;
};

/*
 * Runs `rank_count` copies of the program with LEAT_RANK, LEAT_SIZE and LEAT_JOB_FD set, and
 * returns once all have ended. Rank 0 keeps standard input, the others read /dev/null. A rank that
 * dies or fails is marked in the segment (peers' waits end with -ECONNRESET), named on stderr, and
 * after a second's grace the others are ended, first with SIGTERM, then SIGKILL; so are processes
 * that ranks left behind. SIGINT, SIGTERM and SIGHUP are handed on; a second SIGINT kills at once.
 * Should the launcher itself be killed, its keeper, a child of it, ends the ranks and what they
 * have started.
 *
 * *exit_status: 0 when every rank returned 0, else the first failing rank's status, 128 + signal
 * when it was killed. A program that cannot be executed is named on stderr and gives 127 (not
 * found) or 126 as in a shell. -errno when the job could not be started: no rank has run then.
 *
 * -EINVAL rank_count, grid or a setting is out of range; -EAGAIN the limit on processes; otherwise
 * what leat_segment_create, pipe or fork say.
 *
 * Threads: for the main thread of a process that has no other children to wait for: all children
 * are waited for, and SIGCHLD, SIGINT, SIGTERM and SIGHUP belong to the launcher meanwhile.
 */
int leat_launch(const struct launch_options *options, int *exit_status);

/* True in a process that is to be a rank of a job with others: of this launcher, of LEAT_ROOT, or
 * of PMIx. */
bool leat_launched(void);

#endif
