// SPDX-License-Identifier: Apache-2.0
// The launcher: forks the ranks of a job and watches over them.
//
// Algorithm: all of this is in the keeper, a child of the caller (launch_front.h). Ranks are
// forked, held at a gate until all of them exist, and then execute the program. The keeper sleeps
// in sigtimedwait. A rank that fails starts the end of the job: a second's grace in which peers
// notice by themselves, then SIGTERM, then SIGKILL. As a subreaper the keeper inherits what ranks
// leave behind, and ends that too when it ends a job; at the front's death it ends all at once.
// Advantage: no daemon, no sockets, no threads; ranks stay in the terminal's process group, so
// Ctrl-C and Ctrl-Z mean what they mean for any program. Disadvantage: one host.

#define _GNU_SOURCE
#include "core/launch.h"

#include "core/bootstrap.h"
#include "core/launch_front.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND   UINT64_C(1000000)
#define GRACE_NS      (1000 * MILLISECOND)
#define TERM_NS       (300 * MILLISECOND)
#define KILL_NS       (5000 * MILLISECOND)
#define SAME_PRESS_NS (50 * MILLISECOND)
#define TICK_NS       20000000L

enum phase { PHASE_RUNNING, PHASE_GRACE, PHASE_TERM, PHASE_KILL, PHASE_GIVEN_UP };

struct watched {
    pid_t pid;
    bool alive;
    bool fresh; // ended, and nobody has said so yet
    int status;
};

struct launcher {
    const struct launch_options *options;
    struct segment *segment;
    int log_level;
    pid_t self;
    struct watched *rank;
    int alive;
    int exit_status; // 0 until something failed
    enum phase phase;
    uint64_t next_ns; // when the phase ends
    int interrupts;
    uint64_t interrupted_ns;
    int gate[2];   // ranks read its end of file: all have been forked
    int report[2]; // ranks write why they could not execute the program
    struct launch_front front;
};

struct exec_failure {
    int rank, error;
};

bool leat_launched(void)
{
    return leat_bootstrap_way() != WAY_ALONE;
}

// ---- Children beyond the ranks ----

static int find_rank(const struct launcher *launcher, pid_t pid)
{
    for (int rank = 0; rank < launcher->options->rank_count; rank++)
        if (launcher->rank[rank].pid == pid)
            return rank;
    return -1;
}

// Sends a signal (0: none) to what ranks have left behind; how many there are.
static int signal_orphans(const struct launcher *launcher, int number)
{
    pid_t pids[LAUNCH_CHILDREN];
    size_t count = leat_list_children(pids, LAUNCH_CHILDREN);
    int orphans = 0;
    for (size_t i = 0; i < count; i++)
        if (find_rank(launcher, pids[i]) < 0) {
            orphans++;
            if (number)
                kill(pids[i], number);
        }
    return orphans;
}

static void signal_ranks(const struct launcher *launcher, int number)
{
    for (int rank = 0; rank < launcher->options->rank_count; rank++)
        if (launcher->rank[rank].alive)
            kill(launcher->rank[rank].pid, number);
}

// ---- Start ----

static void set_environment(const struct launcher *launcher, int rank)
{
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("LEAT_RANK", text, 1);
    snprintf(text, sizeof text, "%d", launcher->options->rank_count);
    setenv("LEAT_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", launcher->segment->fd);
    setenv("LEAT_JOB_FD", text, 1);
}

static void read_nothing(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
}

