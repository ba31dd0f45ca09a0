/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the memory of two processes by the kernel (cross-memory attach).
 *
 * Advantage: one copy, whatever memory it is, without the other side's help. Disadvantage: a system
 * call each, and not every kernel, container or sandbox permits it; so the verdict is remembered in
 * the other rank's record, where all ranks find it and where it costs nothing per idle rank.
 */
#ifndef LEAT_TRANSPORT_ATTACH_H
#define LEAT_TRANSPORT_ATTACH_H

#include "core/job.h"

/*
 * Tries to reach into `peer`, another process, and makes sure that the process behind its number is
 * that rank. 0: this rank may. -EPERM: the kernel forbids it; -ENOTCONN: the peer has not opened
 * the job yet, so nobody knows; -ECONNRESET: it has left or died. Detail set.
 */
int leat_attach_probe(const struct leat_job *job, int peer);

/* Both copy all bytes or fail, with detail. Errors as above, and -EFAULT: not mapped there. */
int leat_attach_get(const struct leat_job *job, int peer, uint64_t address, void *to,
                    uint64_t bytes);
int leat_attach_put(const struct leat_job *job, int peer, uint64_t address, const void *from,
                    uint64_t bytes);

#endif
