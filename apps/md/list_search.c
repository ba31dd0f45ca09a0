// SPDX-License-Identifier: Apache-2.0
// Which clusters are near which: rows of the list, built from the grids.
//
// For each half cluster and each image of it, the columns within reach are scanned, clusters whose
// boxes are near are candidates, and those without a single pair of atoms within the list cut-off
// are dropped again. Each pair of atoms is found once: within a zone, only images "above" the zone
// itself and, without a shift, only pairs of ascending slots are taken; between two zones, all.
// Advantage: work in proportion to atoms, and a list with few pairs that are never near.
// Disadvantage: every list is built from nothing; nothing is reused from the one before.

#include "md/list_internal.h"

#include <math.h>
#include <string.h>

struct search {
    struct md_list *list;
    const struct md_list_input *input;
    struct md_part_list *part;
    const struct md_grid *from, *to; // grids of i and of j
    bool within_zone;
};

// Slots of the half cluster that have an atom: the first so many.
static int filled_of_half(const struct md_list *list, int half)
{
    const int filled = ((const int *)list->filled.data)[half / 2] - half % 2 * MD_I_ATOMS;
    return filled < 0 ? 0 : filled < MD_I_ATOMS ? filled : MD_I_ATOMS;
}

// Clusters [first, last) whose boxes are within the list cut-off of `box` go to out.
static int scan_boxes(const struct md_list *list, const float box[6], int first, int last,
                      float radius2, int *out)
{
    const float *j_box = list->j_box.data;
    const size_t stride = list->j_box_stride;
    int count = 0;
    for (int c = first; c < last; c++) {
        float distance2 = 0;
        for (size_t d = 0; d < 3; d++) {
            const float below = box[d] - j_box[(3 + d) * stride + (size_t)c];
            const float above = j_box[d * stride + (size_t)c] - box[3 + d];
            const float gap = fmaxf(fmaxf(below, above), 0);
            distance2 += gap * gap;
        }
        out[count] = c;
        count += distance2 < radius2;
    }
    return count;
}

// Columns along dimension d (0 or 1) within reach of [low, high].
static void column_range(const struct md_grid *grid, int d, float low, float high, int range[2])
{
    const float a = (low - grid->low[d]) * grid->inverse_edge[d];
    const float b = (high - grid->low[d]) * grid->inverse_edge[d];
    const int last = grid->columns[d] - 1;
    range[0] = a < 0 ? 0 : a > (float)last ? last : (int)a;
    range[1] = b < 0 ? 0 : b > (float)last ? last : (int)b;
}

static float gap_to_column(const struct md_grid *grid, int d, int column, float low, float high)
{
    const float left = grid->low[d] + (float)column * grid->edge[d];
    return fmaxf(fmaxf(left - high, low - (left + grid->edge[d])), 0);
}

// Candidates for the half cluster whose box, shifted, is `box`; clusters below `lowest` are not.
static int find_candidates(const struct search *search, const float box[6], int lowest, int *out)
{
    const struct md_grid *grid = search->to;
    const float radius = (float)search->list->radius_nm, radius2 = radius * radius;
    const int *column = grid->column.data;
    int range_x[2], range_y[2], count = 0;
    column_range(grid, 0, box[0] - radius, box[3] + radius, range_x);
    column_range(grid, 1, box[1] - radius, box[4] + radius, range_y);
    for (int a = range_x[0]; a <= range_x[1]; a++) {
        const float gap_x = gap_to_column(grid, 0, a, box[0], box[3]);
        for (int b = range_y[0]; b <= range_y[1]; b++) {
            const float gap_y = gap_to_column(grid, 1, b, box[1], box[4]);
            const int c = a * grid->columns[1] + b;
            if (column[c + 1] <= lowest || gap_x * gap_x + gap_y * gap_y >= radius2)
                continue;
            const int first = column[c] > lowest ? column[c] : lowest;
            count += scan_boxes(search->list, box, first, column[c + 1], radius2, out + count);
        }
    }
    return count;
}

