// SPDX-License-Identifier: Apache-2.0
// Folding a job's torus out of the machine's axes; see torus.h.
//
// A side of the job that is a product of machine axes runs through their grid on one closed way,
// built axis by axis. Of two, one gives rows and one columns: from the first row it goes through
// columns 1 to the last and back, row by row, and returns down column 0. That closes if the rows
// are even in number, or if there are two columns, or if the columns are a ring. Else it goes back
// and forth without closing, and the side is no ring.
//
// Which axes go to which side is found by trying all ways. Advantage: any sides that can be had are
// found, and position and coordinates follow from each other without a table. Disadvantage: some
// thousand combinations are looked at when a job is opened.

#include "sim/torus.h"

#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ---- One side: a way through a grid ---------------------------------------------------------

// How an axis joins what the axes before it made: `first` of them in a way, closed or not.
enum joint { ROWS_FIRST, COLUMNS_FIRST, OPEN };

static enum joint joint_of(int first, bool first_closed, int next, bool next_wrap)
{
    if (next == 2 || first % 2 == 0 || next_wrap)
        return ROWS_FIRST;
    if (first == 2 || next % 2 == 0 || first_closed)
        return COLUMNS_FIRST;
    return OPEN;
}

static void closed_way(int rows, int columns, int position, int *row, int *column)
{
    if (position == 0) {
        *row = *column = 0;
        return;
    }
    int way = columns - 1;
    *row = (position - 1) / way;
    if (*row >= rows) {
        *row = rows - 1 - (position - 1 - rows * way);
        *column = 0;
        return;
    }
    int along = (position - 1) % way;
    *column = *row % 2 ? way - along : 1 + along;
}

static int position_on_closed_way(int rows, int columns, int row, int column)
{
    int way = columns - 1;
    if (column == 0)
        return row == 0 ? 0 : 1 + rows * way + rows - 1 - row;
    return 1 + row * way + (row % 2 ? way - column : column - 1);
}

// Number of positions of the first `count` axes, and whether their way closes.
static int way_size(const struct sim_fold_axis *along, int count, bool *closed)
{
    int size = 1;
    *closed = true;
    for (int i = 0; i < count; i++) {
        if (i == 0)
            *closed = along->extent[0] <= 2 || along->wrap[0];
        else
            *closed = joint_of(size, *closed, along->extent[i], along->wrap[i]) != OPEN;
        size *= along->extent[i];
    }
    return size;
}

static void place_on_axes(const struct sim_fold_axis *along, int position, int *coordinates)
{
    for (int i = along->count - 1; i >= 0; i--) {
        bool closed;
        int first = way_size(along, i, &closed), next = along->extent[i], at;
        switch (i == 0 ? OPEN : joint_of(first, closed, next, along->wrap[i])) {
        case ROWS_FIRST:
            closed_way(first, next, position, &position, &at);
            break;
        case COLUMNS_FIRST:
            closed_way(next, first, position, &at, &position);
            break;
        default:
            at = position % next;
            position /= next;
            at = position % 2 ? next - 1 - at : at;
        }
        coordinates[along->axis[i]] = along->origin[i] + at;
    }
}

// The reverse; -1 outside the box.
static int position_on_axes(const struct sim_fold_axis *along, const int *coordinates)
{
    int position = 0;
    for (int i = 0; i < along->count; i++) {
        bool closed;
        int first = way_size(along, i, &closed), next = along->extent[i];
        int at = coordinates[along->axis[i]] - along->origin[i];
        if (at < 0 || at >= next)
            return -1;
        switch (i == 0 ? OPEN : joint_of(first, closed, next, along->wrap[i])) {
        case ROWS_FIRST:
            position = position_on_closed_way(first, next, position, at);
            break;
        case COLUMNS_FIRST:
            position = position_on_closed_way(next, first, at, position);
            break;
        default:
            position = position * next + (position % 2 ? next - 1 - at : at);
        }
    }
    return position;
}

// ---- The job --------------------------------------------------------------------------------

void sim_fold_coordinates(const struct sim_fold *fold, int rank, int *coordinates)
{
    for (int i = fold->side_count - 1; i >= 0; i--) {
        coordinates[i] = rank % fold->side[i];
        rank /= fold->side[i];
    }
}

