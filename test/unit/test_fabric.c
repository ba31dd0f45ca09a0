// SPDX-License-Identifier: Apache-2.0
// libfabric: which messages are believed, and which providers are taken.
//
// Advantage: a message is bytes here, so every wrong one can be made. Disadvantage: of a provider
// only the choice is looked at.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"
#include "transport/fabric.h"
#include "transport/fabric_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
// What libfabric does not free is not ours to find.
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfabric.so\n";
}
#endif

enum { ARENA_FIRST = 4096, ARENA_BYTES = 65536, RANKS = 8 };

#define OFFSET_MOST ((UINT64_C(1) << FABRIC_OFFSET_BITS) - 1)

static uint8_t message[FABRIC_MESSAGE_BYTES];

static size_t make(struct fabric_header header)
{
    memset(message, 0x5a, sizeof message);
    size_t bytes = fabric_pack(message, &header) + header.bytes[0];
    for (int i = 1; i < header.pieces && i < 3; i++)
        bytes += header.bytes[i];
    return bytes;
}

static const char *fault_of(size_t bytes)
{
    struct fabric_header header;
    fabric_unpack(message, bytes, &header);
    return fabric_fault(&header, bytes, ARENA_FIRST, ARENA_BYTES);
}

static void expect_fault(struct fabric_header header, const char *fault)
{
    const char *found = fault_of(make(header));
    if (fault)
        assert_string_equal(found, fault);
    else
        assert_null(found);
}

static void test_a_right_message_has_no_fault(void **state)
{
    (void)state;
    expect_fault((struct fabric_header){.kind = FABRIC_PACKET, .pieces = 1, .bytes = {512}}, NULL);
    expect_fault((struct fabric_header){.kind = FABRIC_BYE, .pieces = 1}, NULL);
    expect_fault((struct fabric_header){.kind = FABRIC_PUT,
                                        .pieces = 2,
                                        .bytes = {4096, 40},
                                        .offset = {ARENA_FIRST, ARENA_BYTES - 40}},
                 NULL);
    expect_fault((struct fabric_header){.kind = FABRIC_LARGE,
                                        .pieces = 3,
                                        .bytes = {4096, 40, 16},
                                        .offset = {ARENA_FIRST, ARENA_FIRST, ARENA_BYTES - 16}},
                 NULL);
}

static void test_who_it_is_from(void **state)
{
    (void)state;
    struct fabric_header header = {.rank = RANKS - 1, .kind = FABRIC_BYE, .pieces = 1};
    size_t bytes = make(header);
    assert_int_equal(fabric_sender(message, bytes, RANKS), RANKS - 1);
    assert_int_equal(fabric_sender(message, bytes, RANKS - 1), -1);
    assert_int_equal(fabric_sender(message, bytes - 1, RANKS), -1);
    assert_int_equal(fabric_sender(message, 0, RANKS), -1);
}

static void test_kinds_and_pieces_that_there_are_not(void **state)
{
    (void)state;
    expect_fault((struct fabric_header){.kind = 0, .pieces = 1}, "a message of an unknown kind");
    expect_fault((struct fabric_header){.kind = FABRIC_LARGE + 1, .pieces = 1},
                 "a message of an unknown kind");
    expect_fault((struct fabric_header){.kind = FABRIC_PUT, .pieces = 0},
                 "a message of no pieces, or of too many");
    expect_fault((struct fabric_header){.kind = FABRIC_PUT, .pieces = 3},
                 "a message of no pieces, or of too many");
    expect_fault((struct fabric_header){.kind = FABRIC_LARGE, .pieces = 1},
                 "a large put of one piece");
    expect_fault((struct fabric_header){.kind = FABRIC_LARGE, .pieces = 4},
                 "a message of no pieces, or of too many");
    expect_fault((struct fabric_header){.kind = FABRIC_PACKET, .pieces = 1, .bytes = {513}},
                 "a packet of a wrong size");
    expect_fault((struct fabric_header){.kind = FABRIC_PACKET, .pieces = 1, .bytes = {0}},
                 "a packet of a wrong size");
    expect_fault((struct fabric_header){.kind = FABRIC_BYE, .pieces = 1, .bytes = {8}},
                 "a good-bye with a payload");
}

static void test_a_header_travels_whole(void **state)
{
    (void)state;
    struct fabric_header made = {.cookie = {1, 2, 3},
                                 .rank = 0xfedcba98,
                                 .kind = FABRIC_LARGE,
                                 .pieces = 3,
                                 .bytes = {UINT16_MAX, 1, 0x1234},
                                 .offset = {OFFSET_MOST, 0, UINT64_C(0x123456789abc)}};
    struct fabric_header seen;
    memset(&seen, 0x5a, sizeof seen);
    assert_int_equal(fabric_unpack(message, make(made), &seen), FABRIC_HEADER_BYTES(3));
    assert_memory_equal(seen.cookie, made.cookie, sizeof made.cookie);
    assert_true(seen.rank == made.rank && seen.kind == made.kind && seen.pieces == made.pieces);
    assert_memory_equal(seen.bytes, made.bytes, sizeof made.bytes);
    assert_memory_equal(seen.offset, made.offset, sizeof made.offset);
}

