// SPDX-License-Identifier: Apache-2.0
// No wake-up is lost: signal.c itself, with its atomics and its futex replaced, in every order and
// with every value that the memory orders allow a load to see.
//
// Memory: each word keeps all its values in order. A load may see any value not older than what its
// thread has seen, and, where it is sequentially consistent, not older than the last sequentially
// consistent store; a read-modify-write takes the newest. The kernel looks as a sequentially
// consistent load does, and nobody wakes up by time. So a lost wake-up is a thread that can never
// go on. Advantage: each order is shown to be needed, also those that x86 gives for nothing.
// Disadvantage: a load can be late only a few times in a row, lest a search never end.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "multi/ranks.h"
#include "proof/explore.h"

// ---- the words of signal.c ----

static struct orders {
    int raise, look, announce;
} orders;

static uint64_t wakeup_load(const void *word, int order);
static void wakeup_store(void *word, uint64_t value, int order);
static void wakeup_add(void *word, uint64_t by, int order);
static long wakeup_futex(const void *word, int operation, uint32_t expected,
                         const struct timespec *timeout);

#define SIGNAL_ORDER_RAISE    orders.raise
#define SIGNAL_ORDER_READ     __ATOMIC_ACQUIRE
#define SIGNAL_ORDER_LOOK     orders.look
#define SIGNAL_ORDER_ANNOUNCE orders.announce

#define SIGNAL_POLLS  2
#define SIGNAL_YIELDS 1

#define leat_signal_raise wakeup_raise
#define leat_signal_read  wakeup_read
#define leat_signal_wait  wakeup_wait
#define leat_signal_count wakeup_count
#define leat_signal_watch wakeup_watch
#define leat_wait_fail    wakeup_wait_fail
#define leat_peer_fail    wakeup_peer_fail
#define leat_rank_stopped wakeup_rank_stopped
#define leat_now_ns       wakeup_now_ns

#define __atomic_load_n(word, order)                                                               \
    ((__typeof__(*(word)))wakeup_load((const void *)(word), (order)))
#define __atomic_store_n(word, value, order) wakeup_store((word), (value), (order))
#define __atomic_add_fetch(word, by, order)  wakeup_add((word), (by), (order))
#define __atomic_sub_fetch(word, by, order)  wakeup_add((word), 0 - (uint64_t)(by), (order))
#define syscall(number, word, operation, value, timeout, word2, value3)                            \
    wakeup_futex((word), (operation), (uint32_t)(value), (timeout))
#define clock_gettime(clock, now) ((void)(*(now) = (struct timespec){0}))
#define sched_yield()             ((void)0)

#include "core/signal.c"

#undef __atomic_load_n

#define HISTORY  24
#define LATE_MAX 2 /* times in a row that a thread's loads may see an old value */
#define WAITERS  2
#define THREADS  (WAITERS + 1)

enum { VALUE, SLEEPERS, WORDS };

struct history {
    uint64_t value[HISTORY];
    uint32_t newest, newest_consistent;
    uint32_t seen[THREADS]; /* oldest that each thread may still see */
};

static struct memory {
    struct leat_signal signal; /* only its address counts */
    struct history word[WORDS];
    uint64_t asleep[THREADS], woken[THREADS], late[THREADS];
    uint64_t place[THREADS]; /* how far in its program: what was seen before is forgotten there */
} memory;

static leat_job job;

struct player {
    uint32_t thread;
    uint64_t raises;
    void (*raise)(struct leat_signal *signal, uint64_t value);
};

static uint32_t self(void)
{
    return (uint32_t)explore_thread_number();
}

static struct history *history_of(const void *word)
{
    return &memory.word[word == (const void *)&memory.signal.value ? VALUE : SLEEPERS];
}

static uint64_t look(struct history *history, bool consistent)
{
    uint32_t oldest = history->seen[self()];
    if (consistent && history->newest_consistent > oldest)
        oldest = history->newest_consistent;
    if (memory.late[self()] >= LATE_MAX)
        oldest = history->newest;
    uint32_t at = oldest + explore_choose(history->newest - oldest + 1);
    memory.late[self()] = at < history->newest ? memory.late[self()] + 1 : 0;
    history->seen[self()] = at;
    return history->value[at];
}

static void step(uint64_t learnt)
{
    explore_at(++memory.place[self()] << 8 | learnt);
    explore_step(0);
}

static uint64_t wakeup_load(const void *word, int order)
{
    uint64_t value = look(history_of(word), order == __ATOMIC_SEQ_CST);
    step(value);
    return value;
}

static void append(struct history *history, uint64_t value, int order)
{
    if (history->newest + 1 == HISTORY)
        explore_violation("the history of a word is full");
    history->value[++history->newest] = value;
    history->seen[self()] = history->newest;
    if (order == __ATOMIC_SEQ_CST)
        history->newest_consistent = history->newest;
    step(0);
}

