/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFile, loaded: what the files of the path `cufile` share.
 *
 * Advantage: a library that is missing, old or stuck is one reason in words. Disadvantage: its
 * driver stays open until the process ends, since another user of the process may have it open too
 * and it does not count in every version.
 */
#ifndef LEAT_FILE_CUFILE_H
#define LEAT_FILE_CUFILE_H

#include "file/cufile_abi.h"
#include "file/internal.h"

/* Of a job, under its file_lock. */
struct cufile {
    struct cufile_functions call;
    struct cufile_properties properties;
    char absent[LEAT_REASON];         /* "": its driver is open */
    char buffer_refused[LEAT_REASON]; /* why a buffer was not registered, or "" */
    char library[128];
    int version; /* 1200 for 1.20; 0: not loaded */
    bool p2pdma; /* switched on and there */
    bool counting;
};

/* ---- cufile_library.c ---- */
/* Loads the library and opens its driver when called first; see `absent`. Under file_lock. NULL:
 * no memory. */
struct cufile *cufile_get(struct leat_job *job);
/* "5027 (the file is not registered: ...)", of 5027 or -5027. */
void cufile_words(long error, char *text, size_t bytes);
/* The errno for it. */
int cufile_errno(long error);
/* 0 where the library does not tell. */
uint64_t cufile_size(const struct cufile *cufile, enum cufile_size parameter);
bool cufile_switch(const struct cufile *cufile, enum cufile_switch parameter);

#endif
