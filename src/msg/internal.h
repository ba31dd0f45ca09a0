/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine's own files share: peers, rings, queue, rendezvous, messages held back.
 *
 * Advantage: each file below can be read against this page alone. Disadvantage: it has to be kept
 * true for five files.
 */
#ifndef LEAT_MSG_INTERNAL_H
#define LEAT_MSG_INTERNAL_H

#include "msg/engine.h"

/* ---- peer.c ---- */
int msg_peers_open(struct msg_engine *engine);
void msg_peers_close(struct msg_engine *engine);
/* Slab index of the record of a rank, made at first use; 0: the pool is full. */
uint32_t msg_peer_make(struct msg_engine *engine, int rank);
/* The same, 0 where it is not in use. */
uint32_t msg_peer_find(struct msg_engine *engine, int rank);
static inline struct msg_peer *msg_peer_at(const struct msg_engine *engine, uint32_t index)
{
    return msg_slab_at(&engine->peers, index);
}
static inline bool msg_peer_is_used(const struct msg_engine *engine, uint32_t index)
{
    return msg_peer_at(engine, index)->flags & PEER_USED;
}
/* Notes what is owed to a peer. */
void msg_peer_owe(struct msg_engine *engine, uint32_t index, unsigned todo);
/* Pays what can be paid. */
void msg_peers_progress(struct msg_engine *engine);
/* Its list of sends: at the end, at the front, out of the middle, and the first. */
void msg_pending_append(struct msg_peer *peer, struct msg_request *request);
void msg_pending_prepend(struct msg_peer *peer, struct msg_request *request);
void msg_pending_remove(struct msg_peer *peer, struct msg_request *request);
static inline struct msg_request *msg_pending_head(const struct msg_peer *peer)
{
    return peer->pending_tail ? peer->pending_tail->next : NULL;
}

/* ---- ring.c ---- */
/* Writes the message, or its announcement, to the peer's open ring. False: no credit or handle. */
bool msg_ring_send(struct msg_engine *engine, uint32_t peer, struct msg_request *request);
/* Reads what has come by the rings, or by one of them (its place in ring_in). */
void msg_rings_progress(struct msg_engine *engine);
void msg_ring_progress(struct msg_engine *engine, uint32_t place);
/* What a slot says that cannot be, or NULL. */
const char *msg_ring_fault(const struct msg_engine *engine, const struct msg_slot *slot);
/* The payload of a slot without fault; *bulk_end is where the bulk area has been read up to after
 * it. */
const void *msg_ring_payload(const struct msg_engine *engine, const struct msg_ring_in *ring,
                             const struct msg_slot *slot, uint64_t *bulk_end);
/* The payload has been copied. */
void msg_ring_taken(const struct msg_engine *engine, const struct msg_ring_in *ring,
                    const struct msg_slot *slot);
bool msg_ring_send_pending(struct msg_engine *engine, uint32_t peer);
bool msg_ring_write_end(struct msg_engine *engine, uint32_t peer);
bool msg_ring_credit(struct msg_engine *engine, uint32_t peer);
void msg_ring_credited(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet);
uint64_t msg_ring_bytes(const struct msg_tuning *tuning);
/* The network's put, counted. False: no room now. */
bool msg_put(struct msg_engine *engine, int rank, const struct msg_token *token,
             const struct msg_piece *pieces, int count);

/* ---- promote.c ---- */
/* Receiving: chooses whether a peer that talks by queue gets a ring, perhaps another's. */
void msg_ring_consider(struct msg_engine *engine, uint32_t peer);
void msg_ring_drop_in(struct msg_engine *engine, uint32_t peer);
/* Steps of the handshakes; false: no room or credit now, try again. */
bool msg_ring_grant(struct msg_engine *engine, uint32_t peer);
bool msg_ring_switch(struct msg_engine *engine, uint32_t peer);
bool msg_ring_end(struct msg_engine *engine, uint32_t peer);
/* Packets of the handshakes. */
void msg_ring_granted(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet);
void msg_ring_switched(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet);
void msg_ring_revoked(struct msg_engine *engine, uint32_t peer);
void msg_ring_ended(struct msg_engine *engine, uint32_t peer);
void msg_ring_declined(struct msg_engine *engine, uint32_t peer);
void msg_rings_close(struct msg_engine *engine);

