// SPDX-License-Identifier: Apache-2.0
// Receives that are too small, and messages of more bytes than 32 bits can count.
//
// A message that does not fit is tried at every protocol, with each call that can say so. Messages
// of 4 GiB lie in 2 MiB of memory, mapped again and again at one address after the other, so each
// copy is done in full and takes no memory. Bodies run on ranks as threads (ranks_run) and as
// processes. Advantage: the real sizes, within seconds. Disadvantage: of a large message only the
// last copy of each window and the end can be compared.

#define _GNU_SOURCE
#include "multi/msg_ranks.h"

#include <sys/mman.h>

static const struct msg_part parts[5];

// ---- Too small ----

struct small {
    uint64_t sent, room;
};

static const struct small smalls[] = {
    {1, 0},     {8, 7},        {96, 0},          {96, 95},         {97, 96},       {480, 10},
    {480, 479}, {481, 480},    {4097, 4096},     {32768, 3},       {32768, 32767}, {32769, 32768},
    {40000, 0}, {70000, 4097}, {300000, 131073}, {3000000, 700000}};

enum way { WAY_RECEIVE, WAY_ALL, WAY_ANY, WAY_MATCHED, WAY_COUNT };

static int receive_by(enum way way, leat_comm *comm, leat_data data, int tag, leat_status *status,
                      leat_request *request)
{
    leat_request *const list[1] = {request};
    size_t index = 1;
    int error;
    switch (way) {
    case WAY_RECEIVE:
        return leat_recv(comm, data, 0, tag, status, NULL);
    case WAY_MATCHED:
        error = leat_probe(comm, 0, tag, -1, status, request);
        return error ? error : leat_recv_matched(data, status, request, 1);
    default:
        error = leat_recv(comm, data, 0, tag, status, request);
        error = error ? error
                      : leat_request_wait(list, 1, way == WAY_ANY ? LEAT_WAIT_ANY : LEAT_WAIT_ALL,
                                          -1, &index);
        return way == WAY_ANY && index ? -ERANGE : error;
    }
}

static void say_sizes(struct rank_thread *self, const struct small *small)
{
    char words[64];
    snprintf(words, sizeof words, "up to %llu bytes from rank 0", (unsigned long long)small->room);
    msg_says(self, words);
    snprintf(words, sizeof words, "has %llu bytes", (unsigned long long)small->sent);
    msg_says(self, words);
}

static void too_small_once(struct rank_thread *self, leat_comm *comm, const struct small *small,
                           enum way way, int tag)
{
    struct msg_memory memory;
    leat_request request;
    leat_status status;
    int last = self->rank_count - 1;
    bool sender = self->rank == 0;
    if (!msg_memory_make(self, &memory, tag % 3 ? MSG_PLAIN : MSG_ROWS,
                         sender ? small->sent : small->room))
        return;
    if (sender) {
        msg_memory_stamp(&memory, 11);
        msg_fine(self, leat_send(comm, memory.data, last, tag, tag % 2, &request));
        msg_tell(self, comm, last);
    }
    if (self->rank == last) {
        if (tag % 4 < 2)
            msg_hear(self, comm, 0); // it is here before the receive
        leat_request receive;
        msg_gives(self, -EMSGSIZE, receive_by(way, comm, memory.data, tag, &status, &receive));
        say_sizes(self, small);
        rank_check(self,
                   status.error == -EMSGSIZE && status.bytes == small->room && !status.source &&
                       status.tag == tag,
                   "error %d, %llu bytes, source %d, tag %d", status.error,
                   (unsigned long long)status.bytes, status.source, status.tag);
        if (last)
            msg_memory_check(self, &memory, 11, small->room);
        if (tag % 4 >= 2)
            msg_hear(self, comm, 0);
        msg_gives(self, -ETIMEDOUT, leat_probe(comm, 0, tag, 0, NULL, NULL)); // it is gone
    }
    if (sender)
        msg_fine(self, msg_wait_one(&request, -1));
    msg_memory_free(&memory);
}

static void too_small(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    int tag = 0;
    for (size_t i = 0; comm && i < sizeof smalls / sizeof *smalls; i++)
        for (int way = 0; way < 2 * WAY_COUNT; way++)
            too_small_once(self, comm, &smalls[i], (enum way)(way / 2), tag++);
}

static void test_a_receive_that_is_too_small_says_so_at_every_protocol(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "too_small");
}

