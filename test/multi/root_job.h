/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that a test starts by hand: processes of the test's own program with LEAT_ROOT and the
 * rest in their environment, each with a pipe for what it says.
 *
 * Advantage: a test sees each rank's words and status by itself. Disadvantage: ports are looked for
 * before they are used, so another program may take one in between; the test then fails and says
 * so.
 */
#ifndef LEAT_TEST_MULTI_ROOT_JOB_H
#define LEAT_TEST_MULTI_ROOT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ROOT_LIMIT_MS 30000 /* of any single wait; a test that meets it has failed */
#define ROOT_KEY      "a secret of the test 0123456789"

struct root_rank_options {
    int port, rank, size;
    const char *key, *address; /* NULL: ROOT_KEY, 127.0.0.1 */
    const char *timeout_s;     /* LEAT_TIMEOUT; NULL: 20 */
    int network;               /* descriptor of a network namespace, or 0 */
    const char *paths;         /* LEAT_PATHS; NULL: as it is */
    int files;                 /* that can be opened before leat_open, or 0: no limit */
    const char *role;          /* what root_play_role does */
};

struct started {
    pid_t pid;
    int out;
    char text[32768];
    size_t bytes;
};

/*
 * Plays the role that argv names and does not return, in a process that root_start has started:
 *   sum    opens, adds up the ranks, prints "sum S of rank R", leaves
 *   watch  opens, prints "open PID", waits for a signal of the next rank that never comes, prints
 *          "wait ERROR after S s: DETAIL", leaves
 *   idle   opens, prints "open PID", stays
 *   time   opens, prints "time NANOSECONDS" of the monotonic clock, leaves
 *   absent as sum, but rank 1 never opens
 *   closed as sum, but without standard input, output and error while it opens; prints first
 *          "taken MASK", a bit for each of their numbers that has a descriptor then
 *   alone  as closed, in a job of its own
 *   talk   sends messages of many sizes to every rank and adds up; prints "path NAME" for each path
 *          that was taken and "talk ERROR: DETAIL"
 *   late   rank 0 leaves; then the others send each other a message each, and print "late ERROR:
 *          DETAIL"
 *   persist  as talk, again and again until one of the ranks gets SIGUSR1; prints "open PID" after
 *          the first round
 *   listen as talk with one size, then waits for a message of the next rank that never comes;
 *          prints "open PID", then "recv ERROR after S s: DETAIL"
 *   pair   the same of the rank as far from the last as this one is from the first; stays
 *   path   is `leat path` (LEAT_BIN)
 *   halo   opens, prints "open PID is rank R", exchanges a halo until that fails; prints
 *          "halo ERROR: DETAIL"
 */
void root_play_role(int argc, char **argv);

int root_free_port(void);
void root_start(struct started *started, const struct root_rank_options *options);
/* A program, in this process's environment. */
void root_start_command(struct started *started, char *const argv[]);
/* Reads until the words have been said. */
void root_await(struct started *started, const char *words);
/* Reads to the end; the wait status. */
int root_finish(struct started *started);
void root_expect(const struct started *started, const char *words);
int root_count(const char *text, const char *words);
uint64_t root_now_ms(void);

#endif