static uint32_t filled_mask(int filled_i, int filled_j)
{
    uint32_t mask = 0;
    for (int a = 0; a < filled_i; a++)
        mask |= ((1u << filled_j) - 1) << (a * MD_J_ATOMS);
    return mask;
}

// Where cluster is in the ascending j[0, count), or -1.
static int find_cluster(const int *j, int count, int cluster)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (j[middle] < cluster)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && j[low] == cluster ? low : -1;
}

static void mask_exclusions(const struct search *search, int half, const int *j, int count,
                            uint32_t *mask)
{
    const struct md_list_input *input = search->input;
    const int *atom = (const int *)search->list->atom.data + (size_t)half * MD_I_ATOMS;
    const int *slot = search->list->slot.data;
    for (int a = 0; a < MD_I_ATOMS; a++) {
        if (atom[a] < 0)
            continue;
        for (int k = input->exclusion_start[atom[a]]; k < input->exclusion_start[atom[a] + 1];
             k++) {
            const int partner = slot[input->exclusion[k]];
            const int at = find_cluster(j, count, partner / MD_J_ATOMS);
            if (at >= 0)
                mask[at] &= ~(1u << (a * MD_J_ATOMS + partner % MD_J_ATOMS));
        }
    }
}

// Which atom pairs of the row count: not empty slots, excluded ones, or a pair's second mention.
static void make_masks(const struct search *search, int half, int shift, const int *j, int count,
                       uint32_t *mask)
{
    const int *filled = search->list->filled.data;
    const int filled_i = filled_of_half(search->list, half);
    for (int k = 0; k < count; k++) {
        // An empty slot is far from every atom but not from another empty slot.
        const bool both = filled_i < MD_I_ATOMS && filled[j[k]] < MD_J_ATOMS;
        mask[k] = both ? filled_mask(filled_i, filled[j[k]]) : UINT32_MAX;
    }
    if (!search->within_zone)
        return;
    if (shift == MD_NO_SHIFT && count > 0 && j[0] == half / 2) {
        const int offset = half % 2 * MD_I_ATOMS;
        for (int a = 0; a < MD_I_ATOMS; a++)
            mask[0] &= ~(((2u << (offset + a)) - 1) << (a * MD_J_ATOMS));
    }
    if (search->input->exclusion_start)
        mask_exclusions(search, half, j, count, mask);
}

// Appends the row, with the j clusters that need a mask first.
static int append_row(const struct search *search, int half, int shift, const int *j, int count)
{
    struct md_part_list *part = search->part;
    const uint32_t *mask = search->list->row_mask.data;
    int error = md_list_reserve(&part->rows, part->row_count + 1, sizeof(struct md_row));
    if (!error)
        error = md_list_reserve(&part->j, part->j_count + (size_t)count, sizeof(int));
    if (!error)
        error = md_list_reserve(&part->mask, part->mask_count + (size_t)count, sizeof(uint32_t));
    if (error)
        return error;
    int *to_j = (int *)part->j.data + part->j_count;
    uint32_t *to_mask = (uint32_t *)part->mask.data + part->mask_count;
    int masked = 0, plain = 0;
    for (int k = 0; k < count; k++)
        if (mask[k] != UINT32_MAX && mask[k] != 0) {
            to_j[masked] = j[k];
            to_mask[masked++] = mask[k];
        }
    for (int k = 0; k < count; k++)
        if (mask[k] == UINT32_MAX)
            to_j[masked + plain++] = j[k];
    if (masked + plain == 0)
        return 0;
    ((struct md_row *)part->rows.data)[part->row_count++] =
        (struct md_row){half, shift, masked, masked + plain, part->j_count, part->mask_count};
    part->j_count += (size_t)(masked + plain);
    part->mask_count += (size_t)masked;
    return 0;
}

