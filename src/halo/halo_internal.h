/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A halo from the inside: a plan bound to fields, and the board on which both sides of every pulse
 * compare notes.
 */
#ifndef LEAT_HALO_HALO_INTERNAL_H
#define LEAT_HALO_HALO_INTERNAL_H

#include "core/region.h"
#include "device/ops.h"
#include "halo/halo_kernels.h"
#include "halo/plan.h"

#define HALO_PULSES_MAX 64 /* pulses of other pulses are kept as bits */

/* Signals that lie here and that a peer raises, by what they say. */
enum board_signal { BOARD_X_IN, BOARD_X_FREE, BOARD_F_IN, BOARD_F_FREE, BOARD_SIGNALS };

struct board_field {
    uint32_t element, components, shifted, zones;
    int32_t acknowledged_by, unused;
    struct region_key key;    /* of the field's region */
    uint64_t base_offset;     /* element 0 in it */
    uint64_t returned_offset; /* in the board's region: where values come back, by sent entry */
};

struct board_pulse {
    int32_t dimension, direction, send_rank, recv_rank;
    uint32_t send_count, recv_count, send_offset, recv_offset;
};

/* One region a rank and halo: this head, the pulses, the signals, the buffers for what comes back.
 */
struct board {
    struct leat_signal ready; /* raised to 1 once everything below is written */
    int32_t pulse_count, field_count;
    uint32_t ghost_count, unused;
    uint64_t first_epoch;
    uint64_t signal_offset;
    struct board_field field[LEAT_FIELDS_MAX];
    struct board_pulse pulse[HALO_PULSES_MAX];
};

/* What this rank holds of a peer: its board and its fields. */
struct halo_peer {
    int rank;
    leat_region *board;
    leat_region *base[LEAT_FIELDS_MAX];
};

struct halo_field {
    leat_field given;
    struct region_key key; /* of its region, whose handle the caller may free */
    uint32_t element_bytes;
    struct k_field *kernel;                      /* device memory, its pulses behind it */
    uint64_t forward_sequence, reverse_sequence; /* of the halo's exchanges; 0: none yet */
};

struct halo_mode;

struct leat_halo {
    struct job_child child; /* first: leat_close finds the halo by it */
    struct leat_job *job;   /* NULL once that job is closed */
    const struct leat_plan *plan;
    const struct halo_mode *mode;
    int field_count, peer_count;
    struct halo_field field[LEAT_FIELDS_MAX];
    struct halo_peer peer[2 * HALO_PULSES_MAX];
    leat_region *board;
    uint64_t sequence;              /* exchanges begun */
    int failed;                     /* first error; nothing runs after it */
    char detail[LEAT_DETAIL_BYTES]; /* of that error */
    struct k_error *error;
    /* Device memory: indices of all pulses, and the inverted plan. */
    uint32_t *index, *source_start, *source, *sent_home;
    uint32_t sent_home_count, send_total;
    uint64_t forward_needs[HALO_PULSES_MAX], reverse_needs[HALO_PULSES_MAX];
    /* The other side's number of each pulse: where it receives what we send, and the reverse. */
    int to_pulse[HALO_PULSES_MAX], from_pulse[HALO_PULSES_MAX];
    void *staging;
};

/* ---- board.c ---- */
int halo_board_post(struct leat_halo *halo);
/* Attaches to all peers' boards and compares both sides of every pulse. */
int halo_board_compare(struct leat_halo *halo);
struct halo_peer *halo_peer_of(struct leat_halo *halo, int rank);
struct leat_signal *halo_board_signal(const leat_region *board, int pulse, int field,
                                      enum board_signal which);

static inline struct board *halo_board(const leat_region *region)
{
    return (struct board *)region->address;
}

/* ---- invert.c ---- */
/* Index maps and the inverted plan, into device memory. */
int halo_invert(struct leat_halo *halo);

/* ---- modes.c: who orders the work of one exchange ---- */
struct halo_mode {
    const char *name;
    enum leat_mode mode;
    int (*forward)(struct leat_halo *halo, int field, bool explicit_free);
    int (*reverse)(struct leat_halo *halo, int field, bool explicit_free);
};

const struct halo_mode *halo_mode_find(enum leat_mode mode);
/* What the device's error record says of the exchange that has just run; 0 when it is clean. */
int halo_kernel_error(struct leat_halo *halo, int field, enum leat_direction direction);

/* ---- exchange.c ---- */
/* Both sides call the same exchanges in the same order, so both come to the same answer. */
bool halo_needs_explicit_free(const struct leat_halo *halo, int field,
                              enum leat_direction direction);
/* The halo's first error again, if there was one. */
int halo_check_usable(const struct leat_halo *halo);
/* What an exchange of the field may be refused for: the halo's state, the field, the direction, a
 * region freed here or at a peer that is to be stored to. */
int halo_check_call(struct leat_halo *halo, int field, enum leat_direction direction);
/* Keeps the first error: nothing runs after it. Returns it. */
int halo_give_up(struct leat_halo *halo, int error);
void halo_count_bytes(struct leat_halo *halo, int field, enum leat_direction direction,
                      uint64_t times);

#endif
