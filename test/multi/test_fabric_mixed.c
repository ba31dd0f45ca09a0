// SPDX-License-Identifier: Apache-2.0
// Jobs of two hosts with two ranks each, whose messages take shared memory and libfabric at once:
// a deadlock is proven, the survivors of a death go on, each way carries what it should, and mpirun
// may start them.
//
// Advantage: counters and verdicts of one network have to hold over two. Disadvantage: which
// provider is the machine's.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/fabric_job.h"

#include "core/bootstrap.h"

#include <leat/msg.h>
#include <string.h>
#include <sys/stat.h>

enum { RANKS = 4 };

static struct started ranks[RANKS];
static const int where[RANKS] = {0, 0, 1, 1};

// ---- The ranks' side ----

// Everybody's stamped value to everybody, so that all peers are in use; -errno.
static int turn(leat_comm *comm, int rank)
{
    int64_t out[RANKS], in[RANKS];
    for (int i = 0; i < RANKS; i++) {
        out[i] = 100 * rank + i;
        in[i] = -1;
    }
    const leat_collective_options options = {.size = sizeof options,
                                             .kind = LEAT_ALLTOALL,
                                             .type = LEAT_INT64,
                                             .count = 1,
                                             .send = out,
                                             .receive = in};
    int error = leat_collective(comm, &options, NULL);
    for (int i = 0; i < RANKS && !error; i++)
        if (in[i] != 100 * i + rank)
            error = leat_fail(-EBADMSG, "%lld came from rank %d", (long long)in[i], i);
    return error;
}

static int sum(leat_comm *comm, int64_t *value)
{
    const leat_collective_options options = {.size = sizeof options,
                                             .kind = LEAT_ALLREDUCE,
                                             .type = LEAT_INT64,
                                             .operation = LEAT_SUM,
                                             .count = 1,
                                             .send = LEAT_IN_PLACE,
                                             .receive = value};
    return leat_collective(comm, &options, NULL);
}

// All wait for the next one; once that is proven to be for ever, the job goes on.
static int play_circle(leat_job *job, leat_comm *comm)
{
    uint8_t byte;
    int error = leat_recv(comm, (leat_data){.address = &byte, .bytes = 1}, (job->rank + 1) % RANKS,
                          6, NULL, NULL);
    printf("circle %d: %s\n", error, leat_error_detail());
    error = turn(comm, job->rank);
    printf("then %d: %s\n", error, error ? leat_error_detail() : "all right");
    return error;
}

// Sums until somebody has died; then those that are left sum up.
static int play_left(leat_job *job, leat_comm *comm)
{
    const leat_comm_options survivors = {
        .size = sizeof survivors, .parent = comm, .kind = LEAT_COMM_SURVIVORS};
    leat_comm *rest = NULL;
    int64_t value = 0;
    int error;
    printf("open\n");
    fflush(stdout);
    do
        error = sum(comm, &value);
    while (!error);
    printf("broken %d: %s\n", error, leat_error_detail());
    error = leat_comm_split(job, &survivors, &rest);
    value = 10 + job->rank;
    if (!error)
        error = sum(rest, &value);
    printf("left %d with %d: %s\n", error, (int)value, error ? leat_error_detail() : "all right");
    return error;
}

// Those of one host have a communicator, and its barrier and sums; bytes go where they belong.
static int play_apart(leat_job *job, leat_comm *comm)
{
    const leat_comm_options host = {.size = sizeof host, .parent = comm, .kind = LEAT_COMM_HOST};
    leat_comm *near = NULL;
    int64_t value = 1 << job->rank, want = job->rank < 2 ? 3 : 12;
    int error = leat_comm_split(job, &host, &near);
    for (int i = 0; i < 3 && !error; i++, value = 1 << job->rank) {
        error = sum(near, &value);
        if (!error && value != want)
            error = leat_fail(-EBADMSG, "a sum of %d, not %d", (int)value, (int)want);
    }
    for (int peer = 0; peer < RANKS; peer++) {
        leat_stats stats = {.size = sizeof stats};
        leat_stats_read(job, peer, &stats);
        const char *way = peer == job->rank                 ? "self"
                          : where[peer] == where[job->rank] ? "shm"
                                                            : "fabric";
        for (int p = 0; p < stats.path_count && !error; p++)
            if (stats.path[p].operations && strcmp(stats.path[p].path, way) != 0)
                error = leat_fail(-EBADMSG, "%s to rank %d", stats.path[p].path, peer);
    }
    printf("apart %d: %s\n", error, error ? leat_error_detail() : "all right");
    return error;
}

