// SPDX-License-Identifier: Apache-2.0
// SHA-256 and HMAC-SHA256 as the standards write them; see hello_mac.h.
//
// Advantage: no table but the standard's, no branch on secrets. Disadvantage: none of the
// processor's own instructions for it.

#include "core/hello_mac.h"

#include <string.h>

#define BLOCK 64

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static void expand(const uint8_t block[BLOCK], uint32_t w[64])
{
    for (size_t t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (size_t t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = (turn(b, 17) ^ turn(b, 19) ^ b >> 10) + w[t - 7] +
               (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[t - 16];
    }
}

static void compress(uint32_t state[8], const uint8_t block[BLOCK])
{
    uint32_t w[64], s[8];
    expand(block, w);
    memcpy(s, state, sizeof s);
    for (size_t t = 0; t < 64; t++) {
        uint32_t sum1 = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t first = s[7] + sum1 + choice + round_constant[t] + w[t];
        uint32_t sum0 = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + sum0 + majority;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += s[i];
}

void sha256_begin(struct sha256 *hash)
{
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t used = hash->bytes % BLOCK;
        size_t part = bytes < BLOCK - used ? bytes : BLOCK - used;
        memcpy(hash->block + used, from, part);
        hash->bytes += part;
        from += part;
        bytes -= part;
        if (used + part == BLOCK)
            compress(hash->state, hash->block);
    }
}

void sha256_end(struct sha256 *hash, uint8_t digest[MAC_BYTES])
{
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = hash->bytes * 8;
    size_t used = hash->bytes % BLOCK;
    sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
    uint8_t length[8];
    for (size_t i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < MAC_BYTES; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void leat_mac(const void *key, size_t key_bytes, const struct mac_piece *pieces, size_t count,
              uint8_t mac[MAC_BYTES])
{
    uint8_t pad[BLOCK] = {0};
    struct sha256 hash;
    if (key_bytes > BLOCK) {
        sha256_begin(&hash);
        sha256_add(&hash, key, key_bytes);
        sha256_end(&hash, pad);
    } else if (key_bytes > 0) {
        memcpy(pad, key, key_bytes);
    }
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36;
    sha256_begin(&hash);
    sha256_add(&hash, pad, BLOCK);
    for (size_t i = 0; i < count; i++)
        sha256_add(&hash, pieces[i].data, pieces[i].bytes);
    sha256_end(&hash, mac);
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha256_begin(&hash);
    sha256_add(&hash, pad, BLOCK);
    sha256_add(&hash, mac, MAC_BYTES);
    sha256_end(&hash, mac);
}

bool leat_mac_begins_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    uint64_t differs = 0, x, y;
    size_t i = 0;
    for (; i + sizeof x <= bytes; i += sizeof x) {
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        differs |= x ^ y;
    }
    for (; i < bytes; i++)
        differs |= (uint64_t)(a[i] ^ b[i]);
    return differs == 0;
}

bool leat_mac_equal(const uint8_t a[MAC_BYTES], const uint8_t b[MAC_BYTES])
{
    return leat_mac_begins_equal(a, b, MAC_BYTES);
}
