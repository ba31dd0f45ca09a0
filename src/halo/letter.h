/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letters between two ranks while plans are made and groups migrate: messages with a deadline.
 */
#ifndef LEAT_HALO_LETTER_H
#define LEAT_HALO_LETTER_H

#include "core/job.h"

#include <errno.h>
#include <stdbool.h>

/* Makes what the swaps of a job need, so that a lack of it shows while ranks still agree. Nothing
 * on a job of one rank. -ENOMEM, or what opening the message layer says. Local. */
int leat_letters_open(struct leat_job *job);

/*
 * Sends a letter to `to` and receives one from `from` (either may be this rank, both always take
 * part). *data stays valid until the next call. Collective over both pairs.
 *
 * -ETIMEDOUT or -ECONNRESET, naming the peer: the swap is given up and nothing of this call's is
 * looked at again. -ENOMEM, or -EREMOTEIO when `from` had no memory for its letter: the letters are
 * gone, both peers go on.
 */
int leat_letter_swap(struct leat_job *job, int to, const void *letter, uint64_t letter_bytes,
                     int from, const void **data, uint64_t *bytes);

/* Whether after this error of a swap the peers do not go on. */
static inline bool leat_letter_is_lost(int error)
{
    return error && error != -ENOMEM && error != -EREMOTEIO;
}

#endif
