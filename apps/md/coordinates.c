// SPDX-License-Identifier: Apache-2.0
// Coordinates of the input, through the file layer.
//
// Algorithm: the file is read into memory in one call and parsed from there. Advantage: many
// threads read a large file at once, and the report of paths has its bytes. Disadvantage: the text
// is in memory beside what it says; a pipe, which has no size, is read as a stream.

#include "leat/file.h"
#include "md/system.h"

#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int parse(const char *path, void *text, uint64_t bytes, struct gro **gro)
{
    FILE *stream = fmemopen(text, bytes, "r");
    if (!stream)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    int error = gro_read_stream(stream, path, gro);
    fclose(stream);
    return error;
}

static int read_whole(leat_job *job, const char *path, struct gro **gro)
{
    leat_file_info info = {.size = sizeof info};
    leat_file *file = NULL;
    char *text = NULL;
    uint64_t bytes = 0;
    int error = leat_file_open(job, path, NULL, &file);
    if (!error)
        error = leat_file_info_get(file, NULL, &info);
    if (!error && !(text = malloc(info.bytes)))
        error = leat_fail(-ENOMEM, "no memory for the %llu bytes of %s",
                          (unsigned long long)info.bytes, path);
    if (!error)
        error = leat_file_read(file, (leat_buffer){.address = text}, 0, info.bytes, &bytes);
    int closed = leat_file_close(file);
    if (!error)
        error = closed;
    if (!error)
        error = parse(path, text, bytes, gro);
    free(text);
    return error;
}

int md_coordinates_read(leat_job *job, const char *path, struct gro **gro)
{
    struct stat status;
    // What is missing or no regular file is told by the stream.
    bool whole = job && !stat(path, &status) && S_ISREG(status.st_mode) && status.st_size > 0;
    return whole ? read_whole(job, path, gro) : gro_read(path, gro);
}
