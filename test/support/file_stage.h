/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of files share: a job of one rank, a file in a directory of its own, a buffer whose
 * bytes are poison until they are read. Every byte of a file tells its offset.
 */
#ifndef SUPPORT_FILE_STAGE_H
#define SUPPORT_FILE_STAGE_H

#include "core/job.h"
#include "file/internal.h"

#include <leat/file.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STAGE_BYTES  (UINT64_C(40) << 20) /* of the buffer */
#define STAGE_POISON 0xa5

struct stage {
    leat_job *job;
    char directory[64], path[96];
    unsigned char *buffer; /* page-aligned */
    uint64_t shift;        /* where calls' memory begins in it */
};

/* cmocka's setup and teardown. Settings may be put into the environment before: LEAT_FILE_... */
int stage_begin(void **state);
int stage_end(void **state);

static inline unsigned char stage_byte(uint64_t offset)
{
    uint64_t word = (offset >> 3) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return (unsigned char)(word >> ((offset & 7) * 8));
}

/* Fails with the library's words. */
#define stage_ok(call)                                                                             \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, leat_error_detail());                                        \
    } while (0)

/* Makes the file `bytes` long, stamped, written as every time. */
void stage_fill(const struct stage *stage, uint64_t bytes);
leat_file *stage_open(const struct stage *stage, const leat_file_options *options);
leat_buffer stage_buffer(const struct stage *stage);
/* The buffer's bytes become the file's from `offset` on. */
void stage_stamp(const struct stage *stage, uint64_t offset, uint64_t bytes);
void stage_poison(const struct stage *stage, uint64_t bytes);
/* `count` bytes of the buffer are the file's from `offset` on, and poison follows, to `bytes` and a
 * little further. */
void stage_check(const struct stage *stage, uint64_t offset, uint64_t count, uint64_t bytes);
/* Poisons, reads, and checks that exactly `count` bytes have come. */
void stage_read_checked(const struct stage *stage, leat_file *file, uint64_t offset, uint64_t bytes,
                        uint64_t count);
/* The file itself, through the system's calls, is `bytes` long and stamped. */
void stage_check_file(const struct stage *stage, uint64_t bytes);

#endif
