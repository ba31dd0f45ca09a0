// SPDX-License-Identifier: Apache-2.0
// Ranks that a test starts by hand; see root_job.h.
//
// Advantage: no launcher takes part. Disadvantage: the test has to end them itself.

#define _GNU_SOURCE
#include "multi/root_job.h"

#include "core/bootstrap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <leat/halo.h>
#include <leat/msg.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
// What libpmix and libfabric do not free is not ours to find.
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix.so\nleak:libfabric.so\n";
}
#endif

// ---- Ranks ----

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    char line[1500];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 1)
        length = sizeof line - 1;
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(97);
}

static int play_sum(leat_job *job)
{
    double sum = job->rank + 1;
    int error = leat_reduce(job, REDUCE_SUM, &sum, 1);
    if (error)
        tell("sum error %d: %s\n", error, leat_error_detail());
    else
        tell("sum %g of rank %d\n", sum, job->rank);
    return error != 0;
}

static int play_watch(leat_job *job)
{
    leat_region *region;
    const leat_region_options memory = {.size = sizeof memory, .bytes = LEAT_SIGNAL_BYTES};
    if (leat_region_alloc(job, &memory, &region))
        return 2;
    const leat_event event = {
        .signal = {region, 0}, .at_least = 1, .from = (job->rank + 1) % job->rank_count};
    tell("open %d\n", (int)getpid());
    uint64_t begin_ns = leat_now_ns();
    int error = leat_wait(job, &event, 1, LEAT_WAIT_ALL, 25, NULL);
    tell("wait %d after %.2f s: %s\n", error, (double)(leat_now_ns() - begin_ns) * 1e-9,
         leat_error_detail());
    return 0;
}

// The clock is the machine's, so the test can compare.
static int play_time(leat_job *job)
{
    (void)job;
    tell("time %llu\n", (unsigned long long)leat_now_ns());
    return 0;
}

static int play_idle(leat_job *job)
{
    (void)job;
    tell("open %d\n", (int)getpid());
    while (pause())
        ;
    return 0;
}

// Points on a ring of ranks along z, sent to the next one and their forces back.
static int play_halo(leat_job *job)
{
    enum { COUNT = 64 };
    static double home[3 * COUNT];
    static uint32_t start[COUNT + 1];
    const leat_groups groups = {COUNT, start};
    leat_decomposition boxes = {.size = sizeof boxes,
                                .grid = {1, 1, job->rank_count},
                                .box_nm = {{3, 0, 0}, {0, 3, 0}, {0, 0, 2.0 * job->rank_count}},
                                .cutoff_nm = 0.8};
    for (int i = 0; i < COUNT; i++) {
        home[3 * i] = home[3 * i + 1] = 0.04 * i;
        home[3 * i + 2] = 2 * job->rank + 0.03 * i;
        start[i + 1] = (uint32_t)i + 1;
    }
    leat_plan *plan = NULL;
    leat_halo *halo = NULL;
    leat_region *region;
    leat_plan_info info = {.size = sizeof info};
    int error = leat_plan_build(job, &boxes, &groups, home, &plan);
    if (!error)
        error = leat_plan_info_get(plan, &info);
    const leat_region_options memory = {.size = sizeof memory,
                                        .bytes = info.element_count * 24ull + 64};
    if (!error)
        error = leat_region_alloc(job, &memory, &region);
    if (!error) {
        const leat_field field = {
            .place = {region, 0}, .element = LEAT_F64, .components = 3, .shifted = 1};
        const leat_halo_options options = {
            .size = sizeof options, .field_count = 1, .fields = &field};
        error = leat_halo_open(job, plan, &options, &halo);
    }
    tell("open %d is rank %d\n", (int)getpid(), job->rank);
    while (!error)
        error = leat_halo_exchange(halo, 0, LEAT_FORWARD);
    tell("halo %d: %s\n", error, leat_error_detail());
    return 1;
}

// ---- Messages ----

enum { TALK_MOST = 300000, TALK_PEERS = 8 };

static const size_t talk_sizes[] = {0, 1, 96, 97, 4096, 40000, TALK_MOST};

