// SPDX-License-Identifier: Apache-2.0
// The search: see explore.h for how and why.

#define _GNU_SOURCE
#include "proof/explore.h"

#include "proof/explore_states.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define THREADS_MAX 8
#define RANGES_MAX  128
#define STACK_BYTES 16384
#define STACK_SPARE 1024 /* for what swapcontext puts below the frame that calls it */
#define DEPTH_MAX   4096

enum thread_state { THREAD_READY, THREAD_WAITS, THREAD_ENDED, THREAD_VIOLATES };

struct thread {
    ucontext_t context;
    uint32_t state; /* enum thread_state */
    uint32_t choice_count, choice;
    const uint64_t *word; /* what it waits for */
    uint64_t wanted;
    uint64_t learnt; /* hash of all it has been told, and of how far it is */
    bool serves;
    void (*body)(void *user);
    void *user;
    char *stack, *low; /* below `low` nothing of it is in use */
};

struct range {
    char *address;
    size_t bytes;
    bool compared;
};

// A point at which the search can go on: memory as it was, and the next thing to try.
struct branch {
    char *memory;
    uint32_t thread, choice;
    bool moved; /* some thread could go on */
    uint8_t taken;
};

struct explorer {
    ucontext_t search;
    struct thread thread[THREADS_MAX];
    uint32_t thread_count, running;
    struct range range[RANGES_MAX];
    size_t range_count, bytes;
    struct states states;
    struct branch *branch;
    size_t depth;
    struct explore_result *result;
};

// Coroutines have no argument to find it by.
static _Thread_local struct explorer *exploring;

struct explorer *explore_new(void)
{
    struct explorer *explorer = calloc(1, sizeof *explorer);
    explorer->branch = calloc(DEPTH_MAX, sizeof *explorer->branch);
    explorer->states.capacity = 1 << 16;
    explorer->states.seen = calloc(explorer->states.capacity, sizeof *explorer->states.seen);
    explore_memory(explorer, explorer->thread, sizeof explorer->thread, false);
    return explorer;
}

void explore_free(struct explorer *explorer)
{
    for (size_t d = 0; d < DEPTH_MAX; d++)
        free(explorer->branch[d].memory);
    for (uint32_t t = 0; t < explorer->thread_count; t++)
        free(explorer->thread[t].stack);
    free(explorer->branch);
    free(explorer->states.seen);
    free(explorer);
}

void explore_memory(struct explorer *explorer, void *address, size_t bytes, bool compared)
{
    if (explorer->range_count == RANGES_MAX)
        abort();
    explorer->range[explorer->range_count++] = (struct range){address, bytes, compared};
    explorer->bytes += bytes;
}

// ---- threads ----

static void give_way(void)
{
    struct explorer *explorer = exploring;
    struct thread *self = &explorer->thread[explorer->running];
    char *low = (char *)__builtin_frame_address(0) - STACK_SPARE;
    self->low = low > self->stack ? low : self->stack;
    swapcontext(&self->context, &explorer->search);
}

static void run_body(void)
{
    struct explorer *explorer = exploring;
    struct thread *self = &explorer->thread[explorer->running];
    self->body(self->user);
    self->state = THREAD_ENDED;
    give_way();
}

void explore_thread(struct explorer *explorer, void (*body)(void *user), void *user, bool serves)
{
    if (explorer->thread_count == THREADS_MAX)
        abort();
    struct thread *thread = &explorer->thread[explorer->thread_count];
    *thread = (struct thread){.body = body, .user = user, .serves = serves, .choice_count = 1};
    thread->learnt = ++explorer->thread_count;
    thread->stack = malloc(STACK_BYTES);
    thread->low = thread->stack + STACK_BYTES - STACK_SPARE;
    explorer->bytes += STACK_BYTES;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->context, run_body, 0);
}

void explore_step(uint64_t learnt)
{
    struct thread *self = &exploring->thread[exploring->running];
    self->learnt = mix(self->learnt, learnt + 1);
    give_way();
}

uint32_t explore_thread_number(void)
{
    return exploring->running;
}

void explore_at(uint64_t place)
{
    struct thread *self = &exploring->thread[exploring->running];
    self->learnt = mix(exploring->running, place);
}

static bool reached(const uint64_t *word, uint64_t wanted)
{
    return (int64_t)(*word - wanted) >= 0;
}

void explore_until(const uint64_t *word, uint64_t wanted)
{
    struct thread *self = &exploring->thread[exploring->running];
    // A word only counts up, so to go on at once loses no order: others' steps after this look
    // could as well have come before it.
    if (reached(word, wanted))
        return;
    self->word = word;
    self->wanted = wanted;
    self->state = THREAD_WAITS;
    give_way(); // that it had to wait teaches it nothing: no mix
    self->state = THREAD_READY;
}

uint32_t explore_choose(uint32_t count)
{
    struct thread *self = &exploring->thread[exploring->running];
    if (count < 2)
        return 0;
    self->choice_count = count;
    give_way();
    self->choice_count = 1;
    self->learnt = mix(self->learnt, self->choice + 1);
    return self->choice;
}

void explore_violation(const char *format, ...)
{
    struct explorer *explorer = exploring;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(explorer->result->violation, sizeof explorer->result->violation, format, arguments);
    va_end(arguments);
    explorer->thread[explorer->running].state = THREAD_VIOLATES;
    give_way();
    abort();
}

