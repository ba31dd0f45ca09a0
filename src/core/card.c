// SPDX-License-Identifier: Apache-2.0
// Cards: left in the segment for ranks of this host, asked for through the tie elsewhere.
//
// Advantage: a rank that speaks to nobody elsewhere costs nobody anything. Disadvantage: two places
// to look.

#include "core/card.h"

#include "core/bootstrap.h"

#include <errno.h>
#include <string.h>

int leat_card_publish(struct leat_job *job, enum card_kind kind, const char *card)
{
    struct card_box *box = &job->arena.head->card[kind];
    if (strlen(card) >= LEAT_CARD_BYTES)
        return leat_fail(-EOVERFLOW, "a card of %zu bytes: at most %d", strlen(card),
                         LEAT_CARD_BYTES - 1);
    memcpy(box->text, card, strlen(card) + 1);
    __atomic_store_n(&box->there, 1, __ATOMIC_RELEASE);
    if (job->first_away < 0)
        return 0;
    if (!job->tie || !job->tie->ops->publish)
        return leat_fail(-EHOSTUNREACH, "ranks of this job are on several hosts, and whoever "
                                        "started it cannot tell them where they are");
    return job->tie->ops->publish(job->tie, job->rank + (int)kind * job->rank_count, card);
}

static int find_here(const struct leat_job *job, enum card_kind kind, int rank,
                     char card[LEAT_CARD_BYTES])
{
    const struct card_box *box = &leat_arena_head(job, rank)->card[kind];
    if (!__atomic_load_n(&box->there, __ATOMIC_ACQUIRE))
        return leat_rank_lost(job, rank) ? -ECONNRESET : -EAGAIN;
    memcpy(card, box->text, LEAT_CARD_BYTES);
    return 0;
}

int leat_card_find(struct leat_job *job, enum card_kind kind, int rank, char card[LEAT_CARD_BYTES])
{
    if (!leat_rank_away(job, rank))
        return find_here(job, kind, rank, card);
    int error = leat_rank_lost(job, rank);
    if (error)
        return error;
    if (!job->tie || !job->tie->ops->find)
        return leat_fail(-EHOSTUNREACH, "whoever started this job cannot tell where rank %d is",
                         rank);
    return job->tie->ops->find(job->tie, job->segment->head, rank + (int)kind * job->rank_count,
                               card);
}

// Ranks that a launcher has started share a segment that nobody else can open.
int leat_card_secret(struct leat_job *job, uint8_t secret[LEAT_SECRET_BYTES])
{
    static const char purpose[] = "leat fabric";
    const struct segment_head *head = job->segment->head;
    if (job->tie && job->tie->ops->secret)
        return job->tie->ops->secret(job->tie, head, secret);
    if (job->first_away >= 0)
        return leat_fail(-ENOTSUP, "ranks of this job are on several hosts and share no key; start "
                                   "them with LEAT_ROOT and LEAT_JOB_KEY");
    const struct mac_piece piece = {purpose, sizeof purpose};
    leat_mac(head->job, sizeof head->job, &piece, 1, secret);
    return 0;
}

void leat_card_address(struct leat_job *job, char address[64])
{
    *address = 0;
    if (job->tie && job->tie->ops->address)
        job->tie->ops->address(job->tie, address);
}
