// SPDX-License-Identifier: Apache-2.0
// Clusters: the atoms of each zone sorted into columns over xy and along z, and cut into eights.
//
// Two stable counting sorts, by height and then by column, leave every column in order of height.
// A column is about as wide as a cluster is high, so that clusters are compact. Within a half
// cluster, atoms with LJ come first.
// Advantage: linear in atoms, no comparison, and the order depends on the coordinates only.
// Disadvantage: heights are told apart to 1/65536 of the zone's, and a zone that is mostly empty
// gets columns of uneven length.

#include "md/list_internal.h"

#include <math.h>

enum { MAX_BINS = 65536 };

// What takes a coordinate into the box along a dimension that this rank has to itself.
static double wrap_nm(const struct md_list_input *input, double x, int d)
{
    if (!input->periodic[d] || (x >= 0 && x < input->box_nm[d]))
        return 0;
    return -input->box_nm[d] * floor(x / input->box_nm[d]);
}

// Fills list->wrapped, and from the largest coordinate what rounding may cost and what is far.
static int wrap_atoms(struct md_list *list, const struct md_list_input *input)
{
    int error = md_list_reserve(&list->wrapped, 3 * (size_t)input->atom_count, sizeof(float));
    if (error)
        return error;
    float *wrapped = list->wrapped.data;
    double largest = 0;
    for (size_t i = 0; i < (size_t)input->atom_count; i++)
        for (int d = 0; d < 3; d++) {
            const double x = input->x_nm[3 * i + (size_t)d];
            const double in = x + wrap_nm(input, x, d);
            wrapped[3 * i + (size_t)d] = (float)in;
            largest = fmax(largest, fabs(in));
        }
    for (int d = 0; d < 3; d++)
        if (input->periodic[d])
            largest = fmax(largest, input->box_nm[d]);
    const double slack = 0x1p-20 * largest;
    list->radius_nm = input->list_nm + slack;
    list->inner_nm = input->inner_nm + slack;
    list->far_nm = -8 * (largest + list->radius_nm);
    return 0;
}

// Local indices by zone, home atoms first; start[z] to start[z + 1] are zone z.
static int order_by_zone(struct md_list *list, const struct md_list_input *input,
                         int start[MD_ZONES + 1])
{
    const size_t count = (size_t)input->atom_count;
    int error = md_list_reserve(&list->order, 2 * count, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->key, count, sizeof(int));
    if (error)
        return error;
    int place[MD_ZONES] = {input->home_count};
    for (int i = input->home_count; i < input->atom_count; i++)
        place[input->zone[i]]++;
    start[0] = 0;
    for (int z = 0; z < MD_ZONES; z++) {
        start[z + 1] = start[z] + place[z];
        place[z] = start[z];
    }
    int *order = list->order.data;
    for (int i = 0; i < input->atom_count; i++)
        order[place[i < input->home_count ? 0 : input->zone[i]]++] = i;
    return 0;
}

// Edges of the columns: a cluster's worth of the zone's volume, cubed.
static void choose_columns(struct md_grid *grid, int count)
{
    double extent[3];
    for (int d = 0; d < 3; d++) // a floor, for atoms in a plane, on a line or in one place
        extent[d] = fmax((double)grid->bounds[1][d] - (double)grid->bounds[0][d], 0.05);
    const double edge = cbrt(MD_J_ATOMS * extent[0] * extent[1] * extent[2] / count);
    for (int d = 0; d < 2; d++) {
        const double most = fmin(count, 8192);
        grid->columns[d] = (int)fmax(1, fmin(most, rint(extent[d] / edge)));
    }
    // Long thin zones would have more columns than atoms to put in them.
    const int clusters = count / MD_J_ATOMS + 1;
    const double excess = (double)grid->columns[0] * grid->columns[1] / clusters;
    for (int d = 0; d < 2; d++) {
        if (excess > 1)
            grid->columns[d] = (int)fmax(1, grid->columns[d] / sqrt(excess));
        grid->low[d] = grid->bounds[0][d];
        grid->edge[d] = (float)(extent[d] / grid->columns[d]);
        grid->inverse_edge[d] = 1 / grid->edge[d];
    }
}

static int clamp(float place, int count)
{
    return !(place > 0) ? 0 : place < (float)count ? (int)place : count - 1;
}

// Stable: to[] gets from[] by ascending key[atom] in [0, bins); bin[k] ends as the end of key k.
static void counting_sort(const int *from, int *to, int count, const int *key, int *bin, int bins)
{
    for (int k = 0; k < bins; k++)
        bin[k] = 0;
    for (int i = 0; i < count; i++)
        bin[key[from[i]]]++;
    for (int k = 0, sum = 0; k < bins; k++) {
        const int here = bin[k];
        bin[k] = sum;
        sum += here;
    }
    for (int i = 0; i < count; i++)
        to[bin[key[from[i]]]++] = from[i];
}

