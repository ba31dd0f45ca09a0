// SPDX-License-Identifier: Apache-2.0
// io_uring by liburing.
//
// Algorithm: one ring a lane, used by its thread alone: results are worked on when that looks for
// them, so no interrupts in between. Advantage: what kernels can and cannot is the library's to
// know. Disadvantage: in a build without it direct requests go one at a time.

#define _GNU_SOURCE
#include "file/ring.h"

#include <errno.h>

#ifdef LEAT_HAVE_URING
#include <liburing.h>
#include <stdlib.h>

struct uring {
    struct io_uring ring;
};

int uring_open(unsigned depth, struct uring **opened)
{
    struct uring *made = calloc(1, sizeof *made);
    if (!made)
        return -ENOMEM;
    unsigned flags = 0;
#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)
    flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
#endif
    int error = io_uring_queue_init(depth, &made->ring, flags);
    if (error == -EINVAL) // kernels before 6.1
        error = io_uring_queue_init(depth, &made->ring, 0);
    if (error)
        free(made);
    else
        *opened = made;
    return error;
}

void uring_close(struct uring *uring)
{
    if (uring)
        io_uring_queue_exit(&uring->ring);
    free(uring);
}

void uring_push(struct uring *uring, bool write, int fd, void *address, uint32_t bytes,
                uint64_t offset, uint64_t user)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&uring->ring);
    if (write)
        io_uring_prep_write(entry, fd, address, bytes, offset);
    else
        io_uring_prep_read(entry, fd, address, bytes, offset);
    io_uring_sqe_set_data64(entry, user);
}

int uring_enter(struct uring *uring, unsigned wanted)
{
    int taken;
    do
        taken = io_uring_submit_and_wait(&uring->ring, wanted);
    while (taken == -EINTR || (taken >= 0 && io_uring_sq_ready(&uring->ring)));
    return taken < 0 ? taken : 0;
}

bool uring_pop(struct uring *uring, uint64_t *user, int *result)
{
    struct io_uring_cqe *found = NULL;
    if (io_uring_peek_cqe(&uring->ring, &found) || !found)
        return false;
    *user = io_uring_cqe_get_data64(found);
    *result = found->res;
    io_uring_cqe_seen(&uring->ring, found);
    return true;
}

#else

int uring_open(unsigned depth, struct uring **opened)
{
    (void)depth, (void)opened;
    return -ENOSYS;
}

void uring_close(struct uring *uring)
{
    (void)uring;
}

void uring_push(struct uring *uring, bool write, int fd, void *address, uint32_t bytes,
                uint64_t offset, uint64_t user)
{
    (void)uring, (void)write, (void)fd, (void)address, (void)bytes, (void)offset, (void)user;
}

int uring_enter(struct uring *uring, unsigned wanted)
{
    (void)uring, (void)wanted;
    return -ENOSYS;
}

bool uring_pop(struct uring *uring, uint64_t *user, int *result)
{
    (void)uring, (void)user, (void)result;
    return false;
}

#endif