/* ---- queue.c ---- */
/* Sends control; answers owed to the peer go first. False: no room now. */
bool msg_control(struct msg_engine *engine, uint32_t peer, struct msg_packet *packet,
                 uint32_t payload);
/* Sends what may go of the peer's list. False: something has to wait. */
bool msg_queue_send(struct msg_engine *engine, uint32_t peer);
bool msg_queue_answer(struct msg_engine *engine, uint32_t peer);
void msg_queue_progress(struct msg_engine *engine);
/* Acts on one packet, whatever it says (fuzzed). */
void msg_queue_packet(struct msg_engine *engine, const struct msg_packet *packet, uint32_t bytes);
/* ---- p2p.c ---- */
enum arrival { ARRIVAL_DONE, ARRIVAL_HELD };
/* A message, or its first fragment, or its announcement, has come. `ring` NULL: by queue. */
enum arrival msg_arrive(struct msg_engine *engine, uint32_t peer, struct msg_ring_in *ring,
                        const struct msg_header *header, const void *payload);
/* The same for a receive that is known. */
void msg_arrive_at(struct msg_engine *engine, uint32_t peer, struct msg_ring_in *ring,
                   struct msg_request *request, const struct msg_header *header,
                   const void *payload);
/* The next fragment. */
enum arrival msg_arrive_more(struct msg_engine *engine, struct msg_ring_in *ring,
                             const struct msg_header *header, const void *payload);
/* Gives a matched message's bytes (in cells, or at its sender) to a receive. */
void msg_deliver(struct msg_engine *engine, struct msg_request *request,
                 struct msg_unexpected *message);
/* Sends the list's messages as far as they may go. False: something has to wait. */
bool msg_send_pending(struct msg_engine *engine, uint32_t peer);
/* Sets source and tag of a receive's status. */
void msg_note_match(struct msg_request *request, const struct msg_envelope *envelope);

/* ---- handle.c: names of requests on the wire ---- */
int msg_handles_open(struct msg_engine *engine);
void msg_handles_close(struct msg_engine *engine);
/* What an announcement leaves for messages that are given or taken out of turn: those end by
 * themselves, so the last handles come back. Taking leaves one to giving. */
static inline uint32_t msg_handle_reserve(const struct msg_engine *engine)
{
    return engine->tuning.handle_limit > 8 ? engine->tuning.handle_limit / 4 : 2;
}
/* 0: all are in use; `reserve` of them are left. */
uint32_t msg_handle_take(struct msg_engine *engine, struct msg_request *request, uint32_t reserve);
/* NULL: no such handle (any more), or of another peer or kind. */
struct msg_request *msg_handle_request(struct msg_engine *engine, uint32_t handle, int peer,
                                       enum msg_request_kind kind);
void msg_handle_give(struct msg_engine *engine, struct msg_request *request);

/* ---- lost.c ---- */
/* The peer is gone: its sends and the receives that name it end with msg_lost_error. */
void msg_peer_lost(struct msg_engine *engine, uint32_t peer);
/* The peer has sent what cannot be: from here on it counts as lost, and nothing of it is read.
 * `header` may be NULL; `peer` 0: it is not known whose it is, and it is only told. */
void msg_peer_nonsense(struct msg_engine *engine, uint32_t peer, const struct msg_header *header,
                       const char *what);
/* -EPROTO where that is why it is lost, otherwise -ECONNRESET. */
int msg_lost_error(struct msg_engine *engine, int rank);
/* Maps words of a peer's memory that its packet names. False: there is nothing of the kind, though
 * this network maps everything. *words NULL: it maps nothing. */
bool msg_map_words(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet,
                   const struct msg_token *token, uint64_t bytes, void **words);
bool msg_rank_is_lost(struct msg_engine *engine, int rank);
/* Whether nobody but this rank is left in the communicator. */
bool msg_all_lost(const leat_comm *comm);
/* Asks after all peers in use, and ends what waits for those that are gone, and for anybody where
 * nobody is left. */
void msg_check_peers(struct msg_engine *engine);

