/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of message tests: the same body as threads and as processes.
 *
 * A test program lists its bodies by name. As threads they run by ranks_run; as processes the
 * launcher starts the test's own program, which finds the body's name among its arguments and fails
 * when a check does. Advantage: one body tries the direct copies of threads and the ways between
 * processes. Disadvantage: what ranks note lies in memory of their own, so bodies have to check
 * for themselves.
 */
#ifndef LEAT_TEST_MULTI_MSG_RANKS_H
#define LEAT_TEST_MULTI_MSG_RANKS_H

#include "multi/msg_data.h"

#include "core/launch.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <unistd.h>

/* ThreadSanitizer makes copies thirty times slower and sees nothing of what processes share. */
#ifdef __SANITIZE_THREAD__
#define MSG_FEWER 1
#else
#define MSG_FEWER 0
#endif

/* In a program's second ctest entry, whose messages go by libfabric: what is short enough there. */
__attribute__((unused)) static bool msg_over_fabric(void)
{
    const char *paths = getenv("LEAT_PATHS");
    return paths && !strcmp(paths, "require:fabric");
}

struct msg_part {
    const char *name;
    void (*body)(struct rank_thread *self);
};

/* ---- Calls ---- */

__attribute__((unused)) static bool msg_gave(struct rank_thread *self, int given, int wanted,
                                             const char *file, int line, const char *call)
{
    return rank_noted(self, given == wanted, file, line, call, "%d instead of %d: %s", given,
                      wanted, leat_error_detail());
}

/* Whether a call gave what it should. */
#define msg_gives(self, wanted, call) msg_gave((self), (call), (wanted), __FILE__, __LINE__, #call)
#define msg_fine(self, call)          msg_gives(self, 0, call)

/* The detail of the last error has this in it. */
#define msg_says(self, words)                                                                      \
    rank_check((self), strstr(leat_error_detail(), (words)) != NULL, "\"%s\" is not in: %s",       \
               (words), leat_error_detail())

__attribute__((unused)) static leat_comm *msg_world(struct rank_thread *self)
{
    leat_comm *comm = NULL;
    msg_fine(self, leat_comm_split(self->job, NULL, &comm));
    return comm;
}

__attribute__((unused)) static leat_data msg_plain(void *address, uint64_t bytes)
{
    return (leat_data){.address = address, .bytes = bytes};
}

__attribute__((unused)) static int msg_wait_one(leat_request *request, double timeout_s)
{
    leat_request *list[1] = {request};
    return leat_request_wait(list, 1, LEAT_WAIT_ALL, timeout_s, NULL);
}

/* ---- Order without clocks: a rank that has got a token knows that its sender came so far ---- */

#define MSG_TOKEN_TAG 1000000

__attribute__((unused)) static bool msg_tell(struct rank_thread *self, leat_comm *comm, int rank)
{
    return msg_fine(self, leat_send(comm, msg_plain(NULL, 0), rank, MSG_TOKEN_TAG, 0, NULL));
}

__attribute__((unused)) static bool msg_hear(struct rank_thread *self, leat_comm *comm, int rank)
{
    return msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), rank, MSG_TOKEN_TAG, NULL, NULL));
}

/* Messages to and fro, after which both ranks have rings to each other where there are enough. */
__attribute__((unused)) static void msg_warm(struct rank_thread *self, leat_comm *comm, int rank)
{
    for (int i = 0; i < 4; i++) {
        msg_tell(self, comm, rank);
        msg_hear(self, comm, rank);
    }
}

/* Gives others a chance to be first, or not: now and then a few turns of the core, or progress. */
__attribute__((unused)) static void msg_delay(struct ranks_random *random, leat_comm *comm)
{
    uint64_t turns = ranks_random_word(random) % 12;
    if (turns == 11)
        leat_probe(comm, LEAT_ANY_RANK, MSG_TOKEN_TAG + 1, 0, NULL, NULL);
    for (; turns >= 8 && turns < 11; turns--)
        sched_yield();
}

