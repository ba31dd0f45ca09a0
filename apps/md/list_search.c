// SPDX-License-Identifier: Apache-2.0
// Which clusters are near which: rows of the list, built from the grids.
//
// For each half cluster and each image of it, the columns within reach are scanned, clusters whose
// boxes are near are candidates, and those without a single pair of atoms within the list cut-off
// are dropped again. Each pair of atoms is found once: within a zone, only images "above" the zone
// itself and, without a shift, only pairs of ascending slots are taken; between two zones, all.
// Advantage: work in proportion to atoms, and a list with few pairs that are never near.
// Threads take runs of half clusters, and what they find is put together in the order of these.
// Disadvantage: every list is built from nothing; nothing is reused from the one before.

#include "md/list_internal.h"
#include "md/team.h"

#include <math.h>
#include <string.h>

struct search {
    struct md_list *list;
    const struct md_list_input *input;
    struct md_part_list *part;
    struct md_builder *builder;      // of this thread
    struct md_rows_made *made;       // where its rows go
    const struct md_grid *from, *to; // grids of i and of j
    bool within_zone;
};

static bool is_empty(const struct md_list *list, int half)
{
    return ((const int *)list->filled.data)[half / 2] <= half % 2 * MD_I_ATOMS;
}

// Columns along dimension d (0 or 1) within reach of [low, high].
static void column_range(const struct md_grid *grid, int d, float low, float high, int range[2])
{
    const float a = (low - grid->low[d]) * grid->inverse_edge[d];
    const float b = (high - grid->low[d]) * grid->inverse_edge[d];
    const int last = grid->columns[d] - 1;
    // What has overflowed to no number scans all columns.
    range[0] = !(a > 0) ? 0 : a < (float)last ? (int)a : last;
    range[1] = !(b < (float)last) ? last : b > 0 ? (int)b : 0;
}

