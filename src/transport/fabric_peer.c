// SPDX-License-Identifier: Apache-2.0
// Peers in use: where they are, what proves their messages, whether they are still there.
//
// Algorithm: a table by rank, grown by doubling, of those that were spoken to or spoke. A peer's
// address comes from its card when it is first spoken to; its cookies are MACs of the two ranks'
// numbers under the job's secret, so either side computes both. Advantage: no handshake, and no
// state for anybody else. Disadvantage: an address that is out of date is seen only as a connection
// that fails.

#include "transport/fabric_msg_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/hello_mac.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES_LEAST = 64 };

static uint32_t place_of(const struct fabric_net *net, int rank)
{
    uint32_t place = (uint32_t)rank * UINT32_C(2654435761) & (net->peer_places - 1);
    while (net->peers[place].rank >= 0 && net->peers[place].rank != rank)
        place = (place + 1) & (net->peer_places - 1);
    return place;
}

static int make_places(struct fabric_net *net, uint32_t places)
{
    struct fabric_peer *old = net->peers;
    uint32_t old_places = net->peer_places;
    struct fabric_peer *made = calloc(places, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for %u peers in the network", places);
    for (uint32_t i = 0; i < places; i++)
        made[i].rank = -1;
    net->peers = made;
    net->peer_places = places;
    for (uint32_t i = 0; i < old_places; i++)
        if (old[i].rank >= 0)
            net->peers[place_of(net, old[i].rank)] = old[i];
    free(old);
    return 0;
}

int fabric_peers_open(struct fabric_net *net)
{
    int error = leat_card_secret(net->job, net->secret);
    return error ? error : make_places(net, PLACES_LEAST);
}

void fabric_peers_close(struct fabric_net *net)
{
    free(net->peers);
    net->peers = NULL;
    net->peer_places = 0;
}

static void make_cookie(const struct fabric_net *net, int from, int to,
                        uint8_t cookie[FABRIC_COOKIE_BYTES])
{
    uint8_t mac[MAC_BYTES];
    const uint32_t ranks[2] = {(uint32_t)from, (uint32_t)to};
    const struct mac_piece pieces[] = {
        {net->job->segment->head->job, sizeof net->job->segment->head->job}, {ranks, sizeof ranks}};
    leat_mac(net->secret, sizeof net->secret, pieces, 2, mac);
    memcpy(cookie, mac, FABRIC_COOKIE_BYTES);
}

int fabric_peer_find(struct fabric_net *net, int rank, struct fabric_peer **found)
{
    struct fabric_peer *peer = &net->peers[place_of(net, rank)];
    if (peer->rank != rank) {
        // At most half full, or searches get long.
        int error = 2 * (net->peer_count + 1) > net->peer_places
                        ? make_places(net, 2 * net->peer_places)
                        : 0;
        if (error)
            return error;
        peer = &net->peers[place_of(net, rank)];
        *peer = (struct fabric_peer){.rank = rank};
        make_cookie(net, net->net.rank, rank, peer->to);
        make_cookie(net, rank, net->net.rank, peer->from);
        net->peer_count++;
    }
    *found = peer;
    return 0;
}

// A stranger must not be able to fill the table.
struct fabric_peer *fabric_peer_proven(struct fabric_net *net, int rank,
                                       const uint8_t cookie[FABRIC_COOKIE_BYTES])
{
    struct fabric_peer *peer = &net->peers[place_of(net, rank)];
    uint8_t expected[FABRIC_COOKIE_BYTES];
    if (peer->rank == rank)
        return leat_mac_begins_equal(cookie, peer->from, FABRIC_COOKIE_BYTES) ? peer : NULL;
    make_cookie(net, rank, net->net.rank, expected);
    bool proven = leat_mac_begins_equal(cookie, expected, FABRIC_COOKIE_BYTES);
    return proven && !fabric_peer_find(net, rank, &peer) ? peer : NULL;
}

int fabric_peer_meet(struct fabric_net *net, int rank, struct fabric_peer **found)
{
    char card[LEAT_CARD_BYTES], reason[400];
    int error = fabric_peer_find(net, rank, found);
    if (error || (*found)->state == FABRIC_PEER_MET)
        return error;
    if ((*found)->state == FABRIC_PEER_LOST)
        return fabric_peer_alive(net, rank);
    error = leat_card_find(net->job, CARD_MESSAGES, rank, card);
    if (!error)
        error = fabric_meet(&net->fabric, card, &(*found)->address);
    if (error == -EAGAIN)
        return error;
    if (error) {
        snprintf(reason, sizeof reason, "cannot be reached: %.370s", leat_error_detail());
        fabric_peer_lose(net, rank, reason);
        return fabric_peer_alive(net, rank);
    }
    (*found)->state = FABRIC_PEER_MET;
    net->settling++;
    return 0;
}

void fabric_peer_lose(struct fabric_net *net, int rank, const char *why)
{
    struct fabric_peer *peer;
    if (fabric_peer_find(net, rank, &peer) || peer->state == FABRIC_PEER_LOST)
        return;
    if (peer->state == FABRIC_PEER_MET && !peer->settled)
        net->settling--;
    peer->settled = true;
    peer->state = FABRIC_PEER_LOST;
    snprintf(net->lost, sizeof net->lost, "rank %d %.220s", rank, why);
    // Of one that has ended others tell.
    if (!leat_rank_lost(net->job, rank))
        leat_log(net->job->config.log_level, LOG_WARN, net->net.rank, "%s", net->lost);
    leat_rank_gone(net->job->segment->head, rank, RANK_LOST, why);
}

// A rank that has left in order may have sent what is still on its way: until its good-bye is here,
// or for a while, it counts as there.
static bool may_still_arrive(struct fabric_net *net, struct fabric_peer *peer)
{
    const struct rank_record *record = leat_rank_record(net->job, peer->rank);
    if (peer->state != FABRIC_PEER_MET || peer->bye || record->failed != RANK_UNHARMED ||
        leat_rank_died(net->job, peer->rank))
        return false;
    if (!peer->gone_ns)
        peer->gone_ns = net->now_ns;
    return net->now_ns - peer->gone_ns < FABRIC_FAREWELL_NS;
}

int fabric_peer_alive(struct fabric_net *net, int rank)
{
    struct fabric_peer *peer;
    int error = fabric_peer_find(net, rank, &peer);
    if (error)
        return error;
    error = leat_rank_lost(net->job, rank);
    if (!error && peer->state == FABRIC_PEER_LOST)
        return leat_fail(-ECONNRESET, "%s", net->lost);
    if (!error || may_still_arrive(net, peer))
        return 0;
    char fate[520];
    leat_rank_fate(net->job, rank, fate, sizeof fate);
    return leat_fail(error, "%s", fate);
}

#endif