static void test_a_receive_over_libfabric_that_is_too_small_says_so(void **state)
{
    (void)state;
    msg_run_threads(parts, 2, "too_small");
}

static void test_a_receive_that_is_too_small_by_queue_and_pipe(void **state)
{
    (void)state;
    setenv("LEAT_MSG_PEERS", "1", 1); // given to rank 0 itself, or to the other one
    setenv("LEAT_MSG_EAGER", "0", 1);
    msg_run_both(parts, 3, "too_small");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("LEAT_MSG_EAGER");
}

// ---- More than 32 bits ----

#define WINDOW (UINT64_C(2) << 20)

struct large {
    uint8_t *address, *window, *tail;
    uint64_t bytes, whole;
};

static uint8_t *map_at(uint8_t *at, int file)
{
    int fixed = at ? MAP_FIXED : 0;
    void *made = mmap(at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, file, 0);
    return made == MAP_FAILED ? NULL : made;
}

// The windows are all the same memory but for the last one, which the end lies in.
static bool large_make(struct large *large, uint64_t bytes)
{
    uint64_t windows = bytes / WINDOW;
    *large = (struct large){.bytes = bytes, .whole = (windows + 1) * WINDOW};
    int files[2] = {memfd_create("window", MFD_CLOEXEC), memfd_create("tail", MFD_CLOEXEC)};
    void *whole =
        mmap(NULL, large->whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool made = whole != MAP_FAILED && files[0] >= 0 && files[1] >= 0 &&
                !ftruncate(files[0], (off_t)WINDOW) && !ftruncate(files[1], (off_t)WINDOW);
    large->address = made ? whole : NULL;
    for (uint64_t w = 0; made && w <= windows; w++)
        made = map_at(large->address + w * WINDOW, files[w == windows]) != NULL;
    large->window = large->address;
    large->tail = large->address ? large->address + windows * WINDOW : NULL;
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (made)
        memset(large->window, MSG_POISON, WINDOW), memset(large->tail, MSG_POISON, WINDOW);
    return made;
}

static void large_free(struct large *large)
{
    if (large->address)
        munmap(large->address, large->whole);
}

static void stamp_window(uint8_t *at, uint64_t seed, uint64_t bytes)
{
    for (uint64_t place = 0; place < bytes; place += MSG_STAMPED)
        msg_stamps(seed, place, at + place,
                   bytes - place < MSG_STAMPED ? bytes - place : MSG_STAMPED);
}

static bool window_is(const uint8_t *at, uint64_t seed, uint64_t bytes)
{
    uint8_t expected[MSG_STAMPED];
    for (uint64_t place = 0; place < bytes; place += MSG_STAMPED) {
        uint64_t part = bytes - place < MSG_STAMPED ? bytes - place : MSG_STAMPED;
        msg_stamps(seed, place, expected, part);
        if (memcmp(at + place, expected, part))
            return false;
    }
    for (uint64_t place = bytes; place < WINDOW; place++)
        if (at[place] != MSG_POISON)
            return false;
    return true;
}

static void large_check(struct rank_thread *self, const struct large *large)
{
    rank_check(self, window_is(large->window, 21, WINDOW), "the windows are wrong");
    rank_check(self, window_is(large->tail, 22, large->bytes % WINDOW), "the end is wrong");
}

#define LARGE_BYTES ((UINT64_C(1) << 32) + 12345)

// Between threads half of it, since mapping it takes most of the time.
static void large_message(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct large large;
    leat_status status;
    uint64_t bytes = leat_launched() ? LARGE_BYTES : LARGE_BYTES / 2 + 1;
    if (!comm || !rank_check(self, large_make(&large, bytes), "no mappings: %s", strerror(errno)))
        return;
    if (self->rank == 0) {
        stamp_window(large.window, 21, WINDOW);
        stamp_window(large.tail, 22, bytes % WINDOW);
        msg_fine(self, leat_send(comm, msg_plain(large.address, bytes), 1, 1, 0, NULL));
    } else {
        msg_fine(self, leat_probe(comm, 0, 1, -1, &status, NULL));
        rank_check(self, status.bytes == bytes, "a probe says %llu",
                   (unsigned long long)status.bytes);
        msg_fine(self, leat_recv(comm, msg_plain(large.address, bytes), 0, 1, &status, NULL));
        rank_check(self, status.bytes == bytes, "%llu bytes", (unsigned long long)status.bytes);
        large_check(self, &large);
    }
    large_free(&large);
}

// One window again and again, by a stride of 0; the sender packs it on the way.
static void large_layout(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const leat_layout layout = {
        .size = sizeof layout, .block_bytes = WINDOW, .dim_count = 2, .dim = {{3, 0}, {683, 0}}};
    uint64_t bytes = 3 * 683 * WINDOW; // one window more than 2^32
    struct large large;
    leat_status status;
    if (!comm || !rank_check(self, large_make(&large, bytes), "no mappings: %s", strerror(errno)))
        return;
    if (self->rank == 0) {
        stamp_window(large.window, 21, WINDOW);
        msg_fine(self, leat_send(comm, (leat_data){large.window, bytes, &layout}, 1, 1, 0, NULL));
    } else {
        msg_fine(self, leat_recv(comm, msg_plain(large.address, bytes), 0, 1, &status, NULL));
        rank_check(self, status.bytes == bytes, "%llu bytes", (unsigned long long)status.bytes);
        large_check(self, &large);
    }
    large_free(&large);
}

// Such a message into little room: only its sizes are large.
static void large_small(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    static uint8_t block[1 << 20];
    const struct small small = {4100 * sizeof block, 100};
    const leat_layout layout = {
        .size = sizeof layout, .block_bytes = sizeof block, .dim_count = 1, .dim = {{4100, 0}}};
    for (int way = 0; comm && way < WAY_COUNT; way++) {
        uint8_t room[100 + MSG_GUARD], expected[100];
        leat_status status;
        leat_request request;
        memset(room, MSG_POISON, sizeof room);
        if (self->rank == 0) {
            stamp_window(block, 23, sizeof block);
            msg_fine(self, leat_send(comm, (leat_data){block, small.sent, &layout}, 1, 1, 0, NULL));
            continue;
        }
        msg_gives(self, -EMSGSIZE,
                  receive_by((enum way)way, comm, msg_plain(room, 100), 1, &status, &request));
        say_sizes(self, &small);
        msg_stamps(23, 0, expected, sizeof expected);
        rank_check(self, status.bytes == 100 && !memcmp(room, expected, sizeof expected),
                   "%llu bytes, or wrong ones", (unsigned long long)status.bytes);
        for (int i = 0; i < MSG_GUARD; i++)
            rank_check(self, room[100 + i] == MSG_POISON, "a byte beyond the end was written");
    }
}

static void test_the_sizes_of_large_messages_are_64_bits(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "large_small");
}

