// SPDX-License-Identifier: Apache-2.0
// Which job a process belongs to: the environment says it; see bootstrap.h.
//
// Algorithm: the first of `leat run`, LEAT_ROOT and PMIx that has left its mark in the environment.
// Advantage: the nearest launcher wins, so `leat run` inside an allocation of mpirun does what it
// says. Disadvantage: a process that a rank starts inherits the mark, and has to drop it (env -u)
// to be a job of its own.

#define _GNU_SOURCE
#include "core/bootstrap.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *text = getenv(name);
    return text && *text;
}

enum bootstrap_way leat_bootstrap_way(void)
{
    if (is_set("LEAT_JOB_FD") && is_set("LEAT_RANK"))
        return WAY_LAUNCHER;
    if (is_set("LEAT_ROOT"))
        return WAY_ROOT;
    return is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK") ? WAY_PMIX : WAY_ALONE;
}

int leat_bootstrap_rank(void)
{
    enum bootstrap_way way = leat_bootstrap_way();
    const char *text = way == WAY_ALONE  ? NULL
                       : way == WAY_PMIX ? getenv("PMIX_RANK")
                                         : getenv("LEAT_RANK");
    return text ? atoi(text) : 0;
}

int leat_environment_number(const char *name, int least, int most, int *value)
{
    const char *text = getenv(name);
    char *end;
    errno = 0;
    long number = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || number < least || number > most)
        return leat_fail(-EINVAL, "%s is \"%s\": a number from %d to %d was expected", name,
                         text ? text : "(unset)", least, most);
    *value = (int)number;
    return 0;
}

static int map_launched(int *rank, struct segment **segment)
{
    int fd, size;
    int error = leat_environment_number("LEAT_JOB_FD", 0, 1 << 20, &fd);
    if (!error)
        error = leat_environment_number("LEAT_SIZE", 1, 1 << 30, &size);
    if (!error)
        error = leat_environment_number("LEAT_RANK", 0, size - 1, rank);
    if (error)
        return error;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (own < 0)
        return leat_fail(-errno,
                         "LEAT_JOB_FD names descriptor %d, which is not open: %s; start the "
                         "program with `leat run`, or unset LEAT_JOB_FD",
                         fd, strerror(errno));
    error = leat_segment_map(own, segment);
    if (error) {
        close(own);
        return leat_fail_in(error, "LEAT_JOB_FD=%d", fd);
    }
    if ((int)(*segment)->head->rank_count != size) {
        error = leat_fail(-EPROTO, "LEAT_SIZE is %d, the job has %u ranks", size,
                          (*segment)->head->rank_count);
        leat_segment_release(*segment);
    }
    return error;
}

static int map_own(int rank_count, uint64_t arena_bytes, struct segment **segment)
{
    int fd;
    // In one process every rank is a thread, one rank alone included.
    int error = leat_segment_create(rank_count, arena_bytes, NULL, true, &fd);
    if (error)
        return error;
    error = leat_segment_map(fd, segment);
    if (error)
        close(fd);
    return error;
}

// Launchers that leave nothing that leat can use would make each rank a job of its own, unnoticed.
static void warn_of_strangers(const struct config *config)
{
    const char *size = getenv("PMI_SIZE"), *process = getenv("SLURM_PROCID");
    const char *rank = getenv("PMI_RANK");
    if (size && atoi(size) > 1 && rank && atoi(rank) == 0)
        leat_log(config->log_level, LOG_WARN, -1,
                 "a launcher with PMI-1 (MPICH's mpirun, or srun --mpi=pmi2) has started %s "
                 "processes; leat knows PMIx only, so each is a job of its own: use `leat run`, "
                 "Open MPI's mpirun, srun --mpi=pmix, or LEAT_ROOT",
                 size);
    else if (!rank && process && atoi(process) == 1)
        leat_log(config->log_level, LOG_WARN, -1,
                 "srun has started this process without PMIx, so it is a job of its own: use srun "
                 "--mpi=pmix, `leat run`, or LEAT_ROOT");
}

int leat_bootstrap(const struct config *config, int thread_count, struct bootstrap *found)
{
    *found = (struct bootstrap){0};
    switch (leat_bootstrap_way()) {
    case WAY_LAUNCHER:
        return map_launched(&found->rank, &found->segment);
    case WAY_ROOT:
        return leat_bootstrap_root(config, found);
    case WAY_PMIX:
        return leat_bootstrap_pmix(config, found);
    default:
        if (!thread_count)
            warn_of_strangers(config);
        return map_own(thread_count ? thread_count : 1, config->arena_bytes, &found->segment);
    }
}

static void add_link(struct sha256 *hash, const char *path)
{
    char text[64];
    ssize_t bytes = readlink(path, text, sizeof text);
    sha256_add(hash, text, bytes > 0 ? (size_t)bytes : 0);
}

void leat_host_identity(uint8_t host[HELLO_HOST_BYTES])
{
    struct sha256 hash;
    uint8_t digest[MAC_BYTES];
    char text[64] = "";
    uid_t user = geteuid();
    sha256_begin(&hash);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0 && !gethostname(text, sizeof text))
        bytes = (ssize_t)strnlen(text, sizeof text);
    sha256_add(&hash, text, bytes > 0 ? (size_t)bytes : 0);
    add_link(&hash, "/proc/self/ns/pid");
    add_link(&hash, "/proc/self/ns/net");
    sha256_add(&hash, &user, sizeof user);
    sha256_end(&hash, digest);
    memcpy(host, digest, HELLO_HOST_BYTES);
}

void leat_absent_ranks(const struct segment_head *head, bool here_only, char *text, size_t bytes)
{
    char list[96] = "";
    size_t used = 0;
    int absent = 0, of = 0;
    for (uint32_t rank = 0; rank < head->rank_count; rank++) {
        const struct rank_record *record = &head->rank[rank];
        if (here_only && !record->here)
            continue;
        of++;
        if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != RANK_ABSENT)
            continue;
        if (absent++ < 8 && used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", rank);
    }
    snprintf(text, bytes, "%d of %d ranks (%s%s)", absent, of, list, absent > 8 ? ", ..." : "");
}
