// SPDX-License-Identifier: Apache-2.0
// The job's segment: one sparse memfd for all ranks of a host.
//
// Algorithm: a head with one record a rank, then one arena a rank at a computed place. Whoever
// starts the job makes it; every rank maps the whole span once and touches only what it uses.
// Advantage: any rank's memory is one addition away, nothing has a name, nothing outlives the job.
// Disadvantage: rank_count * arena_bytes of address space, so a limit on that (ulimit -v) shows.

#define _GNU_SOURCE
#include "core/bootstrap.h"
#include "core/descriptor.h"
#include "core/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAT_LAYOUT 6 /* of everything in job.h that lies in the segment; raise on any change */

#define STRING(x) #x
#define NUMBER(x) STRING(x)

const char *leat_build_id(void)
{
    return "leat " NUMBER(LEAT_VERSION_MAJOR) "." NUMBER(LEAT_VERSION_MINOR) "." NUMBER(
        LEAT_VERSION_PATCH) " layout " NUMBER(LEAT_LAYOUT);
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static int fill_head(int fd, uint64_t head_bytes, int rank_count, uint64_t arena_bytes,
                     const int grid[3], bool threads)
{
    struct segment_head *head = mmap(NULL, head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return leat_fail(-errno, "cannot map the job's segment head (%llu bytes): %s",
                         (unsigned long long)head_bytes, strerror(errno));
    head->rank_count = (uint32_t)rank_count;
    head->threads = threads;
    head->creator_pid = getpid();
    head->arena_bytes = arena_bytes;
    head->first_arena = head_bytes;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    head->created_ns = (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
    for (int d = 0; d < 3; d++)
        head->grid[d] = grid ? grid[d] : 0;
    for (int rank = 0; rank < rank_count; rank++)
        head->rank[rank].here = 1;
    if (getrandom(head->job, sizeof head->job, 0) != sizeof head->job)
        memcpy(head->job, &head->created_ns, sizeof head->created_ns);
    snprintf(head->build, sizeof head->build, "%s", leat_build_id());
    __atomic_store_n(&head->magic, LEAT_SEGMENT_MAGIC, __ATOMIC_RELEASE);
    munmap(head, head_bytes);
    return 0;
}

// Past a file size limit the system sends SIGXFSZ, of which a program dies. It goes to this thread,
// where it is blocked and taken back, so that the error is all that is left of it.
static int resize(int fd, uint64_t bytes)
{
    sigset_t limit, before, pending;
    const struct timespec now = {0};
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    sigpending(&pending);
    int reason = ftruncate(fd, (off_t)bytes) ? errno : 0;
    if (reason == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&limit, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return reason ? -1 : 0;
}

int leat_segment_create(int rank_count, uint64_t arena_bytes, const int grid[3], bool threads,
                        int *fd)
{
    if (rank_count < 1)
        return leat_fail(-EINVAL, "a job of %d ranks: at least one is needed", rank_count);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    arena_bytes = round_up(arena_bytes, page);
    uint64_t least = sizeof(struct arena_head);
    if (arena_bytes < least + page)
        return leat_fail(-EINVAL, "LEAT_ARENA of %llu bytes is too small: at least %llu",
                         (unsigned long long)arena_bytes, (unsigned long long)(least + page));
    uint64_t head_bytes = round_up(
        sizeof(struct segment_head) + (uint64_t)rank_count * sizeof(struct rank_record), page);
    if (arena_bytes > (UINT64_C(1) << 46) / (uint64_t)rank_count)
        return leat_fail(-EINVAL, "%d arenas of %llu bytes pass 64 TiB; set LEAT_ARENA smaller",
                         rank_count, (unsigned long long)arena_bytes);
    int made = leat_descriptor_keep(memfd_create("leat-job", MFD_CLOEXEC));
    if (made < 0)
        return leat_fail(-errno, "memfd_create for the job's segment: %s%s", strerror(errno),
                         leat_descriptor_remedy(errno));
    uint64_t total = head_bytes + (uint64_t)rank_count * arena_bytes;
    int error = 0;
    if (fchmod(made, 0600) || resize(made, total))
        error = leat_fail(-errno,
                          "cannot size the job's segment to %llu bytes: %s; a file size limit "
                          "(ulimit -f) is in the way, or set LEAT_ARENA smaller",
                          (unsigned long long)total, strerror(errno));
    if (!error)
        error = fill_head(made, head_bytes, rank_count, arena_bytes, grid, threads);
    if (error) {
        close(made);
        return error;
    }
    *fd = made;
    return 0;
}

static int no_job(void)
{
    return leat_fail(-EPROTO, "this descriptor is not of a leat job; start the program with `leat "
                              "run`, or unset LEAT_JOB_FD");
}

// What a stranger's descriptor in LEAT_JOB_FD could be is checked before it is trusted.
static int check_head(const struct segment_head *head, uint64_t bytes)
{
    if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != LEAT_SEGMENT_MAGIC)
        return no_job();
    if (strncmp(head->build, leat_build_id(), LEAT_BUILD_BYTES) != 0)
        return leat_fail(-EPROTO,
                         "the job was started by \"%.*s\" and this program is \"%s\"; start both "
                         "from the same installation",
                         LEAT_BUILD_BYTES, head->build, leat_build_id());
    if (head->first_arena + (uint64_t)head->rank_count * head->arena_bytes != bytes)
        return leat_fail(-EPROTO, "the job's segment has %llu bytes, its head says otherwise",
                         (unsigned long long)bytes);
    return 0;
}

int leat_segment_map(int fd, struct segment **segment)
{
    struct stat status;
    if (fstat(fd, &status))
        return leat_fail(-errno, "descriptor %d (of the job) is not open: %s", fd, strerror(errno));
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size < sizeof(struct segment_head))
        return no_job();
    struct segment *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a job handle");
    made->fd = fd;
    made->references = 1;
    made->bytes = (uint64_t)status.st_size;
    made->head = mmap(NULL, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    int error = 0;
    if (made->head == MAP_FAILED && errno == EACCES)
        error = no_job();
    else if (made->head == MAP_FAILED)
        error = leat_fail(-ENOMEM,
                          "cannot map the job's segment of %llu bytes; raise the limit on address "
                          "space (ulimit -v) or set LEAT_ARENA smaller",
                          (unsigned long long)made->bytes);
    else if ((error = check_head(made->head, made->bytes)) != 0)
        munmap(made->head, made->bytes);
    if (error) {
        free(made);
        return error;
    }
    pthread_mutex_init(&made->lock, NULL);
    *segment = made;
    return 0;
}

void leat_segment_part(struct segment *segment, const uint8_t job[16])
{
    struct segment_head *head = segment->head;
    for (uint32_t rank = 0; rank < head->rank_count; rank++)
        head->rank[rank].here = 0;
    memcpy(head->job, job, sizeof head->job);
}

void leat_segment_release(struct segment *segment)
{
    if (!segment || __atomic_sub_fetch(&segment->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    munmap(segment->head, segment->bytes);
    close(segment->fd);
    pthread_mutex_destroy(&segment->lock);
    free(segment);
}

// A process that has ended but was not reaped yet still answers kill(pid, 0); its pidfd tells.
static bool process_ended(int pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == ESRCH;
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    bool ended = poll(&poller, 1, 0) == 1;
    close(fd);
    return ended;
}

int leat_rank_lost(const struct leat_job *job, int rank)
{
    struct segment_head *head = job->segment->head;
    const struct rank_record *record = &head->rank[rank];
    if (job->tie && job->tie->ops->look)
        job->tie->ops->look(job->tie, head);
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    if (state == RANK_CLOSED || state == RANK_DEAD)
        return -ECONNRESET;
    int pid = __atomic_load_n(&record->pid, __ATOMIC_RELAXED);
    if (!head->threads && pid > 0 && rank != job->rank && process_ended(pid))
        return -ECONNRESET;
    return 0;
}

bool leat_rank_died(const struct leat_job *job, int rank)
{
    return leat_rank_lost(job, rank) &&
           __atomic_load_n(&leat_rank_record(job, rank)->state, __ATOMIC_ACQUIRE) != RANK_CLOSED;
}

void leat_rank_gone(struct segment_head *head, int rank, enum rank_failure failed, const char *text)
{
    struct rank_record *record = &head->rank[rank];
    uint32_t absent = RANK_ABSENT;
    // A rank of this host says itself how it ends, or its process does.
    if (record->here || !__atomic_compare_exchange_n(&record->state, &absent, RANK_ENDING, false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    snprintf(record->reason, sizeof record->reason, "%s", text);
    record->failed = failed;
    __atomic_store_n(&record->state, failed == RANK_LOST ? RANK_DEAD : RANK_CLOSED,
                     __ATOMIC_RELEASE);
    if (failed)
        leat_rank_failed(head, rank);
}

int leat_all_here(const struct leat_job *job, const char *what)
{
    return job->first_away < 0
               ? 0
               : leat_fail(-EHOSTUNREACH,
                           "%s: rank %d is on another host or in other namespaces, and this build "
                           "has no path there (leat path shows what leads where)",
                           what, job->first_away);
}

void leat_rank_failed(struct segment_head *head, int rank)
{
    int32_t none = 0;
    __atomic_compare_exchange_n(&head->first_failed, &none, rank + 1, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
}

static void fate_of(const struct leat_job *job, int rank, char *text, size_t bytes)
{
    const struct rank_record *record = leat_rank_record(job, rank);
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    bool over = state == RANK_CLOSED || state == RANK_DEAD; // only then the rest may be read
    int status = over ? record->status : 0;
    if (over && record->failed == RANK_LOST)
        snprintf(text, bytes, "rank %d %s", rank, record->reason);
    else if (over && record->failed)
        snprintf(text, bytes, "rank %d failed: %s", rank, record->reason);
    else if (state == RANK_DEAD && WIFSIGNALED(status))
        snprintf(text, bytes, "rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (state == RANK_DEAD)
        snprintf(text, bytes, "rank %d exited with status %d", rank, WEXITSTATUS(status));
    else if (state == RANK_CLOSED)
        snprintf(text, bytes, "rank %d has left the job", rank);
    else
        snprintf(text, bytes, "rank %d (process %d) has died", rank,
                 __atomic_load_n(&record->pid, __ATOMIC_RELAXED));
}

void leat_rank_fate(const struct leat_job *job, int rank, char *text, size_t bytes)
{
    int first = __atomic_load_n(&job->segment->head->first_failed, __ATOMIC_ACQUIRE) - 1;
    if (first < 0 || first == rank || first == job->rank) {
        fate_of(job, rank, text, bytes);
        return;
    }
    // The peer gave up because of somebody else: that is what the reader wants to know.
    int used = snprintf(text, bytes, "rank %d has ended; first ", rank);
    if (used > 0 && (size_t)used < bytes)
        fate_of(job, first, text + used, bytes - (size_t)used);
}