int sim_fold_rank(const struct sim_fold *fold, const int *coordinates)
{
    int rank = 0;
    for (int i = 0; i < fold->side_count; i++)
        rank = rank * fold->side[i] + coordinates[i];
    return rank;
}

int sim_fold_node(const struct sim_fold *fold, int rank)
{
    int at[SIM_FOLD_SIDES_MAX], machine_at[SIM_AXES_MAX];
    sim_fold_coordinates(fold, rank, at);
    memcpy(machine_at, fold->origin, sizeof machine_at);
    for (int i = 0; i < fold->side_count; i++)
        place_on_axes(&fold->along[i], at[i], machine_at);
    return sim_torus_node(&fold->shape, machine_at);
}

int sim_fold_rank_of_node(const struct sim_fold *fold, int node)
{
    int machine_at[SIM_AXES_MAX], at[SIM_FOLD_SIDES_MAX];
    bool used[SIM_AXES_MAX] = {false};
    sim_torus_coordinates(&fold->shape, node, machine_at);
    for (int i = 0; i < fold->side_count; i++) {
        at[i] = position_on_axes(&fold->along[i], machine_at);
        if (at[i] < 0)
            return -1;
        for (int j = 0; j < fold->along[i].count; j++)
            used[fold->along[i].axis[j]] = true;
    }
    for (int axis = 0; axis < fold->shape.axis_count; axis++)
        if (!used[axis] && machine_at[axis] != fold->origin[axis])
            return -1;
    return sim_fold_rank(fold, at);
}

uint32_t sim_fold_link(const struct sim_fold *fold, int rank, int side, int direction)
{
    int size = fold->side[side], at[SIM_FOLD_SIDES_MAX];
    sim_fold_coordinates(fold, rank, at);
    bool beyond = direction > 0 ? at[side] == size - 1 : at[side] == 0;
    if (size == 1 || (beyond && !fold->wrap[side]))
        return SIM_LINK_NONE;
    int node = sim_fold_node(fold, rank);
    if (fold->doubled[side])
        return sim_torus_link(&fold->shape, node, fold->along[side].axis[0], direction);
    at[side] = (at[side] + direction + size) % size;
    int next = sim_fold_node(fold, sim_fold_rank(fold, at));
    int from[SIM_AXES_MAX], to[SIM_AXES_MAX], axis = 0;
    sim_torus_coordinates(&fold->shape, node, from);
    sim_torus_coordinates(&fold->shape, next, to);
    while (from[axis] == to[axis])
        axis++;
    // Across two links in a side of 2 a route of choice 0 takes the + one, so that is the one here.
    bool up = (from[axis] + 1) % fold->shape.side[axis] == to[axis];
    return sim_torus_link(&fold->shape, node, axis, up ? 1 : -1);
}

void sim_fold_text(const struct sim_fold *fold, char *text, size_t text_bytes)
{
    size_t length = 0;
    if (text_bytes)
        text[0] = 0;
    for (int i = 0; i < fold->side_count; i++) {
        const struct sim_fold_axis *along = &fold->along[i];
        for (int j = 0; j < along->count || j == 0; j++) {
            const char *before = j > 0 ? " " : i > 0 ? ")x(" : "(";
            int written;
            if (length >= text_bytes)
                return;
            if (along->count)
                written = snprintf(text + length, text_bytes - length, "%s%c%d", before,
                                   fold->shape.letter[along->axis[j]], along->extent[j]);
            else
                written = snprintf(text + length, text_bytes - length, "%s1", before);
            length += (size_t)written;
        }
    }
    if (length < text_bytes)
        snprintf(text + length, text_bytes - length, ")");
}

// ---- Finding a fold -------------------------------------------------------------------------

// An axis of the machine goes to one side with some extent, or to none.
struct assignment {
    int side[SIM_AXES_MAX]; // -1: none
    int extent[SIM_AXES_MAX];
};

struct finder {
    const struct sim_torus_shape *shape;
    struct sim_fold *fold;
    struct assignment now, best;
    int remaining[SIM_FOLD_SIDES_MAX]; // of each side, still to be made up by later axes
    int best_score;
};