static void test_the_sizes_of_large_messages_over_libfabric_are_64_bits(void **state)
{
    (void)state;
    msg_run_threads(parts, 2, "large_small");
}

#if !MSG_FEWER // its shadow of such memory would take 16 GiB

static bool skip_without_mappings(void)
{
    struct large large;
    bool made = large_make(&large, LARGE_BYTES);
    if (!made)
        print_message("4 GiB of address space twice: %s\n", strerror(errno));
    large_free(&large);
    return !made;
}

static void test_messages_beyond_31_and_32_bits(void **state)
{
    (void)state;
    if (skip_without_mappings())
        skip();
    msg_run_both(parts, 2, "large_message");
}

static void test_a_layout_beyond_32_bits(void **state)
{
    (void)state;
    if (skip_without_mappings())
        skip();
    msg_run_processes(2, "large_layout");
}

#endif

static const struct msg_part parts[] = {{"too_small", too_small},
                                        {"large_message", large_message},
                                        {"large_layout", large_layout},
                                        {"large_small", large_small},
                                        {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_receive_that_is_too_small_says_so_at_every_protocol),
        cmocka_unit_test(test_a_receive_that_is_too_small_by_queue_and_pipe),
        cmocka_unit_test(test_the_sizes_of_large_messages_are_64_bits),
#if !MSG_FEWER
        cmocka_unit_test(test_messages_beyond_31_and_32_bits),
        cmocka_unit_test(test_a_layout_beyond_32_bits),
#endif
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(test_a_receive_over_libfabric_that_is_too_small_says_so),
        cmocka_unit_test(test_the_sizes_of_large_messages_over_libfabric_are_64_bits),
    };
    return msg_over_fabric() ? cmocka_run_group_tests(over_fabric, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL);
}
