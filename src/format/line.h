/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a text file, for every parser here.
 *
 * A line is at most LINE_BYTES_MAX long and holds no NUL byte, so that a device file, a binary or a
 * crafted input ends in an error instead of in all of the memory. Both Unix and DOS line ends are
 * taken off; a last line without one counts. A UTF-8 byte-order mark before the first line is taken
 * off too.
 */
#ifndef LEAT_FORMAT_LINE_H
#define LEAT_FORMAT_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LINE_BYTES_MAX (1 << 16)

struct line_reader {
    FILE *file;     /* the caller's */
    char *text;     /* the current line, NUL-terminated; may be changed in place */
    size_t length;  /* without the line end */
    size_t size;    /* bytes behind `text` */
    int64_t number; /* of the current line, from 1 */
};

/*
 * Reads the next line. 1: there is one; 0: the file has ended. -EINVAL: a NUL byte in the line,
 * -EFBIG: the line is too long, -ENOMEM, or what reading gave (a directory: -EISDIR). No error
 * detail is set: only the caller knows the name of the file; line_problem() has the words.
 * Start with {.file = f}; release with line_reader_end(), which leaves the file open.
 */
int line_read(struct line_reader *reader);
void line_reader_end(struct line_reader *reader);

/* What a negative result of line_read() means, for a message. */
const char *line_problem(int error);

#endif