// One image of one half cluster.
static int search_image(const struct search *search, int half, int shift)
{
    struct md_list *list = search->list;
    const float *unshifted = (const float *)list->i_box.data + 6 * (size_t)half;
    const float radius = (float)list->radius_nm;
    float box[6];
    for (int d = 0; d < 3; d++) {
        box[d] = unshifted[d] + (float)list->shift[shift][d];
        box[3 + d] = unshifted[3 + d] + (float)list->shift[shift][d];
        if (box[d] - search->to->bounds[1][d] > radius ||
            search->to->bounds[0][d] - box[3 + d] > radius)
            return 0;
    }
    int *j = list->candidate.data;
    const int lowest = search->within_zone && shift == MD_NO_SHIFT ? half / 2 : 0;
    int count = find_candidates(search, box, lowest, j);
    const void *real_shift =
        (const char *)list->real_shift + 3 * (size_t)shift * md_real_bytes(list->precision);
    count = list->kernels->loops[list->precision]->prune(
        list->xq.data, half, real_shift, list->radius_nm * list->radius_nm, j, count, j);
    make_masks(search, half, shift, j, count, list->row_mask.data);
    return append_row(search, half, shift, j, count);
}

static int search_zones(struct search *search)
{
    struct md_list *list = search->list;
    if (search->from->cluster_count == 0 || search->to->cluster_count == 0)
        return 0;
    const bool *periodic = search->input->periodic;
    const int first = 2 * search->from->first_cluster;
    for (int half = first; half < first + 2 * search->from->cluster_count; half++) {
        if (filled_of_half(list, half) == 0)
            continue;
        // Within a zone, a pair seen from the other atom has the opposite shift.
        for (int shift = search->within_zone ? MD_NO_SHIFT : 0; shift < MD_SHIFTS; shift++) {
            if ((!periodic[0] && shift % 3 != 1) || (!periodic[1] && shift / 3 % 3 != 1) ||
                (!periodic[2] && shift / 9 != 1))
                continue;
            int error = search_image(search, half, shift);
            if (error)
                return error;
        }
    }
    return 0;
}

// Room for the inner list, so that the steps allocate nothing, and the clusters that occur.
static int finish_part(struct md_list *list, struct md_part_list *part)
{
    const size_t clusters = (size_t)list->cluster_count;
    int error = md_list_reserve(&part->used, clusters, sizeof(int));
    // Headroom for the next lists, which differ a little in length.
    if (!error)
        error = md_list_reserve(&part->rows, part->row_count + part->row_count / 16,
                                sizeof(struct md_row));
    if (!error)
        error = md_list_reserve(&part->j, part->j_count + part->j_count / 16, sizeof(int));
    if (!error)
        error = md_list_reserve(&part->mask, part->mask_count + part->mask_count / 16,
                                sizeof(uint32_t));
    if (!error && list->inner_calls > 0)
        error = md_list_reserve(&part->inner_rows, part->row_count, sizeof(struct md_row));
    if (!error && list->inner_calls > 0)
        error = md_list_reserve(&part->inner_j, part->j_count, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->candidate, clusters, sizeof(int));
    if (error)
        return error;
    int *seen = list->candidate.data, *used = part->used.data;
    const int *j = part->j.data;
    memset(seen, 0, clusters * sizeof *seen);
    for (size_t k = 0; k < part->row_count; k++)
        seen[((const struct md_row *)part->rows.data)[k].i / 2] = 1;
    for (size_t k = 0; k < part->j_count; k++)
        seen[j[k]] = 1;
    for (int c = 0; c < list->cluster_count; c++) {
        used[part->used_count] = c;
        part->used_count += (size_t)seen[c];
    }
    return 0;
}

int md_search(struct md_list *list, const struct md_list_input *input)
{
    const size_t clusters = (size_t)list->cluster_count;
    int error = md_list_reserve(&list->candidate, clusters + 1, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->row_mask, clusters, sizeof(uint32_t));
    for (int a = 0; a < MD_ZONES && !error; a++)
        for (int b = a; b < MD_ZONES && !error; b++) {
            if ((a & b) != 0)
                continue;
            struct search search = {list,
                                    input,
                                    &list->parts[b == 0 ? MD_LOCAL : MD_NONLOCAL],
                                    &list->grids[a],
                                    &list->grids[b],
                                    b == 0};
            error = search_zones(&search);
        }
    for (int p = 0; p < 2 && !error; p++)
        error = finish_part(list, &list->parts[p]);
    return error;
}
