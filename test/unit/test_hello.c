// SPDX-License-Identifier: Apache-2.0
// The hello: published vectors of its MAC, and what each end takes and refuses.

#include "core/hello.h"

#include "leat/leat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// ---- The MAC ----

static void expect_hex(const uint8_t digest[MAC_BYTES], const char *hex)
{
    char text[2 * MAC_BYTES + 1];
    for (size_t i = 0; i < MAC_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

// FIPS 180-4, as in NIST's example computations.
static void test_sha256_has_the_published_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    struct sha256 hash;
    uint8_t digest[MAC_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sha256_begin(&hash);
        sha256_add(&hash, cases[i].text, strlen(cases[i].text));
        sha256_end(&hash, digest);
        expect_hex(digest, cases[i].digest);
    }
    // A million letters, in pieces that end everywhere in a block.
    sha256_begin(&hash);
    char a[97];
    memset(a, 'a', sizeof a);
    for (size_t left = 1000000; left > 0;) {
        size_t part = left < sizeof a ? left : sizeof a;
        sha256_add(&hash, a, part);
        left -= part;
    }
    sha256_end(&hash, digest);
    expect_hex(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 4231, cases 1 to 4, 6 and 7.
static void test_hmac_has_the_published_values(void **state)
{
    (void)state;
    uint8_t mac[MAC_BYTES], key[131], data[50];
    struct mac_piece piece;
    memset(key, 0x0b, 20);
    piece = (struct mac_piece){"Hi There", 8};
    leat_mac(key, 20, &piece, 1, mac);
    expect_hex(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const struct mac_piece parts[] = {{"what do ya want ", 16}, {"for nothing?", 12}};
    leat_mac("Jefe", 4, parts, 2, mac);
    expect_hex(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    piece = (struct mac_piece){data, 50};
    leat_mac(key, 20, &piece, 1, mac);
    expect_hex(mac, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    uint8_t counting[25];
    for (uint8_t i = 0; i < 25; i++)
        counting[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, sizeof data);
    leat_mac(counting, 25, &piece, 1, mac);
    expect_hex(mac, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    piece = (struct mac_piece){"Test Using Larger Than Block-Size Key - Hash Key First", 54};
    leat_mac(key, 131, &piece, 1, mac);
    expect_hex(mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    static const char text[] =
        "This is a test using a larger than block-size key and a larger than "
        "block-size data. The key needs to be hashed before being used by "
        "the HMAC algorithm.";
    piece = (struct mac_piece){text, sizeof text - 1};
    leat_mac(key, 131, &piece, 1, mac);
    expect_hex(mac, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

// ---- The frames ----

#define BUILD "leat 0.1.0 layout 1"

static const struct hello_key key = {.text = "0123456789abcdef", .bytes = 16};
static const struct hello_key other_key = {.text = "0123456789abcdeF", .bytes = 16};
static const uint8_t nonces[2][HELLO_NONCE_BYTES] = {{1}, {2}};

struct ends {
    struct hello_channel rank, root;
    struct hello_frame hello, challenge, proof;
};

static int take(struct hello_channel *channel, const struct hello_key *with,
                const struct hello_frame *frame, struct hello_event *event)
{
    size_t used;
    return hello_take(channel, with, BUILD, frame->byte, frame->bytes, &used, event);
}

static void shake_hands(struct ends *ends)
{
    const struct hello_claim claim = {.build = BUILD, .rank = 3, .size = 8, .host = {7}};
    struct hello_event event;
    ends->root = (struct hello_channel){.root = true, .expected = HELLO_HELLO};
    hello_make(&ends->rank, &claim, nonces[0], &ends->hello);
    assert_int_equal(take(&ends->root, &key, &ends->hello, &event), 0);
    assert_int_equal(event.kind, HELLO_HELLO);
    hello_make_challenge(&ends->root, &key, BUILD, nonces[1], &ends->challenge);
    assert_int_equal(take(&ends->rank, &key, &ends->challenge, &event), 0);
    assert_int_equal(event.kind, HELLO_CHALLENGE);
    hello_make_proof(&ends->rank, &key, &ends->proof);
    assert_int_equal(take(&ends->root, &key, &ends->proof, &event), 0);
    assert_int_equal(event.kind, HELLO_PROOF);
}

static void test_both_ends_prove_the_key_and_talk(void **state)
{
    (void)state;
    struct ends ends;
    struct hello_frame frame;
    struct hello_event event, said = {.kind = HELLO_GONE, .rank = 70000, .end = END_DIED};
    shake_hands(&ends);
    assert_true(ends.root.proven && ends.rank.proven);
    assert_int_equal(ends.root.claim.rank, 3);
    assert_int_equal(ends.root.claim.size, 8);
    snprintf(said.text, sizeof said.text, "was lost");
    hello_say(&ends.root, &said, &frame);
    assert_int_equal(take(&ends.rank, &key, &frame, &event), 0);
    assert_int_equal(event.kind, HELLO_GONE);
    assert_int_equal(event.rank, 70000);
    assert_string_equal(event.text, "was lost");
    said = (struct hello_event){.kind = HELLO_SEAT};
    memset(said.seat, 'x', HELLO_SEAT_BYTES);
    hello_say(&ends.rank, &said, &frame);
    assert_int_equal(take(&ends.root, &key, &frame, &event), 0);
    assert_string_equal(event.seat, said.seat);
}

static void test_the_key_is_in_no_frame(void **state)
{
    (void)state;
    struct ends ends;
    shake_hands(&ends);
    const struct hello_frame *frames[] = {&ends.hello, &ends.challenge, &ends.proof};
    for (size_t f = 0; f < 3; f++)
        for (size_t at = 0; at + 4 <= frames[f]->bytes; at++)
            for (size_t k = 0; k + 4 <= key.bytes; k++)
                assert_memory_not_equal(frames[f]->byte + at, key.text + k, 4);
}

static void test_a_changed_byte_is_found_wherever_it_is(void **state)
{
    (void)state;
    struct ends ends;
    struct hello_event event;
    shake_hands(&ends);
    for (size_t at = 0; at < ends.proof.bytes; at++) {
        struct hello_channel root = {.root = true, .expected = HELLO_HELLO};
        struct hello_frame changed = ends.proof, again;
        changed.byte[at] ^= 1;
        assert_int_equal(take(&root, &key, &ends.hello, &event), 0);
        hello_make_challenge(&root, &key, BUILD, nonces[1], &again);
        assert_true(take(&root, &key, &changed, &event) < 0);
        assert_false(root.proven);
    }
    const struct hello_event start = {.kind = HELLO_START};
    struct hello_frame frame;
    hello_say(&ends.root, &start, &frame);
    for (size_t at = 8; at < frame.bytes; at++) {
        struct hello_channel rank = ends.rank;
        struct hello_frame changed = frame;
        changed.byte[at] ^= 0x80;
        assert_int_equal(take(&rank, &key, &changed, &event), -EACCES);
    }
    assert_int_equal(take(&ends.rank, &key, &frame, &event), 0);
    // The same frame once more is an old one.
    assert_int_equal(take(&ends.rank, &key, &frame, &event), -EACCES);
}

static void test_an_overheard_hello_proves_nothing_to_a_new_nonce(void **state)
{
    (void)state;
    struct ends ends;
    struct hello_event event;
    struct hello_frame challenge;
    static const uint8_t fresh[HELLO_NONCE_BYTES] = {3};
    shake_hands(&ends);
    struct hello_channel root = {.root = true, .expected = HELLO_HELLO};
    assert_int_equal(take(&root, &key, &ends.hello, &event), 0);
    hello_make_challenge(&root, &key, BUILD, fresh, &challenge);
    assert_int_equal(take(&root, &key, &ends.proof, &event), -EACCES);
}

static void test_another_key_is_found_by_either_end(void **state)
{
    (void)state;
    struct ends ends;
    struct hello_event event;
    struct hello_frame challenge;
    shake_hands(&ends);
    struct hello_channel root = {.root = true, .expected = HELLO_HELLO};
    assert_int_equal(take(&root, &other_key, &ends.hello, &event), 0);
    hello_make_challenge(&root, &other_key, BUILD, nonces[1], &challenge);
    assert_int_equal(take(&root, &other_key, &ends.proof, &event), -EACCES);
    struct hello_channel rank;
    struct hello_frame hello;
    hello_make(&rank, &ends.rank.claim, nonces[0], &hello);
    assert_int_equal(take(&rank, &key, &challenge, &event), -EACCES);
    assert_non_null(strstr(leat_error_detail(), "LEAT_JOB_KEY"));
}

static void test_another_build_is_named_with_ours(void **state)
{
    (void)state;
    struct hello_claim claim = {.build = "leat 9.9.9 layout 77", .rank = 1, .size = 2};
    struct hello_channel rank, root = {.root = true, .expected = HELLO_HELLO};
    struct hello_frame frame;
    struct hello_event event;
    hello_make(&rank, &claim, nonces[0], &frame);
    assert_int_equal(take(&root, &key, &frame, &event), -EPROTO);
    assert_non_null(strstr(leat_error_detail(), "leat 9.9.9 layout 77"));
    assert_non_null(strstr(leat_error_detail(), BUILD));
}

static void test_nobody_speaks_out_of_turn(void **state)
{
    (void)state;
    struct ends ends;
    struct hello_frame frame;
    struct hello_event event;
    const struct hello_event ready = {.kind = HELLO_READY}, start = {.kind = HELLO_START};
    shake_hands(&ends);
    struct hello_channel root = {.root = true, .expected = HELLO_HELLO};
    assert_int_equal(take(&root, &key, &ends.proof, &event), -EPROTO);
    root = (struct hello_channel){.root = true, .expected = HELLO_HELLO};
    hello_say(&ends.rank, &ready, &frame);
    assert_int_equal(take(&root, &key, &frame, &event), -EPROTO);
    // What the root says, said by a rank.
    hello_say(&ends.rank, &start, &frame);
    assert_int_equal(take(&ends.root, &key, &frame, &event), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_has_the_published_values),
        cmocka_unit_test(test_hmac_has_the_published_values),
        cmocka_unit_test(test_both_ends_prove_the_key_and_talk),
        cmocka_unit_test(test_the_key_is_in_no_frame),
        cmocka_unit_test(test_a_changed_byte_is_found_wherever_it_is),
        cmocka_unit_test(test_an_overheard_hello_proves_nothing_to_a_new_nonce),
        cmocka_unit_test(test_another_key_is_found_by_either_end),
        cmocka_unit_test(test_another_build_is_named_with_ours),
        cmocka_unit_test(test_nobody_speaks_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
