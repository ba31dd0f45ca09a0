// SPDX-License-Identifier: Apache-2.0
// Reader of TRR frames.
//
// Algorithm: a frame's head says how long each array is; which precision it has follows from the
// box's length or an array's. Arrays are read in blocks. Advantage: reads forwards only, and memory
// grows as data come, not as a head promises. Disadvantage: no way to a frame but through those
// before it.

#include "format/trr.h"

#include "core/error.h"
#include "format/trr_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_NUMBERS = 1 << 13 };

static int fail_frame(const struct trr_reader *reader, int error, const char *what)
{
    return leat_fail(error, "%s: frame %lld at byte %llu: %s", reader->name,
                     (long long)reader->number, (unsigned long long)reader->begin, what);
}

static int take(struct trr_reader *reader, unsigned char *to, size_t bytes)
{
    errno = 0;
    size_t got = fread(to, 1, bytes, reader->stream);
    reader->offset += got;
    if (got == bytes)
        return 0;
    if (ferror(reader->stream))
        return fail_frame(reader, errno ? -errno : -EIO, strerror(errno ? errno : EIO));
    return fail_frame(reader, -ENODATA,
                      "the file ends inside this frame; it was cut off, or is still written");
}

static uint32_t get_u32(const unsigned char *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static double get_real(bool is_double, const unsigned char *from)
{
    if (!is_double) {
        uint32_t word = get_u32(from);
        float single;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    uint64_t word = (uint64_t)get_u32(from) << 32 | get_u32(from + 4);
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

// The sizes of a precision: 9 numbers for the box and the like, 3 an atom for arrays.
static bool has_sizes(const uint32_t field[TRR_FIELD_COUNT], uint32_t real)
{
    static const enum trr_field nines[] = {TRR_BOX_BYTES, TRR_VIRIAL_BYTES, TRR_PRESSURE_BYTES};
    static const enum trr_field arrays[] = {TRR_X_BYTES, TRR_V_BYTES, TRR_F_BYTES};
    for (int i = 0; i < 3; i++) {
        uint32_t nine = field[nines[i]], array = field[arrays[i]];
        if ((nine && nine != 9 * real) || (array && array != 3ull * real * field[TRR_ATOMS]))
            return false;
    }
    return true;
}

static int set_frame(struct trr_reader *reader, const uint32_t field[TRR_FIELD_COUNT])
{
    if (field[TRR_INPUT_BYTES] || field[TRR_ENERGY_BYTES] || field[TRR_TOPOLOGY_BYTES] ||
        field[TRR_SYMBOL_BYTES] || field[TRR_ENERGIES])
        return fail_frame(reader, -EINVAL,
                          "it holds more than coordinates, as no GROMACS of these years writes");
    if (field[TRR_ATOMS] > INT32_MAX || field[TRR_STEP] > INT32_MAX)
        return fail_frame(reader, -EINVAL, "the number of atoms or of the step is negative");
    uint32_t any = field[TRR_BOX_BYTES] | field[TRR_X_BYTES] | field[TRR_V_BYTES] |
                   field[TRR_F_BYTES] | field[TRR_VIRIAL_BYTES] | field[TRR_PRESSURE_BYTES];
    bool single = has_sizes(field, 4), wide = has_sizes(field, 8);
    if (!any || single == wide)
        return fail_frame(reader, -EINVAL,
                          "the lengths of box and arrays are neither those of single nor those of "
                          "double precision for its number of atoms");
    reader->frame = (struct trr_frame){.atom_count = field[TRR_ATOMS],
                                       .step = field[TRR_STEP],
                                       .is_double = wide,
                                       .has_box = field[TRR_BOX_BYTES] > 0,
                                       .has_x = field[TRR_X_BYTES] > 0,
                                       .has_v = field[TRR_V_BYTES] > 0,
                                       .has_f = field[TRR_F_BYTES] > 0};
    return 0;
}

static int read_nine(struct trr_reader *reader, double *nine)
{
    unsigned char bytes[72];
    size_t real = reader->frame.is_double ? 8 : 4;
    int error = take(reader, bytes, 9 * real);
    for (size_t i = 0; i < 9 && !error && nine; i++)
        nine[i] = get_real(reader->frame.is_double, bytes + i * real);
    return error;
}

static int read_head(struct trr_reader *reader)
{
    unsigned char head[TRR_HEAD_BYTES], times[16];
    uint32_t field[TRR_FIELD_COUNT];
    // Nothing but a frame begins with the magic, so what does not is no frame cut short.
    int error = take(reader, head, 4);
    if (error)
        return error;
    if (get_u32(head) != TRR_MAGIC)
        return fail_frame(reader, -EINVAL, "a TRR frame begins with the number 1993; it does not");
    error = take(reader, head + 4, sizeof head - 4);
    if (error)
        return error;
    if (get_u32(head + 4) != sizeof TRR_VERSION || get_u32(head + 8) != sizeof TRR_VERSION - 1 ||
        memcmp(head + 12, TRR_VERSION, sizeof TRR_VERSION - 1) != 0)
        return fail_frame(reader, -EINVAL, "its version is not " TRR_VERSION);
    for (size_t i = 0; i < TRR_FIELD_COUNT; i++)
        field[i] = get_u32(head + 24 + 4 * i);
    error = set_frame(reader, field);
    size_t real = reader->frame.is_double ? 8 : 4;
    if (!error)
        error = take(reader, times, 2 * real);
    if (error)
        return error;
    reader->frame.time_ps = get_real(reader->frame.is_double, times);
    reader->frame.lambda = get_real(reader->frame.is_double, times + real);
    if (reader->frame.has_box)
        error = read_nine(reader, reader->frame.box_nm[0]);
    if (!error && field[TRR_VIRIAL_BYTES])
        error = read_nine(reader, NULL);
    if (!error && field[TRR_PRESSURE_BYTES])
        error = read_nine(reader, NULL);
    return error;
}

static int make_room(const struct trr_reader *reader, uint64_t needed, double **array,
                     uint64_t *capacity)
{
    if (needed <= *capacity)
        return 0;
    uint64_t room = *capacity + *capacity / 2;
    room = room > needed ? room : needed;
    double *grown = realloc(*array, room * sizeof *grown);
    if (!grown)
        return fail_frame(reader, -ENOMEM, "no memory for its atoms");
    *array = grown;
    *capacity = room;
    return 0;
}

static int read_array(struct trr_reader *reader, double **array, uint64_t *capacity)
{
    unsigned char block[8 * BLOCK_NUMBERS];
    bool is_double = reader->frame.is_double;
    size_t real = is_double ? 8 : 4;
    uint64_t count = 3 * (uint64_t)reader->frame.atom_count;
    for (uint64_t done = 0; done < count;) {
        size_t now = count - done < BLOCK_NUMBERS ? (size_t)(count - done) : BLOCK_NUMBERS;
        int error = take(reader, block, now * real);
        if (!error)
            error = make_room(reader, done + now, array, capacity);
        if (error)
            return error;
        for (size_t i = 0; i < now; i++)
            (*array)[done + i] = get_real(is_double, block + i * real);
        done += now;
    }
    return 0;
}

int trr_read(struct trr_reader *reader)
{
    reader->begin = reader->offset;
    int next = getc(reader->stream);
    if (next == EOF && !ferror(reader->stream))
        return 0;
    if (next != EOF)
        ungetc(next, reader->stream);
    int error = read_head(reader);
    if (!error && reader->frame.has_x)
        error = read_array(reader, &reader->x_nm, &reader->capacity[0]);
    if (!error && reader->frame.has_v)
        error = read_array(reader, &reader->v_nm_ps, &reader->capacity[1]);
    if (!error && reader->frame.has_f)
        error = read_array(reader, &reader->f, &reader->capacity[2]);
    if (error)
        return error;
    reader->number++;
    return 1;
}

void trr_reader_end(struct trr_reader *reader)
{
    free(reader->x_nm);
    free(reader->v_nm_ps);
    free(reader->f);
    reader->x_nm = reader->v_nm_ps = reader->f = NULL;
    reader->capacity[0] = reader->capacity[1] = reader->capacity[2] = 0;
}
