/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a message, wherever they lie: copies in and out by message offset.
 *
 * A contiguous message is one memcpy; a strided one is walked block by block from the offset asked
 * for, so a message can be moved in pieces and is never packed as a whole. Advantage: one pair of
 * functions serves every protocol. Disadvantage: finding an offset costs a few divisions a call.
 */
#ifndef LEAT_MSG_LAYOUT_H
#define LEAT_MSG_LAYOUT_H

#include "leat/msg.h"

/* 0, or -EINVAL naming what cannot be (`what`: "leat_send"): sizes that do not multiply to
 * data.bytes, too many dimensions, NULL with bytes, a piece function with blocks, blocks beyond the
 * address space. For a receive (check_receive) the layout may describe more than data.bytes. */
int msg_layout_check(const leat_data *data, const char *what);
int msg_layout_check_receive(const leat_data *data, const char *what);

/* Where byte `offset` lies and how many follow it there (at most data->bytes - offset); 0 and NULL
 * from data->bytes on. */
uint64_t msg_layout_piece(const leat_data *data, uint64_t offset, void **at);

/* Copies message bytes [offset, offset + bytes) out to `to`, or in from `from`. */
void msg_layout_read_slow(const leat_data *data, uint64_t offset, void *to, uint64_t bytes);
void msg_layout_write_slow(const leat_data *data, uint64_t offset, const void *from,
                           uint64_t bytes);

static inline void msg_layout_read(const leat_data *data, uint64_t offset, void *to, uint64_t bytes)
{
    if (data->layout)
        msg_layout_read_slow(data, offset, to, bytes);
    else if (bytes)
        __builtin_memcpy(to, (const char *)data->address + offset, bytes);
}

static inline void msg_layout_write(const leat_data *data, uint64_t offset, const void *from,
                                    uint64_t bytes)
{
    if (data->layout)
        msg_layout_write_slow(data, offset, from, bytes);
    else if (bytes)
        __builtin_memcpy((char *)data->address + offset, from, bytes);
}

#endif
