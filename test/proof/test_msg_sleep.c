// SPDX-License-Identifier: Apache-2.0
// No wake-up of the message network is lost: shm_msg.c itself, with its atomics, its futex and the
// kernel's barrier replaced, in every order and with every value that a load may see.
//
// Memory: each word keeps all its values, and with each what its writer released. A load may see
// any value not older than what its thread knows of; an acquire learns what was released; an
// exchange takes the newest. The kernel's barrier makes every thread that takes part know the
// newest of all words. Nobody wakes up by time, so a lost wake-up is a thread that can never go on.
// Advantage: the barrier, the exchanges and their orders are shown to be needed, also where x86
// gives them for nothing. Disadvantage: a load can be late only a few times in a row, lest a search
// never end.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "multi/ranks.h"
#include "proof/explore.h"

#include "core/job.h"
#include "transport/attach.h"
#include "transport/shm_msg.h"
#include "transport/shm_queue.h"

static uint64_t sleep_load(const void *word, int order);
static void sleep_store(void *word, uint64_t value, int order);
static uint64_t sleep_exchange(void *word, uint64_t value, int order);
static long sleep_syscall(long number, ...);

#define leat_shm_msg_open        sleep_msg_open
#define leat_shm_msg_least_bytes sleep_msg_least_bytes
#define leat_shm_msg_queue_bytes sleep_msg_queue_bytes

#define __atomic_load_n(word, order)                                                               \
    ((__typeof__(*(word)))sleep_load((const void *)(word), (order)))
#define __atomic_store_n(word, value, order)    sleep_store((word), (uint64_t)(value), (order))
#define __atomic_exchange_n(word, value, order) sleep_exchange((word), (value), (order))
#define syscall                                 sleep_syscall

#include "transport/shm_msg.c"

#undef __atomic_load_n
#undef __atomic_store_n

#define HISTORY  24
#define LATE_MAX 2
#define SENDERS  2
#define THREADS  (SENDERS + 1)

enum { SLEEPER, ASLEEP = 0, DATA, WORDS = DATA + SENDERS };

struct value {
    uint64_t value;
    uint32_t released[WORDS]; /* what its writer knew */
};

static struct memory {
    struct value word[WORDS][HISTORY];
    uint32_t newest[WORDS];
    uint32_t known[THREADS][WORDS]; /* oldest that each thread may still see */
    uint32_t late[THREADS];
    uint64_t asleep, woken; /* by the futex */
    uint64_t told;
    uint64_t place[THREADS];
} memory;

static struct scenario {
    uint32_t senders;
    uint64_t stores;          /* by each sender */
    bool outside[THREADS];    /* takes no part in barriers */
    bool knows[THREADS];      /* and knows that */
    bool no_barrier, refused; /* the kernel says so and does nothing; says that it does not */
    bool weak;                /* exchanges order nothing */
    bool stored;              /* the sleeper clears its word by a store */
} scenario;

static struct arena_head heads[THREADS]; /* only addresses count, and always_wake */
static struct shm_net nets[THREADS];

// ---- the words of shm_msg.c ----

// The sleeper's word, or WORDS: one that nobody changes.
static uint32_t word_of(const void *address)
{
    return address == (const void *)&heads[SLEEPER].endpoint.asleep ? ASLEEP : WORDS;
}

// What is still to be done depends on how far a thread is and on what it has just learnt.
static void step(uint64_t learnt)
{
    explore_at(++memory.place[explore_thread_number()] << 8 | learnt);
    explore_step(0);
}

static void learn(const uint32_t known[WORDS])
{
    uint32_t *own = memory.known[explore_thread_number()];
    for (uint32_t w = 0; w < WORDS; w++)
        own[w] = own[w] < known[w] ? known[w] : own[w];
}