static void give_axes(const struct finder *finder, const struct assignment *assignment,
                      struct sim_fold *fold)
{
    const struct sim_torus_shape *shape = finder->shape;
    memset(fold->along, 0, sizeof fold->along);
    for (int axis = 0; axis < shape->axis_count; axis++) {
        if (assignment->side[axis] < 0)
            continue;
        struct sim_fold_axis *along = &fold->along[assignment->side[axis]];
        along->axis[along->count] = axis;
        along->extent[along->count] = assignment->extent[axis];
        along->wrap[along->count] =
            shape->wrap[axis] && assignment->extent[axis] == shape->side[axis];
        along->count++;
    }
    for (int i = 0; i < fold->side_count; i++) {
        const struct sim_fold_axis *along = &fold->along[i];
        way_size(along, along->count, &fold->wrap[i]);
        fold->doubled[i] = fold->side[i] == 2 && along->wrap[0];
    }
}

// Rings before whole axes before an early axis for every side.
static int score_of(const struct finder *finder)
{
    struct sim_fold fold = *finder->fold;
    const struct sim_torus_shape *shape = finder->shape;
    give_axes(finder, &finder->now, &fold);
    int rings = 0, whole = 0, apart = 0;
    bool has_early[SIM_FOLD_SIDES_MAX] = {false};
    for (int i = 0; i < fold.side_count; i++)
        rings += fold.wrap[i];
    for (int axis = 0; axis < shape->axis_count; axis++) {
        int side = finder->now.side[axis];
        whole +=
            shape->side[axis] > 1 && side >= 0 && finder->now.extent[axis] == shape->side[axis];
        if (axis < fold.side_count && side >= 0 && !has_early[side]) {
            has_early[side] = true;
            apart++;
        }
    }
    return (rings * (SIM_AXES_MAX + 1) + whole) * (SIM_FOLD_SIDES_MAX + 1) + apart;
}

static bool made_up(const struct finder *finder)
{
    for (int i = 0; i < finder->fold->side_count; i++)
        if (finder->remaining[i] != 1)
            return false;
    return true;
}

static void try_axis(struct finder *finder, int axis)
{
    if (axis == finder->shape->axis_count) {
        int score = made_up(finder) ? score_of(finder) : -1;
        if (score > finder->best_score) {
            finder->best_score = score;
            finder->best = finder->now;
        }
        return;
    }
    for (int side = 0; side < finder->fold->side_count; side++) {
        int remaining = finder->remaining[side];
        for (int extent = finder->shape->side[axis]; extent > 1; extent--) {
            if (remaining % extent)
                continue;
            finder->remaining[side] = remaining / extent;
            finder->now.side[axis] = side;
            finder->now.extent[axis] = extent;
            try_axis(finder, axis + 1);
        }
        finder->remaining[side] = remaining;
    }
    finder->now.side[axis] = -1;
    finder->now.extent[axis] = 1;
    try_axis(finder, axis + 1);
}

// ---- Dead nodes -----------------------------------------------------------------------------

// How far the box of the job reaches along an axis, and where its origin is kept.
static int *origin_of(struct sim_fold *fold, int axis, int *extent)
{
    for (int i = 0; i < fold->side_count; i++)
        for (int j = 0; j < fold->along[i].count; j++)
            if (fold->along[i].axis[j] == axis) {
                *extent = fold->along[i].extent[j];
                return &fold->along[i].origin[j];
            }
    *extent = 1;
    return &fold->origin[axis];
}

static int dead_node_inside(const struct sim_fold *fold, const struct sim_topology *topology)
{
    for (int i = 0; i < topology->dead_vertex_count; i++)
        if (sim_fold_rank_of_node(fold, (int)topology->dead_vertices[i]) >= 0)
            return (int)topology->dead_vertices[i];
    return -1;
}

// Moves the box to its next place; false when it has been everywhere.
static bool move_box(struct sim_fold *fold)
{
    for (int axis = fold->shape.axis_count - 1; axis >= 0; axis--) {
        int extent, *origin = origin_of(fold, axis, &extent);
        if (*origin + extent < fold->shape.side[axis]) {
            ++*origin;
            return true;
        }
        *origin = 0;
    }
    return false;
}

