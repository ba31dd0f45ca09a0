// SPDX-License-Identifier: Apache-2.0
// Starts a thread that takes no signal of the program's.
//
// Algorithm: a thread begins with its maker's mask, so that is changed around the call. Advantage:
// not even the thread's first instruction can be met. Disadvantage: what is sent to the maker's
// thread alone meanwhile waits as long.

#include "core/thread.h"

#include <signal.h>

int leat_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    static const int its_own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t others, old;
    sigfillset(&others);
    for (unsigned i = 0; i < sizeof its_own / sizeof *its_own; i++)
        sigdelset(&others, its_own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &old);
    int code = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}
