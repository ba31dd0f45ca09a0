/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy: a thread of the rank that carries what kernels cannot store at a peer themselves.
 *
 * Kernels pack such entries into memory of their own rank, in the places that a plan gives them,
 * and write an order into a ring of the halo's: which word of which peer is to be raised, and to
 * what. The thread takes orders in turn and hands them to the peer's transport (put_signal in
 * transport.h), bytes first. What is packed lies in as many zones as it lands in at the peer, so
 * the acknowledgement that lets a kernel overwrite the ghosts there lets it overwrite these.
 * Nothing changes for who receives. Advantage: any transport serves any mode, from a GPU too, for
 * the memory of one more copy. Disadvantage: two flags in place of one on the way, and the copy.
 */
#ifndef LEAT_HALO_PROXY_H
#define LEAT_HALO_PROXY_H

#include "halo/halo_internal.h"
#include "transport/transport.h"

/* What belongs to an order; its number says which (halo_post_number). */
struct halo_post {
    const leat_region *to;   /* NULL: a word alone */
    uint64_t offset, stride; /* there: of the first landing zone, and from it to the second */
    char *from;              /* here, likewise, in the host's memory */
    uint64_t from_stride, bytes;
    const leat_region *signals;
    uint64_t signal_offset;
    int peer; /* -1: nothing goes by the proxy */
};

/* A halo's side of it. */
struct halo_proxy {
    struct leat_halo *halo;
    /* Where NVSHMEM reaches the peers: kernels put by themselves what they have packed, by this
     * table (k_put, a post each), and there are no orders. NULL: the thread carries. */
    struct device_memory puts;
    leat_region *packed_region;
    struct halo_proxy *next, **link; /* those that the thread goes through; NULL: not among them */
    struct device_memory ring;       /* k_ring */
    uint64_t shared_bytes;
    char *shared; /* what kernels and the thread both see: */
    struct k_order *order;
    struct leat_signal *carried;
    char *packed;   /* what the orders carry */
    uint64_t taken; /* orders, by the thread */
    int failed;     /* the first error of an order; released after the detail */
    int failed_pulse;
    char detail[LEAT_DETAIL_BYTES];
    struct halo_post *posts;
};

/* Of a word, by pulse and field, as on the board. */
static inline uint32_t halo_post_number(const struct leat_halo *halo, int pulse, int field,
                                        enum board_signal word)
{
    return (uint32_t)((pulse * halo->field_count + field) * BOARD_SIGNALS + (int)word);
}

/* Whether kernels and the host store there, or the proxy has to. */
bool halo_is_direct(const leat_region *view);
/* 0, or the error that there is no way at all. */
int halo_can_carry(const leat_region *view, const char *what);
/* Whether kernels can store to all ranks of the plan by themselves; before any of them is met. */
bool halo_stores_to_all(const struct leat_halo *halo);
/* Makes the ring where some peer needs it, and starts the thread with the rank's first. Peers have
 * been met. */
int halo_proxy_open(struct leat_halo *halo, uint64_t first_epoch);
/* What the field's kernels need to know of it. */
void halo_proxy_bind(struct leat_halo *halo, int field, struct k_field *kernel);
/* Whether kernels put, by NVSHMEM. */
static inline bool halo_puts(const struct leat_halo *halo)
{
    return halo->proxy && halo->proxy->puts.address;
}
/* Whether kernels write orders to the proxy thread. */
static inline bool halo_orders(const struct leat_halo *halo)
{
    return halo->proxy && !halo_puts(halo);
}
/* The same by the rank's stream: `bytes` from here, or none, and the word after them; with `bytes`
 * alone where the word is one that the host raises. */
int halo_put(struct leat_halo *halo, int field, int pulse, enum board_signal word, const void *from,
             uint64_t value);
/* Mode host is its own proxy: brings `bytes` from here, or none, and raises the word. */
int halo_carry(struct leat_halo *halo, int field, int pulse, enum board_signal word,
               const void *from, uint64_t value);
/* Sets the detail when the report is of the ring or of what the thread did; 0: it is of neither. */
int halo_proxy_error(const struct leat_halo *halo, const char *what);
/* Until all orders that this rank's kernels have begun are carried, or its time is up. */
void leat_proxy_drain(struct leat_job *job);
void halo_proxy_free(struct leat_halo *halo);
/* Its parts in proxy.c: the ring goes to the thread, is waited for, is taken back. */
int halo_proxy_attach(struct leat_halo *halo, uint64_t first_ticket);
void halo_proxy_drain(const struct leat_halo *halo);
void halo_proxy_detach(struct leat_halo *halo);
/* Ends the thread; all halos of the job are free. */
void leat_proxy_close(struct leat_job *job);

#endif
