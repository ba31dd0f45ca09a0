/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A halo from the inside: a plan bound to fields, and the board on which both sides of every pulse
 * compare notes.
 */
#ifndef LEAT_HALO_HALO_INTERNAL_H
#define LEAT_HALO_HALO_INTERNAL_H

#include "core/region.h"
#include "device/lookout.h"
#include "device/ops.h"
#include "halo/halo_kernels.h"
#include "halo/plan.h"

#define HALO_PULSES_MAX 64 /* pulses of other pulses are kept as bits */

/* So many bytes in whole lines. */
static inline uint64_t halo_whole_lines(uint64_t bytes)
{
    return (bytes + LEAT_SIGNAL_BYTES - 1) / LEAT_SIGNAL_BYTES * LEAT_SIGNAL_BYTES;
}

struct board_field {
    uint32_t element, components, shifted, zones;
    int32_t acknowledged_by, unused;
    struct region_key key;                     /* of the field's region */
    uint64_t base_offset;                      /* element 0 in it */
    uint64_t x_packet_offset, f_packet_offset; /* in `packets` */
    uint64_t returned_offset; /* in `returned`: where values come back, by sent entry */
};

struct board_pulse {
    int32_t dimension, direction, send_rank, recv_rank;
    uint32_t send_count, recv_count, send_offset, recv_offset;
};

/* Three regions a rank and halo: the board with the pulses, which hosts read; the signals, where
 * those who raise them reach them; the buffers for what comes back, which kernels read. */
struct board {
    struct leat_signal ready; /* raised to 1 once everything below is written */
    int32_t pulse_count, field_count;
    uint32_t home_count, ghost_count, send_total, unused;
    uint64_t first_epoch;
    struct region_key signals, returned, packets;
    struct board_field field[LEAT_FIELDS_MAX];
    struct board_pulse pulse[HALO_PULSES_MAX];
};

/* What this rank holds of a peer: its board and its fields. */
struct halo_peer {
    int rank;
    struct board *copy; /* of a board that cannot be read where it lies; or NULL */
    leat_region *board, *signals, *returned, *packets;
    leat_region *base[LEAT_FIELDS_MAX];
};

struct halo_field {
    leat_field given;
    struct region_key key; /* of its region, whose handle the caller may free */
    uint32_t element_bytes;
    struct device_memory kernel;                 /* its k_field, with its pulses */
    struct device_memory turns;                  /* what its kernels count */
    uint64_t forward_epoch, reverse_epoch;       /* of the latest exchanges */
    uint64_t forward_sequence, reverse_sequence; /* of the halo's exchanges; 0: none yet */
};

struct halo_mode;
struct halo_proxy;

struct leat_halo {
    struct job_child child; /* first: leat_close finds the halo by it */
    struct leat_job *job;   /* NULL once that job is closed */
    const struct leat_plan *plan;
    const struct halo_mode *mode;
    int field_count, peer_count;
    struct halo_field field[LEAT_FIELDS_MAX];
    struct halo_peer peer[2 * HALO_PULSES_MAX];
    leat_region *board, *signals, *returned;
    leat_region *packets;     /* where they land; NULL where pulses are announced by signals */
    struct device_gang *gang; /* NULL where ranks share no device */
    struct halo_proxy *proxy; /* proxy.h's; NULL where all peers are stored to directly */
    int most_pulses;          /* of any rank */
    uint64_t sequence;        /* exchanges begun */
    int failed;               /* first error; nothing runs after it */
    char detail[LEAT_DETAIL_BYTES]; /* of that error */
    struct device_memory error;     /* k_error */
    struct k_error *report;         /* the same record, or its copy where the host may look */
    struct lookout_item lookout;    /* where kernels cannot see that a peer has died */
    int32_t lookout_peers[2 * HALO_PULSES_MAX];
    /* Indices of all pulses, and the inverted plan. */
    struct device_memory index, source_start, source, sent_home;
    uint32_t sent_home_count, send_total;
    uint64_t forward_needs[HALO_PULSES_MAX], reverse_needs[HALO_PULSES_MAX];
    /* The other side's number of each pulse: where it receives what we send, and the reverse. */
    int to_pulse[HALO_PULSES_MAX], from_pulse[HALO_PULSES_MAX];
    struct device_memory staging;
    const struct k_stamp *stamp;    /* a resident loop's own consumer; or NULL */
    struct k_stamp reader;          /* such a consumer, made by halo_run_reads */
    struct device_memory found;     /* by it */
    struct device_memory run, loop; /* k_resident with its fields, k_loop; in resident mode */
    /* By direction: the caller's work while data travel, for kernels of the CPU device and for the
     * host; none but in leat_halo_run. */
    struct k_meanwhile meanwhile[2];
};

