/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks without a launcher: a process that forks, before any GPU is touched, and a shared page.
 *
 * Advantage: no MPI, no files, and none of the two outlives the other. Disadvantage: two only.
 */
#ifndef LEAT_BENCH_PAIR_H
#define LEAT_BENCH_PAIR_H

/* A file that includes this defines _GNU_SOURCE before its first include. */
#include "slice.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PAIR_WORD_BYTES 1024
#define PAIR_PATIENCE_S 30

struct pair_page {
    uint32_t arrived, round, ending;
    char word[PAIR_WORD_BYTES]; /* what one tells the other before they can talk otherwise */
};

struct pair {
    int rank;
    pid_t child;
    struct pair_page *page;
};

/* One pair a process; the handler of a signal needs them. */
static struct pair_page *pair_watched;
static volatile sig_atomic_t pair_other;

/* The other rank's death ends this one, which could only wait for it. Libraries may have children
 * of their own. */
static inline void pair_on_child(int number)
{
    (void)number;
    if (pair_other > 0 && !__atomic_load_n(&pair_watched->ending, __ATOMIC_ACQUIRE) &&
        waitpid(pair_other, NULL, WNOHANG) == pair_other)
        _exit(3);
}

/* 0 or -1. */
static inline int pair_open(struct pair *pair)
{
    const pid_t parent = getpid();
    void *page =
        mmap(NULL, sizeof *pair->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -1;
    pair->page = pair_watched = (struct pair_page *)page;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = pair_on_child;
    action.sa_flags = SA_RESTART;
    sigaction(SIGCHLD, &action, NULL);
    pair->child = fork();
    if (pair->child < 0)
        return -1;
    pair->rank = pair->child == 0;
    pair_other = pair->child;
    if (pair->rank) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_DFL);
        if (getppid() != parent)
            _exit(3);
    }
    return 0;
}

/* 0, or -1: the other one did not come. */
static inline int pair_barrier(struct pair *pair)
{
    struct pair_page *page = pair->page;
    const uint32_t round = __atomic_load_n(&page->round, __ATOMIC_ACQUIRE);
    const uint64_t begin_ns = slice_now_ns();
    if (__atomic_add_fetch(&page->arrived, 1, __ATOMIC_ACQ_REL) == 2) {
        __atomic_store_n(&page->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&page->round, round + 1, __ATOMIC_RELEASE);
        return 0;
    }
    for (uint32_t spin = 1; __atomic_load_n(&page->round, __ATOMIC_ACQUIRE) == round; spin++) {
        if (spin % 1024)
            continue;
        sched_yield();
        if (slice_now_ns() - begin_ns > PAIR_PATIENCE_S * UINT64_C(1000000000)) {
            fprintf(stderr, "rank %d: the other rank did not come to a barrier within %d s\n",
                    pair->rank, PAIR_PATIENCE_S);
            return -1;
        }
    }
    return 0;
}

/* Rank 0's bytes, at both afterwards. */
static inline int pair_share(struct pair *pair, void *bytes, size_t count)
{
    if (count > PAIR_WORD_BYTES)
        return -1;
    if (pair->rank == 0)
        memcpy(pair->page->word, bytes, count);
    if (pair_barrier(pair))
        return -1;
    if (pair->rank == 1)
        memcpy(bytes, pair->page->word, count);
    return pair_barrier(pair);
}

/* The exit status, which is the other rank's too. One that failed takes the other along. */
static inline int pair_end(struct pair *pair, int status)
{
    int child_status = 0;
    if (status)
        return status;
    __atomic_store_n(&pair->page->ending, 1, __ATOMIC_RELEASE);
    if (pair->rank == 0 && waitpid(pair->child, &child_status, 0) == pair->child && child_status)
        status = 1;
    return status;
}

#endif
