// SPDX-License-Identifier: Apache-2.0
// The kernels of gpu_*.inc on the CPU, one after the other in the caller's thread: --device
// emulated.
//
// Advantage: kernels and the driver around them are tested where there is no GPU, against the same
// oracle. Disadvantage: one lane, one thread, ordinary memory: slow, and blind to races.

#include "core/error.h"
#include "core/signal.h"
#include "md/clock.h"
#include "md/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#include "md/gpu_words.h"
#include "md/gpu_list_kernels.inc"
#include "md/gpu_force_kernels.inc"
#include "md/gpu_move_kernels.inc"
#include "md/gpu_molecule_kernels.inc"
// clang-format on

struct state {
    uint64_t last_ns;
    double phase_ns[PHASE_COUNT];
};

static int emulated_open(leat_job *job, char *model, void **state)
{
    (void)job;
    snprintf(model, 64, "kernels on the CPU");
    *state = calloc(1, sizeof(struct state));
    return *state ? 0 : leat_fail(-ENOMEM, "no memory for a rank on a device");
}

static void emulated_close(void *state)
{
    free(state);
}

static int emulated_alloc(void *state, size_t bytes, void **memory)
{
    (void)state;
    void *made = calloc(1, bytes);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for %zu bytes", bytes);
    *memory = made;
    return 0;
}

static void emulated_free(void *state, void *memory)
{
    (void)state;
    free(memory);
}

static int emulated_copy(void *state, void *to, const void *from, size_t bytes)
{
    (void)state;
    memcpy(to, from, bytes);
    return 0;
}

static int emulated_wait(void *state)
{
    (void)state;
    return 0;
}

static int emulated_mark(void *opaque, int phase)
{
    struct state *state = opaque;
    uint64_t now = leat_now_ns();
    if (phase >= 0)
        state->phase_ns[phase] += (double)(now - state->last_ns);
    state->last_ns = now;
    return 0;
}

static int emulated_spent(void *opaque, double *phase_ns)
{
    struct state *state = opaque;
    for (int p = 0; p < PHASE_COUNT; p++) {
        phase_ns[p] += state->phase_ns[p];
        state->phase_ns[p] = 0.0;
    }
    return 0;
}

typedef void kernel_function(const struct md_gpu_args *args, uint32_t i, uint32_t choice);

static int emulated_launch(void *state, enum md_gpu_kernel kernel, uint32_t choice, uint32_t count,
                           const struct md_gpu_args *args)
{
#define ENTRY(id, name, team) [MD_GPU_##id] = name,
    static kernel_function *const function[] = {MD_GPU_KERNELS(ENTRY)};
#undef ENTRY
    (void)state;
    for (uint32_t i = 0; i < count; i++)
        function[kernel](args, i, choice);
    return 0;
}

const struct md_gpu_backend md_gpu_emulated = {
    .memory = LEAT_MEMORY_HOST,
    .device = "emulated",
    .open = emulated_open,
    .close = emulated_close,
    .alloc = emulated_alloc,
    .free = emulated_free,
    .upload = emulated_copy,
    .launch = emulated_launch,
    .wait = emulated_wait,
    .download = emulated_copy,
    .mark = emulated_mark,
    .spent = emulated_spent,
};
