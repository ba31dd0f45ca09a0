/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: where kernels run. One operations table a back-end; the rest of the library does not
 * know which one it talks to.
 */
#ifndef LEAT_DEVICE_OPS_H
#define LEAT_DEVICE_OPS_H

#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_job;
struct leat_signal;
struct device;
struct device_gang;
struct copies_ops;
struct k_error;
struct k_wait;

/* Every kernel of the library, by what it does and its element type; types follow one another as in
 * enum leat_element. `pulse` kernels do one pulse whole, `stamp` kernels
 * write and check values, `resident` is the step loop. */
#define LEAT_KERNELS(X)                                                                            \
    X(FUSED_FORWARD_F32, fused_forward_f32)                                                        \
    X(FUSED_FORWARD_F64, fused_forward_f64)                                                        \
    X(FUSED_FORWARD_WORDS, fused_forward_words)                                                    \
    X(FUSED_REVERSE_F32, fused_reverse_f32)                                                        \
    X(FUSED_REVERSE_F64, fused_reverse_f64)                                                        \
    X(PACK_F32, pack_f32)                                                                          \
    X(PACK_F64, pack_f64)                                                                          \
    X(PACK_WORDS, pack_words)                                                                      \
    X(ACCUMULATE_F32, accumulate_f32)                                                              \
    X(ACCUMULATE_F64, accumulate_f64)                                                              \
    X(PULSE_FORWARD_F32, pulse_forward_f32)                                                        \
    X(PULSE_FORWARD_F64, pulse_forward_f64)                                                        \
    X(PULSE_FORWARD_WORDS, pulse_forward_words)                                                    \
    X(PULSE_REVERSE_F32, pulse_reverse_f32)                                                        \
    X(PULSE_REVERSE_F64, pulse_reverse_f64)                                                        \
    X(PROXY_ORDER, proxy_order)                                                                    \
    X(STAMP_WRITE, stamp_write)                                                                    \
    X(STAMP_CHECK, stamp_check)                                                                    \
    X(STAMP_SUM, stamp_sum)                                                                        \
    X(RESIDENT, resident)

enum kernel_id {
#define LEAT_KERNEL_ID(id, name) KERNEL_##id,
    LEAT_KERNELS(LEAT_KERNEL_ID)
#undef LEAT_KERNEL_ID
        KERNEL_COUNT
};

/* Memory that kernels read and the host fills: on a GPU two copies, on the CPU device one. */
struct device_memory {
    void *address; /* for kernels */
    void *host;
    size_t bytes;
};

struct device_launch {
    enum kernel_id kernel;
    uint32_t choice; /* travels with the launch itself */
    uint64_t turn;   /* the number of the kernel's exchange, from 1; 0: it counts by itself */
    /* Published, unchanged until the kernel has ended: a launch may carry it along by value. */
    const struct device_memory *arguments;
    bool puts;     /* the kernel has to reach peers by NVSHMEM's puts */
    bool orders;   /* and by orders to the rank's proxy */
    bool bulk;     /* it may send by bulk copies */
    uint32_t work; /* elements: how many blocks it takes depends on them */
    /* Kernels that wait for other ranks' kernels: all of one GPU have to run at once. NULL for
     * those that wait for nobody. */
    struct device_gang *gang;
};

/* Memory for regions that other processes can map, by descriptors that the system hands over. */
struct share_ops {
    /* Numbers the allocation that begins at the region's address, never two alike; 0: it cannot be
     * exported. */
    uint32_t (*serial)(struct device *device, const void *address);
    /* A descriptor that the caller closes, and how many bytes it stands for. Any thread. */
    int (*give)(struct device *device, const void *address, int *fd, uint64_t *bytes);
    /* Maps what another process has given, for kernels and copies; the descriptor stays the
     * caller's. */
    int (*take)(struct device *device, int fd, uint64_t bytes, void **address);
    void (*drop)(struct device *device, void *address, uint64_t bytes);
};

