/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the halo's kernels read: one structure a field, one a pulse, in memory that host and device
 * both see.
 */
#ifndef LEAT_HALO_HALO_KERNELS_H
#define LEAT_HALO_HALO_KERNELS_H

#include "device/kernel.h"

/* Launch choice: acknowledge and await acknowledgements with signals of their own. Otherwise an
 * exchange the other way has come in between and says the same. */
#define HALO_EXPLICIT_FREE 1u
/* Launch choice of the kernels that serve one pulse: its number from this bit on. */
#define HALO_PULSE_BIT 8

/* The signals of one field's pulse. `there` is at the peer and raised by us, NULL for nobody. */
struct k_pulse_signals {
    struct leat_signal *x_there, *x_here;           /* our data are in; the peer's are */
    struct leat_signal *x_free_there, *x_free_here; /* our ghosts may be overwritten; the peer's */
    struct leat_signal *f_there, *f_here;           /* the same on the way back */
    struct leat_signal *f_free_there, *f_free_here;
};

struct k_pulse {
    const uint32_t *index; /* elements sent */
    uint32_t send_count, dependent_start;
    uint32_t recv_count, recv_offset;
    uint32_t send_offset;   /* where this pulse begins among all sent entries */
    uint64_t forward_needs; /* bits of the pulses whose elements it forwards */
    uint64_t reverse_needs; /* bits of the pulses that bring values for its ghosts */
    int32_t send_rank, recv_rank;
    double shift[3];
    void *x_landing;   /* at send_rank: its ghosts of this pulse */
    uint64_t x_stride; /* bytes from its first landing zone to its second */
    void *f_landing;   /* at recv_rank: its buffer for what comes back of this pulse */
    struct k_pulse_signals signal;
    uint32_t forward_blocks, reverse_blocks; /* blocks that have done their part, of all */
};

struct k_field {
    void *base;     /* element 0 */
    void *returned; /* what comes back, by sent entry */
    void *staging;  /* pulse by pulse only: packed entries */
    int32_t components, shifted, pulse_count;
    uint32_t home_count, ghost_count;
    uint32_t zones; /* landing zones, 1 or 2, taken by the parity of the epoch */
    uint64_t forward_epoch, reverse_epoch;
    uint32_t forward_done, reverse_done; /* blocks that have finished, of all */
    /* Sent entries by element: source[source_start[e] .. source_start[e + 1]), pulses descending.
     * sent_home lists the home elements that were sent at all. */
    const uint32_t *source_start, *source, *sent_home;
    uint32_t sent_home_count;
    uint64_t senders, receivers; /* bits of the pulses in which somebody sends to us; receives */
    struct k_wait wait;
    struct k_pulse *pulse;
};

/*
 * The resident step loop: forward, the caller's consumer, reverse, the caller's advance, with all
 * blocks of the rank in step. On the CPU device the caller's parts are functions.
 */
struct k_resident {
    struct k_field *forward, *reverse; /* NULL: none */
    int32_t forward_element, reverse_element;
    uint64_t steps;
    uint64_t done; /* steps that all blocks have finished */
    /* Acknowledgements of the first step, which depend on what came before, and of later ones. */
    uint32_t first_forward, first_reverse, next_forward, next_reverse;
    uint32_t arrived;
    uint32_t unused;
    struct leat_signal gate;
    struct k_wait wait;
    int (*consume)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*advance)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    void *user;
};

#endif