static void play(const char *role)
{
    leat_job *job;
    leat_comm *comm;
    alarm(60); // should the test be killed
    int error = leat_open(NULL, &job);
    if (!error)
        error = leat_comm_split(job, NULL, &comm);
    if (!error)
        error = turn(comm, job->rank);
    if (error) {
        printf("start %d: %s\n", error, leat_error_detail());
        exit(3);
    }
    error = !strcmp(role, "circle") ? play_circle(job, comm)
            : !strcmp(role, "left") ? play_left(job, comm)
                                    : play_apart(job, comm);
    leat_close(job, error ? leat_error_detail() : NULL);
    exit(error != 0);
}

// ---- The test's side ----

static void start(const char *timeout_s, const char *role)
{
    need_fabric();
    need_networks();
    fabric_start(ranks, where, RANKS, 7920, NULL, timeout_s, role);
}

static void finish(int rank, const char *words)
{
    int status = root_finish(&ranks[rank]);
    root_expect(&ranks[rank], words);
    assert_int_equal(status, 0);
}

static void test_each_way_carries_what_it_should(void **state)
{
    (void)state;
    start("20", "apart");
    for (int rank = 0; rank < RANKS; rank++)
        finish(rank, "apart 0: all right");
}

static void test_a_deadlock_across_both_is_proven(void **state)
{
    (void)state;
    start("1", "circle");
    for (int rank = 0; rank < RANKS; rank++) {
        finish(rank, "then 0: all right");
        root_expect(&ranks[rank], "circle -35");
        root_expect(&ranks[rank], "rank 1 waits for rank 2 (receive, tag 6)");
    }
}

static void test_survivors_of_both_go_on(void **state)
{
    (void)state;
    start("20", "left");
    for (int rank = 0; rank < RANKS; rank++)
        root_await(&ranks[rank], "open");
    kill(ranks[2].pid, SIGKILL);
    root_finish(&ranks[2]);
    for (int rank = 0; rank < RANKS; rank++)
        if (rank != 2) {
            finish(rank, "left 0 with 34: all right");
            root_expect(&ranks[rank], "rank 2");
        }
}

// ---- mpirun ----

static void need_mpirun(void)
{
    const char *absent = system("command -v mpirun.openmpi nsenter unshare >/dev/null")
                             ? "Open MPI's mpirun, nsenter or unshare is not here"
                             : leat_pmix_absent();
    if (!absent)
        return;
    print_message("%s\n", absent);
    skip();
}

// What mpirun calls instead of ssh: HOST COMMAND... A host has to have a name of its own.
static void write_agent(char path[64])
{
    snprintf(path, 64, "/tmp/leat-agent-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd,
            "#!/bin/sh\nshift\nexec nsenter --net=/proc/%d/ns/net unshare -u sh -c \"hostname "
            "leat-b; $*\"\n",
            (int)holder[1]);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
}

static void test_mpirun_starts_a_job_on_two_hosts(void **state)
{
    (void)state;
    char agent[64], self[256], network_0[64];
    need_fabric();
    need_networks();
    need_mpirun();
    write_agent(agent);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    snprintf(network_0, sizeof network_0, "--net=/proc/%d/ns/net", (int)holder[0]);
    root_start_command(ranks,
                       (char *[]){"nsenter", network_0, "mpirun.openmpi", "--allow-run-as-root",
                                  "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include",
                                  "10.77.0.0/24", "--host", "10.77.0.1:2,10.77.0.2:2", "-n", "4",
                                  "--oversubscribe", self, "rank", "apart", NULL});
    int status = root_finish(ranks);
    unlink(agent);
    if (root_count(ranks->text, "apart 0: all right") != RANKS)
        fail_msg("not of all ranks: %s", ranks->text);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "rank"))
        play(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_way_carries_what_it_should),
        cmocka_unit_test(test_a_deadlock_across_both_is_proven),
        cmocka_unit_test(test_survivors_of_both_go_on),
        cmocka_unit_test(test_mpirun_starts_a_job_on_two_hosts),
    };
    return cmocka_run_group_tests(tests, join_networks, leave_networks);
}
