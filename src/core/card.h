/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rank can be found in a network: a line of text that it publishes and others ask for.
 *
 * Ranks of this host leave it in the segment; others are asked through whoever started the job (the
 * root, PMIx), when they are first spoken to. Advantage: nothing is exchanged at the start.
 * Disadvantage: the first message to a rank waits for a question and its answer.
 */
#ifndef LEAT_CORE_CARD_H
#define LEAT_CORE_CARD_H

#include "core/job.h"

#define LEAT_SECRET_BYTES 32

/* Once a rank. Errors as of the way the job was started; -EOVERFLOW a longer text. */
int leat_card_publish(struct leat_job *job, const char *card);
/* -EAGAIN not known yet: ask again; never waits. -ECONNRESET the rank has gone; -EHOSTUNREACH
 * nobody is left to ask. Of one thread of a rank. */
int leat_card_find(struct leat_job *job, int rank, char card[LEAT_CARD_BYTES]);
/* What the job's ranks share and nobody else has; the same for all of them. -ENOTSUP this way of
 * starting has none. */
int leat_card_secret(struct leat_job *job, uint8_t secret[LEAT_SECRET_BYTES]);
/* This host's address in the network in which the ranks have met, or "": no network was needed. */
void leat_card_address(struct leat_job *job, char address[64]);

#endif
