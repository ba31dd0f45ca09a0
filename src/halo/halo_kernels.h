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

/* The six signals of one field's pulse. `there` is at the peer and raised by us. */
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
    uint32_t forward_needs; /* bits of the pulses whose elements it forwards */
    uint32_t reverse_needs; /* bits of the pulses that bring values for its ghosts */
    int32_t send_rank, recv_rank;
    double shift[3];
    void *x_landing; /* at send_rank: its ghosts of this pulse */
    void *f_landing; /* at recv_rank: its buffer for what comes back of this pulse */
    struct k_pulse_signals signal;
    uint32_t forward_blocks, reverse_blocks; /* blocks that have done their part, ever */
};

struct k_field {
    void *base;     /* element 0 */
    void *returned; /* what comes back, by sent entry */
    void *staging;  /* pulse by pulse only: packed entries */
    int32_t components, shifted, pulse_count;
    uint32_t home_count;
    uint64_t forward_epoch, reverse_epoch;
    uint32_t forward_done, reverse_done; /* blocks that have read the epoch and finished, ever */
    /* Sent entries by element: source[source_start[e] .. source_start[e + 1]), pulses descending.
     * sent_home lists the home elements that were sent at all. */
    const uint32_t *source_start, *source, *sent_home;
    uint32_t sent_home_count;
    struct k_wait wait;
    struct k_pulse *pulse;
};

#endif