// Sorts the zone's atoms in place; grid->column gets the end of each column in atoms, then
// clusters.
static int sort_zone(struct md_list *list, struct md_grid *grid, int *atoms, int *scratch,
                     int count)
{
    const int columns = grid->columns[0] * grid->columns[1];
    const int bins = count < MAX_BINS ? count : MAX_BINS;
    int error = md_list_reserve(&list->bin, (size_t)(bins > columns ? bins : columns), sizeof(int));
    if (!error)
        error = md_list_reserve(&grid->column, (size_t)columns + 1, sizeof(int));
    if (error)
        return error;
    const float *x = list->wrapped.data;
    int *key = list->key.data, *bin = list->bin.data;
    const float bottom = grid->bounds[0][2];
    const float height = fmaxf(grid->bounds[1][2] - bottom, 1e-3f);
    const float scale = (float)bins / height;
    for (int i = 0; i < count; i++)
        key[atoms[i]] = clamp((x[3 * (size_t)atoms[i] + 2] - bottom) * scale, bins);
    counting_sort(atoms, scratch, count, key, bin, bins);
    for (int i = 0; i < count; i++) {
        const float *p = &x[3 * (size_t)atoms[i]];
        const int a = clamp((p[0] - grid->low[0]) * grid->inverse_edge[0], grid->columns[0]);
        const int b = clamp((p[1] - grid->low[1]) * grid->inverse_edge[1], grid->columns[1]);
        key[atoms[i]] = a * grid->columns[1] + b;
    }
    counting_sort(scratch, atoms, count, key, bin, columns);
    int *column = grid->column.data;
    column[0] = grid->first_cluster;
    for (int c = 0; c < columns; c++) {
        const int in_column = bin[c] - (c ? bin[c - 1] : 0);
        column[c + 1] = column[c] + (in_column + MD_J_ATOMS - 1) / MD_J_ATOMS;
    }
    grid->cluster_count = column[columns] - grid->first_cluster;
    return 0;
}

static int reserve_clusters(struct md_list *list)
{
    const size_t clusters = (size_t)list->cluster_count, slots = MD_J_ATOMS * clusters;
    const size_t real_bytes = md_real_bytes(list->precision);
    int error = md_list_reserve(&list->atom, slots, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->type, MD_TYPE_STRIDE * clusters, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->filled, clusters, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->lj_count, 2 * clusters, sizeof(int));
    if (!error)
        error = md_list_reserve(&list->wrap, MD_WRAP_STRIDE * clusters, real_bytes);
    if (!error)
        error = md_list_reserve(&list->xq, MD_X_STRIDE * clusters, real_bytes);
    if (!error)
        error = md_list_reserve(&list->i_box, 12 * clusters, sizeof(float));
    return error;
}

static void put_real(const struct md_list *list, const struct md_buffer *array, size_t index,
                     double value)
{
    if (list->precision == MD_MIXED)
        ((float *)array->data)[index] = (float)value;
    else
        ((double *)array->data)[index] = value;
}

// Puts an atom (or none, -1) into a slot.
static void fill_slot(struct md_list *list, const struct md_list_input *input, int slot, int atom)
{
    const size_t cluster = (size_t)slot / MD_J_ATOMS, lane = (size_t)slot % MD_J_ATOMS;
    // Far from every atom, and from every other empty slot, also when one of them is shifted.
    const int apart[3] = {1 + slot % 4096, 1 + slot / 4096, 1};
    const size_t xq = cluster * MD_X_STRIDE + lane, wrap = cluster * MD_WRAP_STRIDE + lane;
    for (int d = 0; d < 3; d++) {
        const size_t along = (size_t)d * MD_J_ATOMS;
        const double x =
            atom < 0 ? list->far_nm * apart[d] : input->x_nm[3 * (size_t)atom + (size_t)d];
        const double w = atom < 0 ? 0 : wrap_nm(input, x, d);
        put_real(list, &list->xq, xq + along, x + w);
        put_real(list, &list->wrap, wrap + along, w);
    }
    put_real(list, &list->xq, xq + 3 * MD_J_ATOMS, atom < 0 ? 0 : input->charge[atom]);
    ((int *)list->atom.data)[slot] = atom;
    int *type = (int *)list->type.data + cluster * MD_TYPE_STRIDE + lane;
    type[0] = atom < 0 ? 0 : input->type[atom];
    type[MD_J_ATOMS] = type[0] + MD_FEW_TYPES;
    if (atom >= 0)
        ((int *)list->slot.data)[atom] = slot;
}

