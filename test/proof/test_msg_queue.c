// SPDX-License-Identifier: Apache-2.0
// The receive queue of the message network: shm_queue.h itself, with its atomics replaced, in every
// order of its steps, with loads that may be late, and with senders that may die at any step.
//
// Memory: each word keeps its last two values. A load may see the older one unless its thread has
// seen the newer one; a compare-and-exchange takes the newer. That is weaker than what the memory
// orders promise, so the tickets are right for every order; that packets are seen whole is for
// ThreadSanitizer (multi.msg_net). Advantage: the code under test is the code that ships.
// Disadvantage: a few packets and cells only, and no thread's loads are late twice in a row.

#include <stddef.h>
#include <stdint.h>

#include "multi/ranks.h"
#include "proof/explore.h"

static uint64_t queue_load(const uint64_t *word);
static void queue_store(uint64_t *word, uint64_t value);
static bool queue_exchange(uint64_t *word, uint64_t *expected, uint64_t wanted);

#define __atomic_load_n(word, order)         queue_load(word)
#define __atomic_store_n(word, value, order) queue_store((word), (value))
#define __atomic_compare_exchange_n(word, expected, wanted, weak, order, order2)                   \
    queue_exchange((word), (expected), (wanted))

#include "transport/shm_queue.h"

#define CELLS   2
#define SENDERS 3

enum { TAIL, WORDS = 1 + CELLS };

struct word {
    uint64_t newer, older;
    uint8_t seen[8]; /* thread has seen the newer one */
};

static struct memory {
    struct word word[WORDS];
    uint32_t packet[CELLS]; /* sender and number */
    uint32_t dead[SENDERS], ended[SENDERS], published[SENDERS], number[SENDERS];
    uint32_t late[SENDERS + 1]; /* its last load was */
    uint64_t changes, never;    /* waited for */
} memory;

/* Only the addresses count. */
static struct shm_cell cells[CELLS];
static uint64_t tail;
static struct shm_queue queue = {cells, &tail, 0};

static struct scenario {
    uint32_t senders, packets, mortal; /* senders below `mortal` may die */
    uint32_t count_bits;
    struct shm_cell *(*claim)(const struct shm_queue *queue, uint32_t rank, uint64_t *ticket);
    bool hasty;    /* the receiver passes over claimed cells without asking */
    bool punctual; /* no load is late: for more threads than could be searched otherwise */
} scenario;

struct sender {
    uint32_t rank;
};

// ---- the words ----

static struct word *word_of(const uint64_t *address)
{
    if (address == &tail)
        return &memory.word[TAIL];
    return &memory.word[1 + ((const char *)address - (const char *)cells) /
                                (ptrdiff_t)sizeof(struct shm_cell)];
}

static uint64_t newest(const uint64_t *address)
{
    return word_of(address)->newer;
}

// A sender that may die does so before any of its steps.
static void perhaps_die(void)
{
    uint32_t self = explore_thread_number();
    if (self == 0 || self > scenario.mortal || !explore_choose(2))
        return;
    memory.dead[self - 1] = 1;
    memory.changes++;
    explore_step(0);
    explore_until(&memory.never, 1);
}

static uint64_t queue_load(const uint64_t *address)
{
    uint32_t self = explore_thread_number();
    struct word *word = word_of(address);
    // A claim begins with the tail, and begins again there: what it saw before is forgotten.
    if (address == &tail)
        explore_at(memory.number[self - 1]);
    perhaps_die();
    bool late = !scenario.punctual && !memory.late[self] && !word->seen[self] && explore_choose(2);
    late &= !word->seen[self];
    memory.late[self] = late;
    word->seen[self] |= !late;
    uint64_t value = late ? word->older : word->newer;
    explore_step(value);
    return value;
}

static void change(struct word *word, uint64_t value)
{
    word->older = word->newer;
    word->newer = value;
    memset(word->seen, 0, sizeof word->seen);
    word->seen[explore_thread_number()] = 1;
}

static void queue_store(uint64_t *address, uint64_t value)
{
    perhaps_die();
    uint32_t self = explore_thread_number();
    if (self > 0)
        memory.published[self - 1]++;
    change(word_of(address), value);
    memory.changes++;
    explore_step(0);
}

static bool queue_exchange(uint64_t *address, uint64_t *expected, uint64_t wanted)
{
    perhaps_die();
    struct word *word = word_of(address);
    uint64_t value = word->newer;
    bool equal = value == *expected;
    word->seen[explore_thread_number()] = 1;
    if (equal)
        change(word, wanted);
    *expected = value;
    explore_step(value << 1 | equal);
    return equal;
}

// ---- the threads ----

// Whether the queue is full in truth, and not only by what somebody saw.
static bool full(void)
{
    uint64_t at = newest(&tail);
    return (uint32_t)(newest(&shm_queue_cell(&queue, at)->word) >> 32) < shm_queue_lap(&queue, at);
}

static void send_all(void *user)
{
    const struct sender *sender = user;
    for (uint32_t number = 0; number < scenario.packets; number++) {
        uint64_t ticket;
        struct shm_cell *cell;
        memory.number[sender->rank] = number;
        for (;;) {
            cell = scenario.claim(&queue, sender->rank, &ticket);
            if (cell)
                break;
            uint64_t changes = memory.changes;
            if (full()) {
                explore_step(0);
                explore_until(&memory.changes, changes + 1);
            }
        }
        memory.packet[cell - cells] = sender->rank << 8 | number;
        shm_queue_publish(&queue, cell, ticket);
    }
    memory.ended[sender->rank] = 1;
    memory.changes++;
    explore_step(0);
}

