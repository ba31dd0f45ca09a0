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
/* Launch choice of the pack kernels: the ghosts of this exchange lie in the second landing zone. */
#define HALO_SECOND_ZONE 2u
/* The exchange's last kernel, in mode pulse: forward, it waits for all that comes. */
#define HALO_LAST_KERNEL 4u
/* The caller has work to be done once this launch has sent what it can (k_field.meanwhile). */
#define HALO_MEANWHILE 8u
/* Launch choice of the kernels that serve one pulse: its number from this bit on. */
#define HALO_PULSE_BIT 8

/* The words of a pulse on a rank's board that a peer raises, by what they say. */
enum board_signal { BOARD_X_IN, BOARD_X_FREE, BOARD_F_IN, BOARD_F_FREE, BOARD_SIGNALS };

/*
 * The ring to the rank's proxy thread (proxy.h), for peers that kernels cannot store to: numbered
 * orders, each in a slot of its own, to carry what has been packed and to raise a word of a peer's.
 */
#ifndef K_RING_ORDERS
#define K_RING_ORDERS 64 /* a power of two */
#endif

struct k_order {
    uint64_t turn;  /* its number plus one, released after the rest */
    uint64_t value; /* that the word is raised to */
    uint32_t post;  /* which word of which peer, and what belongs to it: halo_post_number */
    uint32_t unused;
    uint8_t line[LEAT_SIGNAL_BYTES - 24];
};

/* In the device's memory; what it points to the host sees too. */
struct k_ring {
    uint64_t tickets; /* orders begun */
    struct k_order *order;
    struct leat_signal *carried; /* orders that the proxy is through with */
    struct leat_signal *bell;    /* the proxy's, counted up with each order; CPU device */
};

/*
 * What belongs to a word of a peer's where kernels reach it by NVSHMEM's puts only: numbered as
 * orders are (k_order.post). Addresses at the peer are symmetric ones, as if they were here.
 */
struct k_put {
    char *to; /* the first landing zone there; and from it to the second */
    uint64_t to_stride;
    const char *from; /* what has been packed, likewise */
    uint64_t from_stride, bytes;
    uint64_t *signal;
    int32_t peer;
    uint32_t unused;
};

/* The signals of one field's pulse. `there` is at the peer and raised by us; NULL for nobody, and
 * where the proxy or a put does it. */
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
    uint32_t send_offset; /* where this pulse begins among all sent entries */
    /* What the proxy or puts do: their first post's number from bit K_POST_BIT on, and below it
     * bits of those of the four words (enum board_signal) that they raise. */
    uint32_t posts;
    uint64_t forward_needs; /* bits of the pulses whose elements it forwards */
    uint64_t reverse_needs; /* bits of the pulses that bring values for its ghosts */
    int32_t send_rank, recv_rank;
    double shift[3];
    /* Where the proxy carries, or puts do, these lie here and are copied from. */
    void *x_landing;   /* at send_rank: its ghosts of this pulse */
    uint64_t x_stride; /* bytes from its first landing zone to its second */
    void *f_landing;   /* at recv_rank: its buffer for what comes back of this pulse */
    /* The same for packets, with the packets from the first landing zone to the second. */
    struct k_packet *x_packets, *f_packets;
    uint64_t x_packet_stride, f_packet_stride;
    struct k_pulse_signals signal;
};

#define K_POST_BIT 4

#define K_PACKET_COMPONENTS 4 /* of an element that travels in packets, at most */
#define K_PACKETS_OF(parts) ((K_PACKET_COMPONENTS * (parts) + 2) / 3)

/* What kernels count: one a pulse, and one before them for kernels of all pulses. */
struct k_turns {
    uint64_t forward, reverse;               /* exchanges, as k_turn has them */
    uint32_t forward_blocks, reverse_blocks; /* blocks that have done their part, of all */
};

/* Work of the caller's that no ghost or returned value is needed for. */
struct k_meanwhile {
    int (*call)(void *user, uint32_t block, uint32_t block_count, uint64_t step); /* or NULL */
    void *user;
    uint64_t step;
};

/* A home element that was sent, and where its sources begin: read at once. */
struct k_sent {
    uint32_t element, first;
} __attribute__((aligned(8)));

