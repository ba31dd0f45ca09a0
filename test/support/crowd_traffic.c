// SPDX-License-Identifier: Apache-2.0
// Random traffic: see crowd_traffic.h.

#include "support/crowd_traffic.h"

#include "support/crowd_tuning.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t below(struct crowd *crowd, uint64_t bound)
{
    return crowd_random(crowd) % bound;
}

static bool chance(struct crowd *crowd, uint64_t permille)
{
    return below(crowd, 1000) < permille;
}

static uint64_t draw_size(struct crowd *crowd, const struct traffic *traffic)
{
    uint64_t limit[16];
    int count = crowd_limits(&crowd->tuning, limit);
    uint64_t size;
    if (chance(crowd, traffic->large_permille))
        size = below(crowd, traffic->largest + 1);
    else if (chance(crowd, 300))
        size = limit[below(crowd, (uint64_t)count)] + below(crowd, 3) - 1;
    else
        size = below(crowd, chance(crowd, 700) ? 100 : 1500);
    return size < traffic->largest ? size : traffic->largest;
}

static int draw_partner(struct crowd *crowd, const struct traffic *traffic, int rank)
{
    uint64_t ranks = (uint64_t)crowd->rank_count;
    if (chance(crowd, 30))
        return (int)below(crowd, ranks); // also oneself
    uint64_t away = 1 + below(crowd, (uint64_t)traffic->partners);
    return (int)(((uint64_t)rank + (chance(crowd, 500) ? away : ranks - away)) % ranks);
}

static struct crowd_message draw_message(struct crowd *crowd, const struct traffic *traffic)
{
    return (struct crowd_message){.context = (int)below(crowd, CROWD_CONTEXTS),
                                  .tag = (int)below(crowd, 3),
                                  .bytes = draw_size(crowd, traffic),
                                  .synchronous = chance(crowd, 100),
                                  .strided = chance(crowd, 150)};
}

static void cancel_one(struct crowd *crowd, int rank)
{
    struct crowd_receive *receive = crowd_rank(crowd, rank)->receive;
    for (uint64_t skip = below(crowd, 4); receive && skip; skip--)
        receive = receive->next;
    if (receive && receive->kind == CROWD_RECEIVE &&
        !msg_finished(msg_request_of(&receive->request)))
        crowd_cancel(crowd, receive);
}

static void one_call(struct crowd *crowd, const struct traffic *traffic, int rank)
{
    struct crowd_message message = draw_message(crowd, traffic);
    int partner = draw_partner(crowd, traffic, rank);
    uint64_t what = below(crowd, 100);
    if (what < 46) {
        crowd_send(crowd, rank, partner, message);
        return;
    }
    if (chance(crowd, 250))
        partner = LEAT_ANY_RANK;
    if (chance(crowd, 250))
        message.tag = LEAT_ANY_TAG;
    if (what < 84) {
        if (chance(crowd, 400))
            message.bytes = traffic->largest;
        crowd_receive(crowd, rank, partner, message);
    } else if (what < 97) {
        crowd_probe(crowd, rank, partner, message, chance(crowd, 600));
    } else {
        cancel_one(crowd, rank);
    }
}

// Ranks that make progress rarely.
static bool is_slow(int rank)
{
    return rank % 11 == 7;
}

static void talk(struct crowd *crowd, const struct traffic *traffic)
{
    for (uint32_t step = 0; step < traffic->steps && !crowd_failure(crowd); step++) {
        int rank = (int)below(crowd, (uint64_t)crowd->rank_count);
        one_call(crowd, traffic, rank);
        crowd->now_ns += below(crowd, 100);
        for (uint64_t n = below(crowd, 4); n; n--) {
            rank = (int)below(crowd, (uint64_t)crowd->rank_count);
            if (!is_slow(rank) || chance(crowd, 20))
                crowd_progress(crowd, rank);
        }
        if (step % 64 == 0)
            crowd_collect(crowd, rank);
    }
}

bool traffic_run(const struct traffic *traffic, uint64_t seed, struct msg_counts *counts,
                 char failure[512])
{
    struct memory_options net = traffic->net;
    net.seed = seed;
    struct crowd *crowd = crowd_new(&net, &traffic->tuning);
    crowd->unexpected_bytes = traffic->unexpected_bytes;
    for (int rank = 0; rank < net.rank_count; rank++)
        crowd_rank(crowd, rank);
    talk(crowd, traffic);
    crowd_drain(crowd);
    if (crowd->judged != crowd->sent)
        crowd_fail(crowd, "%llu of %llu messages were received", (unsigned long long)crowd->judged,
                   (unsigned long long)crowd->sent);
    if (!crowd->canceled || !crowd->probed || !crowd->too_small)
        crowd_fail(crowd, "nothing was cancelled, probed for or too small");
    crowd_add_counts(crowd, counts);
    const char *why = crowd_failure(crowd);
    snprintf(failure, 512, "%s, seed %llu: %s", traffic->name, (unsigned long long)seed,
             why ? why : "");
    char *misuse = crowd_free(crowd);
    if (misuse && !why)
        snprintf(failure, 512, "%s, seed %llu, at the end: %s", traffic->name,
                 (unsigned long long)seed, misuse);
    bool right = !why && !misuse;
    free(misuse);
    return right;
}
