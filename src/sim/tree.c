// SPDX-License-Identifier: Apache-2.0
// Edge-disjoint spanning trees; see tree.h.
//
// Relative to the root at the origin, tree t of a torus with three sides has u = t, v = t + 1 and
// w = t + 2 (modulo 3). It goes from the root along -v; from every node of that line along -w; from
// the plane u = 0, where v is not 0, along +u; and fills the plane v = 0 from v = -1 by the +v
// channel that closes the ring.
//
// Why no channel is used twice. Consider the channels along one side a, on the line given by the
// other two coordinates x[a+1] and x[a+2]. The + channels between 0 and -1 serve the tree with u =
// a where x[a+1] is not 0. The - channels between 0 and 1 serve the tree with w = a where x[a+1] =
// 0 and x[a+2] is not 0, and the tree with v = a where both are 0. The + channel from -1 to 0
// serves the tree with v = a alone. Where one link joins a side of 2, + and - from 0 are one
// channel, but the lines that the first three uses are on have nothing in common. With two sides
// the part along w falls away and nothing else changes.
//
// Why no node sends more than four streams: along a it sends one at most, or two where x[a] = -1
// and x[a+1] = 0. That cannot hold for two sides at once: for a+1 it asks for x[a+1] = -1, and for
// a+2 for x[a] = 0.
//
// Advantage: a few comparisons give parent and children. Disadvantage: half of the channels stay
// idle on the way down; a reduction on the way up shares some of the busy ones.

#include "sim/tree.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

// Sides above 1, in order.
struct sides {
    int count;
    int index[SIM_TREE_SIDES];
};

static struct sides long_sides(const struct sim_tree_shape *shape)
{
    struct sides sides = {0};
    for (int i = 0; i < SIM_TREE_SIDES; i++)
        if (shape->side[i] > 1)
            sides.index[sides.count++] = i;
    return sides;
}

int sim_tree_check(const struct sim_tree_shape *shape)
{
    int64_t ranks = 1;
    for (int i = 0; i < SIM_TREE_SIDES; i++) {
        if (shape->side[i] < 1)
            return leat_fail(-EINVAL, "side %d of the torus is %d, it has to be 1 or more", i,
                             shape->side[i]);
        ranks *= shape->side[i];
        if (ranks > INT_MAX)
            return leat_fail(-EINVAL, "a torus of %dx%dx%d has more ranks than %d", shape->side[0],
                             shape->side[1], shape->side[2], INT_MAX);
    }
    return 0;
}

int sim_tree_ranks(const struct sim_tree_shape *shape)
{
    return shape->side[0] * shape->side[1] * shape->side[2];
}

static bool one_link(const struct sim_tree_shape *shape, int side)
{
    return shape->side[side] == 2 && !shape->doubled[side];
}

int sim_tree_count(const struct sim_tree_shape *shape)
{
    struct sides sides = long_sides(shape);
    if (sides.count == 1)
        return one_link(shape, sides.index[0]) ? 1 : 2;
    return sides.count;
}

// What a place is computed from: coordinates relative to the root along the sides of this tree.
struct view {
    const struct sim_tree_shape *shape;
    int root[SIM_TREE_SIDES];
    int at[SIM_TREE_SIDES];
    int u, v, w; // sides; w is -1 where there are only two
};

static void coordinates(const struct sim_tree_shape *shape, int rank, int *out)
{
    out[2] = rank % shape->side[2];
    out[1] = rank / shape->side[2] % shape->side[1];
    out[0] = rank / shape->side[2] / shape->side[1];
}

static struct view view_of(const struct sim_tree_shape *shape, int tree, int root, int rank)
{
    struct view view = {.shape = shape};
    coordinates(shape, root, view.root);
    coordinates(shape, rank, view.at);
    for (int i = 0; i < SIM_TREE_SIDES; i++)
        view.at[i] = (view.at[i] - view.root[i] + shape->side[i]) % shape->side[i];
    struct sides sides = long_sides(shape);
    int count = sides.count ? sides.count : 1;
    view.u = sides.index[tree % count];
    view.v = sides.index[(tree + 1) % count];
    view.w = count == 3 ? sides.index[(tree + 2) % count] : -1;
    return view;
}

