/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device whose copies come late: memory of the host that passes for a GPU's.
 *
 * A copy is carried out when its mark is waited for, or after a random number of looks at it, so
 * that a slot which is filled again too early, or memory that is looked at too early, shows wrong
 * bytes. One at a time in a program, since the table has no place of its own for state.
 */
#ifndef SUPPORT_FAKE_COPIES_H
#define SUPPORT_FAKE_COPIES_H

#include "core/job.h"
#include "device/ops.h"

struct fake_copies {
    struct device_ops ops; /* has to live as long as the job */
};

/* Memory from `address` on, `bytes` long, is of GPU 0 for this job. */
void fake_copies_begin(struct fake_copies *fake, struct leat_job *job, void *address,
                       uint64_t bytes, unsigned seed);
/* No memory is any more. */
void fake_copies_forget(void);
/* The copy that touches this byte of the memory fails, as soon as it is waited for. */
void fake_copies_fail_at(const void *address);
/* Copies and scatters so far; lanes that were closed with work under way. */
uint64_t fake_copies_count(void);
uint64_t fake_copies_lost(void);

#endif