static bool all_came(const uint32_t next[SENDERS])
{
    for (uint32_t s = 0; s < scenario.senders; s++)
        if ((!memory.ended[s] && !memory.dead[s]) || next[s] != memory.published[s])
            return false;
    return true;
}

// What net_progress does for a cell that is claimed and not published; whether it did.
static bool pass_over(uint64_t head)
{
    int claimer = shm_queue_claimer(&queue, head);
    if (claimer < 0 || (!scenario.hasty && !memory.dead[claimer]))
        return false;
    // Who hears of a death has seen all that the dead one stored.
    for (uint32_t w = 0; memory.dead[claimer] && w < WORDS; w++)
        memory.word[w].seen[0] = 1;
    if (shm_queue_claimer(&queue, head) != claimer)
        return false;
    shm_queue_pass(&queue, head);
    return true;
}

static void receive_all(void *user)
{
    (void)user;
    uint32_t next[SENDERS] = {0};
    for (uint64_t head = 0; !all_came(next);) {
        explore_at(head << 32 | next[0] << 16 | next[1] << 8 | next[2]);
        uint64_t changes = memory.changes;
        struct shm_cell *cell = shm_queue_look(&queue, head);
        if (cell) {
            uint32_t packet = memory.packet[cell - cells], from = packet >> 8;
            if (from >= scenario.senders || (packet & 255) != next[from])
                explore_violation("packet %u of sender %u came, %u was due", packet & 255, from,
                                  from < SENDERS ? next[from] : 0);
            next[from]++;
            shm_queue_pass(&queue, head++);
            continue;
        }
        if (pass_over(head)) {
            head++;
            continue;
        }
        // Not by what it saw, which may be late: else it would look for ever.
        uint64_t word = newest(&shm_queue_cell(&queue, head)->word);
        bool claimed = (word & 3) == CELL_CLAIMED;
        bool due = (word & 3) == CELL_FULL || (claimed && memory.dead[(uint32_t)word >> 2]);
        if (!due && !all_came(next)) {
            explore_step(0);
            explore_until(&memory.changes, changes + 1);
        }
    }
}

static void run(const char *name, struct scenario with, struct explore_result *result)
{
    struct sender senders[SENDERS];
    memset(&memory, 0, sizeof memory);
    scenario = with;
    queue.count_bits = with.count_bits;
    struct explorer *explorer = explore_new();
    explore_memory(explorer, &memory, sizeof memory, true);
    explore_thread(explorer, receive_all, NULL, false);
    for (uint32_t s = 0; s < with.senders; s++) {
        senders[s].rank = s;
        explore_thread(explorer, send_all, &senders[s], s < with.mortal);
    }
    bool whole = explore_run(explorer, 6000000, result);
    explore_free(explorer);
    print_message("%-44s %8llu states, longest way %zu%s%s\n", name,
                  (unsigned long long)result->states, result->longest,
                  result->violation[0] ? ": " : "", result->violation);
    assert_true(whole);
}

static void expect_right(const char *name, struct scenario with)
{
    struct explore_result result;
    run(name, with, &result);
    assert_string_equal(result.violation, "");
}

static void test_every_packet_comes_once_and_in_order(void **state)
{
    (void)state;
    const struct scenario one = {.senders = 1, .packets = 3, .claim = shm_queue_claim};
    expect_right("1 sender, 3 packets, 1 cell", one);
    const struct scenario cell = {.senders = 2, .packets = 2, .claim = shm_queue_claim};
    expect_right("2 senders, 2 packets, 1 cell", cell);
    const struct scenario two = {
        .senders = 2, .packets = 2, .count_bits = 1, .punctual = true, .claim = shm_queue_claim};
    expect_right("2 senders, 2 packets, 2 cells, nothing late", two);
    const struct scenario three = {
        .senders = 3, .packets = 1, .punctual = true, .claim = shm_queue_claim};
    expect_right("3 senders, 1 packet, 1 cell, nothing late", three);
}

static void test_a_sender_may_die_at_any_step(void **state)
{
    (void)state;
    const struct scenario cell = {
        .senders = 2, .packets = 2, .mortal = 1, .punctual = true, .claim = shm_queue_claim};
    expect_right("1 mortal of 2, 2 packets, 1 cell, nothing late", cell);
    const struct scenario both = {
        .senders = 2, .packets = 1, .mortal = 2, .count_bits = 1, .claim = shm_queue_claim};
    expect_right("2 mortals, 1 packet, 2 cells", both);
}

// ---- what must not be left out ----

// The tail is moved on first, and the cell does not say by whom.
static struct shm_cell *claim_by_tail(const struct shm_queue *with, uint32_t rank, uint64_t *ticket)
{
    (void)rank;
    uint64_t at = __atomic_load_n(with->tail, __ATOMIC_RELAXED);
    struct shm_cell *cell = shm_queue_cell(with, at);
    uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE);
    if (word != shm_cell_word(shm_queue_lap(with, at), 0, CELL_FREE) ||
        !__atomic_compare_exchange_n(with->tail, &at, at + 1, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return NULL;
    *ticket = at;
    return cell;
}

static void test_what_a_death_would_break(void **state)
{
    (void)state;
    struct explore_result result;
    struct scenario with = {.senders = 2, .packets = 2, .mortal = 1, .count_bits = 1};
    with.claim = claim_by_tail;
    run("the claim is in the tail", with, &result);
    assert_non_null(strstr(result.violation, "nobody can go on"));
    with.claim = shm_queue_claim;
    with.hasty = true;
    run("living claimers are passed over", with, &result);
    assert_string_not_equal(result.violation, "");
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("sanitizers do not follow the copying of stacks\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_packet_comes_once_and_in_order),
        cmocka_unit_test(test_a_sender_may_die_at_any_step),
        cmocka_unit_test(test_what_a_death_would_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
