/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a rank's process: where other processes of its host ask about its GPU's memory.
 *
 * A thread answers at a socket without a name in the file system, and to ranks of the job only: the
 * kernel says which process has connected, to both sides. It gives a descriptor of a region's
 * memory (which the asker maps, transport/import.h), or, where there is none to give, copies
 * between the region and the asker's arena. Advantage: no right to look into another process is
 * needed, and nobody waits for the rank's own thread. Disadvantage: a thread a rank with memory on
 * a GPU.
 */
#ifndef LEAT_TRANSPORT_DOOR_H
#define LEAT_TRANSPORT_DOOR_H

#include "core/region.h"

#define DOOR_STAGE_BYTES (UINT64_C(1) << 20) /* of the asker's arena, for copies */

enum door_verb { DOOR_GIVE, DOOR_READ, DOOR_WRITE };

struct door_ask {
    uint32_t verb; /* enum door_verb */
    uint32_t slot; /* of the region */
    uint64_t generation;
    uint64_t offset, bytes; /* READ, WRITE: in the region */
    uint64_t stage;         /* offset in the asker's arena */
    /* WRITE: raised to `value` once the bytes are there, where `signal_generation` is not 0. */
    uint64_t signal_generation, signal_offset, value;
    uint32_t signal_slot, unused;
};

struct door_answer {
    int32_t error;
    uint32_t unused;
    uint64_t bytes; /* GIVE: that the descriptor stands for */
    char detail[256];
};

struct door;
struct copies_lane;
struct import;

/* Begins to answer, where ranks are processes. Before this rank's first region on a GPU is in the
 * directory. */
int leat_door_open(struct leat_job *job);
/* As in struct share_ops; 0 where ranks are threads. */
uint32_t leat_door_serial(struct leat_job *job, uint64_t address);
/* Whatever is being served is over: a region that is no longer live can be freed. */
void leat_door_settle(struct leat_job *job);
/* All regions are free. */
void leat_door_close(struct leat_job *job);

/* Asks at the door of the region's owner, and waits. A descriptor that came with the answer is the
 * caller's; `fd` may be NULL. -ECONNRESET the owner has ended, -ETIMEDOUT, -ESTALE it has freed the
 * region; each with the region's name and rank. Any thread. */
int leat_door_ask(const struct leat_region *view, struct door_ask *ask, struct door_answer *answer,
                  int *fd);
/* Room for copies in this rank's arena; the rank's own thread. */
int leat_door_stage(struct leat_job *job);
/* As transport.h has them, by the owner's door. */
int leat_door_put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes);
int leat_door_get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes);
struct put_signal;
int leat_door_put_signal(struct leat_job *job, const struct put_signal *order);

/* ---- import.c: memory of others that this process has mapped ---- */
/* As transport.h has attach and detach. */
int leat_import(struct leat_region *view);
void leat_import_drop(struct leat_region *view);
void *leat_import_address(const struct leat_region *view);
/* All views are free. */
void leat_imports_close(struct leat_job *job);

#endif