// The life of a rank up to the program.
static _Noreturn void become_rank(const struct launcher *launcher, int rank)
{
    char byte;
    close(launcher->gate[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(launcher->gate[0], &byte, 1) < 0 && errno == EINTR)
        ;
    // The launcher may have died before it was our death's signal.
    if (getppid() != launcher->self)
        _exit(1);
    // Where Yama restricts cross-memory attach to descendants, this opens it to the launcher's: the
    // other ranks. Kernels without Yama refuse the call and need none.
    prctl(PR_SET_PTRACER, (unsigned long)launcher->self, 0, 0, 0);
    sigaction(SIGCHLD, &launcher->front.old_child, NULL);
    pthread_sigmask(SIG_SETMASK, &launcher->front.old_signals, NULL);
    if (rank > 0)
        read_nothing();
    set_environment(launcher, rank);
    fcntl(launcher->segment->fd, F_SETFD, 0);
    execvp(launcher->options->program, launcher->options->argv);
    struct exec_failure failure = {rank, errno};
    ssize_t written = write(launcher->report[1], &failure, sizeof failure);
    _exit(written == sizeof failure && failure.error == ENOENT ? 127 : 126);
}

static int fork_failed(int rank, int rank_count, int error)
{
    struct rlimit limit;
    if (error == EAGAIN && !getrlimit(RLIMIT_NPROC, &limit) && limit.rlim_cur != RLIM_INFINITY)
        return leat_fail(-error,
                         "cannot start rank %d of %d: %s; this user may have %llu processes "
                         "(ulimit -u): raise that or start fewer ranks",
                         rank, rank_count, strerror(error), (unsigned long long)limit.rlim_cur);
    return leat_fail(-error,
                     "cannot start rank %d of %d: %s; start fewer ranks, or raise the container's "
                     "limits on processes and memory",
                     rank, rank_count, strerror(error));
}

// Either every rank waits at the gate, or none is left.
static int fork_ranks(struct launcher *launcher)
{
    int rank_count = launcher->options->rank_count;
    fflush(NULL); // or each rank would print what is buffered once more
    for (int rank = 0; rank < rank_count; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            become_rank(launcher, rank);
        if (pid < 0) {
            int error = fork_failed(rank, rank_count, errno);
            signal_ranks(launcher, SIGKILL);
            for (int started = 0; started < rank; started++)
                waitpid(launcher->rank[started].pid, NULL, 0);
            return error;
        }
        launcher->rank[rank] = (struct watched){.pid = pid, .alive = true};
        launcher->alive++;
        __atomic_store_n(&launcher->segment->head->rank[rank].pid, pid, __ATOMIC_RELAXED);
    }
    return 0;
}

static const char *exec_remedy(const char *program, int error)
{
    if (error == ENOENT && strchr(program, '/') && !access(program, F_OK))
        return "; it exists, but the interpreter it names does not";
    if (error == ENOENT)
        return "; give a path, or a name that is on PATH";
    if (error == EACCES)
        return "; it has to be a file with permission to execute (chmod +x)";
    return "";
}

// Waits until every rank has executed the program or failed to; says so for the first that failed.
static void open_gate(struct launcher *launcher)
{
    close(launcher->gate[1]);
    close(launcher->report[1]);
    launcher->gate[1] = launcher->report[1] = -1;
    struct exec_failure failure;
    ssize_t got;
    while ((got = read(launcher->report[0], &failure, sizeof failure)) != 0) {
        if (got != sizeof failure || launcher->exit_status)
            continue;
        const char *program = launcher->options->program;
        leat_log(launcher->log_level, LOG_ERROR, -1, "cannot start \"%s\": %s%s", program,
                 strerror(failure.error), exec_remedy(program, failure.error));
        launcher->exit_status = failure.error == ENOENT ? 127 : 126;
        launcher->phase = PHASE_KILL;
        launcher->next_ns = leat_now_ns() + KILL_NS;
        signal_ranks(launcher, SIGKILL);
    }
}

// ---- Watch ----

static void begin_phase(struct launcher *launcher, enum phase phase)
{
    static const uint64_t length_ns[] = {[PHASE_GRACE] = GRACE_NS,
                                         [PHASE_TERM] = TERM_NS,
                                         [PHASE_KILL] = KILL_NS,
                                         [PHASE_GIVEN_UP] = 0};
    launcher->phase = phase;
    launcher->next_ns = leat_now_ns() + length_ns[phase];
    if (phase == PHASE_TERM) {
        signal_ranks(launcher, SIGTERM);
        signal_orphans(launcher, SIGTERM);
        // A stopped process acts on SIGTERM once it goes on.
        signal_ranks(launcher, SIGCONT);
        signal_orphans(launcher, SIGCONT);
    }
}

static void fate(int status, char *text, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, bytes, "exited with status %d", WEXITSTATUS(status));
}