// Four slots from `count` atoms, those with LJ first, and their bounding box.
static void fill_half(struct md_list *list, const struct md_list_input *input, int half,
                      const int *atoms, int count)
{
    const int first = half * MD_I_ATOMS;
    float *box = (float *)list->i_box.data + 6 * (size_t)half;
    const float *x = list->wrapped.data;
    int slot = first;
    for (int want_lj = 1; want_lj >= 0; want_lj--) {
        for (int k = 0; k < count; k++)
            if (list->has_lj[input->type[atoms[k]]] == (want_lj != 0))
                fill_slot(list, input, slot++, atoms[k]);
        if (want_lj)
            ((int *)list->lj_count.data)[half] = slot - first;
    }
    for (; slot < first + MD_I_ATOMS; slot++)
        fill_slot(list, input, slot, -1);
    for (int d = 0; d < 3; d++) {
        box[d] = INFINITY;
        box[3 + d] = -INFINITY;
        for (int k = 0; k < count; k++) {
            box[d] = fminf(box[d], x[3 * (size_t)atoms[k] + (size_t)d]);
            box[3 + d] = fmaxf(box[3 + d], x[3 * (size_t)atoms[k] + (size_t)d]);
        }
    }
}

static void fill_columns(struct md_list *list, const struct md_list_input *input,
                         const struct md_grid *grid, const int *atoms)
{
    const int *column = grid->column.data, *end = list->bin.data; // from sort_zone
    int *filled = list->filled.data;
    for (int c = 0, next = 0; c < grid->columns[0] * grid->columns[1]; c++)
        for (int cluster = column[c]; cluster < column[c + 1]; cluster++) {
            const int left = end[c] - next;
            const int here = left < MD_J_ATOMS ? left : MD_J_ATOMS;
            const int low = here < MD_I_ATOMS ? here : MD_I_ATOMS;
            filled[cluster] = here;
            fill_half(list, input, 2 * cluster, &atoms[next], low);
            fill_half(list, input, 2 * cluster + 1, &atoms[next + low], here - low);
            next += here;
        }
}

static int build_zone(struct md_list *list, const struct md_list_input *input, struct md_grid *grid,
                      int *atoms, int *scratch, int count)
{
    grid->first_cluster = list->cluster_count;
    grid->cluster_count = 0;
    if (count == 0)
        return 0;
    const float *x = list->wrapped.data;
    for (int d = 0; d < 3; d++) {
        grid->bounds[0][d] = INFINITY;
        grid->bounds[1][d] = -INFINITY;
        for (int k = 0; k < count; k++) {
            const float value = x[3 * (size_t)atoms[k] + (size_t)d];
            grid->bounds[0][d] = fminf(grid->bounds[0][d], value);
            grid->bounds[1][d] = fmaxf(grid->bounds[1][d], value);
        }
    }
    choose_columns(grid, count);
    int error = sort_zone(list, grid, atoms, scratch, count);
    if (error)
        return error;
    list->cluster_count += grid->cluster_count;
    error = reserve_clusters(list);
    if (error)
        return error;
    fill_columns(list, input, grid, atoms);
    return 0;
}

// Boxes of whole clusters, one array a side so that the search reads them in a row.
static int make_j_boxes(struct md_list *list)
{
    const size_t stride = (size_t)list->cluster_count + MD_SCAN_ROOM; // read in whole vectors
    int error = md_list_reserve(&list->j_box, 6 * stride, sizeof(float));
    if (error)
        return error;
    list->j_box_stride = stride;
    const float *i_box = list->i_box.data;
    float *j_box = list->j_box.data;
    for (size_t c = 0; c < (size_t)list->cluster_count; c++)
        for (size_t d = 0; d < 3; d++) {
            const float *a = &i_box[12 * c], *b = a + 6;
            j_box[d * stride + c] = fminf(a[d], b[d]);
            j_box[(3 + d) * stride + c] = fmaxf(a[3 + d], b[3 + d]);
        }
    return 0;
}

int md_grid_build(struct md_list *list, const struct md_list_input *input)
{
    int start[MD_ZONES + 1];
    list->cluster_count = 0;
    int error = wrap_atoms(list, input);
    if (!error)
        error = order_by_zone(list, input, start);
    if (!error)
        error = md_list_reserve(&list->slot, (size_t)input->atom_count, sizeof(int));
    int *order = list->order.data;
    for (int z = 0; z < MD_ZONES && !error; z++)
        error = build_zone(list, input, &list->grids[z], order + start[z],
                           order + input->atom_count, start[z + 1] - start[z]);
    return error ? error : make_j_boxes(list);
}