static uint8_t talk_byte(int from, int to, size_t size, size_t at)
{
    return (uint8_t)(31 * from + 17 * to + (int)(size % 251) + (int)(at % 241));
}

// One message of a size to every rank, and one from each, all under way at once.
static int talk_all(leat_job *job, leat_comm *comm, size_t size)
{
    static uint8_t out[TALK_PEERS][TALK_MOST], in[TALK_PEERS][TALK_MOST];
    static leat_request requests[2 * TALK_PEERS];
    leat_request *list[2 * TALK_PEERS];
    size_t count = 0;
    int error = 0;
    for (int peer = 0; peer < job->rank_count && !error; peer++) {
        memset(in[peer], 0xee, size);
        for (size_t at = 0; at < size; at++)
            out[peer][at] = talk_byte(job->rank, peer, size, at);
        list[count] = &requests[count];
        error = leat_recv(comm, (leat_data){.address = in[peer], .bytes = size}, peer, (int)size,
                          NULL, list[count]);
        count++;
        list[count] = &requests[count];
        if (!error)
            error = leat_send(comm, (leat_data){.address = out[peer], .bytes = size}, peer,
                              (int)size, 0, list[count]);
        count++;
    }
    if (!error)
        error = leat_request_wait(list, count, LEAT_WAIT_ALL, 25, NULL);
    for (int peer = 0; peer < job->rank_count && !error; peer++)
        for (size_t at = 0; at < size; at++)
            if (in[peer][at] != talk_byte(peer, job->rank, size, at))
                error =
                    leat_fail(-EBADMSG, "byte %zu of %zu from rank %d is wrong", at, size, peer);
    return error;
}

static int talk_sum(leat_job *job, leat_comm *comm)
{
    static double in[1000], out[1000];
    double expected = 0.5 * job->rank_count * (job->rank_count + 1);
    for (int i = 0; i < 1000; i++)
        in[i] = (job->rank + 1) * (i + 1.0);
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLREDUCE,
                                       .type = LEAT_DOUBLE,
                                       .operation = LEAT_SUM,
                                       .count = 1000,
                                       .send = in,
                                       .receive = out};
    int error = leat_collective(comm, &options, NULL);
    for (int i = 0; i < 1000 && !error; i++)
        if (out[i] != expected * (i + 1.0))
            error = leat_fail(-EBADMSG, "element %d of a sum is %g", i, out[i]);
    return error;
}

// Elements of 8 bytes that say from whom to whom they are, so many to each rank.
static int talk_turn(leat_job *job, leat_comm *comm, uint64_t count)
{
    static uint64_t out[TALK_PEERS * 500], in[TALK_PEERS * 500];
    const uint64_t all = count * (uint64_t)job->rank_count, own = (uint64_t)job->rank;
    for (uint64_t i = 0; i < all; i++) {
        out[i] = own << 40 | (i / count) << 20 | i % count;
        in[i] = UINT64_MAX;
    }
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLTOALL,
                                       .type = LEAT_UINT64,
                                       .count = count,
                                       .send = out,
                                       .receive = in};
    int error = leat_collective(comm, &options, NULL);
    for (uint64_t i = 0; i < all && !error; i++)
        if (in[i] != ((i / count) << 40 | own << 20 | i % count))
            error = leat_fail(-EBADMSG, "element %d of an all-to-all is %llx", (int)i,
                              (unsigned long long)in[i]);
    return error;
}

static int play_talk(leat_job *job)
{
    leat_comm *comm;
    int error = leat_comm_split(job, NULL, &comm);
    for (size_t i = 0; i < sizeof talk_sizes / sizeof *talk_sizes && !error; i++)
        error = talk_all(job, comm, talk_sizes[i]);
    if (!error)
        error = talk_sum(job, comm);
    for (uint64_t count = 1; count <= 500 && !error; count += 499)
        error = talk_turn(job, comm, count);
    leat_stats stats = {.size = sizeof stats};
    leat_stats_read(job, LEAT_ALL_PEERS, &stats);
    for (int p = 0; p < stats.path_count; p++)
        if (stats.path[p].operations)
            tell("path %s\n", stats.path[p].path);
    // A page is less than any provider takes, a gibibyte more.
    bool plausible = stats.msg_provider_bytes >= 4096 && stats.msg_provider_bytes < 1ULL << 30;
    tell("provider %s\n", plausible                   ? "took memory"
                          : !stats.msg_provider_bytes ? "took none"
                                                      : "took what cannot be");
    tell("talk %d: %s\n", error, error ? leat_error_detail() : "all right");
    return error != 0;
}

