/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of system calls that fail when they are told to. One at a time in a program. What is not
 * set does nothing; offsets at which something fails are multiples of 4096, so that direct requests
 * can end there as a device's do.
 */
#ifndef SUPPORT_FILE_FAULTS_H
#define SUPPORT_FILE_FAULTS_H

#include "file/system.h"

#include <stdbool.h>
#include <stdint.h>

#define FAULT_NOWHERE UINT64_MAX

struct file_faults {
    int read_error, write_error; /* errno */
    uint64_t read_at, write_at;  /* of transfers that reach this offset; before it they are short */
    unsigned interrupt_every;    /* EINTR for every n-th call */
    uint64_t most_bytes;         /* that a call moves */
    int open_error, direct_open_error, direct_error, uring_error, enter_error, sync_error,
        resize_error, close_error, fstat_error;
    int sync_interrupts;                  /* EINTR for so many syncs first */
    bool hold_reads, hold_transfers;      /* they, or writes too, begin only after faults_release */
    void (*before_read)(uint64_t offset); /* called by every read; by the ring, before its result */
    void (*before_write)(uint64_t offset); /* the same; not by the ring */
};

/* Sets what goes wrong, and gives the table. */
const struct file_system_calls *faults_set(const struct file_faults *faults);
void faults_release(void);
/* Calls of pread, pwrite and ring results so far, since faults_set; those with EINTR too. */
uint64_t faults_calls(void);
/* Those that went past the page cache. */
uint64_t faults_direct_calls(void);
/* The largest transfer that was asked for. */
uint64_t faults_largest(void);

#endif
