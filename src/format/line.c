// SPDX-License-Identifier: Apache-2.0
// Bounded line reader.
//
// Advantage: byte by byte with an explicit limit, so neither a missing line end nor a NUL byte
// can surprise a parser. Disadvantage: about twice the time of getline(), which has no limit.

#include "format/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct line_reader *reader)
{
    if (reader->length + 1 < reader->size)
        return 0;
    size_t size = reader->size ? 2 * reader->size : 256;
    char *text = realloc(reader->text, size);
    if (!text)
        return -ENOMEM;
    reader->text = text;
    reader->size = size;
    return 0;
}

// Some editors begin a UTF-8 file with a byte-order mark, which is no part of its text.
static void drop_mark(struct line_reader *reader)
{
    if (reader->length < 3 || memcmp(reader->text, "\xef\xbb\xbf", 3) != 0)
        return;
    reader->length -= 3;
    memmove(reader->text, reader->text + 3, reader->length + 1);
}

int line_read(struct line_reader *reader)
{
    reader->length = 0;
    reader->number++;
    int error = make_room(reader);
    if (error)
        return error;
    errno = 0;
    int byte;
    while ((byte = getc_unlocked(reader->file)) != EOF && byte != '\n') {
        if (byte == 0)
            return -EINVAL;
        if (reader->length == LINE_BYTES_MAX)
            return -EFBIG;
        error = make_room(reader);
        if (error)
            return error;
        reader->text[reader->length++] = (char)byte;
    }
    if (byte == EOF && ferror(reader->file))
        return errno ? -errno : -EIO;
    if (byte == EOF && reader->length == 0)
        return 0;
    if (reader->length && reader->text[reader->length - 1] == '\r')
        reader->length--;
    reader->text[reader->length] = 0;
    if (reader->number == 1)
        drop_mark(reader);
    return 1;
}

void line_reader_end(struct line_reader *reader)
{
    free(reader->text);
    reader->text = NULL;
    reader->size = reader->length = 0;
}

const char *line_problem(int error)
{
    switch (error) {
    case -EINVAL:
        return "the line holds a NUL byte, so this is no text file";
    case -EFBIG:
        return "the line is longer than 65536 bytes, so this is no file of this kind";
    default:
        return strerror(-error);
    }
}