static int avoid_dead_nodes(struct sim_fold *fold, const struct sim_topology *topology)
{
    int dead = dead_node_inside(fold, topology), first = dead;
    while (dead >= 0) {
        if (!move_box(fold)) {
            char text[128];
            sim_fold_text(fold, text, sizeof text);
            return leat_fail_in(sim_node_check(topology, first), "no place for %s", text);
        }
        dead = dead_node_inside(fold, topology);
    }
    return 0;
}

// ---- Opening --------------------------------------------------------------------------------

static void shape_text(const int *sides, int count, char *text, size_t text_bytes)
{
    size_t length = 0;
    text[0] = 0;
    for (int i = 0; i < count && length < text_bytes; i++)
        length +=
            (size_t)snprintf(text + length, text_bytes - length, "%s%d", i ? "x" : "", sides[i]);
}

static int begin(struct sim_fold *fold, const struct sim_topology *topology, const int *sides,
                 int side_count)
{
    memset(fold, 0, sizeof *fold);
    if (topology->machine->kind != SIM_TORUS)
        return leat_fail(-EINVAL, "%s is no torus, so no torus can be folded out of it",
                         topology->machine->file);
    if (side_count < 1 || side_count > SIM_FOLD_SIDES_MAX)
        return leat_fail(-EINVAL, "a job's torus has 1 to %d sides, not %d", SIM_FOLD_SIDES_MAX,
                         side_count);
    int64_t ranks = 1;
    for (int i = 0; i < SIM_FOLD_SIDES_MAX; i++) {
        fold->side[i] = i < side_count ? sides[i] : 1;
        fold->wrap[i] = true;
        if (fold->side[i] < 1)
            return leat_fail(-EINVAL, "side %d of the job's torus is %d, expected 1 or more", i,
                             fold->side[i]);
        ranks *= fold->side[i];
        if (ranks > topology->node_count)
            return leat_fail(-EINVAL, "the job has more ranks than the machine has nodes, %d",
                             topology->node_count);
    }
    fold->side_count = side_count;
    fold->rank_count = (int)ranks;
    fold->shape = topology->machine->torus;
    return 0;
}

int sim_fold_open(struct sim_fold *fold, const struct sim_topology *topology, const int *sides,
                  int side_count)
{
    int error = begin(fold, topology, sides, side_count);
    if (error)
        return error;
    struct finder finder = {.shape = &topology->machine->torus, .fold = fold, .best_score = -1};
    memcpy(finder.remaining, fold->side, sizeof finder.remaining);
    try_axis(&finder, 0);
    if (finder.best_score < 0) {
        char job[64], machine[96];
        shape_text(sides, side_count, job, sizeof job);
        shape_text(fold->shape.side, fold->shape.axis_count, machine, sizeof machine);
        return leat_fail(-EINVAL,
                         "%s cannot be folded out of %s: each side has to be a product of numbers, "
                         "every one no larger than an axis of its own",
                         job, machine);
    }
    give_axes(&finder, &finder.best, fold);
    return avoid_dead_nodes(fold, topology);
}

int sim_fold_whole(struct sim_fold *fold, const struct sim_topology *topology, int side_count)
{
    int sides[SIM_FOLD_SIDES_MAX] = {1, 1, 1};
    const struct sim_torus_shape *shape = &topology->machine->torus;
    if (topology->machine->kind == SIM_TORUS && side_count >= 1 && side_count <= SIM_FOLD_SIDES_MAX)
        for (int axis = 0; axis < shape->axis_count; axis++)
            sides[axis % side_count] *= shape->side[axis];
    int error = begin(fold, topology, sides, side_count);
    if (error)
        return error;
    struct finder finder = {.shape = shape, .fold = fold};
    for (int axis = 0; axis < shape->axis_count; axis++) {
        finder.best.side[axis] = shape->side[axis] > 1 ? axis % side_count : -1;
        finder.best.extent[axis] = shape->side[axis];
    }
    give_axes(&finder, &finder.best, fold);
    return avoid_dead_nodes(fold, topology);
}