static uint64_t load(uint32_t word, int order)
{
    uint32_t self = explore_thread_number();
    uint32_t oldest = memory.known[self][word], newest = memory.newest[word];
    if (memory.late[self] >= LATE_MAX)
        oldest = newest;
    uint32_t at = oldest + explore_choose(newest - oldest + 1);
    // Others may have gone on since there was a choice.
    at = at < memory.known[self][word] ? memory.known[self][word] : at;
    memory.late[self] = at < memory.newest[word] ? memory.late[self] + 1 : 0;
    memory.known[self][word] = at;
    if (order == __ATOMIC_ACQUIRE)
        learn(memory.word[word][at].released);
    step(memory.word[word][at].value);
    return memory.word[word][at].value;
}

static void append(uint32_t word, uint64_t value, bool release, const uint32_t *chain)
{
    uint32_t self = explore_thread_number(), at = ++memory.newest[word];
    if (at == HISTORY)
        explore_violation("the history of a word is full");
    memory.word[word][at].value = value;
    memory.known[self][word] = at;
    for (uint32_t w = 0; w < WORDS; w++) {
        uint32_t known = release ? memory.known[self][w] : 0;
        memory.word[word][at].released[w] = chain && chain[w] > known ? chain[w] : known;
    }
}

static uint64_t sleep_load(const void *address, int order)
{
    if (word_of(address) < WORDS)
        return load(word_of(address), order);
    uint32_t value;
    memcpy(&value, address, sizeof value);
    return value;
}

static void sleep_store(void *address, uint64_t value, int order)
{
    if (word_of(address) == WORDS)
        return;
    append(word_of(address), value, order == __ATOMIC_RELEASE, NULL);
    step(0);
}

static uint64_t sleep_exchange(void *address, uint64_t value, int order)
{
    uint32_t word = word_of(address);
    if (word == WORDS)
        explore_violation("an exchange of something else");
    bool ordered = order == __ATOMIC_ACQ_REL && !scenario.weak;
    const struct value *before = &memory.word[word][memory.newest[word]];
    if (scenario.stored && explore_thread_number() == SLEEPER && value == 0) {
        append(word, value, false, NULL);
        step(0);
        return 0;
    }
    if (ordered)
        learn(before->released);
    append(word, value, ordered, before->released);
    step(before->value);
    return before->value;
}

static long barrier(void)
{
    if (scenario.refused)
        return -1;
    for (uint32_t t = 0; t < THREADS && !scenario.no_barrier; t++)
        if (!scenario.outside[t])
            memcpy(memory.known[t], memory.newest, sizeof memory.newest);
    step(0);
    return 0;
}

static long futex(int operation)
{
    const struct value *value = &memory.word[ASLEEP][memory.newest[ASLEEP]];
    if (operation == FUTEX_WAKE) {
        memory.woken += memory.asleep;
        memory.asleep = 0;
        step(0);
        return 0;
    }
    if (value->value != 1) {
        step(1);
        return -1;
    }
    uint64_t before = memory.woken;
    memory.asleep = 1;
    step(2);
    explore_until(&memory.woken, before + 1);
    return 0;
}

static long sleep_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    int operation = 0;
    if (number == SYS_futex && va_arg(arguments, uint32_t *) != &heads[SLEEPER].endpoint.asleep)
        explore_violation("another futex");
    operation = va_arg(arguments, int);
    va_end(arguments);
    return number == SYS_futex ? futex(operation) : barrier();
}

// ---- the threads ----

static void tell_all(void *user)
{
    uint32_t self = *(const uint32_t *)user;
    for (uint64_t value = 1; value <= scenario.stores; value++) {
        memory.place[self] = value << 16;
        append(DATA + self - 1, value, true, NULL);
        step(0);
        net_wake(&nets[self].net, SLEEPER);
        memory.told++;
    }
}

static bool all_there(void)
{
    bool there = true;
    for (uint32_t s = 0; there && s < scenario.senders; s++)
        there = load(DATA + s, __ATOMIC_ACQUIRE) == scenario.stores;
    return there;
}

// As the engine waits.
static void await_all(void *user)
{
    (void)user;
    struct msg_net *net = &nets[SLEEPER].net;
    for (;;) {
        memory.place[SLEEPER] = 1 << 16;
        if (all_there())
            return;
        net_sleep_prepare(net);
        if (all_there()) {
            net_sleep_cancel(net);
            return;
        }
        net_sleep(net, UINT64_MAX);
        // Whoever may not sleep looks again and again, here only when something may have changed.
        if (scenario.refused && memory.told < scenario.senders * scenario.stores)
            explore_until(&memory.told, memory.told + 1);
    }
}