static volatile sig_atomic_t told_to_end;

static void end_soon(int signal_number)
{
    told_to_end = signal_number;
}

// Talks until one of the ranks has got SIGUSR1.
static int play_persist(leat_job *job)
{
    leat_comm *comm;
    int64_t over = 0;
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLREDUCE,
                                       .type = LEAT_INT64,
                                       .operation = LEAT_MAXIMUM,
                                       .count = 1,
                                       .send = LEAT_IN_PLACE,
                                       .receive = &over};
    signal(SIGUSR1, end_soon);
    int error = leat_comm_split(job, NULL, &comm);
    for (int round = 0; !error && !over; round++) {
        error = talk_all(job, comm, talk_sizes[round % 6]);
        if (!round)
            tell("open %d\n", (int)getpid());
        over = told_to_end != 0;
        if (!error)
            error = leat_collective(comm, &options, NULL);
    }
    tell("talk %d: %s\n", error, error ? leat_error_detail() : "all right");
    return error != 0;
}

// Waits for a message that never comes, of a rank that it has heard from.
static int listen_to(leat_job *job, int next)
{
    leat_comm *comm;
    uint8_t byte;
    int error = leat_comm_split(job, NULL, &comm);
    if (!error)
        error = talk_all(job, comm, 96);
    tell("open %d\n", (int)getpid());
    uint64_t begin_ns = leat_now_ns();
    if (!error)
        error = leat_recv(comm, (leat_data){.address = &byte, .bytes = 1}, next, 7, NULL, NULL);
    tell("recv %d after %.2f s: %s\n", error, (double)(leat_now_ns() - begin_ns) * 1e-9,
         leat_error_detail());
    return 0;
}

static int play_listen(leat_job *job)
{
    return listen_to(job, (job->rank + 1) % job->rank_count);
}

// Of four: the first and the last of each other, and the two between. None leaves, which would tell
// the others something.
static int play_pair(leat_job *job)
{
    (void)listen_to(job, job->rank_count - 1 - job->rank);
    return pause();
}

// Rank 0 leaves; then the others, who have not spoken before, do.
static int play_late(leat_job *job)
{
    leat_comm *comm;
    int error = leat_comm_split(job, NULL, &comm);
    if (!job->rank)
        return error;
    while (!error && !leat_rank_lost(job, 0))
        sched_yield();
    for (int peer = 1; peer < job->rank_count && !error; peer++) {
        int32_t out = job->rank, in = -1;
        leat_request request, *list = &request;
        error = leat_send(comm, (leat_data){.address = &out, .bytes = 4}, peer, 1, 0, &request);
        if (!error)
            error = leat_recv(comm, (leat_data){.address = &in, .bytes = 4}, peer, 1, NULL, NULL);
        if (!error)
            error = leat_request_wait(&list, 1, LEAT_WAIT_ALL, 25, NULL);
        if (!error && in != peer)
            error = leat_fail(-EBADMSG, "rank %d has sent %d", peer, in);
    }
    tell("late %d: %s\n", error, error ? leat_error_detail() : "all right");
    return error != 0;
}

static const struct {
    const char *name;
    int (*play)(leat_job *job);
} roles[] = {{"late", play_late},     {"talk", play_talk},  {"persist", play_persist},
             {"listen", play_listen}, {"pair", play_pair},  {"sum", play_sum},
             {"watch", play_watch},   {"idle", play_idle},  {"halo", play_halo},
             {"time", play_time},     {"absent", play_sum}, {"closed", play_sum},
             {"alone", play_sum}};

// leat_open in a process that was started with the standard descriptors closed.
static int open_closed(leat_job **job)
{
    int taken = 0, out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    int error = leat_open(NULL, job);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        taken |= (fcntl(fd, F_GETFD) >= 0) << fd;
    dup2(out, STDOUT_FILENO);
    tell("taken %d\n", taken);
    return error;
}