/* ---- rendezvous.c ---- */
/* Fills an announcement of a send: handle and token. False: no handle. */
bool msg_announce(struct msg_engine *engine, struct msg_request *request, uint32_t reserve,
                  struct msg_header *header, struct msg_token *token);
/* Takes that back, or ends it. */
void msg_unannounce(struct msg_engine *engine, struct msg_request *request);
/* A receive has matched an announcement. */
void msg_fetch(struct msg_engine *engine, struct msg_request *request,
               const struct msg_envelope *envelope);
void msg_rendezvous_progress(struct msg_engine *engine);
void msg_rendezvous_clear(struct msg_engine *engine, uint32_t peer,
                          const struct msg_packet *packet);
void msg_rendezvous_finish(struct msg_engine *engine, uint32_t peer,
                           const struct msg_packet *packet);
/* Whether the network reads or writes the request's memory: once that is over, the request ends,
 * with status.error where that is set meanwhile. */
bool msg_rendezvous_busy(const struct msg_request *request);
/* Lets go of what a rendezvous holds, when its peer is lost. */
void msg_rendezvous_drop(struct msg_engine *engine, struct msg_request *request);

/* ---- hold.c: messages that stay with their senders, and how they are found ---- */
int msg_hold_open(struct msg_engine *engine);
void msg_hold_close(struct msg_engine *engine);
/* Whether the peer holds messages back may have changed: REJECTING, SHORT, or its ring's held. */
void msg_hold_update(struct msg_engine *engine, uint32_t peer);
/* A receive was posted that nothing here fits: look at those that hold back. */
void msg_hold_wanted(struct msg_engine *engine);
/* The same for a probe: 1 found (source, tag and bytes in *found), 0 not there, -EAGAIN not known
 * yet. */
int msg_hold_probe(struct msg_engine *engine, uint32_t context, int from, int tag,
                   struct msg_envelope *found);
void msg_hold_progress(struct msg_engine *engine);
/* The peer is gone: it answers no question. */
void msg_hold_lost(struct msg_engine *engine, uint32_t peer);
/* Packets of the search, at either side. */
void msg_hold_packet(struct msg_engine *engine, uint32_t peer, const struct msg_packet *packet);
/* What is owed in the search, at either side; false: no room now. */
bool msg_hold_pay(struct msg_engine *engine, uint32_t peer, unsigned todo);

/* ---- broken.c: collectives past a dead rank ---- */
void msg_broken_packet(struct msg_engine *engine, int from, const struct msg_packet *packet);
/* Acts again on what was kept, once the verdict of a deadlock is here. */
void msg_broken_again(struct msg_engine *engine);
/* Tells on who could not be told before. */
void msg_broken_progress(struct msg_engine *engine);
/* Looks whether ranks live that collectives under way may wait for, perhaps through others. */
void msg_broken_watch(struct msg_engine *engine);

/* ---- survivors.c ---- */
void msg_agreement_packet(struct msg_engine *engine, uint32_t peer,
                          const struct msg_packet *packet);

/* ---- deadlock.c ---- */
void msg_deadlock_close(struct msg_engine *engine);
void msg_deadlock_packet(struct msg_engine *engine, int from, const struct msg_packet *packet);
/* Whether this rank has answered from the wait that it is in, and may be told the verdict. */
bool msg_deadlock_expected(const struct msg_engine *engine);
/* "no rank of the job can go on: rank 0 waits for rank 1 (receive, tag 3); ..." */
void msg_deadlock_describe(const struct msg_engine *engine, char *text, size_t bytes);
/* Ends a request with -EDEADLK, as far as it can be taken back. */
void msg_give_up(struct msg_request *request);

/* ---- held.c: the sender's side of it ---- */
void msg_held_asked(struct msg_engine *engine, uint32_t peer, const struct msg_header *header);
void msg_held_decided(struct msg_engine *engine, uint32_t peer, const struct msg_header *header);
bool msg_held_behind(struct msg_engine *engine, uint32_t peer);
bool msg_held_give(struct msg_engine *engine, uint32_t peer);
/* Sending: tells the peer that its messages wait here for want of handles, where that is so.
 * Returns false: they still wait. */
bool msg_held_tell(struct msg_engine *engine, uint32_t peer);
void msg_held_untell(struct msg_engine *engine, uint32_t peer);

#endif
