// SPDX-License-Identifier: Apache-2.0
// The edge-disjoint trees, proved by looking at all of them: every torus with sides from 1 to 8,
// sides of 2 joined by one link and by two, every root, every rank.
//
// For each root the test walks no tree of its own; it checks for every rank that the parent is one
// step away over the channel that is named, that the parent names this rank and channel among its
// children, that the depth grows by one, and marks the channel. So a tree reaches everybody, and
// no channel is marked twice. How channels join nodes is computed here anew.
//
// Advantage: nothing is sampled. Disadvantage: larger tori are only looked at in a few places.

#include "sim/tree.h"

#include "leat/leat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int ranks_of(const struct sim_tree_shape *shape)
{
    return shape->side[0] * shape->side[1] * shape->side[2];
}

// Where the channel leads; fails the test where there is no such channel.
static int across(const struct sim_tree_shape *shape, int rank, int channel)
{
    assert_in_range(channel, 0, 5);
    int at[3] = {rank / shape->side[2] / shape->side[1], rank / shape->side[2] % shape->side[1],
                 rank % shape->side[2]};
    int side = channel / 2, size = shape->side[side];
    assert_true(size > 1);
    if (size == 2 && !shape->doubled[side])
        assert_int_equal(channel % 2, 0); // the only link is called +
    at[side] = channel % 2 ? (at[side] ? at[side] - 1 : size - 1) : (at[side] + 1) % size;
    return (at[0] * shape->side[1] + at[1]) * shape->side[2] + at[2];
}

static bool is_child(const struct sim_tree_place *parent, int rank, int channel)
{
    for (int i = 0; i < parent->child_count; i++)
        if (parent->child[i] == rank && parent->child_channel[i] == channel)
            return true;
    return false;
}

static void look_at_rank(const struct sim_tree_shape *shape, const struct sim_tree_place *places,
                         int rank, uint8_t *used)
{
    const struct sim_tree_place *place = &places[rank];
    assert_in_range(place->parent, 0, ranks_of(shape) - 1);
    assert_int_equal(across(shape, place->parent, place->parent_channel), rank);
    uint8_t *channel = &used[(size_t)place->parent * 6 + (size_t)place->parent_channel];
    assert_int_equal(*channel, 0);
    *channel = 1;
    assert_true(is_child(&places[place->parent], rank, place->parent_channel));
    assert_int_equal(places[place->parent].depth + 1, place->depth);
}

static void look_at_tree(const struct sim_tree_shape *shape, int tree, int root,
                         struct sim_tree_place *places, uint8_t *used, uint8_t *children_of)
{
    int ranks = ranks_of(shape), children = 0, depth = 0;
    memset(places, 0xA5, (size_t)ranks * sizeof *places);
    for (int rank = 0; rank < ranks; rank++) {
        sim_tree_place(shape, tree, root, rank, &places[rank]);
        assert_in_range(places[rank].child_count, 0, 3);
        children += places[rank].child_count;
        children_of[rank] = (uint8_t)(children_of[rank] + places[rank].child_count);
        depth = places[rank].depth > depth ? places[rank].depth : depth;
    }
    // Each rank but the root is some rank's child (below), so this leaves no child over.
    assert_int_equal(children, ranks - 1);
    assert_int_equal(depth, sim_tree_depth(shape, tree));
    assert_int_equal(places[root].parent, -1);
    assert_int_equal(places[root].parent_channel, -1);
    assert_int_equal(places[root].depth, 0);
    for (int rank = 0; rank < ranks; rank++)
        if (rank != root)
            look_at_rank(shape, places, rank, used);
}

struct room {
    struct sim_tree_place *places; // of one tree
    uint8_t *used;                 // [ranks][6] channels
    uint8_t *children_of;          // [ranks] in all trees
};

static struct room make_room(int ranks)
{
    struct room room = {.places = malloc((size_t)ranks * sizeof *room.places),
                        .used = malloc((size_t)ranks * 6),
                        .children_of = malloc((size_t)ranks)};
    assert_true(room.places && room.used && room.children_of);
    return room;
}

static void free_room(struct room *room)
{
    free(room->places);
    free(room->used);
    free(room->children_of);
}