// After the program's own libraries are loaded, which takes descriptors, too.
static void limit_files(void)
{
    const char *count = getenv("LEAT_TEST_FILES");
    int lowest = count ? dup(STDOUT_FILENO) : -1;
    if (lowest < 0)
        return;
    close(lowest);
    rlim_t most = (rlim_t)(lowest + atoi(count));
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}))
        _exit(94);
}

void root_play_role(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "rank") != 0)
        return;
    leat_job *job;
    if (!strcmp(argv[2], "absent") && leat_bootstrap_rank() == 1)
        pause();
    limit_files();
    alarm(3 * ROOT_LIMIT_MS / 1000); // should the test be killed
    if (!strcmp(argv[2], "alone"))
        unsetenv("LEAT_ROOT");
    bool closed = !strcmp(argv[2], "alone") || !strcmp(argv[2], "closed");
    int error = closed ? open_closed(&job) : leat_open(NULL, &job);
    if (error) {
        tell("open error %d: %s\n", error, leat_error_detail());
        _exit(3);
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(argv[2], roles[i].name)) {
            int status = roles[i].play(job);
            leat_close(job, status ? leat_error_detail() : NULL);
            exit(status);
        }
    _exit(4);
}

// ---- The test's side ----

uint64_t root_now_ms(void)
{
    return leat_now_ns() / 1000000;
}

int root_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static _Noreturn void be_rank(const struct root_rank_options *options, int out)
{
    char root[300];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (options->network && setns(options->network, CLONE_NEWNET))
        _exit(95);
    snprintf(root, sizeof root, "%s:%d", options->address ? options->address : "127.0.0.1",
             options->port);
    setenv("LEAT_ROOT", root, 1);
    setenv("LEAT_JOB_KEY", options->key ? options->key : ROOT_KEY, 1);
    setenv("LEAT_TIMEOUT", options->timeout_s ? options->timeout_s : "20", 1);
    setenv("LEAT_ARENA", "64M", 1);
    if (options->paths)
        setenv("LEAT_PATHS", options->paths, 1);
    set_number("LEAT_RANK", options->rank);
    set_number("LEAT_SIZE", options->size);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    if (options->files)
        set_number("LEAT_TEST_FILES", options->files);
    if (!strcmp(options->role, "path"))
        execl(getenv("LEAT_BIN"), "leat", "path", (char *)NULL);
    execl("/proc/self/exe", "rank", "rank", options->role, (char *)NULL);
    _exit(96);
}

static int start(struct started *started)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    *started = (struct started){.out = out[0]};
    started->pid = fork();
    assert_true(started->pid >= 0);
    if (started->pid > 0)
        close(out[1]);
    return out[1];
}

void root_start(struct started *started, const struct root_rank_options *options)
{
    int out = start(started);
    if (started->pid == 0)
        be_rank(options, out);
}

void root_start_command(struct started *started, char *const argv[])
{
    int out = start(started);
    if (started->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(96);
}

static bool read_more(struct started *started)
{
    struct pollfd poller = {.fd = started->out, .events = POLLIN};
    if (poll(&poller, 1, ROOT_LIMIT_MS) != 1)
        fail_msg("the rank said nothing and did not end for %d ms; so far: %s", ROOT_LIMIT_MS,
                 started->text);
    ssize_t got = read(started->out, started->text + started->bytes,
                       sizeof started->text - 1 - started->bytes);
    if (got > 0)
        started->bytes += (size_t)got;
    started->text[started->bytes] = 0;
    return got > 0;
}

void root_await(struct started *started, const char *words)
{
    while (!strstr(started->text, words))
        if (!read_more(started))
            fail_msg("the rank ended and has not said \"%s\": %s", words, started->text);
}

int root_finish(struct started *started)
{
    int status;
    while (read_more(started))
        ;
    close(started->out);
    assert_int_equal(waitpid(started->pid, &status, 0), started->pid);
    return status;
}

void root_expect(const struct started *started, const char *words)
{
    if (!strstr(started->text, words))
        fail_msg("\"%s\" is not in: %s", words, started->text);
}

int root_count(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text += strlen(words))
        count++;
    return count;
}
