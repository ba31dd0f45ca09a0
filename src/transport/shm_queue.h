/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue from many ranks to one, in the receiver's arena.
 *
 * Algorithm: tickets count up without end; ticket t belongs to cell t mod count, and each cell has
 * a word that says for which lap it is free, claimed (by whom) or full. A sender claims the cell at
 * the tail by a compare-and-exchange of its word, moves the tail on, fills the cell and publishes
 * it; whoever finds the tail at a claimed cell moves it on too. The receiver looks at the words
 * alone. A cell that is still full from the lap before means that the queue is full; the sender has
 * then changed nothing. After Vyukov's bounded queue, with the claim in the cell rather than in the
 * tail. Advantage: who claimed a cell is known from the very moment of the claim, so the receiver
 * can pass over the cell of a rank that was killed before it published; a cell of zeros is free for
 * lap 0, so an unused queue costs no page. Disadvantage: two locked instructions a packet instead
 * of one.
 *
 * Order: a sender's tickets go up (the tail never goes back, and its own claim moved it on), and
 * the receiver takes cells in the order of tickets.
 */
#ifndef LEAT_TRANSPORT_SHM_QUEUE_H
#define LEAT_TRANSPORT_SHM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define SHM_QUEUE_PACKET 512

/* Begins with the word, so that a short packet comes in the same cache line as its publication. */
struct shm_cell {
    uint64_t word;
    uint32_t bytes;
    uint32_t unused;
    uint8_t packet[SHM_QUEUE_PACKET];
    uint8_t line[48];
};

_Static_assert(sizeof(struct shm_cell) % 64 == 0, "a packet shares no line with another");

enum shm_cell_state { CELL_FREE, CELL_CLAIMED, CELL_FULL };

/* Lap in the upper half, then the claimer's rank, then the state. Laps wrap; only neighbours are
 * ever compared. */
static inline uint64_t shm_cell_word(uint32_t lap, uint32_t rank, enum shm_cell_state state)
{
    return (uint64_t)lap << 32 | (uint64_t)rank << 2 | (uint64_t)state;
}

/* Both sides see the queue like this; `count_bits`: cells are a power of two. */
struct shm_queue {
    struct shm_cell *cells;
    uint64_t *tail;
    uint32_t count_bits;
};

static inline struct shm_cell *shm_queue_cell(const struct shm_queue *queue, uint64_t ticket)
{
    return &queue->cells[ticket & ((UINT64_C(1) << queue->count_bits) - 1)];
}

static inline uint32_t shm_queue_lap(const struct shm_queue *queue, uint64_t ticket)
{
    return (uint32_t)(ticket >> queue->count_bits);
}

/* A sender's: the cell that is its own until it publishes it, or NULL: full. */
static inline struct shm_cell *shm_queue_claim(const struct shm_queue *queue, uint32_t rank,
                                               uint64_t *ticket)
{
    for (;;) {
        uint64_t tail = __atomic_load_n(queue->tail, __ATOMIC_RELAXED);
        uint32_t lap = shm_queue_lap(queue, tail);
        struct shm_cell *cell = shm_queue_cell(queue, tail);
        uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_RELAXED);
        int32_t ahead = (int32_t)((uint32_t)(word >> 32) - lap);
        bool claimed = false;
        if (ahead < 0)
            return NULL;
        if (word == shm_cell_word(lap, 0, CELL_FREE))
            claimed = __atomic_compare_exchange_n(&cell->word, &word,
                                                  shm_cell_word(lap, rank, CELL_CLAIMED), false,
                                                  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
        // A cell of a later lap means that the tail was read long ago, and this fails.
        uint64_t seen = tail;
        __atomic_compare_exchange_n(queue->tail, &seen, tail + 1, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        if (claimed) {
            *ticket = tail;
            return cell;
        }
    }
}

static inline void shm_queue_publish(const struct shm_queue *queue, struct shm_cell *cell,
                                     uint64_t ticket)
{
    __atomic_store_n(&cell->word, shm_cell_word(shm_queue_lap(queue, ticket), 0, CELL_FULL),
                     __ATOMIC_RELEASE);
}

/* The receiver's: the cell at its head, or NULL: nothing has been published there. */
static inline struct shm_cell *shm_queue_look(const struct shm_queue *queue, uint64_t head)
{
    struct shm_cell *cell = shm_queue_cell(queue, head);
    uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE);
    return word == shm_cell_word(shm_queue_lap(queue, head), 0, CELL_FULL) ? cell : NULL;
}

/* Who has claimed the cell at the head and not published it, or -1. */
static inline int shm_queue_claimer(const struct shm_queue *queue, uint64_t head)
{
    uint64_t word = __atomic_load_n(&shm_queue_cell(queue, head)->word, __ATOMIC_RELAXED);
    if ((word & 3) != CELL_CLAIMED || (uint32_t)(word >> 32) != shm_queue_lap(queue, head))
        return -1;
    return (int)((uint32_t)word >> 2);
}

/* Frees the cell at the head for the next lap. Where it was not published, only once its claimer
 * can store no more. */
static inline void shm_queue_pass(const struct shm_queue *queue, uint64_t head)
{
    __atomic_store_n(&shm_queue_cell(queue, head)->word,
                     shm_cell_word(shm_queue_lap(queue, head) + 1, 0, CELL_FREE), __ATOMIC_RELEASE);
}

#endif
