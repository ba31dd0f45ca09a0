/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for the hello of ranks.
 *
 * Advantage: a library that simulations link brings no other one in for a few hundred bytes a rank;
 * published vectors test it (test/unit/test_hello.c). Disadvantage: plain C, about 200 MB/s, so it
 * is for handshakes and not for data.
 */
#ifndef LEAT_CORE_HELLO_MAC_H
#define LEAT_CORE_HELLO_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_BYTES 32

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
void sha256_end(struct sha256 *hash, uint8_t digest[MAC_BYTES]);

/* One piece of a message; a MAC is over all pieces in a row, so each needs a fixed length or a
 * length before it. */
struct mac_piece {
    const void *data;
    size_t bytes;
};

void leat_mac(const void *key, size_t key_bytes, const struct mac_piece *pieces, size_t count,
              uint8_t mac[MAC_BYTES]);

/* Takes the same time wherever two differ; the second for MACs that are cut short. */
bool leat_mac_equal(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES]);
bool leat_mac_begins_equal(const uint8_t *a, const uint8_t *b, size_t bytes);

#endif
