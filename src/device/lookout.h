/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookout: sees for kernels on a GPU that a peer's process has died.
 *
 * A kernel can watch words and the clock, not processes. A thread of the rank looks after the peers
 * of what its kernels may be waiting in, some fifty times a second, and ends those waits through
 * the record that each of them looks at. Only for peers that have died or failed: one that has left
 * in order may have raised all that is waited for. Advantage: kernels do not know about it.
 * Disadvantage: a thread a rank, where ranks are processes.
 */
#ifndef LEAT_DEVICE_LOOKOUT_H
#define LEAT_DEVICE_LOOKOUT_H

#include <stdint.h>

struct k_error;
struct leat_job;

/* The caller's, from add to remove. */
struct lookout_item {
    struct lookout_item *next, **link; /* NULL: not watched */
    struct k_error *error;             /* of its kernels, in the device's memory */
    int32_t peer_count;                /* -1: all ranks */
    const int32_t *peers;
    int32_t lost; /* the rank that was plus one; atomic, 0 while all is well */
};

/* Nothing where kernels watch their peers themselves. The thread is made with the first item. */
int leat_lookout_add(struct leat_job *job, struct lookout_item *item);
void leat_lookout_remove(struct leat_job *job, struct lookout_item *item);
void leat_lookout_close(struct leat_job *job);

/* -1: none. */
static inline int leat_lookout_lost(const struct lookout_item *item)
{
    return __atomic_load_n(&item->lost, __ATOMIC_ACQUIRE) - 1;
}

#endif
