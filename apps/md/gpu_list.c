// SPDX-License-Identifier: Apache-2.0
// The pair list of a partition, on the device: a grid of cells, then rows.
//
// Algorithm: the host chooses the grid from the extent of the elements, the device sorts, counts
// the rows' lengths and, once there is room for them, writes them. Advantage: rows have no gaps and
// no limit. Disadvantage: the host waits twice, for the extent and for the length of all rows.

#include "core/error.h"
#include "md/gpu_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int find_extent(struct md_rank *rank, float low[3], float high[3])
{
    struct md_gpu *gpu = rank->gpu;
    float *part = calloc(6 * MD_GPU_PARTS, sizeof *part);
    int error = part ? md_gpu_launch(gpu, MD_GPU_BOUNDS, 0, MD_GPU_PARTS)
                     : leat_fail(-ENOMEM, "no memory for the extent of the atoms");
    if (!error)
        error = md_gpu_check(rank);
    if (!error)
        error = gpu->backend->download(gpu->state, part, gpu->args.bounds,
                                       6 * MD_GPU_PARTS * sizeof *part);
    for (int d = 0; d < 3; d++) {
        low[d] = INFINITY;
        high[d] = -INFINITY;
        for (size_t p = 0; !error && p < MD_GPU_PARTS; p++) {
            low[d] = fminf(low[d], part[6 * p + (size_t)d]);
            high[d] = fmaxf(high[d], part[6 * p + 3 + (size_t)d]);
        }
        if (!(low[d] <= high[d])) // nothing there
            low[d] = high[d] = 0.0F;
    }
    free(part);
    return error;
}

static void set_edges(struct md_rank *rank)
{
    const struct md_system *system = &rank->system;
    struct md_gpu_args *args = &rank->gpu->args;
    args->periodic = 0;
    for (int d = 0; d < 3; d++) {
        bool alone = rank->domain.decomposition.grid[d] == 1 && !system->images;
        double edge = system->box_nm[d][d];
        args->edge[d] = alone ? (float)edge : 0.0F;
        args->inverse_edge[d] = alone ? (float)(1.0 / edge) : 0.0F;
        // Molecules are whole where images are given; elsewhere the nearest is asked for.
        args->exact_edge[d] = system->images ? 0.0 : edge;
        args->periodic |= alone ? 1U : 0U;
    }
}

// Cells half as wide as the list reaches, or as many as there is room for.
static void choose_cells(struct md_rank *rank, const float low[3], const float high[3])
{
    struct md_gpu *gpu = rank->gpu;
    struct md_gpu_args *args = &gpu->args;
    double extent[3], largest = 0.0, list_nm = rank->system.list_nm;
    for (int d = 0; d < 3; d++) {
        bool alone = args->edge[d] > 0.0F;
        args->low[d] = alone ? 0.0F : low[d];
        extent[d] = alone ? (double)args->edge[d] : (double)high[d] - (double)low[d];
        largest = fmax(largest, fmax(fabs((double)low[d]), fabs((double)high[d])));
        largest = fmax(largest, extent[d]);
    }
    double edge = 0.5 * list_nm, count = INFINITY;
    for (; count > gpu->cell_capacity; edge *= 1.125) {
        count = 1.0;
        for (int d = 0; d < 3; d++) {
            double cells = fmax(1.0, floor(extent[d] / edge));
            args->cells[d] = cells < 1e6 ? (int32_t)cells : 1000000;
            count *= args->cells[d];
        }
    }
    args->cell_count = (uint32_t)count;
    for (int d = 0; d < 3; d++)
        args->inverse_cell[d] = extent[d] > 0.0 ? (float)(args->cells[d] / extent[d]) : 1.0F;
    // What rounding of positions, wraps and cells may take away.
    double radius = list_nm + 0x1p-20 * largest;
    args->radius2 = (float)(radius * radius);
    args->reach = (float)(radius * (1.0 + 0x1p-16) + 0x1p-19 * largest);
}

static int sort(struct md_gpu *gpu)
{
    const struct md_gpu_args *args = &gpu->args;
    const struct {
        enum md_gpu_kernel kernel;
        uint32_t choice, count;
    } order[] = {
        {MD_GPU_CELL, 0, args->element_count},
        {MD_GPU_SCAN_SUM, MD_GPU_SCAN_CELLS, MD_GPU_SCAN_PARTS},
        {MD_GPU_SCAN_WRITE, MD_GPU_SCAN_CELLS, MD_GPU_SCAN_PARTS},
        {MD_GPU_PLACE, 0, args->element_count},
        {MD_GPU_SORT, 0, args->cell_count},
        {MD_GPU_KIND, 0, args->element_count},
        {MD_GPU_GATHER, 0, args->element_count},
        {MD_GPU_SEARCH, 0, args->element_count},
        {MD_GPU_SCAN_SUM, MD_GPU_SCAN_ROWS, MD_GPU_SCAN_PARTS},
        {MD_GPU_SCAN_WRITE, MD_GPU_SCAN_ROWS, MD_GPU_SCAN_PARTS},
    };
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        int error = md_gpu_launch(gpu, order[k].kernel, order[k].choice, order[k].count);
        if (error)
            return error;
    }
    return 0;
}

static int find_lengths(struct md_rank *rank, uint64_t *total)
{
    struct md_gpu *gpu = rank->gpu;
    float low[3], high[3];
    set_edges(rank);
    int error = find_extent(rank, low, high);
    if (error)
        return error;
    choose_cells(rank, low, high);
    error = sort(gpu);
    if (!error)
        error = md_gpu_check(rank);
    return error ? error
                 : gpu->backend->download(gpu->state, total,
                                          gpu->args.row_start + gpu->args.element_count,
                                          sizeof *total);
}

int md_gpu_list(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    uint64_t total = 0;
    // After this every rank has waited for its exchanges, and none begins another before the
    // partition's own verdict.
    int error = md_agree(rank, find_lengths(rank, &total));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_PARTNER, total, sizeof(uint32_t));
    if (error)
        return error;
    gpu->args.partner = gpu->array[ARRAY_PARTNER].data;
    return md_gpu_launch(gpu, MD_GPU_SEARCH, 1, gpu->args.element_count);
}