static void look_at_root(const struct sim_tree_shape *shape, int root, struct room *room)
{
    int ranks = ranks_of(shape);
    memset(room->used, 0, (size_t)ranks * 6);
    memset(room->children_of, 0, (size_t)ranks);
    for (int tree = 0; tree < sim_tree_count(shape); tree++)
        look_at_tree(shape, tree, root, room->places, room->used, room->children_of);
    for (int rank = 0; rank < ranks; rank++)
        assert_in_range(room->children_of[rank], 0, 4);
    assert_int_equal(room->children_of[root], sim_tree_count(shape));
}

// Sides 1 to 8, and a 2 with two links.
enum { KINDS = 9 };
static const struct {
    int side;
    bool doubled;
} kinds[KINDS] = {{1, false}, {2, false}, {2, true},  {3, false}, {4, false},
                  {5, false}, {6, false}, {7, false}, {8, false}};

static struct sim_tree_shape shape_number(int number)
{
    struct sim_tree_shape shape;
    for (int i = 0; i < 3; i++, number /= KINDS) {
        shape.side[i] = kinds[number % KINDS].side;
        shape.doubled[i] = kinds[number % KINDS].doubled;
    }
    return shape;
}

static void test_trees_of_all_small_tori_are_disjoint(void **state)
{
    (void)state;
    struct room room = make_room(8 * 8 * 8);
    int shapes = 0;
    for (; shapes < KINDS * KINDS * KINDS; shapes++) {
        struct sim_tree_shape shape = shape_number(shapes);
        assert_int_equal(sim_tree_check(&shape), 0);
        for (int root = 0; root < ranks_of(&shape); root++)
            look_at_root(&shape, root, &room);
    }
    assert_int_equal(shapes, 729);
    free_room(&room);
}

static void test_number_of_trees_follows_the_sides_above_one(void **state)
{
    (void)state;
    for (int number = 0; number < KINDS * KINDS * KINDS; number++) {
        struct sim_tree_shape shape = shape_number(number);
        int above = 0;
        bool single = false;
        for (int i = 0; i < 3; i++) {
            above += shape.side[i] > 1;
            single |= shape.side[i] == 2 && !shape.doubled[i];
        }
        int expected = above == 1 && !single ? 2 : above;
        assert_int_equal(sim_tree_count(&shape), expected);
    }
}

static void look_at_large(int x, int y, int z, int depth)
{
    struct sim_tree_shape shape = {.side = {x, y, z}};
    int ranks = x * y * z;
    struct room room = make_room(ranks);
    const int roots[] = {0, ranks - 1, 4711 % ranks};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        look_at_root(&shape, roots[i], &room);
    free_room(&room);
    for (int tree = 0; tree < 3; tree++)
        assert_in_range(sim_tree_depth(&shape, tree), 1, depth);
}

static void test_trees_of_9216_ranks_are_83_deep(void **state)
{
    (void)state;
    look_at_large(48, 6, 32, 83);
}

static void test_trees_of_82944_ranks_are_131_deep(void **state)
{
    (void)state;
    look_at_large(48, 54, 32, 131);
}

static void test_trees_of_the_largest_machine_hold_together(void **state)
{
    (void)state;
    look_at_large(64, 96, 64, 64 + 96 + 64 - 3);
}

static void test_a_side_below_one_is_refused(void **state)
{
    (void)state;
    struct sim_tree_shape shape = {.side = {4, 0, 4}};
    assert_int_equal(sim_tree_check(&shape), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "side 1 of the torus is 0"));
}

static void test_more_ranks_than_an_int_holds_are_refused(void **state)
{
    (void)state;
    struct sim_tree_shape shape = {.side = {1 << 20, 1 << 20, 1 << 30}};
    assert_int_equal(sim_tree_check(&shape), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "more ranks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees_of_all_small_tori_are_disjoint),
        cmocka_unit_test(test_number_of_trees_follows_the_sides_above_one),
        cmocka_unit_test(test_trees_of_9216_ranks_are_83_deep),
        cmocka_unit_test(test_trees_of_82944_ranks_are_131_deep),
        cmocka_unit_test(test_trees_of_the_largest_machine_hold_together),
        cmocka_unit_test(test_a_side_below_one_is_refused),
        cmocka_unit_test(test_more_ranks_than_an_int_holds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
