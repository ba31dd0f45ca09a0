/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that passes for a GPU's: copies reach it, loads and stores end the program.
 *
 * Each piece is a file in memory, mapped twice: at the address that callers see nothing may be read
 * or written, and the other mapping is for the device's copies and for tests. Copies come late, as
 * in fake_copies.h: after a random number of looks at their mark, or when it is waited for.
 * Advantage: a message layer that touches a GPU's buffer by itself, or looks too early, is found
 * without a GPU. Disadvantage: kinds of memory and peer access are not told apart.
 */
#ifndef SUPPORT_EMULATED_GPU_H
#define SUPPORT_EMULATED_GPU_H

#include <stdint.h>

struct leat_job;

/* The job's device is a GPU from here on, until the job is closed; before its first message. Any
 * number of jobs of a process. */
void emulated_gpu_begin(struct leat_job *job);
/* Memory of it; NULL: none. Zeroed. */
void *emulated_gpu_alloc(uint64_t bytes);
void emulated_gpu_free(void *address);
/* Where a test finds the bytes at such an address; the address itself where it is none. */
void *emulated_gpu_bytes(const void *address);
/* Copies that touch this byte fail from here on; NULL: none. */
void emulated_gpu_fail_at(const void *address);
/* Copies so far; lanes closed with copies under way; pages pinned and not given back. */
uint64_t emulated_gpu_copies(void);
uint64_t emulated_gpu_lost(void);
int64_t emulated_gpu_pins(void);

#endif
