/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs under the launcher, as the launcher's tests see them.
 *
 * Algorithm: a test forks a launcher that runs the test's own program as its ranks ("rank ROLE").
 * Ranks report lines through a pipe whose writing end every process of the job holds, so its end of
 * file proves that all of them have ended. Advantage: nothing is waited for by time. Disadvantage:
 * a job that never ends costs a test its whole limit.
 */
#ifndef LEAT_TEST_MULTI_LAUNCH_JOB_H
#define LEAT_TEST_MULTI_LAUNCH_JOB_H

#include "core/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_LIMIT_MS    30000 /* of any single wait; a test that meets it has failed */
#define JOB_ARENA_BYTES (UINT64_C(16) << 20)
#define JOB_PROGRAM     "/proc/self/exe"

/* Exit statuses of a launcher whose leat_launch failed, or that has children afterwards. */
enum { JOB_NOT_STARTED = 99, JOB_LEFT_OVER = 98 };

struct job {
    pid_t launcher;
    int said, go, errors; /* descriptors: lines of the ranks, what they read, standard error */
    char text[8192];      /* lines so far */
    size_t text_bytes;
    char error_text[8192]; /* once finished */
};

/* The arguments for ranks of one role: JOB_ROLE("exit", "0", "3"). */
#define JOB_ROLE(...) ((char *[]){"test", "rank", __VA_ARGS__, NULL})

/*
 * Plays the role that argv names and does not return, in a process that was started as a rank:
 *   exit S0 S1...  ends with the status of its rank
 *   wait, deaf, polite  report "RANK PID", then stay; deaf ones catch SIGINT and SIGTERM and report
 *                  "signal", polite ones exit 0 on SIGTERM
 *   stop           as wait, but ranks from 1 on stop themselves
 *   obey           as wait, but rank 0 exits 0 once it can read a byte from `go`
 *   with_child     as wait, with a deaf child, which reports "child PID"
 *   environment    opens leat and reports what it is told
 *   stdin          reports what it reads
 *   inherited      reports what it has inherited beyond what its launcher had
 *   await HOW      rank 0 waits for a signal of rank 1, which stays ("die"), fails or leaves;
 *                  "late": as die, but rank 0 first reads a byte from `go`
 */
void job_play_role(int argc, char **argv);

/* Forks a launcher that reads `input`; then ranks of this program in a role. */
void job_start(struct job *job, const struct launch_options *options, const char *input);
/* As an ordinary user who may have so many processes (0: no limit). */
void job_start_limited(struct job *job, const struct launch_options *options, const char *input,
                       unsigned process_limit);
void job_start_role(struct job *job, int rank_count, bool survive, char *const argv[]);

/* Reads until the ranks have said so many lines. */
void job_await_lines(struct job *job, int lines);
/* The process that has reported itself as "WHO PID". */
pid_t job_pid(const struct job *job, const char *who);
/* The parent of a process, from /proc. */
pid_t job_parent(pid_t pid);
/* One line, or more, of standard error, which job_finish then does not see. */
void job_read_error(struct job *job, char *text, size_t bytes);

/* Reads until every process of the job has ended; the launcher's wait status, or a check of it. */
int job_finish_raw(struct job *job);
void job_finish(struct job *job, int expected_status);

void job_expect_words(const char *text, const char *words);
int job_count_lines(const char *text);
uint64_t job_now_ms(void);

#endif