// The rank whose coordinate along `side` is `value` and the others are those of the view.
static int rank_at(const struct view *view, int side, int value)
{
    int rank = 0;
    for (int i = 0; i < SIM_TREE_SIDES; i++) {
        int size = view->shape->side[i];
        int at = i == side ? value : view->at[i];
        rank = rank * size + (at + view->root[i]) % size;
    }
    return rank;
}

static int channel(const struct view *view, int side, bool minus)
{
    return 2 * side + (minus && !one_link(view->shape, side));
}

static void set_parent(const struct view *view, int side, bool minus, int value,
                       struct sim_tree_place *place)
{
    place->parent = rank_at(view, side, value);
    place->parent_channel = channel(view, side, minus);
}

static void add_child(const struct view *view, int side, bool minus, int value,
                      struct sim_tree_place *place)
{
    place->child[place->child_count] = rank_at(view, side, value);
    place->child_channel[place->child_count++] = channel(view, side, minus);
}

// One side: tree 0 runs through the ring in + direction, tree 1 in - direction.
static void place_on_ring(const struct view *view, bool minus, struct sim_tree_place *place)
{
    int size = view->shape->side[view->u];
    int at = view->at[view->u];
    place->depth = minus ? (size - at) % size : at;
    int before = minus ? (at + 1) % size : at - 1, after = minus ? (at + size - 1) % size : at + 1;
    if (place->depth > 0)
        set_parent(view, view->u, minus, before, place);
    if (place->depth < size - 1)
        add_child(view, view->u, minus, after, place);
}

static int depth_off_plane(const struct view *view, int at_v)
{
    int at_w = view->w < 0 ? 0 : view->at[view->w];
    int along_w = at_w ? view->shape->side[view->w] - at_w : 0;
    return view->shape->side[view->v] - at_v + along_w + view->at[view->u];
}

static void find_parent(const struct view *view, struct sim_tree_place *place)
{
    const int *side = view->shape->side, *at = view->at;
    int u = view->u, v = view->v, w = view->w;
    if (at[v] == 0) {
        set_parent(view, v, false, side[v] - 1, place);
        place->depth = depth_off_plane(view, side[v] - 1) + 1;
        return;
    }
    if (at[u] > 0)
        set_parent(view, u, false, at[u] - 1, place);
    else if (w >= 0 && at[w] > 0)
        set_parent(view, w, true, (at[w] + 1) % side[w], place);
    else
        set_parent(view, v, true, (at[v] + 1) % side[v], place);
    place->depth = depth_off_plane(view, at[v]);
}

// The child below which the longest way lies comes first.
static void find_children(const struct view *view, struct sim_tree_place *place)
{
    const int *side = view->shape->side, *at = view->at;
    int u = view->u, v = view->v, w = view->w;
    bool on_line = at[u] == 0 && (w < 0 || at[w] == 0);
    if (on_line && at[v] != 1)
        add_child(view, v, true, (at[v] + side[v] - 1) % side[v], place);
    if (at[v] == 0)
        return; // the root, or a node of the plane that is filled last
    if (w >= 0 && at[u] == 0 && at[w] != 1)
        add_child(view, w, true, (at[w] + side[w] - 1) % side[w], place);
    if (at[u] < side[u] - 1)
        add_child(view, u, false, at[u] + 1, place);
    if (at[v] == side[v] - 1 && !on_line)
        add_child(view, v, false, 0, place);
}

void sim_tree_place(const struct sim_tree_shape *shape, int tree, int root, int rank,
                    struct sim_tree_place *place)
{
    *place = (struct sim_tree_place){.parent = -1, .parent_channel = -1};
    int sides = long_sides(shape).count;
    if (sides == 0)
        return;
    struct view view = view_of(shape, tree, root, rank);
    if (sides == 1) {
        place_on_ring(&view, tree == 1, place);
        return;
    }
    if (rank != root)
        find_parent(&view, place);
    find_children(&view, place);
}

int sim_tree_depth(const struct sim_tree_shape *shape, int tree)
{
    struct sides sides = long_sides(shape);
    if (sides.count == 0)
        return 0;
    struct view view = view_of(shape, tree, 0, 0);
    const int *side = shape->side;
    if (sides.count == 1)
        return side[view.u] - 1;
    int along_w = view.w < 0 ? 0 : side[view.w] - 1;
    int off_plane = side[view.u] - 1 + side[view.v] - 1 + along_w;
    int plane = 1 + along_w + side[view.u] - 1 + 1;
    return off_plane > plane ? off_plane : plane;
}