/* ---- Running ---- */

static const struct msg_part *msg_part_named(const struct msg_part *parts, const char *name)
{
    for (; parts->name; parts++)
        if (!strcmp(parts->name, name))
            return parts;
    return NULL;
}

/* Ranks that outlive others say by a pipe of the test's how they ended. */
static void msg_report(const struct rank_thread *self)
{
    const char *number = getenv("TEST_REPORT_FD");
    if (number)
        dprintf(atoi(number), "rank %d: %s\n", self->rank,
                self->failure_count ? self->failure : "fine");
}

/* What main returns in a process that was started as a rank. */
__attribute__((unused)) static int msg_play(const struct msg_part *parts, int argc, char **argv)
{
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    const struct msg_part *part = argc > 1 ? msg_part_named(parts, argv[1]) : NULL;
    if (!part || leat_open(NULL, &job) || leat_job_info_get(job, &info)) {
        fprintf(stderr, "no part %s, or no job: %s\n", argc > 1 ? argv[1] : "",
                leat_error_detail());
        return 90;
    }
    struct rank_thread self = {
        .job = job, .rank = info.rank, .rank_count = info.rank_count, .body = part->body};
    part->body(&self);
    msg_report(&self);
    if (self.failure_count)
        fprintf(stderr, "rank %d of %d, first of %d: %s\n", self.rank, self.rank_count,
                self.failure_count, self.failure);
    leat_close(self.job, self.failure_count ? "a check failed" : NULL);
    return self.failure_count ? 91 : 0;
}

/* The launcher's exit status. */
__attribute__((unused)) static int msg_launch(int rank_count, const char *name, bool survive)
{
    char *const arguments[] = {"test", (char *)(uintptr_t)name, NULL};
    const struct launch_options options = {.rank_count = rank_count,
                                           .arena_bytes = 64 << 20,
                                           .survive = survive,
                                           .program = "/proc/self/exe",
                                           .argv = arguments};
    int status = -1;
    fflush(NULL);
    if (leat_launch(&options, &status))
        fail_msg("leat_launch: %s", leat_error_detail());
    return status;
}

__attribute__((unused)) static void msg_run_processes(int rank_count, const char *name)
{
    int status = msg_launch(rank_count, name, false);
    if (status)
        fail_msg("%s on %d processes: exit status %d", name, rank_count, status);
}

/* Of ranks that die or fail, as they are meant to, and others that have to be fine: whether so many
 * were; if not, what one of the others said. */
__attribute__((unused)) static bool msg_survived(int rank_count, const char *name, int survivors,
                                                 char failure[2048])
{
    int ends[2], fine = 0;
    char number[16], line[2048];
    snprintf(failure, 2048, "some said nothing");
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("TEST_REPORT_FD", number, 1);
    msg_launch(rank_count, name, true);
    unsetenv("TEST_REPORT_FD");
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    assert_non_null(lines);
    while (fgets(line, sizeof line, lines)) {
        if (strstr(line, ": fine"))
            fine++;
        else
            memcpy(failure, line, sizeof line);
    }
    fclose(lines);
    return fine == survivors;
}

__attribute__((unused)) static void msg_run_survivors(int rank_count, const char *name,
                                                      int survivors)
{
    char failure[2048];
    if (!msg_survived(rank_count, name, survivors, failure))
        fail_msg("%s on %d processes: not %d were fine: %s", name, rank_count, survivors, failure);
}

__attribute__((unused)) static void msg_run_threads(const struct msg_part *parts, int rank_count,
                                                    const char *name)
{
    const struct msg_part *part = msg_part_named(parts, name);
    assert_non_null(part);
    ranks_run(rank_count, part->body, NULL);
}

__attribute__((unused)) static void msg_run_both(const struct msg_part *parts, int rank_count,
                                                 const char *name)
{
    msg_run_threads(parts, rank_count, name);
    if (!MSG_FEWER)
        msg_run_processes(rank_count, name);
}

#endif