// Tells the peers, who look while they wait. A rank that returned 0 has left, too.
static void mark_record(const struct launcher *launcher, int rank)
{
    struct rank_record *record = &launcher->segment->head->rank[rank];
    int status = launcher->rank[rank].status;
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    if (state == RANK_CLOSED && status == 0)
        return;
    record->status = status;
    if (state != RANK_CLOSED)
        fate(status, record->reason, sizeof record->reason);
    __atomic_store_n(&record->state, RANK_DEAD, __ATOMIC_RELEASE);
    if (status != 0)
        leat_rank_failed(launcher->segment->head, rank);
}

static void announce(struct launcher *launcher, int rank)
{
    struct watched *watched = &launcher->rank[rank];
    bool survive = launcher->options->survive;
    bool cause = !launcher->exit_status;
    bool told = launcher->options->reports_itself && !WIFSIGNALED(watched->status);
    char text[96];
    fate(watched->status, text, sizeof text);
    // Later ones mostly follow from the first, and have told their own story.
    leat_log(launcher->log_level, (cause || survive) && !told ? LOG_ERROR : LOG_INFO, -1,
             "rank %d (pid %d) %s", rank, (int)watched->pid, text);
    watched->fresh = false;
    if (cause)
        launcher->exit_status = WIFSIGNALED(watched->status) ? 128 + WTERMSIG(watched->status)
                                                             : WEXITSTATUS(watched->status);
    if (!survive && launcher->phase == PHASE_RUNNING)
        begin_phase(launcher, PHASE_GRACE);
}

static void reap(struct launcher *launcher)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int rank = find_rank(launcher, pid);
        if (rank < 0 || !launcher->rank[rank].alive)
            continue;
        launcher->rank[rank] = (struct watched){.pid = pid, .fresh = status != 0, .status = status};
        launcher->alive--;
        mark_record(launcher, rank);
    }
    // Of those that ended together, one that was killed is the cause and one that failed may be the
    // effect: peers notice a death by themselves.
    for (int killed = 1; killed >= 0; killed--)
        for (int rank = 0; rank < launcher->options->rank_count; rank++) {
            const struct watched *watched = &launcher->rank[rank];
            if (watched->fresh && (killed == 0 || WIFSIGNALED(watched->status)))
                announce(launcher, rank);
        }
}

static void interrupt(struct launcher *launcher, const siginfo_t *info)
{
    uint64_t now_ns = leat_now_ns();
    bool first = launcher->interrupts == 0;
    // One press may come twice, to the process group and handed on by a parent.
    if (!first && now_ns - launcher->interrupted_ns < SAME_PRESS_NS)
        return;
    launcher->interrupts++;
    launcher->interrupted_ns = now_ns;
    if (!first) {
        if (!launcher->exit_status)
            launcher->exit_status = 128 + SIGINT;
        begin_phase(launcher, PHASE_KILL);
        return;
    }
    for (int rank = 0; rank < launcher->options->rank_count; rank++) {
        const struct watched *watched = &launcher->rank[rank];
        // The terminal has told every process of the group already.
        bool told = info->si_code == SI_KERNEL && getpgid(watched->pid) == getpgrp();
        if (watched->alive && !told)
            kill(watched->pid, SIGINT);
    }
}

static void name_immortals(const struct launcher *launcher)
{
    for (int rank = 0; rank < launcher->options->rank_count; rank++)
        if (launcher->rank[rank].alive)
            leat_log(launcher->log_level, LOG_ERROR, -1,
                     "rank %d (pid %d) does not end even when killed; it waits for a device or a "
                     "file system, and is left behind",
                     rank, (int)launcher->rank[rank].pid);
}

static void escalate(struct launcher *launcher)
{
    if (launcher->phase == PHASE_KILL) {
        // Again each time: whoever dies may leave children, who become ours only then.
        signal_ranks(launcher, SIGKILL);
        signal_orphans(launcher, SIGKILL);
    }
    if (launcher->phase == PHASE_RUNNING || leat_now_ns() < launcher->next_ns)
        return;
    begin_phase(launcher, launcher->phase + 1);
    if (launcher->phase == PHASE_GIVEN_UP)
        name_immortals(launcher);
}

static bool unfinished(const struct launcher *launcher)
{
    if (launcher->phase == PHASE_GIVEN_UP)
        return false;
    return launcher->alive > 0 ||
           (launcher->phase != PHASE_RUNNING && signal_orphans(launcher, 0) > 0);
}

