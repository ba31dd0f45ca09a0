/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports: how bytes get from this rank to memory of another.
 *
 * One ordered constant table (table.c), best first. Each row is one file of operations; NULL means
 * the transport cannot do it. The first row whose can_reach says yes is the path, and every earlier
 * row's no is kept as the reason that users see.
 */
#ifndef LEAT_TRANSPORT_TRANSPORT_H
#define LEAT_TRANSPORT_TRANSPORT_H

#include "core/region.h"

struct copies_lane;

/* Bytes and then a signal, as one order to a transport. */
struct put_signal {
    const struct leat_region *to; /* NULL: the signal alone */
    uint64_t offset, bytes;
    const void *from; /* host memory, as it is until the receiver has answered to the signal */
    const struct leat_region *signals;
    uint64_t signal_offset, value; /* that the signal is raised to */
    /* Where the device has copies of its own: the calling thread's, and the value in memory that
     * they reach. Else NULL. */
    struct copies_lane *lane;
    const uint64_t *value_pinned;
};

struct transport {
    const char *name;
    const char *absent; /* why this build does not have it; NULL when it does */
    /* Where only a look at the machine tells: the same. NULL: `absent` says it. */
    const char *(*missing)(void);
    /* 0 when memory of `peer` of that kind can be reached, else a negative errno; the reason says
     * why in either case. No communication. */
    int (*can_reach)(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON]);
    /* What it takes to use a view, and its end; NULL: nothing. */
    int (*attach)(struct leat_region *view);
    void (*detach)(struct leat_region *view);
    /* Address for direct loads and stores of the region, or NULL. */
    void *(*map)(const struct leat_region *region);
    /* Copies complete on return. */
    int (*put)(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes);
    int (*get)(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes);
    /* Whoever sees the value sees the bytes. Orders by one thread to one peer take effect in turn.
     * May return earlier than they have; any thread. What the halo's proxy goes by. */
    int (*put_signal)(struct leat_job *job, const struct put_signal *order);
};

enum transport_row {
    ROW_SELF,
    ROW_PEER,
    ROW_SHM,
    ROW_NVSHMEM,
    ROW_FABRIC,
    ROW_HOSTCOPY,
    ROW_COUNT
};

static inline const char *leat_transport_absent(const struct transport *transport)
{
    return transport->missing ? transport->missing() : transport->absent;
}

extern const struct transport *const leat_transports[ROW_COUNT];
extern const struct transport leat_transport_self, leat_transport_peer, leat_transport_shm,
    leat_transport_nvshmem, leat_transport_fabric, leat_transport_hostcopy;

/* Whether a rule of LEAT_PATHS begins with `verb` ("forbid:", "require:") and names the path. */
bool leat_path_rule(const char *rule, const char *verb, const char *name);
/* Chooses the row for memory of `peer` under the LEAT_PATHS rule. report may be NULL. The row, or
 * -EHOSTUNREACH with every row's reason in the detail. */
int leat_path_choose(struct leat_job *job, int peer, enum region_kind kind,
                     leat_path_report *report);

#endif
