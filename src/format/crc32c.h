/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (Castagnoli, polynomial 0x1edc6f41 reflected): the checksum of iSCSI, ext4 and Btrfs.
 *
 *     struct crc32c crc;
 *     crc32c_begin(&crc);
 *     crc32c_add(&crc, bytes, count); ...
 *     crc32c_value(&crc)
 */
#ifndef LEAT_FORMAT_CRC32C_H
#define LEAT_FORMAT_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct crc32c {
    uint32_t state;
    bool hardware;           /* the processor's instruction is there; cleared: tables */
    uint32_t table[8][256];  /* of a byte, and of a byte with 1 to 7 zero bytes behind it */
    uint32_t behind[4][256]; /* of each byte of a state with a lane's length of zeros behind it */
};

void crc32c_begin(struct crc32c *crc);
void crc32c_add(struct crc32c *crc, const void *bytes, size_t count);
static inline uint32_t crc32c_value(const struct crc32c *crc)
{
    return ~crc->state;
}

#endif
