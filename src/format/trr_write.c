// SPDX-License-Identifier: Apache-2.0
// Writer of TRR frames, into memory.
//
// Advantage: a frame's length follows from what it holds, so atoms are put where they belong as
// they come, in any order, and whoever writes files takes the whole frame at once. Disadvantage:
// the caller puts each array himself; what he leaves out stays what the memory was.

#include "format/trr.h"

#include "core/error.h"
#include "format/trr_layout.h"

#include <errno.h>
#include <string.h>

static unsigned char *put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
    return to + 4;
}

static unsigned char *put_real(bool is_double, unsigned char *to, double value)
{
    if (!is_double) {
        float single = (float)value;
        uint32_t word;
        memcpy(&word, &single, sizeof word);
        return put_u32(to, word);
    }
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    to = put_u32(to, (uint32_t)(word >> 32));
    return put_u32(to, (uint32_t)word);
}

int trr_lay_out(const struct trr_frame *frame, struct trr_layout *layout)
{
    unsigned int real = frame->is_double ? 8 : 4;
    int64_t most = INT32_MAX / (3 * (int64_t)real);
    if (!frame->has_x && !frame->has_v && !frame->has_f)
        most = INT32_MAX;
    if (frame->atom_count < 0 || frame->atom_count > most)
        return leat_fail(
            -EOVERFLOW, "a TRR frame holds at most %lld atoms in %s precision, not %lld",
            (long long)most, frame->is_double ? "double" : "single", (long long)frame->atom_count);
    if (frame->step < 0 || frame->step > INT32_MAX)
        return leat_fail(-EOVERFLOW, "step %lld: a TRR frame has room for steps up to %d",
                         (long long)frame->step, INT32_MAX);
    *layout = (struct trr_layout){.vector_bytes = 3 * real};
    uint64_t array = (uint64_t)frame->atom_count * layout->vector_bytes;
    uint64_t at = TRR_HEAD_BYTES + 2 * real + (frame->has_box ? 9 * real : 0);
    layout->x = frame->has_x ? at : 0;
    at += frame->has_x ? array : 0;
    layout->v = frame->has_v ? at : 0;
    at += frame->has_v ? array : 0;
    layout->f = frame->has_f ? at : 0;
    layout->bytes = at + (frame->has_f ? array : 0);
    return 0;
}

void trr_put_head(const struct trr_frame *frame, unsigned char *to)
{
    uint32_t real = frame->is_double ? 8 : 4;
    uint32_t array = (uint32_t)frame->atom_count * 3 * real;
    uint32_t field[TRR_FIELD_COUNT] = {
        [TRR_BOX_BYTES] = frame->has_box ? 9 * real : 0, [TRR_X_BYTES] = frame->has_x ? array : 0,
        [TRR_V_BYTES] = frame->has_v ? array : 0,        [TRR_F_BYTES] = frame->has_f ? array : 0,
        [TRR_ATOMS] = (uint32_t)frame->atom_count,       [TRR_STEP] = (uint32_t)frame->step};
    to = put_u32(to, TRR_MAGIC);
    to = put_u32(to, sizeof TRR_VERSION); // as C counts it, then as XDR does
    to = put_u32(to, sizeof TRR_VERSION - 1);
    memcpy(to, TRR_VERSION, sizeof TRR_VERSION - 1);
    to += sizeof TRR_VERSION - 1;
    for (int i = 0; i < TRR_FIELD_COUNT; i++)
        to = put_u32(to, field[i]);
    to = put_real(frame->is_double, to, frame->time_ps);
    to = put_real(frame->is_double, to, frame->lambda);
    for (int i = 0; i < 9 && frame->has_box; i++)
        to = put_real(frame->is_double, to, frame->box_nm[i / 3][i % 3]);
}

void trr_put_vector(const struct trr_frame *frame, const double vector[3], unsigned char *to)
{
    for (int d = 0; d < 3; d++)
        to = put_real(frame->is_double, to, vector[d]);
}
