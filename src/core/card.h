/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rank can be found in a network: lines of text that it publishes and others ask for, one
 * for messages and one for its regions. Outside of a host they are numbered: rank, then rank +
 * rank_count.
 *
 * Ranks of this host leave it in the segment; others are asked through whoever started the job (the
 * root, PMIx), when they are first spoken to. Advantage: nothing is exchanged at the start.
 * Disadvantage: the first message to a rank waits for a question and its answer.
 */
#ifndef LEAT_CORE_CARD_H
#define LEAT_CORE_CARD_H

#include "core/job.h"

#define LEAT_SECRET_BYTES 32

/* Where a rank can be found for what. */
enum card_kind { CARD_MESSAGES, CARD_FAR };
_Static_assert(CARD_FAR + 1 == LEAT_CARDS, "a box each");

/* Once a rank and kind. Errors as of the way the job was started; -EOVERFLOW a longer text. */
int leat_card_publish(struct leat_job *job, enum card_kind kind, const char *card);
/* -EAGAIN not known yet: ask again; never waits. -ECONNRESET the rank has gone; -EHOSTUNREACH
 * nobody is left to ask. Of one thread of a rank for each kind. */
int leat_card_find(struct leat_job *job, enum card_kind kind, int rank, char card[LEAT_CARD_BYTES]);
/* What the job's ranks share and nobody else has; the same for all of them. -ENOTSUP this way of
 * starting has none. */
int leat_card_secret(struct leat_job *job, uint8_t secret[LEAT_SECRET_BYTES]);
/* This host's address in the network in which the ranks have met, or "": no network was needed. */
void leat_card_address(struct leat_job *job, char address[64]);

#endif
