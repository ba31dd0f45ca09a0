/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes and thresholds for tests of the message engine, and the sizes of messages that lie at them.
 *
 * Advantage: small figures bring every bound within reach of a few messages. Disadvantage: what
 * depends on the shipped figures is seen elsewhere.
 */
#ifndef LEAT_TEST_SUPPORT_CROWD_TUNING_H
#define LEAT_TEST_SUPPORT_CROWD_TUNING_H

#include "msg/engine.h"

#define CROWD_LARGEST (200u << 10)

static inline struct msg_tuning crowd_tuning(void)
{
    return (struct msg_tuning){.budget_bytes = 4u << 20,
                               .ring_slots = 16,
                               .ring_bulk_bytes = 8192,
                               .fragment_bytes = 1024,
                               .eager_bytes = 3000,
                               .direct_bytes = 10000,
                               .share_bytes = 60000,
                               .chunk_bytes = 16384,
                               .pipe_bytes = 8192,
                               .queue_window = 4,
                               .promote_after = 3,
                               .ring_limit = 4,
                               .handle_limit = 32};
}

/* Fills limit[] with every size at which a message may go another way. */
static inline int crowd_limits(const struct msg_tuning *tuning, uint64_t limit[16])
{
    int count = 0;
    limit[count++] = 16;
    limit[count++] = MSG_SLOT_PAYLOAD;
    limit[count++] = MSG_PACKET_PAYLOAD;
    limit[count++] = tuning->fragment_bytes;
    limit[count++] = 2 * tuning->fragment_bytes;
    limit[count++] = tuning->eager_bytes;
    limit[count++] = tuning->direct_bytes;
    limit[count++] = tuning->share_bytes;
    limit[count++] = tuning->chunk_bytes;
    limit[count++] = tuning->pipe_bytes / 8;
    limit[count++] = tuning->pipe_bytes;
    limit[count++] = CROWD_LARGEST;
    return count;
}

#endif