/* Nothing here changes while the halo lives, so a launch may carry it along with its pulses, which
 * follow it in memory. */
struct k_field {
    void *base;     /* element 0 */
    void *returned; /* what comes back, by sent entry */
    void *staging;  /* pulse by pulse only: packed entries */
    int32_t components, shifted, pulse_count;
    uint32_t home_count, ghost_count;
    uint32_t zones; /* landing zones, 1 or 2, taken by the parity of the epoch */
    uint64_t first_epoch;
    struct k_turns *turns;
    /* Sent entries by element: source[source_start[e] .. source_start[e + 1]), pulses descending.
     * sent_home [sent_home_count + 1] lists the home elements that were sent at all, ascending, so
     * that the sources of one end where the next one's begin. */
    const uint32_t *source_start, *source;
    const struct k_sent *sent_home;
    uint32_t sent_home_count;
    uint32_t packets;    /* of an element; 0: entries are announced by signals */
    uint32_t send_total; /* sent entries */
    uint32_t bulk;       /* entries from which a pulse is sent by bulk copies; 0: never */
    /* Where ghosts land, and what comes back by sent entry; two zones each. */
    const struct k_packet *x_packets, *f_packets;
    /* Bits of the pulses in which landing zones are acknowledged, and in which we wait for it. */
    uint64_t x_tell, x_ask, f_tell, f_ask;
    uint64_t senders, receivers; /* bits of the pulses in which somebody sends to us; receives */
    struct k_wait wait;
    /* [2], forward and reverse, in the host's memory: for launches with HALO_MEANWHILE. */
    const struct k_meanwhile *meanwhile;
    struct k_ring *ring; /* NULL: kernels store to all peers themselves, or put: */
    const struct k_put *puts;
};

#ifdef __CUDACC__
#define K_BOTH static __host__ __device__ inline
#else
#define K_BOTH static inline
#endif

K_BOTH const struct k_pulse *k_pulse_at(const struct k_field *field, int p)
{
    return (const struct k_pulse *)(const void *)(field + 1) + p;
}

/* A consumer of the library's own (stamp_kernels.inc): for tests and benchmarks. */
struct k_stamp_found {
    uint32_t wrong; /* values; the first is told: */
    uint32_t element, step, axis;
    float seen, wanted;
    uint64_t steps; /* that were looked at */
};

struct k_stamp {
    float *x, *f;           /* 3 components; those that are only read may have others */
    const uint32_t *number; /* of each element, the same wherever a copy of it is */
    const uint32_t *copies; /* of each home element, over all ranks */
    uint32_t home_count, ghost_count, components, zones;
    uint32_t reverse; /* sums are looked at */
    uint32_t reads_only;
    uint32_t seed, delay_ns;
    struct k_stamp_found *found;
};

/* What the resident loop counts. */
struct k_loop {
    uint64_t done; /* steps that all blocks have finished */
    uint32_t arrived;
    uint32_t unused;
    struct leat_signal gate;
};

#define RESIDENT_AFTER_CONSUME 1u
#define RESIDENT_AFTER_ADVANCE 2u

/*
 * The resident step loop: forward, the caller's consumer, reverse, the caller's advance, with all
 * blocks of the rank in step. On the CPU device the caller's parts are functions. The fields and
 * their pulses follow in the same memory, so that a launch may carry all of it along.
 */
struct k_resident {
    uint32_t forward_at, reverse_at; /* bytes from here to their k_field; 0: none */
    int32_t forward_element, reverse_element;
    uint64_t forward_epoch, reverse_epoch; /* of the last exchanges before the loop */
    uint64_t steps;
    uint32_t barriers, unused; /* RESIDENT_AFTER_... */
    /* Acknowledgements of the first step, which depend on what came before, and of later ones. */
    uint32_t first_forward, first_reverse, next_forward, next_reverse;
    struct k_loop *loop;
    struct k_wait wait;
    uint32_t stamped, unused2; /* whether there is a consumer of the library's own */
    struct k_stamp stamp;
    int (*consume)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*advance)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*while_forward)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*while_reverse)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    void *user;
};

K_BOTH const struct k_field *k_field_at(const struct k_resident *run, uint32_t at)
{
    return at ? (const struct k_field *)(const void *)((const char *)run + at) : 0;
}

#endif
