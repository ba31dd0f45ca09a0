// SPDX-License-Identifier: Apache-2.0
// Raising signals and waiting for them: spin, yield, sleep.
//
// Algorithm: a waiter polls the word for LEAT_SPIN, then gives its core away a few times, then
// sleeps on a futex in slices of 20 ms, between which it looks whether the peer still lives and
// whether time is up. Advantage: one cache miss of latency where ranks have cores of their own, no
// burnt core where there are more ranks than cores, and nobody waits for the dead. Disadvantage:
// two system calls a wait once it sleeps.

#define _GNU_SOURCE
#include "core/signal.h"

#include "core/job.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SIGNAL_POLLS /* few, where every order is tried */
#define SIGNAL_POLLS  64
#define SIGNAL_YIELDS 8
#endif
#define SLEEP_SLICE_NS 20000000ULL

uint64_t leat_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

// The kernel compares 32 bits; the low half of a counter changes with every count.
static uint32_t *futex_word(struct leat_signal *signal)
{
    uint32_t *halves = (uint32_t *)(void *)&signal->value;
    return halves + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static inline void wake_sleepers(struct leat_signal *signal)
{
    if (__atomic_load_n(&signal->sleepers, SIGNAL_ORDER_LOOK))
        syscall(SYS_futex, futex_word(signal), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void leat_signal_raise(struct leat_signal *signal, uint64_t value)
{
    __atomic_store_n(&signal->value, value, SIGNAL_ORDER_RAISE);
    wake_sleepers(signal);
}

void leat_signal_count(struct leat_signal *signal)
{
    __atomic_add_fetch(&signal->value, 1, SIGNAL_ORDER_RAISE);
    wake_sleepers(signal);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool spin(const struct leat_signal *signal, uint64_t wanted, uint64_t until_ns)
{
    do {
        for (int i = 0; i < SIGNAL_POLLS; i++) {
            if (leat_signal_reached(leat_signal_read(signal), wanted))
                return true;
            relax();
        }
    } while (leat_now_ns() < until_ns);
    for (int i = 0; i < SIGNAL_YIELDS; i++) {
        sched_yield();
        if (leat_signal_reached(leat_signal_read(signal), wanted))
            return true;
    }
    return false;
}

static void sleep_slice(struct leat_signal *signal, uint64_t wanted, uint64_t slice_ns)
{
    __atomic_add_fetch(&signal->sleepers, 1, SIGNAL_ORDER_ANNOUNCE);
    // A stale value does no harm: the kernel looks again, after the announcement, before it sleeps.
    uint64_t seen = __atomic_load_n(&signal->value, __ATOMIC_RELAXED);
    if (!leat_signal_reached(seen, wanted)) {
        struct timespec slice = {.tv_sec = (time_t)(slice_ns / 1000000000ULL),
                                 .tv_nsec = (long)(slice_ns % 1000000000ULL)};
        syscall(SYS_futex, futex_word(signal), FUTEX_WAIT, (uint32_t)seen, &slice, NULL, 0);
    }
    __atomic_sub_fetch(&signal->sleepers, 1, __ATOMIC_RELAXED);
}

static int wait_asleep(leat_job *job, struct leat_signal *signal, uint64_t wanted, int peer,
                       uint64_t deadline_ns)
{
    for (;;) {
        // The peer may raise and leave: its state is read before the word, so that a raise that
        // came before the end is never taken for a loss.
        int lost = peer >= 0 ? leat_rank_lost(job, peer) : 0;
        if (leat_signal_reached(leat_signal_read(signal), wanted))
            return 0;
        if (lost)
            return lost;
        uint64_t now = leat_now_ns();
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        uint64_t left = deadline_ns - now;
        sleep_slice(signal, wanted, left < SLEEP_SLICE_NS ? left : SLEEP_SLICE_NS);
    }
}

int leat_signal_wait(leat_job *job, struct leat_signal *signal, uint64_t wanted, int peer,
                     uint64_t deadline_ns, uint64_t *seen)
{
    leat_count(&job->counts.signal_waits, 1);
    int error = 0;
    if (!leat_signal_reached(leat_signal_read(signal), wanted)) {
        uint64_t begin = leat_now_ns();
        if (begin >= deadline_ns)
            error = -ETIMEDOUT;
        else if (!spin(signal, wanted, begin + job->config.spin_ns))
            error = wait_asleep(job, signal, wanted, peer, deadline_ns);
        leat_count(&job->counts.wait_ns, leat_now_ns() - begin);
    }
    if (seen)
        *seen = leat_signal_read(signal);
    return error;
}

int leat_signal_watch(leat_job *job, struct leat_signal *signal, uint64_t wanted,
                      uint64_t deadline_ns)
{
    if (leat_signal_reached(leat_signal_read(signal), wanted) ||
        spin(signal, wanted, leat_now_ns() + job->config.spin_ns))
        return 0;
    return wait_asleep(job, signal, wanted, -1, deadline_ns);
}

// The state letter of a process, as ps shows it; 0 when there is none to be read.
static char process_state(int pid)
{
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[bytes] = 0;
    // The name stands in parentheses and may hold some itself.
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

int leat_rank_stopped(const leat_job *job)
{
    for (int rank = 0; !job->segment->head->threads && rank < job->rank_count; rank++) {
        const struct rank_record *record = leat_rank_record(job, rank);
        // One that has left may well stand still (a leak check stops it once more): it is no cause.
        if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != RANK_OPEN)
            continue;
        int pid = __atomic_load_n(&record->pid, __ATOMIC_RELAXED);
        char state = pid > 0 ? process_state(pid) : 0;
        if (state == 'T' || state == 't')
            return rank;
    }
    return -1;
}

int leat_peer_fail(const leat_job *job, int error, const char *what, int peer, const char *seen)
{
    if (error == -ECONNRESET && peer >= 0) {
        char fate[520];
        leat_rank_fate(job, peer, fate, sizeof fate);
        return leat_fail(error, "%s: waited for rank %d: %s%s", what, peer, fate, seen);
    }
    int stopped = error == -ETIMEDOUT ? leat_rank_stopped(job) : -1;
    if (stopped >= 0)
        return leat_fail(error,
                         "%s: rank %d did not answer within %.3g s%s: rank %d (process %d) is "
                         "stopped; continue it, or raise LEAT_TIMEOUT",
                         what, peer, (double)job->timeout_ns * 1e-9, seen, stopped,
                         leat_rank_record(job, stopped)->pid);
    return leat_fail(error,
                     "%s: rank %d did not answer within %.3g s%s; it is much slower, or waits "
                     "itself: see what it does, or raise LEAT_TIMEOUT",
                     what, peer, (double)job->timeout_ns * 1e-9, seen);
}

int leat_wait_fail(const leat_job *job, int error, const char *what, int peer, uint64_t wanted,
                   uint64_t seen)
{
    char text[72];
    snprintf(text, sizeof text, " (signal wanted %llu, seen %llu)", (unsigned long long)wanted,
             (unsigned long long)seen);
    return leat_peer_fail(job, error, what, peer, text);
}
