// SPDX-License-Identifier: Apache-2.0
// The threads of one rank.
//
// Algorithm: a round is a number that the caller moves on; workers run what lies beside it and
// count themselves off. Who waits, worker or caller, spins for some microseconds and then sleeps on
// a condition; who has news looks for sleepers first, so that rounds in quick succession need no
// system call. Advantage: a round costs a microsecond or two, and a team that has nothing to do
// costs nothing. Disadvantage: all threads do the same thing at the same time; work of uneven
// length has to be cut evenly beforehand.

#define _GNU_SOURCE
#include "md/team.h"

#include "core/error.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS = 4000 }; // some 50 us: longer than from one round of a step to the next

struct worker {
    struct md_team *team;
    pthread_t thread;
    int number;
};

struct md_team {
    int count, spins;
    void (*work)(void *user, int thread, int count);
    void *user;
    uint64_t round;    // moved on when there is work
    uint32_t running;  // workers that have not done it yet
    uint32_t sleepers; // workers in `news`
    uint32_t waiting;  // whether the caller is in `done`
    uint32_t stop;
    pthread_mutex_t lock;
    pthread_cond_t news, done;
    int started;
    struct worker workers[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void await_round(struct md_team *team, uint64_t seen)
{
    for (int spin = 0; spin < team->spins; spin++) {
        if (__atomic_load_n(&team->round, __ATOMIC_ACQUIRE) != seen)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&team->lock);
    __atomic_fetch_add(&team->sleepers, 1, __ATOMIC_SEQ_CST);
    // One of the two sees the other: the caller moves the round on before it looks for sleepers.
    while (__atomic_load_n(&team->round, __ATOMIC_SEQ_CST) == seen)
        pthread_cond_wait(&team->news, &team->lock);
    __atomic_fetch_sub(&team->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->lock);
}

static void *serve(void *argument)
{
    struct worker *worker = argument;
    struct md_team *team = worker->team;
    for (uint64_t seen = 0;; seen++) {
        await_round(team, seen);
        if (team->stop)
            return NULL;
        team->work(team->user, worker->number, team->count);
        if (__atomic_sub_fetch(&team->running, 1, __ATOMIC_SEQ_CST) == 0 &&
            __atomic_load_n(&team->waiting, __ATOMIC_SEQ_CST)) {
            pthread_mutex_lock(&team->lock);
            pthread_cond_signal(&team->done);
            pthread_mutex_unlock(&team->lock);
        }
    }
}

static void begin_round(struct md_team *team)
{
    __atomic_store_n(&team->running, (uint32_t)team->started, __ATOMIC_RELAXED);
    __atomic_store_n(&team->round, team->round + 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&team->sleepers, __ATOMIC_SEQ_CST))
        return;
    pthread_mutex_lock(&team->lock);
    pthread_cond_broadcast(&team->news);
    pthread_mutex_unlock(&team->lock);
}

static void end_round(struct md_team *team)
{
    for (int spin = 0; spin < team->spins; spin++) {
        if (!__atomic_load_n(&team->running, __ATOMIC_ACQUIRE))
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&team->lock);
    __atomic_store_n(&team->waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&team->running, __ATOMIC_SEQ_CST))
        pthread_cond_wait(&team->done, &team->lock);
    __atomic_store_n(&team->waiting, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->lock);
}

void md_team_run(struct md_team *team, void (*work)(void *user, int thread, int count), void *user)
{
    if (!team) {
        work(user, 0, 1);
        return;
    }
    team->work = work;
    team->user = user;
    begin_round(team);
    work(user, 0, team->count);
    end_round(team);
}

int md_team_size(const struct md_team *team)
{
    return team ? team->count : 1;
}

void md_team_free(struct md_team *team)
{
    if (!team)
        return;
    team->stop = 1;
    begin_round(team);
    for (int i = 0; i < team->started; i++)
        pthread_join(team->workers[i].thread, NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->news);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int md_team_create(int count, int crowded, struct md_team **team)
{
    if (count < 1)
        return leat_fail(-EINVAL, "a team of %d threads; expected 1 at least", count);
    if (count == 1) {
        *team = NULL;
        return 0;
    }
    struct md_team *made = calloc(1, sizeof *made + (size_t)(count - 1) * sizeof(struct worker));
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a team of %d threads", count);
    made->count = count;
    made->spins = crowded ? 0 : SPINS;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->news, NULL);
    pthread_cond_init(&made->done, NULL);
    for (int i = 0; i < count - 1; i++) {
        made->workers[i] = (struct worker){.team = made, .number = i + 1};
        int error = pthread_create(&made->workers[i].thread, NULL, serve, &made->workers[i]);
        if (error) {
            md_team_free(made);
            return leat_fail(-error, "cannot start thread %d of %d of a rank: %s; give fewer",
                             i + 2, count, strerror(error));
        }
        made->started++;
    }
    *team = made;
    return 0;
}

static int usable_processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    // More processors than a set of this size has are as good as that many.
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

int md_team_fit(int ranks)
{
    int each = usable_processors() / (ranks > 0 ? ranks : 1);
    return each > 0 ? each : 1;
}

int md_team_is_crowd(int64_t threads)
{
    return threads > usable_processors();
}
