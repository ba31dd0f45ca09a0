// SPDX-License-Identifier: Apache-2.0
// A file that does not outlive the command unless it is kept; see file.h.
//
// Algorithm: its name is told before it is made, and a handler of INT, TERM and HUP removes it,
// then lets the signal do what it does. Advantage: it goes whatever the command is waiting for, a
// disk that hangs too. Disadvantage: KILL leaves it.

#define _GNU_SOURCE
#include "file.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static char leftover[PATH_MAX];
static volatile sig_atomic_t there;

static void remove_and_die(int number)
{
    static const char words[] = "leat: ended by a signal, its temporary file is removed\n";
    if (there) {
        unlink(leftover);
        if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
            there = 0; // nobody reads it
    }
    raise(number); // as it was before, which SA_RESETHAND has put back; when this returns
}

static void watch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        struct sigaction before,
            action = {.sa_handler = remove_and_die, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
        sigfillset(&action.sa_mask);
        // What the caller ignores (nohup) stays ignored.
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    }
}

int file_leftover_name(const char *directory, const char *what, char path[PATH_MAX])
{
    uint64_t random;
    struct timespec now;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        clock_gettime(CLOCK_REALTIME, &now);
        random = (uint64_t)getpid() << 32 ^ (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20;
    }
    // Short, so that it is none too long where the file's own name is just not.
    int length = snprintf(path, PATH_MAX, "%s%s%016" PRIx64, directory, what, random);
    return length < PATH_MAX ? 0 : -1;
}

void file_leftover_set(const char *path)
{
    watch();
    snprintf(leftover, sizeof leftover, "%s", path);
    there = 1;
}

void file_leftover_kept(void)
{
    there = 0;
}

void file_leftover_remove(void)
{
    if (there)
        unlink(leftover);
    there = 0;
}