static void run(const char *name, struct scenario with, struct explore_result *result)
{
    static uint32_t number[THREADS];
    memset(&memory, 0, sizeof memory);
    memset(heads, 0, sizeof heads);
    scenario = with;
    struct explorer *explorer = explore_new();
    explore_memory(explorer, &memory, sizeof memory, true);
    for (uint32_t t = 0; t <= with.senders; t++) {
        number[t] = t;
        heads[t].endpoint.always_wake = with.knows[t];
        nets[t] = (struct shm_net){.own = &heads[t].endpoint,
                                   .arenas = (char *)heads,
                                   .arena_bytes = sizeof *heads,
                                   .always_wake = with.knows[t]};
        explore_thread(explorer, t == SLEEPER ? await_all : tell_all, &number[t], false);
    }
    bool whole = explore_run(explorer, 3000000, result);
    explore_free(explorer);
    print_message("%-44s %8llu states, longest way %zu%s%.60s\n", name,
                  (unsigned long long)result->states, result->longest,
                  result->violation[0] ? ": " : "", result->violation);
    assert_true(whole);
}

static void expect_none_lost(const char *name, struct scenario with)
{
    struct explore_result result;
    run(name, with, &result);
    assert_string_equal(result.violation, "");
}

static void expect_lost(const char *name, struct scenario with)
{
    struct explore_result result;
    run(name, with, &result);
    assert_non_null(strstr(result.violation, "nobody can go on"));
}

static void test_no_wake_up_is_lost_with_the_kernels_barrier(void **state)
{
    (void)state;
    expect_none_lost("1 sender, 3 stores", (struct scenario){.senders = 1, .stores = 3});
    expect_none_lost("2 senders, 1 store", (struct scenario){.senders = 2, .stores = 1});
}

static void test_no_wake_up_is_lost_by_exchanges(void **state)
{
    (void)state;
    expect_none_lost(
        "the sleeper cannot take part",
        (struct scenario){
            .senders = 1, .stores = 2, .outside = {true}, .knows = {true}, .no_barrier = true});
    expect_none_lost(
        "the sender cannot take part",
        (struct scenario){.senders = 1, .stores = 2, .outside = {0, true}, .knows = {0, true}});
    expect_none_lost(
        "one of two senders cannot take part",
        (struct scenario){.senders = 2, .stores = 1, .outside = {0, true}, .knows = {0, true}});
}

static void test_nobody_sleeps_where_the_barrier_is_refused(void **state)
{
    (void)state;
    expect_none_lost("the barrier is refused",
                     (struct scenario){.senders = 1, .stores = 2, .refused = true});
}

static void test_each_part_is_needed(void **state)
{
    (void)state;
    expect_lost("no barrier", (struct scenario){.senders = 1, .stores = 1, .no_barrier = true});
    expect_lost("a sender that takes no part only looks",
                (struct scenario){.senders = 1, .stores = 1, .outside = {0, true}});
    expect_lost("exchanges that order nothing", (struct scenario){.senders = 1,
                                                                  .stores = 1,
                                                                  .outside = {true},
                                                                  .knows = {true},
                                                                  .no_barrier = true,
                                                                  .weak = true});
    expect_lost("the sleeper's word is cleared by a store", (struct scenario){.senders = 1,
                                                                              .stores = 2,
                                                                              .outside = {true},
                                                                              .knows = {true},
                                                                              .no_barrier = true,
                                                                              .stored = true});
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("sanitizers do not follow the copying of stacks\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wake_up_is_lost_with_the_kernels_barrier),
        cmocka_unit_test(test_no_wake_up_is_lost_by_exchanges),
        cmocka_unit_test(test_nobody_sleeps_where_the_barrier_is_refused),
        cmocka_unit_test(test_each_part_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
