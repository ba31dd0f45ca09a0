/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose bytes the engine moves: memory, unless a network says that it knows better.
 *
 * A simulated network runs tens of thousands of ranks whose buffers would not fit anywhere. It
 * hands out addresses without bytes, lets its puts and gets carry what they stand for, and does the
 * copies and reductions of the engine, which so never touches such an address. It also learns what
 * the processor has to do. Advantage: the engine, its sizes, limits and decisions stay what they
 * are. Disadvantage: every copy of payload has to go through here, or such a buffer is touched.
 *
 * Messages at such addresses that would be copied into a slot or packet are announced instead.
 */
#ifndef LEAT_MSG_MEMORY_H
#define LEAT_MSG_MEMORY_H

#include "leat/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct msg_memory {
    /* Whether the address has no bytes. */
    bool (*is_hollow)(const struct msg_memory *memory, const void *address);
    /* Every copy between a buffer and a ring, a packet or another buffer. */
    void (*copy)(struct msg_memory *memory, void *to, const void *from, uint64_t bytes);
    /* As msg_combine (op.h). */
    void (*combine)(struct msg_memory *memory, enum leat_operation operation, enum leat_type type,
                    const leat_user_operation *user, const void *in, void *inout, uint64_t count);
    /* An unexpected message of `bytes` lies in a ring. NULL: keep its bytes as ever. Otherwise
     * where it has been kept, to copy from and to drop. */
    void *(*keep)(struct msg_memory *memory, const void *from, uint64_t bytes);
    void (*drop)(struct msg_memory *memory, void *kept, uint64_t bytes);
    /* Where a ring of the network's alloc has its bulk area, `slots` bytes after its beginning. */
    void *(*bulk)(struct msg_memory *memory, void *ring, uint64_t slots);
    /* The buffer of the job's communicator for its collectives; NULL: take memory. The network's.
     */
    void *(*buffer)(struct msg_memory *memory, uint64_t bytes);
};

#endif
