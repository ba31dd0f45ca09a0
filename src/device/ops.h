/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: where kernels run. One operations table a back-end; the rest of the library does not
 * know which one it talks to.
 */
#ifndef LEAT_DEVICE_OPS_H
#define LEAT_DEVICE_OPS_H

#include <stddef.h>
#include <stdint.h>

struct leat_job;
struct leat_signal;
struct device;
struct k_wait;

/* Every kernel of the library, by what it does and its element type; types follow one another as in
 * enum leat_element. `pulse` kernels do one pulse whole, `resident` is the step loop. */
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
    X(RESIDENT, resident)

enum kernel_id {
#define LEAT_KERNEL_ID(id, name) KERNEL_##id,
    LEAT_KERNELS(LEAT_KERNEL_ID)
#undef LEAT_KERNEL_ID
        KERNEL_COUNT
};

struct device_ops {
    const char *name; /* "cpu", "cuda" */
    void (*close)(struct device *device);
    /* Memory that the device's kernels and the host both read (arguments, index maps). */
    int (*alloc)(struct device *device, size_t bytes, void **address);
    void (*free)(struct device *device, void *address);
    /* Starts a kernel in the device's stream. `arguments` (device memory) stay until it has ended;
     * `choice` travels with the launch itself. */
    int (*launch)(struct device *device, enum kernel_id kernel, void *arguments, uint32_t choice);
    /* Operations of the stream, in order with its kernels: a copy to an address that this device
     * can store to, a signal raised after everything before it, a signal awaited by everything
     * after it (a failed wait goes into wait->error, and what follows it in the stream is void). */
    int (*put)(struct device *device, void *to, const void *from, uint64_t bytes);
    int (*raise)(struct device *device, struct leat_signal *signal, uint64_t value);
    int (*wait)(struct device *device, const struct k_wait *wait, struct leat_signal *signal,
                uint64_t wanted, int peer, int pulse);
    /* Blocks the host until the stream is empty. */
    int (*sync)(struct device *device);
};

struct device {
    const struct device_ops *ops;
    struct leat_job *job;
};

/* Opens the rank's device: the CPU device, so far. */
int leat_device_open(struct leat_job *job, struct device **device);
int leat_device_cpu_open(struct leat_job *job, struct device **device);

/* launch and sync, counted. */
int leat_device_launch(struct device *device, enum kernel_id kernel, void *arguments,
                       uint32_t choice);
int leat_device_sync(struct device *device);

#endif