// Only the kernel tells it so; anybody may send the signal.
static void end_without_front(struct launcher *launcher)
{
    if (leat_front_there(&launcher->front) || launcher->phase >= PHASE_KILL)
        return;
    leat_log(launcher->log_level, LOG_ERROR, -1,
             "the launcher (pid %d) was killed, so its %d ranks are ended",
             (int)launcher->front.self, launcher->alive);
    begin_phase(launcher, PHASE_KILL);
}

static void watch(struct launcher *launcher)
{
    static const struct timespec tick = {.tv_nsec = TICK_NS};
    while (unfinished(launcher)) {
        siginfo_t info;
        bool ending = launcher->phase != PHASE_RUNNING;
        int number = sigtimedwait(&launcher->front.signals, &info, ending ? &tick : NULL);
        if (number == SIGINT)
            interrupt(launcher, &info);
        else if (number == SIGTERM || number == SIGHUP)
            signal_ranks(launcher, number);
        else if (number == LAUNCH_FRONT_GONE)
            end_without_front(launcher);
        reap(launcher);
        escalate(launcher);
    }
}

// ---- The whole ----

static int check_options(const struct launch_options *options)
{
    const int *grid = options->grid;
    if (options->rank_count < 1 || (!grid[0] && !grid[1] && !grid[2]))
        return 0; // making the segment refuses jobs without ranks
    for (int d = 0; d < 3; d++)
        if (grid[d] < 1 || grid[d] > options->rank_count)
            return leat_fail(-EINVAL, "a grid of %dx%dx%d for %d ranks: each number is 1 to %d",
                             grid[0], grid[1], grid[2], options->rank_count, options->rank_count);
    if ((int64_t)grid[0] * grid[1] != options->rank_count / grid[2] ||
        options->rank_count % grid[2] != 0)
        return leat_fail(-EINVAL, "a grid of %dx%dx%d does not have %d ranks", grid[0], grid[1],
                         grid[2], options->rank_count);
    return 0;
}

static int make_segment(struct launcher *launcher)
{
    const struct launch_options *options = launcher->options;
    struct config config;
    int fd;
    int error = leat_config_load(NULL, -1, &config); // rank 0 will warn
    if (error)
        return error;
    launcher->log_level = config.log_level;
    uint64_t arena_bytes = options->arena_bytes ? options->arena_bytes : config.arena_bytes;
    error = leat_segment_create(options->rank_count, arena_bytes, options->grid, false, &fd);
    if (error)
        return error;
    error = leat_segment_map(fd, &launcher->segment);
    if (error)
        close(fd);
    return error;
}

static void close_pair(const int pair[2])
{
    for (int end = 0; end < 2; end++)
        if (pair[end] >= 0)
            close(pair[end]);
}

// In the keeper.
static int keep(void *argument, int *exit_status)
{
    struct launcher *launcher = argument;
    launcher->self = getpid();
    if (pipe2(launcher->gate, O_CLOEXEC) || pipe2(launcher->report, O_CLOEXEC))
        return leat_fail(-errno,
                         "cannot make a pipe for the ranks: %s; raise the limit on open "
                         "files (ulimit -n)",
                         strerror(errno));
    int error = fork_ranks(launcher);
    if (!error) {
        open_gate(launcher);
        watch(launcher);
    }
    close_pair(launcher->gate);
    close_pair(launcher->report);
    *exit_status = launcher->exit_status;
    return error;
}

int leat_launch(const struct launch_options *options, int *exit_status)
{
    int error = check_options(options);
    if (error)
        return error;
    struct launcher launcher = {.options = options, .gate = {-1, -1}, .report = {-1, -1}};
    error = make_segment(&launcher);
    if (error)
        return error;
    launcher.rank = calloc((size_t)options->rank_count, sizeof *launcher.rank);
    if (launcher.rank) {
        int status = 0;
        bool forked = true;
        leat_front_begin(&launcher.front, launcher.log_level);
        error = leat_front_run(&launcher.front, keep, &launcher, &forked, &status);
        leat_front_end(&launcher.front);
        if (!forked)
            fork_failed(0, options->rank_count, -error);
        if (!error)
            *exit_status = status;
    } else {
        error = leat_fail(-ENOMEM, "no memory to watch %d ranks", options->rank_count);
    }
    leat_segment_release(launcher.segment);
    free(launcher.rank);
    return error;
}