static inline struct k_field *halo_kernel(const struct leat_halo *halo, int f)
{
    return (struct k_field *)halo->field[f].kernel.host;
}
static inline uint32_t halo_ghost_count(const struct leat_halo *halo)
{
    return halo->plan->element_count - halo->plan->home_count;
}
/* Elements that a kernel of the whole exchange goes through: as many entries out, or ghosts in. */
static inline uint32_t halo_work(const struct leat_halo *halo)
{
    uint32_t ghosts = halo_ghost_count(halo);
    return halo->send_total > ghosts ? halo->send_total : ghosts;
}
/* Whether the device is one that the host cannot load from and store to. */
static inline bool halo_is_remote(const struct leat_halo *halo)
{
    return halo->job->device->ops->asynchronous;
}

/* ---- board.c ---- */
int halo_board_post(struct leat_halo *halo);
/* Attaches to all peers' boards and compares both sides of every pulse. */
int halo_board_compare(struct leat_halo *halo);
struct halo_peer *halo_peer_of(struct leat_halo *halo, int rank);
/* The signal's place in a rank's region of them; `field_count` is the halo's. */
struct leat_signal *halo_signal(const leat_region *signals, int field_count, int pulse, int field,
                                enum board_signal which);
/* What a signal of this rank's means; false when it is none. */
bool halo_signal_find(const struct leat_halo *halo, const void *signal, int *pulse, int *field,
                      enum board_signal *which);

static inline struct board *halo_board(const leat_region *region)
{
    return (struct board *)region->address;
}

static inline const struct board *halo_board_of(const struct halo_peer *peer)
{
    return peer->copy ? peer->copy : halo_board(peer->board);
}

/* ---- sharing.c: processes on one GPU ---- */
/* Finds out, once a job, whether there are some. Collective. */
int halo_learn_sharing(struct leat_job *job);
/* What is taken in place of the mode where kernels of two processes on one GPU would wait for each
 * other; the same on all ranks. */
const struct halo_mode *halo_mode_for(struct leat_job *job, const struct halo_mode *mode);

/* ---- packets.c ---- */
/* Packets of an element of the field, or 0 where it does not travel in them. */
uint32_t halo_packets_of(const struct leat_halo *halo, int field);
/* Agrees with all ranks whether pulses are small enough, and how many the busiest has; makes room
 * where they are small enough. Collective, between posting the board and comparing it. */
int halo_packets_open(struct leat_halo *halo, uint64_t first_epoch);
/* Where the field's packets go and land, in what its kernels read. */
void halo_packets_bind(struct leat_halo *halo, int field, struct k_field *kernel);
/* What a packet of this rank's was for; false when it is none. */
bool halo_packet_find(const struct leat_halo *halo, const void *packet, int *pulse, int *field,
                      enum leat_direction *direction);

/* ---- invert.c ---- */
/* Index maps and the inverted plan, into device memory, published. */
int halo_invert(struct leat_halo *halo);

/* ---- modes.c: who orders the work of one exchange ---- */
struct halo_mode {
    const char *name;
    enum leat_mode mode;
    bool host_signals; /* raised and awaited by the host, so they lie in its memory */
    bool waits_in_kernels, waits_in_stream;
    bool takes_packets;
    int (*forward)(struct leat_halo *halo, int field, bool explicit_free);
    int (*reverse)(struct leat_halo *halo, int field, bool explicit_free);
};

const struct halo_mode *halo_mode_find(enum leat_mode mode);
/* What the device's error record says of the exchange that has just run; 0 when it is clean. */
int halo_kernel_error(struct leat_halo *halo, int field, enum leat_direction direction);
/* The same at any time, whichever exchange it was; keeps the halo's first error. */
int halo_check_report(struct leat_halo *halo);

/* ---- resident.c ---- */
/* For benchmarks: the loop reads every ghost of the field, each in another block than the one that
 * received it. */
int halo_run_reads(struct leat_halo *halo, int field);
/* The loop's memory, which is taken before any kernel of the halo runs. */
int halo_run_alloc(struct leat_halo *halo);

/* ---- exchange.c ---- */
/* Both sides call the same exchanges in the same order, so both come to the same answer. */
bool halo_needs_explicit_free(const struct leat_halo *halo, int field,
                              enum leat_direction direction);
/* The halo's first error again, if there was one. */
int halo_check_usable(const struct leat_halo *halo);
/* What an exchange of the field may be refused for: the halo's state, the field, the direction, a
 * region freed here or at a peer that is to be stored to. */
int halo_check_call(struct leat_halo *halo, int field, enum leat_direction direction);
/* Sets the detail of a failed wait for a pulse's signal; returns the code. */
int halo_wait_failed(struct leat_halo *halo, int field, enum leat_direction direction, int pulse,
                     int peer, int code, uint64_t wanted, uint64_t seen);
/* Puts the exchange and the pulse before the detail of a failed order; returns the code. */
int halo_carry_failed(const struct leat_halo *halo, int field, int pulse, enum board_signal word,
                      int error);
/* Keeps the first error: nothing runs after it. Returns it. */
int halo_give_up(struct leat_halo *halo, int error);
void halo_count_bytes(struct leat_halo *halo, int field, enum leat_direction direction,
                      uint64_t times);

#endif
