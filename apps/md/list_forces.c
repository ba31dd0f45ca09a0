// SPDX-License-Identifier: Apache-2.0
// Evaluation of a list: coordinates into clusters, the loops, forces back.
//
// The virial needs no pair: with wrapped coordinates x and the sum of forces on each image of i,
// sum d (x) f over pairs is sum x (x) f over atoms plus sum shift (x) f over images.
// Advantage: the loops see contiguous clusters only, and a step that wants the virial costs no more
// than one that does not. Disadvantage: coordinates and forces are copied once a part.

#include "md/list_internal.h"

#include <math.h>
#include <string.h>

void md_list_rows(const struct md_list *list, enum md_part part_index, struct md_rows *rows)
{
    const struct md_part_list *part = &list->parts[part_index];
    if (list->inner_calls > 0 && part->inner_age >= 0)
        *rows = (struct md_rows){part->inner_rows.data, part->inner_j.data, part->mask.data,
                                 part->inner_row_count};
    else
        *rows = (struct md_rows){part->rows.data, part->j.data, part->mask.data, part->row_count};
}

// The inner list: rows with those j that need no mask and are within inner_nm. What needs a mask
// has bonded atoms and is near anyway.
static void make_inner(struct md_list *list, struct md_part_list *part)
{
    const size_t real_bytes = md_real_bytes(list->precision);
    const struct md_row *from = part->rows.data;
    struct md_row *to = part->inner_rows.data;
    const int *j = part->j.data;
    int *inner_j = part->inner_j.data;
    size_t j_count = 0;
    part->inner_row_count = 0;
    for (size_t k = 0; k < part->row_count; k++) {
        struct md_row row = from[k];
        int *out = inner_j + j_count;
        memcpy(out, j + row.first, (size_t)row.masked_count * sizeof *j);
        row.count = row.masked_count +
                    list->kernels->loops[list->precision]->prune(
                        list->xq.data, row.i,
                        (const char *)list->real_shift + 3 * (size_t)row.shift * real_bytes,
                        list->inner_nm * list->inner_nm, j + row.first + row.masked_count,
                        row.count - row.masked_count, out + row.masked_count);
        row.first = j_count;
        if (row.count > 0)
            to[part->inner_row_count++] = row;
        j_count += (size_t)row.count;
    }
}

static void add_shifts(const struct md_list *list, double (*shift_force)[3], double virial[9])
{
    for (int s = 0; s < MD_SHIFTS; s++)
        for (int d = 0; d < 9; d++)
            virial[d] -= 0.5 * list->shift[s][d / 3] * shift_force[s][d % 3];
}

void md_list_forces(struct md_list *list, enum md_part part_index, const void *x, void *f,
                    bool want_energy, bool want_virial, struct md_pair_output *output)
{
    struct md_part_list *part = &list->parts[part_index];
    const struct md_pair_loops *loops = list->kernels->loops[list->precision];
    const struct md_pair_move move = {part->used.data,   part->used_count, list->atom.data,
                                      list->filled.data, list->wrap.data,  list->xq.data,
                                      list->f.data};
    loops->gather(&move, x);
    if (list->inner_calls > 0 && (part->inner_age < 0 || ++part->inner_age >= list->inner_calls)) {
        make_inner(list, part);
        part->inner_age = 0;
    }
    const struct md_interaction *interaction = &list->interaction;
    const double shift6 = interaction->shift ? pow(interaction->cutoff_nm, -6) : 0;
    double shift_force[MD_SHIFTS][3] = {{0}}, virial[9] = {0};
    struct md_pair_job job = {
        .xq = list->xq.data,
        .f = list->f.data,
        .type = list->type.data,
        .lj_count = list->lj_count.data,
        .shift = list->real_shift,
        .c6 = list->c6,
        .c12 = list->c12,
        .type_stride = list->type_stride,
        .cutoff2 = interaction->cutoff_nm * interaction->cutoff_nm,
        .coulomb = interaction->coulomb,
        .krf = interaction->krf,
        .crf = interaction->crf,
        .shift6 = shift6,
        .shift12 = shift6 * shift6,
        .shift_force = want_virial ? shift_force : NULL,
    };
    md_list_rows(list, part_index, &job.rows);
    if (want_energy)
        loops->forces_and_energy(&job);
    else
        loops->forces(&job);
    loops->scatter(&move, f, want_virial ? virial : NULL);
    if (want_energy)
        output->energy = job.energy;
    if (want_virial) {
        add_shifts(list, shift_force, virial);
        memcpy(output->virial, virial, sizeof virial);
    }
}
