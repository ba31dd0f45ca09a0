/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one rank: made once, then given the same function to run, each with its number.
 */
#ifndef MD_TEAM_H
#define MD_TEAM_H

#include <stddef.h>
#include <stdint.h>

struct md_team;

/*
 * `count` threads, the caller's own among them; 1 makes none, and *team is NULL, which stands for a
 * team of one everywhere. Where `crowded` is not 0 there are fewer processors than threads, and
 * nobody spins. -EINVAL a count below 1; what pthread_create says, with how many there were.
 */
int md_team_create(int count, int crowded, struct md_team **team);
void md_team_free(struct md_team *team); /* takes NULL */
int md_team_size(const struct md_team *team);

/*
 * Calls work(user, t, size) for all t from 0, each in a thread of its own, 0 in the caller's;
 * returns when all have returned, and what they wrote is then there to be read. One caller at a
 * time; work must not call it again.
 */
void md_team_run(struct md_team *team, void (*work)(void *user, int thread, int count), void *user);

/* Where the share of thread t of n begins in `total` things; that of t + 1 is its end. */
static inline size_t md_team_share(size_t total, int thread, int count)
{
    return total / (size_t)count * (size_t)thread +
           total % (size_t)count * (size_t)thread / (size_t)count;
}

/* Threads for a rank when `ranks` of them share this host's processors: at least 1. */
int md_team_fit(int ranks);
/* Whether so many threads are more than this process may use processors. */
int md_team_is_crowd(int64_t threads);

#endif
