// SPDX-License-Identifier: Apache-2.0
// Interrupts of a run that writes checkpoints: it ends where it can go on from.
//
// Algorithm: INT and TERM are kept pending in all threads, and looked at when a new list is due;
// all ranks agree on whether one has come. Advantage: nothing runs in a signal's handler, and no
// rank stops alone. Disadvantage: a run that comes to no new list is not interrupted; that takes
// KILL, or a second INT to the launcher.

#define _GNU_SOURCE
#include "core/error.h"
#include "md/checkpoint.h"
#include "md/md.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void stopping(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void md_stop_hold(const struct md_options *options)
{
    sigset_t set;
    stopping(&set);
    if (options->checkpoint)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int md_stop_begin(struct md_rank *rank)
{
    sigset_t set;
    stopping(&set);
    if (!rank->options->checkpoint)
        return 0;
    int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0)
        return leat_fail(-errno, "signalfd: %s", strerror(errno));
    rank->files.signals = descriptor;
    return 0;
}

void md_stop_end(struct md_rank *rank)
{
    if (rank->files.signals)
        close(rank->files.signals);
    rank->files.signals = 0;
}

int md_stop_watch(struct md_rank *rank)
{
    struct signalfd_siginfo info;
    if (!rank->files.checkpoint)
        return 0;
    double seen = read(rank->files.signals, &info, sizeof info) == sizeof info;
    int error = md_sum(rank, &seen, 1);
    if (!error && seen > 0.0)
        rank->files.stopping = true;
    return error;
}

int md_stop(struct md_rank *rank)
{
    rank->alike = true;
    return leat_fail(-EINTR, "interrupted; go on with --restart %s", rank->options->checkpoint);
}
