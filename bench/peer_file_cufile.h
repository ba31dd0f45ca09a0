/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFile for a side of `leat bench file`: loaded where it is there, one file at a time, by the few
 * functions of its public interface that are needed. False: `failed` has been told why.
 */
#ifndef LEAT_BENCH_PEER_FILE_CUFILE_H
#define LEAT_BENCH_PEER_FILE_CUFILE_H

#include "file_slice.h"

/* Keeps the reason for the answer. */
void failed(const char *what, const char *why);

bool cufile_load(void);
bool cufile_open(int fd);
void cufile_close(void);
/* A refusal is no failure: what is not registered goes through buffers of its own. */
void cufile_register(void *memory, uint64_t bytes);
void cufile_forget(void *memory);
/* To `to` in the memory that begins at `base`. */
bool cufile_part(char *base, char *to, uint64_t bytes, uint64_t offset);
/* The ask's ranges by the batch interface. */
bool cufile_batches(const struct file_ask *ask, uint64_t size, char *base);

#endif
