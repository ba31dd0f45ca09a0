/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies beside a rank's own stream: what the file layer needs of a device.
 *
 * A lane is one thread's stream of copies to and from the memory of one device. Advantage: threads
 * never wait for one another's copies, nor for the rank's kernels. Disadvantage: a stream and a few
 * events a thread. On the CPU device a copy is a memcpy that is over on return, so that all but the
 * copy itself runs without a GPU.
 */
#ifndef LEAT_DEVICE_COPIES_H
#define LEAT_DEVICE_COPIES_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct copies_hold;
struct copies_lane;

/* Kinds of memory, as a buffer's address tells. */
enum copies_memory {
    COPIES_HOST,    /* pageable */
    COPIES_PINNED,  /* of the host, known to the GPU */
    COPIES_DEVICE,  /* cudaMalloc, cudaMallocAsync, VMM */
    COPIES_MANAGED, /* moves between them */
    COPIES_OTHER    /* of a GPU, and not usable from here: the reason is in the detail */
};

struct copies_found {
    enum copies_memory kind;
    int gpu;             /* -1: the host */
    const char *made_by; /* "cudaMalloc", "cudaMallocAsync", "VMM", ... for messages */
};

enum copies_open {
    COPIES_PLACE = 1, /* the calling thread is placed near the GPU, where that is known */
    COPIES_POLL = 2 /* marks are looked at again and again: a look is a load, setting one dearer */
};

/* From `from` in a slab to where it belongs. */
struct copies_piece {
    uint64_t from, to; /* offset in the slab; address */
    uint64_t bytes;
};

/* An allocation by which other processes of the host map it: `handle` is the driver's. */
struct copies_share {
    uint64_t base, bytes; /* the owner's address, and how much there is */
    uint8_t handle[64];
};

struct copies_ops {
    /* What lies at [address, address + bytes). -ENOTSUP with the reason (another process's, a GPU
     * out of reach, not all of one kind). */
    int (*find)(struct device *device, const void *address, uint64_t bytes,
                struct copies_found *found);
    /* Memory of the host that copies reach at full speed, page-aligned; near the GPU (-1: near the
     * calling thread). */
    int (*alloc)(struct device *device, int gpu, uint64_t bytes, void **address);
    void (*free)(struct device *device, void *address, uint64_t bytes);
    /* Whether the address is of a GPU's memory, whoever's: one question to the driver. NULL: there
     * is no GPU. */
    bool (*on_gpu)(struct device *device, const void *address);
    /* A lane for one thread at a time, with so many marks; flags of enum copies_open. */
    int (*open)(struct device *device, int gpu, int marks, unsigned flags,
                struct copies_lane **lane);
    void (*close)(struct copies_lane *lane);
    /* Enqueues. */
    int (*copy)(struct copies_lane *lane, void *to, const void *from, uint64_t bytes);
    /* Copies `bytes` of a slab of the host to the device, and from there scatters the pieces by a
     * kernel, and sets the mark; pieces and slab stay the caller's until it has passed. */
    int (*scatter)(struct copies_lane *lane, int mark, const void *slab, uint64_t bytes,
                   const struct copies_piece *pieces, uint32_t count);
    /* Enqueues inout[i] = in[i] OP inout[i] of a leat_operation and leat_type, both aligned to it;
     * inout lies on a GPU, in there or in memory of alloc. NULL: the device does not combine. */
    int (*combine)(struct copies_lane *lane, unsigned operation, unsigned type, const void *in,
                   void *inout, uint64_t count);
    /* Mark `mark` passes when all that has been enqueued so far is over. */
    int (*mark)(struct copies_lane *lane, int mark);
    /* 1 it has passed, 0 not yet (only without `wait`), a negative errno where copies failed. */
    int (*passed)(struct copies_lane *lane, int mark, bool wait);
    /* Around what a thread of the caller's does with a lane: what it has chosen for itself (CUDA's
     * current GPU) is afterwards as it was. NULL: there is nothing of the kind. */
    int (*enter)(void);
    void (*leave)(int before);
    /* The driver's number of the allocation that the address is in, which no other will have; 0: it
     * has none. Then, where that can be, what other processes need to map it, and the mapping.
     * NULL: none of the three. */
    uint64_t (*number)(struct device *device, const void *address);
    int (*share)(struct device *device, const void *address, struct copies_share *share);
    int (*attach)(struct device *device, const struct copies_share *share, void **address);
    void (*detach)(struct device *device, void *address);
    /* Makes pages of the host reachable for copies; of a file's mapping, reading only. -ENOTSUP,
     * -ENOMEM; -EALREADY somebody else has. */
    int (*pin)(struct device *device, void *address, uint64_t bytes, bool read_only);
    void (*unpin)(struct device *device, void *address, uint64_t bytes);
    /* Enqueues to the rank's own stream: begin(user, error) is called when all before has been
     * done, by a thread that must neither wait nor use the device (error: the stream has failed);
     * what is enqueued after waits until the hold is released. NULL: the stream is always empty. */
    int (*hold)(struct device *device, void (*begin)(void *user, int error), void *user,
                struct copies_hold **hold);
    /* Any thread, also in begin(). */
    void (*release)(struct device *device, struct copies_hold *hold);
};

extern const struct copies_ops leat_copies_host; /* of the CPU device */

#endif