static void wakeup_store(void *word, uint64_t value, int order)
{
    append(history_of(word), value, order);
}

static void wakeup_add(void *word, uint64_t by, int order)
{
    struct history *history = history_of(word);
    append(history, history->value[history->newest] + by, order);
}

static long wakeup_futex(const void *word, int operation, uint32_t expected,
                         const struct timespec *timeout)
{
    (void)timeout;
    if (word != (const void *)&memory.signal.value)
        explore_violation("the futex is not the low half of the word");
    if (operation == FUTEX_WAKE) {
        for (uint32_t t = 0; t < THREADS; t++)
            memory.woken[t] += memory.asleep[t];
        memset(memory.asleep, 0, sizeof memory.asleep);
        step(0);
        return 0;
    }
    uint32_t seen = (uint32_t)look(&memory.word[VALUE], true);
    memory.place[self()] = memory.place[self()] >> 16 << 16 | 0x8000; // the loop begins again
    if (seen != expected) {
        step(1);
        return -1;
    }
    uint64_t before = memory.woken[self()];
    memory.asleep[self()] = 1;
    step(2);
    explore_until(&memory.woken[self()], before + 1);
    return 0;
}

// ---- the threads ----

static void raise_all(void *user)
{
    const struct player *player = user;
    for (uint64_t value = 1; value <= player->raises; value++) {
        memory.place[player->thread] = value << 16;
        player->raise(&memory.signal, value);
    }
}

static void await_all(void *user)
{
    const struct player *player = user;
    for (uint64_t value = 1; value <= player->raises; value++) {
        memory.place[player->thread] = value << 16;
        int error = wakeup_wait(&job, &memory.signal, value, -1, UINT64_MAX, NULL);
        if (error)
            explore_violation("waiting for %d: %d", (int)value, error);
    }
}

static void run(const char *name, uint32_t waiters, uint64_t raises, struct orders with,
                void (*raise)(struct leat_signal *signal, uint64_t value),
                struct explore_result *result)
{
    struct player players[THREADS];
    memset(&memory, 0, sizeof memory);
    orders = with;
    struct explorer *explorer = explore_new();
    explore_memory(explorer, &memory, sizeof memory, true);
    for (uint32_t t = 0; t <= waiters; t++) {
        players[t] = (struct player){t, raises, raise};
        explore_thread(explorer, t ? await_all : raise_all, &players[t], false);
    }
    bool whole = explore_run(explorer, 4000000, result);
    explore_free(explorer);
    print_message("%-40s %8llu states, longest way %zu%s%s\n", name,
                  (unsigned long long)result->states, result->longest,
                  result->violation[0] ? ": " : "", result->violation);
    assert_true(whole);
}

static const struct orders as_they_are = {__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST};

static void test_no_wake_up_is_lost_in_any_order(void **state)
{
    (void)state;
    struct explore_result result;
    run("1 waiter, 3 signals", 1, 3, as_they_are, wakeup_raise, &result);
    assert_string_equal(result.violation, "");
    run("2 waiters, 1 signal", 2, 1, as_they_are, wakeup_raise, &result);
    assert_string_equal(result.violation, "");
}

static void expect_lost(const char *name, struct orders with,
                        void (*raise)(struct leat_signal *signal, uint64_t value))
{
    struct explore_result result;
    run(name, 1, 1, with, raise, &result);
    assert_non_null(strstr(result.violation, "nobody can go on"));
}

static void test_each_order_is_needed(void **state)
{
    (void)state;
    struct orders weak = as_they_are;
    weak.raise = __ATOMIC_RELEASE;
    expect_lost("raise as a release only", weak, wakeup_raise);
    weak = as_they_are;
    weak.look = __ATOMIC_ACQUIRE;
    expect_lost("look for sleepers as an acquire only", weak, wakeup_raise);
    weak = as_they_are;
    weak.announce = __ATOMIC_ACQ_REL;
    expect_lost("announce without consistency", weak, wakeup_raise);
}

static void raise_after_looking(struct leat_signal *signal, uint64_t value)
{
    uint64_t sleepers = wakeup_load(&signal->sleepers, __ATOMIC_SEQ_CST);
    wakeup_store(&signal->value, value, __ATOMIC_SEQ_CST);
    if (sleepers)
        wakeup_futex(&signal->value, FUTEX_WAKE, INT_MAX, NULL);
}

static void raise_without_waking(struct leat_signal *signal, uint64_t value)
{
    wakeup_store(&signal->value, value, __ATOMIC_SEQ_CST);
}

static void test_looking_before_the_store_loses_a_wake_up(void **state)
{
    (void)state;
    expect_lost("look, then store", as_they_are, raise_after_looking);
    expect_lost("store, never wake", as_they_are, raise_without_waking);
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("sanitizers do not follow the copying of stacks\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wake_up_is_lost_in_any_order),
        cmocka_unit_test(test_each_order_is_needed),
        cmocka_unit_test(test_looking_before_the_store_loses_a_wake_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
