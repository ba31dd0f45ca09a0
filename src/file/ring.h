/* SPDX-License-Identifier: Apache-2.0 */
/*
 * as much of io_uring as direct reads and writes need.
 */
#ifndef LEAT_FILE_RING_H
#define LEAT_FILE_RING_H

#include <stdbool.h>
#include <stdint.h>

struct uring;

/* 0, or the negative errno of what the kernel refuses (-ENOSYS, -EPERM). To be used by the calling
 * thread only. */
int uring_open(unsigned depth, struct uring **ring);
void uring_close(struct uring *ring);
/* Queues a transfer; there is room for `depth` of them. */
void uring_push(struct uring *ring, bool write, int fd, void *address, uint32_t bytes,
                uint64_t offset, uint64_t user);
/* Hands over what is queued, and waits until `wanted` results are there. 0 or a negative errno. */
int uring_enter(struct uring *ring, unsigned wanted);
/* The next result, if there is one. */
bool uring_pop(struct uring *ring, uint64_t *user, int *result);

#endif