struct device_ops {
    const char *name; /* "cpu", "cuda" */
    /* The host runs ahead of the stream; else all is done when a call returns. */
    bool asynchronous;
    /* Largest pulse, in elements, that goes in packets unless LEAT_HALO_PACKETS says: exchanges one
     * by one, and in a resident loop, where a signal costs more beside the rest. */
    int packets, resident_packets;
    int bulk; /* smallest pulse sent by bulk copies unless LEAT_HALO_BULK says; 0: none */
    void (*close)(struct device *device);
    void (*info)(const struct device *device, leat_device_info *info);
    /* Whether kernels here may store to memory of the rank's device; the reason either way. Only
     * where region_alloc is. */
    int (*can_store)(const struct device *device, int rank, char reason[LEAT_REASON]);
    /* Zeroed, both copies; publish brings the host's to the device, fetch the device's to the host,
     * both in the stream's order and done on return. Freeing memory of all zeros is nothing. */
    int (*alloc)(struct device *device, size_t bytes, struct device_memory *memory);
    void (*free)(struct device *device, struct device_memory *memory);
    int (*publish)(struct device *device, const struct device_memory *memory);
    int (*fetch)(struct device *device, const struct device_memory *memory);
    /* Memory for regions (zeroed), where the arena will not do; else NULL. */
    int (*region_alloc)(struct device *device, uint64_t bytes, void **address);
    void (*region_free)(struct device *device, void *address);
    const struct share_ops *share; /* NULL: regions of it cannot be mapped by other processes */
    /* Ends the waits of kernels that look at the record, which is in the device's memory. Any
     * thread. NULL: kernels watch their peers themselves. */
    int (*fail)(struct device *device, struct k_error *error);
    /* A record that kernels write and the host may read at any time; else NULL: any memory is. */
    int (*report_alloc)(struct device *device, size_t bytes, void **address);
    void (*report_free)(struct device *device, void *address);
    /* Ranks that share a device join a gang by the same number; no launch before all have. NULL:
     * ranks share nothing. */
    int (*gang_join)(struct device *device, uint64_t number, struct device_gang **gang);
    void (*gang_leave)(struct device_gang *gang);
    /* Starts a kernel in the device's stream. */
    int (*launch)(struct device *device, const struct device_launch *launch);
    /* Starts a kernel of the caller's own in the device's stream; `options` are filled in. */
    int (*run)(struct device *device, const leat_kernel *kernel, const leat_kernel_call *launch,
               const void *work, const leat_run_options *options);
    /* Before the first wait of the stream, while no rank has one under way; NULL: nothing to do. */
    int (*waits_open)(struct device *device);
    /* Operations of the stream, in order with its kernels: a copy to an address that this device
     * can store to, a signal raised after everything before it, a signal awaited by everything
     * after it (a failed wait goes into wait->report, and what follows it in the stream is void).
     */
    int (*put)(struct device *device, void *to, const void *from, uint64_t bytes);
    int (*raise)(struct device *device, struct leat_signal *signal, uint64_t value);
    int (*wait)(struct device *device, const struct k_wait *wait, struct leat_signal *signal,
                uint64_t wanted, int peer, int pulse);
    /* Blocks the host until the stream is empty. */
    int (*sync)(struct device *device);
    /* As leat_device_wait, without what halos have to say. */
    int (*drain)(struct device *device, double timeout_s);
    const struct copies_ops *copies; /* of the file layer; NULL: as the CPU device */
};

struct device {
    const struct device_ops *ops;
    struct leat_job *job;
    bool captured; /* work of its stream has become part of a graph, whose replays nobody counts */
};

/* Opens the rank's device, as LEAT_DEVICE says. */
int leat_device_open(struct leat_job *job, struct device **device);
int leat_device_cpu_open(struct leat_job *job, struct device **device);
/* -ENOTSUP, with what is missing, where there is no GPU or this build has no CUDA. */
int leat_device_cuda_open(struct leat_job *job, struct device **device);
/* GPU number `number` of this host, for people: 0, or -ENODEV past the last (with why there is none
 * at all). Opens nothing. */
int leat_device_describe(int number, char *text, size_t bytes);
/* NULL, or why the text is no device. */
const char *leat_device_wrong(const char *text);
/* The GPU's number for a rank of `rank_count`, by such a text. */
int leat_device_number(const char *text, int device_count, int rank, int rank_count);

/* Ranks of this host that are processes on this rank's GPU, itself among them, as far as they have
 * opened; 0: it has none, or ranks are threads. *first becomes the lowest, unless it is NULL. */
int leat_gpu_sharers(const struct leat_job *job, int *first);

/* launch and sync, counted. */
int leat_device_launch(struct device *device, const struct device_launch *launch);
int leat_device_sync(struct device *device);
/* A copy between addresses of which at least one is a device's, in the order of the rank's stream,
 * done on return. */
int leat_device_copy(struct leat_job *job, void *to, const void *from, uint64_t bytes);

#endif