// Candidates for the half cluster whose box, shifted, is `box`; clusters below `lowest` are not.
static int find_candidates(const struct search *search, const float box[6], int lowest, int *out)
{
    const struct md_grid *grid = search->to;
    const struct md_list *list = search->list;
    const float radius = (float)list->radius_nm;
    const int *column = grid->column.data;
    int range_x[2], range_y[2], count = 0;
    column_range(grid, 0, box[0] - radius, box[3] + radius, range_x);
    column_range(grid, 1, box[1] - radius, box[4] + radius, range_y);
    for (int a = range_x[0]; a <= range_x[1]; a++) {
        // The columns along y follow one another, and so do their clusters.
        const int *strip = column + a * grid->columns[1];
        const int first = strip[range_y[0]] > lowest ? strip[range_y[0]] : lowest;
        count += list->kernels->scan(list->j_box.data, list->j_box_stride, box, first,
                                     strip[range_y[1] + 1], radius * radius, out + count);
    }
    return count;
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

// Takes the bits of `pairs` from those that count between i and the j at `place` of the row. Masks
// are all ones between rows; the places that have been changed are noted, in ascending order.
static void mask_pairs(struct md_builder *builder, int place, uint32_t pairs)
{
    uint32_t *mask = builder->row_mask.data;
    int *changed = builder->changed.data;
    if (mask[place] == UINT32_MAX) {
        int k = builder->changed_count++;
        for (; k > 0 && changed[k - 1] > place; k--)
            changed[k] = changed[k - 1];
        changed[k] = place;
    }
    mask[place] &= ~pairs;
}

static void mask_exclusions(const struct search *search, int half, const int *j, int count)
{
    const struct md_list_input *input = search->input;
    const int *atom = (const int *)search->list->atom.data + (size_t)half * MD_I_ATOMS;
    const int *slot = search->list->slot.data;
    for (int a = 0; a < MD_I_ATOMS; a++) {
        if (atom[a] < 0)
            continue;
        const int end = input->exclusion_start[atom[a] + 1];
        for (int k = input->exclusion_start[atom[a]]; k < end; k++) {
            const int partner = slot[input->exclusion[k]];
            const int place = find_cluster(j, count, partner / MD_J_ATOMS);
            if (place >= 0)
                mask_pairs(search->builder, place, 1u << (a * MD_J_ATOMS + partner % MD_J_ATOMS));
        }
    }
}

// Masks what does not count within a zone: a pair's second mention, and excluded pairs.
static void make_masks(const struct search *search, int half, int shift, const int *j, int count)
{
    if (shift == MD_NO_SHIFT && j[0] == half / 2)
        for (int a = 0; a < MD_I_ATOMS; a++)
            mask_pairs(search->builder, 0,
                       ((2u << (half % 2 * MD_I_ATOMS + a)) - 1) << (a * MD_J_ATOMS));
    if (search->input->exclusion_start)
        mask_exclusions(search, half, j, count);
}

// Room for so many more.
static int reserve_rows(struct md_rows_made *made, size_t rows, size_t j, size_t masks)
{
    int error = md_list_reserve(&made->rows, made->row_count + rows, sizeof(struct md_row));
    if (!error)
        error = md_list_reserve(&made->j, made->j_count + j, sizeof(int));
    return error ? error : md_list_reserve(&made->mask, made->mask_count + masks, sizeof(uint32_t));
}

// Appends the row, with the j clusters that need a mask first; all masks are ones again.
static int append_row(const struct search *search, int half, int shift, const int *j, int count)
{
    struct md_rows_made *made = search->made;
    struct md_builder *builder = search->builder;
    uint32_t *mask = builder->row_mask.data;
    const int *changed = builder->changed.data, changed_count = builder->changed_count;
    int error = reserve_rows(made, 1, (size_t)count, (size_t)changed_count);
    if (error)
        return error;
    int *to_j = (int *)made->j.data + made->j_count;
    uint32_t *to_mask = (uint32_t *)made->mask.data + made->mask_count;
    int masked = 0;
    for (int k = 0; k < changed_count; k++) {
        if (mask[changed[k]] != 0) {
            to_j[masked] = j[changed[k]];
            to_mask[masked++] = mask[changed[k]];
        }
        mask[changed[k]] = UINT32_MAX;
    }
    int total = masked;
    for (int k = 0, next = 0; k <= changed_count; k++) {
        const int end = k < changed_count ? changed[k] : count;
        memcpy(to_j + total, j + next, (size_t)(end - next) * sizeof *j);
        total += end - next;
        next = end + 1;
    }
    builder->changed_count = 0;
    if (total == 0)
        return 0;
    ((struct md_row *)made->rows.data)[made->row_count++] =
        (struct md_row){half, shift, masked, total, made->j_count, made->mask_count};
    made->j_count += (size_t)total;
    made->mask_count += (size_t)masked;
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
    int *j = search->builder->candidate.data;
    const int lowest = search->within_zone && shift == MD_NO_SHIFT ? half / 2 : 0;
    int count = find_candidates(search, box, lowest, j);
    const void *real_shift =
        (const char *)list->real_shift + 3 * (size_t)shift * md_real_bytes(list->precision);
    count = list->kernels->loops[list->precision]->prune(
        list->xq.data, half, real_shift, list->radius_nm * list->radius_nm, j, count, j);
    if (count == 0)
        return 0;
    if (search->within_zone)
        make_masks(search, half, shift, j, count);
    return append_row(search, half, shift, j, count);
}

// All images of the half clusters [begin, end).
static int search_halves(const struct search *search, int begin, int end)
{
    const bool *periodic = search->input->periodic;
    for (int half = begin; half < end; half++) {
        if (is_empty(search->list, half))
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

static void search_share(void *user, int thread, int count)
{
    struct search own = *(const struct search *)user;
    const size_t halves = 2 * (size_t)own.from->cluster_count;
    const int first = 2 * own.from->first_cluster;
    own.builder = &own.list->builders[thread];
    own.made = count == 1 ? &own.part->made : &own.builder->made;
    own.builder->made.row_count = own.builder->made.j_count = own.builder->made.mask_count = 0;
    md_list_note(own.builder, search_halves(&own, first + (int)md_team_share(halves, thread, count),
                                            first + (int)md_team_share(halves, thread + 1, count)));
}

static int append_rows(struct md_rows_made *made, const struct md_rows_made *more)
{
    int error = reserve_rows(made, more->row_count, more->j_count, more->mask_count);
    if (error || !more->row_count)
        return error;
    struct md_row *to = (struct md_row *)made->rows.data + made->row_count;
    for (size_t k = 0; k < more->row_count; k++) {
        to[k] = ((const struct md_row *)more->rows.data)[k];
        to[k].first += made->j_count;
        to[k].first_mask += made->mask_count;
    }
    memcpy((int *)made->j.data + made->j_count, more->j.data, more->j_count * sizeof(int));
    if (more->mask_count)
        memcpy((uint32_t *)made->mask.data + made->mask_count, more->mask.data,
               more->mask_count * sizeof(uint32_t));
    made->row_count += more->row_count;
    made->j_count += more->j_count;
    made->mask_count += more->mask_count;
    return 0;
}

static int search_zones(struct search *search)
{
    struct md_list *list = search->list;
    if (search->from->cluster_count == 0 || search->to->cluster_count == 0)
        return 0;
    md_team_run(list->team, search_share, search);
    int error = md_list_noted(list);
    for (int t = 0; !error && list->thread_count > 1 && t < list->thread_count; t++)
        error = append_rows(&search->part->made, &list->builders[t].made);
    return error;
}

// Room for the inner list, so that the steps allocate nothing, and the clusters that occur.
static int finish_part(struct md_list *list, struct md_part_list *part)
{
    const size_t clusters = (size_t)list->cluster_count;
    struct md_rows_made *made = &part->made;
    int error = md_list_reserve(&part->used, clusters, sizeof(int));
    // Headroom for the next lists, which differ a little in length.
    if (!error)
        error = reserve_rows(made, made->row_count / 8, made->j_count / 8, made->mask_count / 4);
    if (!error && list->inner_calls > 0)
        error = md_list_reserve(&part->inner_rows, made->row_count, sizeof(struct md_row));
    if (!error && list->inner_calls > 0)
        error = md_list_reserve(&part->inner_j, made->j_count, sizeof(int));
    if (error)
        return error;
    md_list_cut(list, part);
    int *seen = list->builders[0].candidate.data, *used = part->used.data;
    const int *j = made->j.data;
    memset(seen, 0, clusters * sizeof *seen);
    for (size_t k = 0; k < made->row_count; k++)
        seen[((const struct md_row *)made->rows.data)[k].i / 2] = 1;
    for (size_t k = 0; k < made->j_count; k++)
        seen[j[k]] = 1;
    for (int c = 0; c < list->cluster_count; c++) {
        used[part->used_count] = c;
        part->used_count += (size_t)seen[c];
    }
    return 0;
}

// Both parts' clusters of home atoms, in ascending order; those of ghosts come after them.
static int find_home(struct md_list *list)
{
    const size_t home = (size_t)list->grids[0].cluster_count;
    int error = md_list_reserve(&list->home_used, home, sizeof(int));
    if (error)
        return error;
    const struct md_part_list *local = &list->parts[MD_LOCAL], *other = &list->parts[MD_NONLOCAL];
    const int *a = local->used.data, *b = other->used.data;
    int *to = list->home_used.data;
    size_t i = 0, j = 0;
    list->home_used_count = 0;
    for (int c = 0; c < (int)home; c++) {
        const bool in_local = i < local->used_count && a[i] == c;
        const bool in_other = j < other->used_count && b[j] == c;
        i += in_local;
        j += in_other;
        to[list->home_used_count] = c;
        list->home_used_count += in_local || in_other;
    }
    return 0;
}

static int prepare_builder(const struct md_list *list, struct md_builder *builder)
{
    const size_t clusters = (size_t)list->cluster_count;
    int error = md_list_reserve(&builder->candidate, clusters + MD_SCAN_ROOM, sizeof(int));
    if (!error)
        error = md_list_reserve(&builder->f, MD_F_REALS * clusters, md_real_bytes(list->precision));
    if (!error)
        error = md_list_reserve(&builder->row_mask, clusters, sizeof(uint32_t));
    if (!error)
        error = md_list_reserve(&builder->changed, clusters, sizeof(int));
    if (error)
        return error;
    memset(builder->row_mask.data, 0xff, clusters * sizeof(uint32_t));
    builder->changed_count = 0;
    return 0;
}

int md_search(struct md_list *list, const struct md_list_input *input)
{
    int error = 0;
    for (int t = 0; !error && t < list->thread_count; t++)
        error = prepare_builder(list, &list->builders[t]);
    if (error)
        return error;
    for (int a = 0; a < MD_ZONES && !error; a++)
        for (int b = a; b < MD_ZONES && !error; b++) {
            if ((a & b) != 0)
                continue;
            struct search search = {.list = list,
                                    .input = input,
                                    .part = &list->parts[b == 0 ? MD_LOCAL : MD_NONLOCAL],
                                    .from = &list->grids[a],
                                    .to = &list->grids[b],
                                    .within_zone = b == 0};
            error = search_zones(&search);
        }
    for (int p = 0; p < 2 && !error; p++)
        error = finish_part(list, &list->parts[p]);
    return error ? error : find_home(list);
}
