// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a TRR file; what is read is written again and has to be the same bytes.
//
// Advantage: covers reader and writer in one. Disadvantage: a virial or pressure, which the writer
// has not, is read only.

#include "format/trr.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void put_array(const struct trr_frame *frame, const double *array, uint64_t at,
                      unsigned int stride, unsigned char *to)
{
    for (int64_t atom = 0; atom < frame->atom_count && at; atom++)
        trr_put_vector(frame, array + 3 * atom, to + at + (uint64_t)atom * stride);
}

static void check_frame(const struct trr_reader *reader, const uint8_t *data)
{
    struct trr_layout layout;
    demand(trr_lay_out(&reader->frame, &layout) == 0);
    uint64_t bytes = reader->offset - reader->begin;
    demand(layout.bytes <= bytes);
    if (layout.bytes < bytes)
        return; // a virial or pressure
    unsigned char *again = malloc(bytes);
    if (!again)
        return;
    memset(again, 0xa5, bytes);
    trr_put_head(&reader->frame, again);
    put_array(&reader->frame, reader->x_nm, layout.x, layout.vector_bytes, again);
    put_array(&reader->frame, reader->v_nm_ps, layout.v, layout.vector_bytes, again);
    put_array(&reader->frame, reader->f, layout.f, layout.vector_bytes, again);
    // A signalling NaN may have become a quiet one.
    for (uint64_t i = 0; i < bytes; i++)
        demand(((again[i] ^ data[reader->begin + i]) & ~0x48) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!stream)
        return 0;
    struct trr_reader reader = {.stream = stream, .name = "fuzz.trr"};
    int result;
    while ((result = trr_read(&reader)) == 1) {
        demand(reader.offset <= size && reader.frame.atom_count >= 0);
        check_frame(&reader, data);
    }
    demand(result < 0 || reader.offset == size);
    trr_reader_end(&reader);
    fclose(stream);
    return 0;
}
