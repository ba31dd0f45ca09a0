// SPDX-License-Identifier: Apache-2.0
// Cluster pair list: what is made once (tables, choice of the loops), and the order of a build.
//
// Advantage: everything a step needs is laid out when the list is built, and memory only grows, so
// that the steady state allocates nothing. Disadvantage: the memory of the fullest moment stays.

#include "md/list_internal.h"

#include "md/team.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int md_list_reserve(struct md_buffer *buffer, size_t count, size_t element_bytes)
{
    const size_t limit = SIZE_MAX / 2;
    if (count > limit / element_bytes)
        return leat_fail(-EOVERFLOW, "pair list: %zu elements of %zu bytes do not fit the memory",
                         count, element_bytes);
    size_t bytes = count * element_bytes;
    if (bytes <= buffer->bytes && buffer->data)
        return 0;
    bytes = (bytes + bytes / 4 + 127) / 64 * 64;
    void *data = aligned_alloc(64, bytes);
    if (!data)
        return leat_fail(-ENOMEM, "pair list: no memory for %zu bytes", bytes);
    if (buffer->data)
        memcpy(data, buffer->data, buffer->bytes);
    free(buffer->data);
    *buffer = (struct md_buffer){data, bytes};
    return 0;
}

static const struct md_pair_kernels *find_kernels(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw");
    const struct {
        const struct md_pair_kernels *kernels;
        bool supported;
    } choices[] = {
        {&md_pair_avx512, avx512},
        {&md_pair_avx2, avx2},
        {&md_pair_sse2, true},
        {&md_pair_plain, true},
    };
#else
    const struct {
        const struct md_pair_kernels *kernels;
        bool supported;
    } choices[] = {{&md_pair_plain, true}};
#endif
    for (size_t k = 0; k < sizeof choices / sizeof choices[0]; k++)
        if (choices[k].supported && (!name || strcmp(name, choices[k].kernels->name) == 0))
            return choices[k].kernels;
    return NULL;
}

static int check_interaction(const struct md_interaction *interaction)
{
    if (interaction->type_count < 1 || interaction->type_count > 46340)
        return leat_fail(-EINVAL, "pair list: %d atom types, expected 1 to 46340",
                         interaction->type_count);
    if (!(interaction->cutoff_nm > 0) || !isfinite(interaction->cutoff_nm))
        return leat_fail(-EINVAL, "pair list: cut-off %g nm, expected a positive length",
                         interaction->cutoff_nm);
    return 0;
}

static void set_real(enum md_precision precision, void *array, size_t index, double value)
{
    if (precision == MD_MIXED)
        ((float *)array)[index] = (float)value;
    else
        ((double *)array)[index] = value;
}

// Rows of 6 c6 and 12 c12, padded with zeros to a register where they are short.
static int make_tables(struct md_list *list, const struct md_interaction *interaction)
{
    const int types = interaction->type_count;
    list->type_stride = types <= MD_FEW_TYPES ? MD_FEW_TYPES : types;
    const size_t count = (size_t)types * (size_t)list->type_stride;
    const size_t bytes = (count * md_real_bytes(list->precision) + 63) / 64 * 64;
    list->c6 = aligned_alloc(64, bytes);
    list->c12 = aligned_alloc(64, bytes);
    list->has_lj = calloc((size_t)types, sizeof *list->has_lj);
    list->real_shift = calloc(3 * MD_SHIFTS, sizeof(double));
    if (!list->c6 || !list->c12 || !list->has_lj || !list->real_shift)
        return leat_fail(-ENOMEM, "pair list: no memory for the tables of %d atom types", types);
    memset(list->c6, 0, bytes);
    memset(list->c12, 0, bytes);
    for (int i = 0; i < types; i++)
        for (int j = 0; j < types; j++) {
            const size_t from = (size_t)i * (size_t)types + (size_t)j;
            const size_t to = (size_t)i * (size_t)list->type_stride + (size_t)j;
            set_real(list->precision, list->c6, to, 6 * interaction->c6[from]);
            set_real(list->precision, list->c12, to, 12 * interaction->c12[from]);
            if (interaction->c6[from] != 0 || interaction->c12[from] != 0)
                list->has_lj[i] = true;
        }
    return 0;
}

static void free_buffers(struct md_buffer *const *buffers, size_t count)
{
    for (size_t k = 0; k < count; k++)
        free(buffers[k]->data);
}

static void free_made(struct md_rows_made *made)
{
    struct md_buffer *const rows[] = {&made->rows, &made->j, &made->mask};
    free_buffers(rows, sizeof rows / sizeof rows[0]);
}