static void test_puts_outside_the_arena(void **state)
{
    (void)state;
    const uint64_t wrong[] = {0,           ARENA_FIRST - 1, ARENA_BYTES - 7,
                              ARENA_BYTES, OFFSET_MOST,     OFFSET_MOST - 8};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_fault(
            (struct fabric_header){
                .kind = FABRIC_PUT, .pieces = 1, .bytes = {8}, .offset = {wrong[i]}},
            "a put outside the arena");
        expect_fault((struct fabric_header){.kind = FABRIC_PUT,
                                            .pieces = 2,
                                            .bytes = {8, 8},
                                            .offset = {ARENA_FIRST, wrong[i]}},
                     "a put outside the arena");
    }
}

static void test_lengths_that_do_not_fit(void **state)
{
    (void)state;
    size_t bytes = make((struct fabric_header){
        .kind = FABRIC_PUT, .pieces = 1, .bytes = {100}, .offset = {ARENA_FIRST}});
    const char *fault = "a message of another length than it says";
    assert_string_equal(fault_of(bytes - 1), fault);
    assert_string_equal(fault_of(bytes + 1), fault);
    assert_null(fault_of(bytes));
}

#ifdef LEAT_HAVE_FABRIC
static void expect_open(const char *wanted, int error, const char *words)
{
    struct fabric fabric;
    int got = fabric_open(wanted, "127.0.0.1", 64, FABRIC_SLEEPS, &fabric);
    if (!got)
        fabric_close(&fabric);
    assert_int_equal(got, error);
    if (words && !strstr(leat_error_detail(), words))
        fail_msg("\"%s\" is not in: %s", words, leat_error_detail());
}

static void test_providers(void **state)
{
    (void)state;
    if (fabric_absent()) {
        print_message("%s\n", fabric_absent());
        skip();
    }
    expect_open("auto", 0, NULL);
    expect_open("sockets", -ENOTSUP, "provider sockets of libfabric is refused: it is deprecated");
    expect_open("udp;ofi_rxd", -ENOTSUP, "is refused");
    expect_open("carrier-pigeon", -ENOTSUP, "libfabric has no provider carrier-pigeon");
    // An address of no interface is found out when it is bound, or before: that is the provider's.
    struct fabric fabric;
    assert_true(fabric_open("auto@192.0.2.77", NULL, 64, FABRIC_SLEEPS, &fabric) < 0);
    assert_non_null(strstr(leat_error_detail(), "192.0.2.77"));
}

static void test_cards_lead_to_endpoints_of_the_same_provider(void **state)
{
    struct fabric fabric;
    char card[256], other[300];
    fi_addr_t address;
    (void)state;
    if (fabric_absent()) {
        print_message("%s\n", fabric_absent());
        skip();
    }
    assert_int_equal(fabric_open("auto", "127.0.0.1", 64, FABRIC_SLEEPS, &fabric), 0);
    assert_int_equal(fabric_card(&fabric, card, sizeof card), 0);
    assert_int_equal(fabric_meet(&fabric, card, &address), 0);
    assert_int_equal(fabric_card(&fabric, card, 20), -EOVERFLOW);
    assert_int_equal(fabric_card(&fabric, card, sizeof card), 0);
    snprintf(other, sizeof other, "leat-fabric other %s", strrchr(card, ' ') + 1);
    assert_int_equal(fabric_meet(&fabric, other, &address), -EPROTO);
    assert_non_null(strstr(leat_error_detail(), "LEAT_FABRIC"));
    const char *wrong[] = {"",
                           "leat-fabric",
                           "leat-fabric net",
                           "leat-fabric net 12x4",
                           "leat-fabric net 123",
                           "leat-fabric net 12",
                           "leat-fabric net +1-2",
                           "something else"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(fabric_meet(&fabric, wrong[i], &address), -EPROTO);
    fabric_close(&fabric);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_message_has_no_fault),
        cmocka_unit_test(test_who_it_is_from),
        cmocka_unit_test(test_kinds_and_pieces_that_there_are_not),
        cmocka_unit_test(test_a_header_travels_whole),
        cmocka_unit_test(test_puts_outside_the_arena),
        cmocka_unit_test(test_lengths_that_do_not_fit),
#ifdef LEAT_HAVE_FABRIC
        cmocka_unit_test(test_providers),
        cmocka_unit_test(test_cards_lead_to_endpoints_of_the_same_provider),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
