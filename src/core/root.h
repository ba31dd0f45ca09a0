/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a job: where ranks that were started by hand, on one host or on many, meet.
 *
 * Rank 0 listens at the job's address in a thread of its own. Every other rank connects once, is
 * told whether its host has a segment already, and keeps the connection: its end is that rank's
 * death. Advantage: no server to start, and a constant number of small frames a rank.
 * Disadvantage: rank 0's host holds a connection a rank, and with rank 0 the watch ends.
 */
#ifndef LEAT_CORE_ROOT_H
#define LEAT_CORE_ROOT_H

#include "core/bootstrap.h"

#include <sys/socket.h>

#define ROOT_ADDRESS_BYTES 80 /* of an address as text */

/* LEAT_ROOT, LEAT_SIZE and so on, as they were given. */
struct root_options {
    char address[256]; /* HOST:PORT, or [HOST]:PORT */
    struct hello_key key;
    int rank, rank_count;
    uint8_t host[HELLO_HOST_BYTES];
    int log_level;
    double timeout_s;
};

/* ---- bootstrap_root.c ---- */
/* What leat_bootstrap_root does, with options that are not from the environment. */
int root_bootstrap(const struct root_options *options, const struct config *config,
                   struct bootstrap *found);

/* ---- root_place.c: without LEAT_ROOT ---- */
/* Rank 0: an address to listen at, whose port may be taken by then, and a key. */
int root_place_draw(struct root_options *options);
/* Rank 0, of what it has drawn: for all others, and nobody else. */
int root_place_write(const struct root_options *options, char *card, size_t bytes);
/* The others: address and key. -EPROTO */
int root_place_read(const char *card, struct root_options *options);

/* ---- root_address.c ---- */
struct addrinfo;
/* Free with freeaddrinfo. -EINVAL no HOST:PORT; -EHOSTUNREACH the name is unknown. */
int root_resolve(const char *address, bool to_listen, struct addrinfo **found);
/* An address that no other host reaches. */
bool root_is_local(const struct sockaddr *address);
/* HOST is a name that says nothing of that: neither an address nor localhost. */
bool root_has_name(const char *address);
/* This end of a connection, without its port. */
void root_own_address(int fd, char address[64]);
void root_print_address(const struct sockaddr *address, socklen_t bytes,
                        char text[ROOT_ADDRESS_BYTES]);
/* So that the kernel notices within the time-out that the other end cannot be reached. */
void root_watch_link(int fd, double timeout_s);

/* ---- root.c: rank 0's side ---- */
struct root;
/* Listens, and starts the thread; `head` is of rank 0's host, whose segment `seat` gives out. */
int root_open(const struct root_options *options, const struct seat *seat, struct root **root);
/* Rank 0 has claimed its record, too. */
void root_ready(struct root *root);
/* Can be read once all ranks are there, or one of them is lost before. */
int root_told(const struct root *root);
/* Which of the two, after that. */
int root_verdict(struct root *root);
/* Where it listens, if no other host reaches that; else NULL. */
const char *root_local_address(const struct root *root);
/* Names the ranks that have not come yet. */
void root_missing(struct root *root, char *text, size_t bytes);
/* Rank 0's card, and another's, or -EAGAIN; by number (core/card.h). */
int root_publish(struct root *root, int number, const char *card);
int root_find(struct root *root, int number, char card[LEAT_CARD_BYTES]);
/* Where ranks of other hosts have reached it, as a number; leaves it where none has. */
void root_reached_at(struct root *root, char address[64]);
/* Tells the others, with leat_close's reason or NULL. Where a rank has a card, its thread then
 * stays a second at most, to say where that is, until all others have left, too. */
void root_say_leave(struct root *root, const char *reason);
/* After that; waits for the thread. */
void root_close(struct root *root);

/* ---- root_join.c: the others' side ---- */
struct root_link;
/* Until the rank knows its host's segment; `seat` has a listener where this rank has made it. */
int root_join(const struct root_options *options, const struct config *config, uint64_t deadline_ns,
              struct seat *seat, struct root_link **link);
int root_arrive(struct root_link *link, struct seat *seat, uint64_t deadline_ns);
void root_look(struct root_link *link, struct segment_head *head);
int root_link_publish(struct root_link *link, int number, const char *card);
int root_link_find(struct root_link *link, struct segment_head *head, int number,
                   char card[LEAT_CARD_BYTES]);
void root_link_address(const struct root_link *link, char address[64]);
void root_leave(struct root_link *link, const char *reason);

#endif