static void free_threads(struct md_list *list)
{
    for (int t = 0; t < list->thread_count; t++) {
        struct md_builder *builder = &list->builders[t];
        struct md_buffer *const own[] = {&builder->candidate, &builder->row_mask, &builder->changed,
                                         &builder->f};
        free_made(&builder->made);
        free_buffers(own, sizeof own / sizeof own[0]);
    }
    free(list->builders);
    for (int p = 0; p < 2; p++)
        free(list->parts[p].shares);
}

int md_list_use_team(struct md_list *list, struct md_team *team)
{
    const size_t count = (size_t)md_team_size(team);
    struct md_builder *builders = calloc(count, sizeof *builders);
    struct md_share *shares[2] = {calloc(count, sizeof **shares), calloc(count, sizeof **shares)};
    if (!builders || !shares[0] || !shares[1]) {
        free(builders);
        free(shares[0]);
        free(shares[1]);
        return leat_fail(-ENOMEM, "pair list: no memory for %zu threads", count);
    }
    free_threads(list);
    list->team = team;
    list->thread_count = (int)count;
    list->builders = builders;
    for (int p = 0; p < 2; p++) {
        list->parts[p].shares = shares[p];
        list->parts[p].used_count = 0; // empty until it is built anew
    }
    list->home_used_count = 0;
    return 0;
}

int md_list_create_with(const struct md_interaction *interaction, enum md_precision precision,
                        const char *kernel, struct md_list **list)
{
    int error = check_interaction(interaction);
    if (error)
        return error;
    const struct md_pair_kernels *kernels = find_kernels(kernel);
    if (!kernels)
        return leat_fail(-ENOTSUP, "pair list: this processor has no loops named %s", kernel);
    struct md_list *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "pair list: no memory for %zu bytes", sizeof *made);
    made->interaction = *interaction;
    made->interaction.c6 = made->interaction.c12 = NULL;
    made->precision = precision;
    made->kernels = kernels;
    error = make_tables(made, interaction);
    if (!error)
        error = md_list_use_team(made, NULL);
    if (error) {
        md_list_free(made);
        return error;
    }
    *list = made;
    return 0;
}

int md_list_create(const struct md_interaction *interaction, enum md_precision precision,
                   struct md_list **list)
{
    return md_list_create_with(interaction, precision, NULL, list);
}

void md_list_free(struct md_list *list)
{
    if (!list)
        return;
    struct md_buffer *const buffers[] = {
        &list->atom,  &list->type, &list->filled, &list->lj_count, &list->wrap,
        &list->xq,    &list->slot, &list->i_box,  &list->j_box,    &list->wrapped,
        &list->order, &list->key,  &list->bin,    &list->home_used};
    free_buffers(buffers, sizeof buffers / sizeof buffers[0]);
    free_threads(list);
    for (int z = 0; z < MD_ZONES; z++)
        free(list->grids[z].column.data);
    for (int p = 0; p < 2; p++) {
        struct md_part_list *part = &list->parts[p];
        struct md_buffer *const rows[] = {&part->inner_rows, &part->inner_j, &part->used};
        free_made(&part->made);
        free_buffers(rows, sizeof rows / sizeof rows[0]);
    }
    free(list->c6);
    free(list->c12);
    free(list->has_lj);
    free(list->real_shift);
    free(list);
}

static int check_input(const struct md_list *list, const struct md_list_input *input)
{
    if (input->home_count < 0 || input->atom_count < input->home_count)
        return leat_fail(-EINVAL, "pair list: %d home atoms of %d", input->home_count,
                         input->atom_count);
    if (input->atom_count > INT_MAX / 64)
        return leat_fail(-EOVERFLOW, "pair list: %d atoms on one rank, at most %d; use more ranks",
                         input->atom_count, INT_MAX / 64);
    if (!(input->list_nm >= list->interaction.cutoff_nm) || !isfinite(input->list_nm))
        return leat_fail(-EINVAL,
                         "pair list: list cut-off %g nm, expected %g (the cut-off) at least",
                         input->list_nm, list->interaction.cutoff_nm);
    if (input->inner_calls > 0 && !(input->inner_nm >= list->interaction.cutoff_nm))
        return leat_fail(-EINVAL,
                         "pair list: inner cut-off %g nm, expected %g (the cut-off) at least",
                         input->inner_nm, list->interaction.cutoff_nm);
    for (int d = 0; d < 3; d++) {
        if (!input->periodic[d])
            continue;
        if (!(input->box_nm[d] > 0 && input->box_nm[d] <= 1e7))
            return leat_fail(-EINVAL,
                             "pair list: box edge %c is %g nm, expected a positive length of at "
                             "most 1e7 nm",
                             "xyz"[d], input -> box_nm[d]);
        if (input->list_nm > 0.5 * input->box_nm[d])
            return leat_fail(-EINVAL,
                             "pair list: list cut-off %g nm exceeds half of box edge %c, %g nm, so "
                             "an atom would meet two images of another; use a larger box (--tile) "
                             "or a smaller nstlist or cut-off",
                             input->list_nm, "xyz"[d], input -> box_nm[d]);
    }
    return 0;
}

