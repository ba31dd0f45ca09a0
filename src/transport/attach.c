// SPDX-License-Identifier: Apache-2.0
// Cross-memory attach, where the kernel lets us.
//
// Algorithm: process_vm_readv and process_vm_writev, again until all bytes have moved. The kernel
// asks for the right to trace the other process, and nothing tells beforehand whether it will be
// given, so the first use is a try: the peer's own record is read through its address there. Its
// content also tells whether the number stands for the peer here; in another namespace of process
// numbers it is somebody else's. Advantage: no set-up, no thread, no descriptor. Disadvantage: a
// peer that dies in between is noticed by what the kernel answers.
//
// Under Yama (kernel.yama.ptrace_scope = 1) a process is open to its ancestors only, and to the
// descendants of one process that it names itself: each rank names the launcher (core/ctx.c), so
// the ranks of one job reach one another and strangers do not. That name is lost where a program
// names another one (some crash reporters do). Scopes 2 and 3, a process that is not dumpable, a
// seccomp filter and differing users all refuse; the caller then takes another way.

#define _GNU_SOURCE
#include "transport/attach.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#define CALL_BYTES (UINT64_C(1) << 30) // the kernel stops short of 2 GiB anyway

typedef ssize_t (*attach_call)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                               unsigned long, unsigned long);

// Other ranks need not try what one was refused.
static void remember(const struct leat_job *job, int peer, uint32_t verdict)
{
    uint32_t *word = &leat_rank_record(job, peer)->attach;
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != verdict)
        __atomic_store_n(word, verdict, __ATOMIC_RELAXED);
}

static int gone(const struct leat_job *job, int peer)
{
    char fate[520];
    leat_rank_fate(job, peer, fate, sizeof fate);
    return leat_fail(-ECONNRESET, "cross-memory attach: %s", fate);
}

static int refused(const struct leat_job *job, int peer, int error)
{
    remember(job, peer, ATTACH_REFUSED);
    return leat_fail(-EPERM,
                     "cross-memory attach to rank %d (process %d) is refused: %s; see "
                     "kernel.yama.ptrace_scope and the container's seccomp profile",
                     peer, __atomic_load_n(&leat_rank_record(job, peer)->pid, __ATOMIC_RELAXED),
                     strerror(error));
}

static int attach(const struct leat_job *job, attach_call call, int peer, uint64_t address,
                  void *here, uint64_t bytes)
{
    int pid = __atomic_load_n(&leat_rank_record(job, peer)->pid, __ATOMIC_RELAXED);
    for (uint64_t done = 0; done < bytes;) {
        uint64_t part = bytes - done < CALL_BYTES ? bytes - done : CALL_BYTES;
        struct iovec local = {(char *)here + done, part};
        struct iovec remote = {(void *)(uintptr_t)(address + done), part};
        ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
        if (moved > 0)
            done += (uint64_t)moved;
        else if (moved < 0 && errno == ESRCH)
            return gone(job, peer);
        else if (moved < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
            return refused(job, peer, errno);
        else if (moved == 0 || errno != EINTR)
            return leat_fail(moved ? -errno : -EFAULT,
                             "cross-memory attach to rank %d (process %d) stopped after %llu of "
                             "%llu bytes: %s",
                             peer, pid, (unsigned long long)done, (unsigned long long)bytes,
                             moved ? strerror(errno) : "the memory is not mapped there");
    }
    return 0;
}

int leat_attach_probe(const struct leat_job *job, int peer)
{
    const struct rank_record *record = leat_rank_record(job, peer);
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    if (state == RANK_CLOSED || state == RANK_DEAD)
        return gone(job, peer);
    uint64_t probe = __atomic_load_n(&record->probe, __ATOMIC_ACQUIRE);
    if (!probe)
        return leat_fail(-ENOTCONN, "rank %d has not opened the job yet", peer);
    struct rank_record there;
    int error =
        attach(job, process_vm_readv, peer, probe, &there, offsetof(struct rank_record, reason));
    if (error == -EFAULT || (!error && (there.pid != record->pid || there.probe != probe)))
        return refused(job, peer, ESRCH);
    if (!error)
        remember(job, peer, ATTACH_PERMITTED);
    return error;
}

int leat_attach_get(const struct leat_job *job, int peer, uint64_t address, void *to,
                    uint64_t bytes)
{
    return attach(job, process_vm_readv, peer, address, to, bytes);
}

int leat_attach_put(const struct leat_job *job, int peer, uint64_t address, const void *from,
                    uint64_t bytes)
{
    return attach(job, process_vm_writev, peer, address, (void *)(uintptr_t)from, bytes);
}
