/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modelled network: links and network interfaces in virtual time, with contention.
 *
 * Small transfers (a packet at most) go at once: they pay latency, the bandwidth of their bytes,
 * and half a packet where a link is busy with bulk. Bulk queues at its source until an interface
 * and the first link are free, first come first served among those that can go, so nobody waits
 * behind a busy link that it does not want. A piece (SIM_PIECE_BYTES) then holds the interface and
 * the link for its time, and each further link of its route in the order in which heads get
 * there: cut-through at the granularity of pieces. Where a node's own traffic waits for a link too,
 * that and what passes through take turns. What all interfaces of a node
 * send, and what they receive, is bounded by the node's path as well.
 *
 * Nodes are called by rank. During a window (agenda.h) each rank touches its own interfaces only,
 * and what starts is kept; between two windows the starts are taken in the order of time, which is
 * when links that several nodes use are claimed and arrivals computed.
 *
 * Advantage: one event a transfer between neighbours, and one more for each further hop of bulk,
 * with contention on links, interfaces and node paths. Disadvantage: within a window a node's own
 * traffic goes before what passes through; buffers in the network have no bound, so a busy receiver
 * does not hold up links.
 */
#ifndef LEAT_SIM_NETWORK_H
#define LEAT_SIM_NETWORK_H

#include "sim/agenda.h"
#include "sim/topology.h"

#include <stddef.h>

#define SIM_PIECE_BYTES (64u << 10)
#define SIM_WAYS_KEPT   8

/* Something on its way from rank to rank; becomes an event of `to` when all of it is there. */
struct sim_transfer {
    struct sim_event event;
    int32_t from, to;
    uint64_t bytes;            /* on the wire */
    uint64_t left;             /* bulk: not started */
    struct sim_transfer *next; /* in the queue of its source */
    uint32_t link, other_link; /* first one, and one that is as good */
    uint8_t kind;              /* the owner's */
    bool alone;                /* bulk: there is no further link */
};

struct sim_link_state {
    uint64_t bulk_free_ps, small_free_ps; /* when what it has been claimed for is through */
    uint64_t bytes;                       /* so far */
    uint64_t latency_ps;
    double ps_per_byte;
    bool waited; /* a transfer waits for it at the node that it leaves, */
    bool passed; /* and the last one was from elsewhere */
};

struct sim_way {
    int32_t link_count;
    uint32_t link, other_link; /* first one, and one that is as good */
};

/* The ways that a rank has used last. */
struct sim_ways {
    int32_t to[SIM_WAYS_KEPT];
    struct sim_way way[SIM_WAYS_KEPT];
    uint32_t oldest;
};

struct sim_interface {
    struct sim_transfer *queue, *queue_tail; /* bulk that waits */
    uint64_t next_ps;                        /* when it may go on; SIM_NEVER: nothing waits */
    uint64_t sent_path_ps, received_path_ps, both_path_ps; /* the node's path is taken until then */
    uint64_t bytes_sent, bytes_received;
};

/* Something that left its source. */
struct sim_start {
    uint64_t at_ps, end_ps; /* at the source */
    struct sim_transfer *transfer;
    uint32_t bytes, link;
    bool alone, last, bulk;
};

/* A piece whose head is on its way to a link beyond the first one. */
struct sim_head {
    uint64_t at_ps, number;
    struct sim_start start;
    int at, count; /* links */
    bool yielded;  /* at this link */
    double slowest;
    struct sim_head *next; /* of those that are free */
    uint32_t route[];
};

struct sim_network {
    const struct sim_topology *topology;
    struct sim_agenda *agenda;
    int rank_count;
    const int32_t *node;         /* of a rank; the caller's */
    struct sim_link_state *link; /* [topology->link_count] */
    struct sim_interface *interface;
    uint64_t *ends;        /* [rank_count][2][interfaces]: busy until, sending, receiving */
    struct sim_ways *ways; /* [rank_count] */
    uint32_t *route;       /* scratch */
    struct sim_start *start, *sorted;
    uint32_t *order;
    size_t start_count, start_capacity, order_capacity;
    struct sim_head **head, *free_heads; /* a heap by time */
    size_t head_count, head_capacity;
    uint64_t head_number;
    uint64_t base_ps, least_ps;            /* least_ps: no transfer takes less */
    double interface_ps, path_ps, both_ps; /* a byte; 0: no bound */
    int interfaces;
    uint32_t small_bytes;
    uint64_t transfers, bytes;
    int error; /* of a route that does not exist, detail set */
};

/* The least time in which anything at one rank reaches another: what a window may last. */
uint64_t sim_network_least_ps(const struct sim_topology *topology);

/* -EINVAL for figures that cannot be, -ENOMEM. Topology, places and agenda are the caller's. */
int sim_network_open(struct sim_network *network, const struct sim_topology *topology,
                     const int32_t *node, int rank_count, struct sim_agenda *agenda);
void sim_network_close(struct sim_network *network);

/* Sends a transfer of at most small_bytes that leaves its source at `at_ps`, now or later; `from`,
 * `to`, `bytes` are set. Transfers between two ranks arrive in the order in which they left. */
void sim_network_send(struct sim_network *network, struct sim_transfer *transfer, uint64_t at_ps);
/* Queues a transfer of any size at its source, which is the rank that is visited. */
void sim_network_send_bulk(struct sim_network *network, struct sim_transfer *transfer,
                           uint64_t now_ps);
/* The visited rank's interfaces start what can start; due at interface[rank].next_ps. */
void sim_network_go_on(struct sim_network *network, int rank, uint64_t now_ps);
/* After the last node of a window: what has started arrives, as events of the receivers. */
void sim_network_settle(struct sim_network *network);

static inline uint64_t sim_network_next(const struct sim_network *network, int rank)
{
    return network->interface[rank].next_ps;
}

/* Hardware time of the first byte of a small transfer, without contention. */
uint64_t sim_network_latency_ps(struct sim_network *network, int from, int to);
/* Links between two ranks, or negative. */
int sim_network_hops(struct sim_network *network, int from, int to);

#endif