static int check_atoms(const struct md_list *list, const struct md_list_input *input)
{
    if (input->atom_count > input->home_count && !input->zone)
        return leat_fail(-EINVAL, "pair list: %d halo atoms without zones",
                         input->atom_count - input->home_count);
    for (int i = 0; i < input->atom_count; i++) {
        const double *x = &input->x_nm[3 * (size_t)i];
        for (int d = 0; d < 3; d++)
            if (!(fabs(x[d]) <= 1e7))
                return leat_fail(
                    -ERANGE,
                    "pair list: coordinate %c of local atom %d (%d are home) is %g nm; "
                    "the simulation has blown up or its input is broken",
                    "xyz"[d], i, input -> home_count, x[d]);
        if (input->type[i] < 0 || input->type[i] >= list->interaction.type_count)
            return leat_fail(-EINVAL, "pair list: local atom %d has type %d of %d", i,
                             input->type[i], list->interaction.type_count);
        const int zone = input->zone ? input->zone[i] : 0;
        if (i < input->home_count ? zone != 0 : zone < 1 || zone >= MD_ZONES)
            return leat_fail(-EINVAL, "pair list: local atom %d (%d are home) has zone %d", i,
                             input->home_count, zone);
    }
    if (!input->exclusion_start)
        return 0;
    for (int i = 0; i < input->home_count; i++)
        for (int k = input->exclusion_start[i]; k < input->exclusion_start[i + 1]; k++)
            if (input->exclusion[k] < 0 || input->exclusion[k] >= input->home_count)
                return leat_fail(-EINVAL,
                                 "pair list: local atom %d excludes %d, which is not among the %d "
                                 "home atoms",
                                 i, input->exclusion[k], input->home_count);
    return 0;
}

static void make_shifts(struct md_list *list, const struct md_list_input *input)
{
    for (int s = 0; s < MD_SHIFTS; s++) {
        const int step[3] = {s % 3 - 1, s / 3 % 3 - 1, s / 9 - 1};
        for (int d = 0; d < 3; d++) {
            list->shift[s][d] = input->periodic[d] ? step[d] * input->box_nm[d] : 0;
            set_real(list->precision, list->real_shift, 3 * (size_t)s + (size_t)d,
                     list->shift[s][d]);
        }
    }
}

static void clear_part(struct md_list *list, struct md_part_list *part)
{
    part->made.row_count = part->made.j_count = part->made.mask_count = part->used_count = 0;
    part->inner_age = -1;
    list->home_used_count = 0;
    for (int t = 0; t < list->thread_count; t++) {
        struct md_share *share = &part->shares[t];
        share->row_begin = share->row_end = share->inner_end = share->next = 0;
    }
}

void md_list_note(struct md_builder *builder, int error)
{
    builder->error = error;
    if (error)
        snprintf(builder->detail, sizeof builder->detail, "%s", leat_error_detail());
}

int md_list_noted(struct md_list *list)
{
    for (int t = 0; t < list->thread_count; t++) {
        struct md_builder *builder = &list->builders[t];
        const int error = builder->error;
        builder->error = 0;
        if (error)
            return leat_fail(error, "%s", builder->detail);
    }
    return 0;
}

int md_list_build(struct md_list *list, const struct md_list_input *input)
{
    for (int p = 0; p < 2; p++)
        clear_part(list, &list->parts[p]);
    int error = check_input(list, input);
    if (!error)
        error = check_atoms(list, input);
    if (error)
        return error;
    make_shifts(list, input);
    list->inner_calls = input->inner_calls;
    error = md_grid_build(list, input);
    if (!error)
        error = md_search(list, input);
    for (int p = 0; error && p < 2; p++)
        clear_part(list, &list->parts[p]);
    return error;
}

static void count_rows(const struct md_rows *rows, int64_t counts[2])
{
    for (size_t k = 0; k < rows->row_count; k++) {
        const struct md_row *row = &rows->row[k];
        counts[0] += row->count;
        counts[1] += (int64_t)(row->count - row->masked_count) * MD_I_ATOMS * MD_J_ATOMS;
        for (int m = 0; m < row->masked_count; m++)
            counts[1] += __builtin_popcount(rows->mask[row->first_mask + (size_t)m]);
    }
}

void md_list_size(const struct md_list *list, enum md_part part, int64_t counts[2])
{
    counts[0] = counts[1] = 0;
    for (int t = 0; t < list->thread_count; t++) {
        struct md_rows rows;
        md_list_rows(list, part, t, &rows);
        count_rows(&rows, counts);
    }
}

const char *md_list_kernel(const struct md_list *list)
{
    return list->kernels->name;
}