// ---- search ----

static void copy_memory(const struct explorer *explorer, char *memory, bool save)
{
    for (size_t r = 0; r < explorer->range_count; r++) {
        const struct range *range = &explorer->range[r];
        memcpy(save ? memory : range->address, save ? range->address : memory, range->bytes);
        memory += range->bytes;
    }
    // The threads themselves were the first range, so how much of a stack is in use is known now.
    for (uint32_t t = 0; t < explorer->thread_count; t++) {
        const struct thread *thread = &explorer->thread[t];
        size_t bytes = (size_t)(thread->stack + STACK_BYTES - thread->low);
        memcpy(save ? memory : thread->low, save ? thread->low : memory, bytes);
        memory += bytes;
    }
}

static uint64_t hash_state(const struct explorer *explorer)
{
    uint64_t hash = 1;
    for (size_t r = 0; r < explorer->range_count; r++) {
        const struct range *range = &explorer->range[r];
        for (size_t at = 0; range->compared && at < range->bytes; at += 8) {
            uint64_t word = 0;
            memcpy(&word, range->address + at, range->bytes - at < 8 ? range->bytes - at : 8);
            hash = mix(hash, word);
        }
    }
    for (uint32_t t = 0; t < explorer->thread_count; t++) {
        const struct thread *thread = &explorer->thread[t];
        hash = mix(mix(hash, thread->learnt), (uint64_t)thread->state << 32 | thread->choice_count);
        if (thread->state == THREAD_WAITS)
            hash = mix(mix(hash, (uint64_t)(uintptr_t)thread->word), thread->wanted);
    }
    return hash ? hash : 1;
}

static void push(struct explorer *explorer)
{
    if (explorer->depth == DEPTH_MAX)
        abort();
    struct branch *branch = &explorer->branch[explorer->depth++];
    if (!branch->memory)
        branch->memory = malloc(explorer->bytes);
    branch->thread = branch->choice = 0;
    branch->moved = false;
    copy_memory(explorer, branch->memory, true);
    if (explorer->depth > explorer->result->longest)
        explorer->result->longest = explorer->depth;
}

static bool can_go(const struct thread *thread)
{
    return thread->state == THREAD_READY ||
           (thread->state == THREAD_WAITS && reached(thread->word, thread->wanted));
}

// The next untried thread and choice of a branch, whose memory is in place.
static bool next_move(struct explorer *explorer, struct branch *branch, uint32_t *choice)
{
    for (; branch->thread < explorer->thread_count; branch->thread++, branch->choice = 0) {
        const struct thread *thread = &explorer->thread[branch->thread];
        if (!can_go(thread) || branch->choice >= thread->choice_count)
            continue;
        *choice = branch->choice++;
        branch->taken = (uint8_t)branch->thread;
        branch->moved = true;
        return true;
    }
    return false;
}

static bool all_ended(const struct explorer *explorer)
{
    for (uint32_t t = 0; t < explorer->thread_count; t++)
        if (explorer->thread[t].state != THREAD_ENDED && !explorer->thread[t].serves)
            return false;
    return true;
}

// Appends who went when.
static void tell_way(const struct explorer *explorer)
{
    char *text = explorer->result->violation;
    size_t used = strlen(text), room = sizeof explorer->result->violation;
    used += (size_t)snprintf(text + used, room - used, "; order ");
    for (size_t d = 0; d < explorer->depth && used + 2 < room; d++)
        text[used++] = (char)('0' + explorer->branch[d].taken);
    text[used] = 0;
}

static void deadlock(struct explorer *explorer)
{
    char *text = explorer->result->violation;
    size_t used = 0, room = sizeof explorer->result->violation;
    used += (size_t)snprintf(text, room, "nobody can go on:");
    for (uint32_t t = 0; t < explorer->thread_count && used < room; t++) {
        const struct thread *thread = &explorer->thread[t];
        if (thread->state == THREAD_WAITS)
            used +=
                (size_t)snprintf(text + used, room - used, " thread %u waits for %lld (is %lld)", t,
                                 (long long)thread->wanted, (long long)*thread->word);
    }
}

static bool search(struct explorer *explorer, uint64_t state_limit)
{
    struct explore_result *result = explorer->result;
    push(explorer);
    while (explorer->depth) {
        struct branch *branch = &explorer->branch[explorer->depth - 1];
        copy_memory(explorer, branch->memory, false);
        uint32_t choice;
        if (!next_move(explorer, branch, &choice)) {
            if (!branch->moved && !all_ended(explorer)) {
                deadlock(explorer);
                return true;
            }
            explorer->depth--;
            continue;
        }
        explorer->running = branch->thread;
        explorer->thread[branch->thread].choice = choice;
        swapcontext(&explorer->search, &explorer->thread[branch->thread].context);
        result->steps++;
        if (result->violation[0])
            return true;
        if (!states_add(&explorer->states, hash_state(explorer)))
            continue;
        if (++result->states > state_limit)
            return false;
        push(explorer);
    }
    return true;
}

bool explore_run(struct explorer *explorer, uint64_t state_limit, struct explore_result *result)
{
    *result = (struct explore_result){0};
    explorer->result = result;
    exploring = explorer;
    bool whole = search(explorer, state_limit);
    if (result->violation[0])
        tell_way(explorer);
    exploring = NULL;
    return whole;
}
