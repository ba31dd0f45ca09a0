/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs threads of a small program in every order that makes a difference.
 *
 * Algorithm: threads are coroutines that give way after each step another one could notice, and
 * wait for words. Depth-first search over which of them goes next; memory that they share, and
 * their stacks, are copied before a branch and put back after it. States are told apart by the
 * shared memory and by what each thread has learnt so far, which is all that its way depends on.
 * Advantage: the code under test is the code that ships, not a model of it. Disadvantage: the
 * number of states grows steeply with threads and steps; one thread at a time, so weak memory has
 * to be put into the words themselves (test_wakeup.c does).
 */
#ifndef LEAT_TEST_PROOF_EXPLORE_H
#define LEAT_TEST_PROOF_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct explorer;

struct explore_result {
    uint64_t states, steps;
    size_t longest;       /* steps of the longest way */
    char violation[1024]; /* empty: none in any order */
};

struct explorer *explore_new(void);
void explore_free(struct explorer *explorer);

/* Memory that threads write. What is a function of what they have learnt need not be compared. */
void explore_memory(struct explorer *explorer, void *address, size_t bytes, bool compared);

/* `serves`: may still wait for work when all others have ended. */
void explore_thread(struct explorer *explorer, void (*body)(void *user), void *user, bool serves);

/* All orders, up to `state_limit` states; false when there are more. */
bool explore_run(struct explorer *explorer, uint64_t state_limit, struct explore_result *result);

/* ---- For the threads ---- */

/* The calling thread, in the order of explore_thread. */
uint32_t explore_thread_number(void);
/* After a step that others can notice; `learnt` is what it told this thread, or 0. */
void explore_step(uint64_t learnt);
/* What this thread does from here on depends on `place` and shared memory alone: what it has learnt
 * before does not tell its states apart any more. */
void explore_at(uint64_t place);
/* Waits for a word that counts up. */
void explore_until(const uint64_t *word, uint64_t wanted);
/* Any number below `count`. */
uint32_t explore_choose(uint32_t count);
/* What must not happen has happened; does not return. */
_Noreturn void explore_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
