// SPDX-License-Identifier: Apache-2.0
// Folding: neighbours of the job's torus are neighbours of the machine, over links of their own.
//
// Advantage: whole jobs are looked at, on the published machine and on every small one.
// Disadvantage: which of several sound folds is best is decided for the published shapes only.

#include "sim_parts.h"

#include "sim/torus.h"
#include "sim/tree.h"

#include <errno.h>
#include <stdbool.h>

static void open_k(const char *sides, struct sim_machine *machine, struct sim_topology *topology)
{
    open_torus(sides, "X Z B", "", machine, topology);
}

static void must_fold(struct sim_fold *fold, const struct sim_topology *topology, int x, int y,
                      int z)
{
    memset(fold, 0xA5, sizeof *fold);
    if (sim_fold_open(fold, topology, (int[]){x, y, z}, 3) != 0)
        fail_msg("%s", leat_error_detail());
}

// The link to a neighbour joins the two nodes, is the one that a route takes, and is used once.
static void look_at_step(const struct sim_fold *fold, const struct sim_topology *topology, int rank,
                         int side, int direction, uint8_t *used)
{
    int at[3], size = fold->side[side];
    sim_fold_coordinates(fold, rank, at);
    at[side] += direction;
    uint32_t link = sim_fold_link(fold, rank, side, direction);
    if (size == 1 || (!fold->wrap[side] && (at[side] < 0 || at[side] == size))) {
        assert_int_equal(link, SIM_LINK_NONE);
        return;
    }
    at[side] = (at[side] + size) % size;
    int node = sim_fold_node(fold, rank), next = sim_fold_node(fold, sim_fold_rank(fold, at));
    struct sim_link ends;
    assert_int_equal(sim_link_get(topology, link, &ends), 0);
    assert_int_equal(ends.from, node);
    assert_int_equal(ends.to, next);
    uint32_t routed[1] = {SIM_LINK_NONE};
    uint32_t choice = fold->doubled[side] && direction < 0;
    assert_int_equal(sim_route(topology, node, next, choice, routed, 1), 1);
    assert_int_equal(routed[0], link);
    if (size == 2 && !fold->doubled[side] && direction < 0)
        return; // the same link as in + direction
    assert_int_equal(used[link]++, 0);
}

static void look_at_fold(const struct sim_fold *fold, const struct sim_topology *topology)
{
    uint8_t *taken = calloc((size_t)topology->node_count, 1);
    uint8_t *used = calloc((size_t)topology->link_count + 1, 1);
    assert_true(taken && used);
    for (int rank = 0; rank < fold->rank_count; rank++) {
        int node = sim_fold_node(fold, rank);
        assert_in_range(node, 0, topology->node_count - 1);
        assert_int_equal(taken[node]++, 0);
        assert_int_equal(sim_fold_rank_of_node(fold, node), rank);
        for (int side = 0; side < fold->side_count; side++)
            for (int direction = -1; direction <= 1; direction += 2)
                look_at_step(fold, topology, rank, side, direction, used);
    }
    for (int node = 0; node < topology->node_count; node++)
        if (!taken[node])
            assert_int_equal(sim_fold_rank_of_node(fold, node), -1);
    free(taken);
    free(used);
}

static void test_9216_ranks_are_folded_as_published(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    char text[64];
    open_k("24 18 16 2 3 2", &machine, &topology);
    must_fold(&fold, &topology, 48, 6, 32);
    sim_fold_text(&fold, text, sizeof text);
    assert_string_equal(text, "(X24 A2)x(Y2 B3)x(Z16 C2)");
    assert_int_equal(fold.rank_count, 9216);
    assert_true(fold.wrap[0] && fold.wrap[1] && fold.wrap[2]);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

static void test_the_whole_machine_is_a_torus_of_three_rings(void **state)
{
    (void)state;
    static const struct {
        const char *sides;
        int job[3];
    } cases[] = {{"24 18 16 2 3 2", {48, 54, 32}}, {"24 18 17 2 3 2", {48, 54, 34}}};
    for (size_t i = 0; i < 2; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        struct sim_fold fold;
        open_k(cases[i].sides, &machine, &topology);
        assert_int_equal(sim_fold_whole(&fold, &topology, 3), 0);
        assert_memory_equal(fold.side, cases[i].job, sizeof fold.side);
        assert_true(fold.wrap[0] && fold.wrap[1] && fold.wrap[2]);
        look_at_fold(&fold, &topology);
        close_both(&machine, &topology);
    }
}

static void test_the_largest_design_folds_in_no_time_and_memory(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_k("32 32 32 2 3 2", &machine, &topology);
    must_fold(&fold, &topology, 64, 96, 64);
    assert_true(fold.wrap[0] && fold.wrap[1] && fold.wrap[2]);
    for (int rank = 0; rank < fold.rank_count; rank += 997)
        assert_int_equal(sim_fold_rank_of_node(&fold, sim_fold_node(&fold, rank)), rank);
    close_both(&machine, &topology);
}

static void test_the_machine_is_one_ring_or_two(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_k("24 18 16 2 3 2", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){82944}, 1), 0);
    assert_true(fold.wrap[0]);
    look_at_fold(&fold, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){96, 96}, 2), 0);
    assert_true(fold.wrap[0] && fold.wrap[1]);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

static void test_every_small_machine_folds_whole(void **state)
{
    (void)state;
    static const char *const wraps[] = {"none", "X", "Y", "Z", "X Y", "X Z", "Y Z", "X Y Z"};
    for (int number = 0; number < 5 * 5 * 5 * 8; number++) {
        struct sim_machine machine;
        struct sim_topology topology;
        struct sim_fold fold;
        char sides[32];
        snprintf(sides, sizeof sides, "%d %d %d", 1 + number % 5, 1 + number / 5 % 5,
                 1 + number / 25 % 5);
        open_torus(sides, wraps[number / 125], "", &machine, &topology);
        for (int count = 1; count <= 3; count++) {
            memset(&fold, 0xA5, sizeof fold);
            assert_int_equal(sim_fold_whole(&fold, &topology, count), 0);
            assert_int_equal(fold.rank_count, topology.node_count);
            look_at_fold(&fold, &topology);
        }
        close_both(&machine, &topology);
    }
}

// A grid of odd sides has one node too many of one colour for a closed way.
static void test_a_side_is_no_ring_only_where_it_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *sides, *wrap;
        bool ring;
    } cases[] = {{"3 5", "none", false}, {"3 5", "X", true},     {"3 5", "Y", true},
                 {"4 5", "none", true},  {"5 4", "none", true},  {"7", "none", false},
                 {"7", "X", true},       {"2", "none", true},    {"3 3 3", "none", false},
                 {"3 3 3", "Z", true},   {"3 5 2", "none", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        struct sim_fold fold;
        open_torus(cases[i].sides, cases[i].wrap, "", &machine, &topology);
        assert_int_equal(sim_fold_whole(&fold, &topology, 1), 0);
        assert_int_equal(fold.wrap[0], cases[i].ring);
        look_at_fold(&fold, &topology);
        close_both(&machine, &topology);
    }
}

static void test_a_ring_is_worth_more_than_a_whole_axis(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("4 3 3", "none", "", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){4}, 1), 0);
    assert_true(fold.wrap[0]);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

static void test_a_part_of_a_ring_is_none(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("7 3", "X", "", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){5}, 1), 0);
    assert_false(fold.wrap[0]);
    look_at_fold(&fold, &topology); // and no rank on the nodes beside
    close_both(&machine, &topology);
}

static void test_two_links_of_a_side_of_two_are_told_apart(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("2 4 2", "X Y", "", &machine, &topology);
    must_fold(&fold, &topology, 2, 4, 2);
    assert_true(fold.doubled[0] && !fold.doubled[1] && !fold.doubled[2]);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

// Trees and folding together: no link of the machine carries two streams.
static void test_three_trees_use_no_link_of_the_machine_twice(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_k("24 18 16 2 3 2", &machine, &topology);
    must_fold(&fold, &topology, 48, 6, 32);
    struct sim_tree_shape shape;
    memcpy(shape.side, fold.side, sizeof shape.side);
    memcpy(shape.doubled, fold.doubled, sizeof shape.doubled);
    uint8_t *used = calloc(topology.link_count, 1);
    assert_non_null(used);
    for (int tree = 0; tree < 3; tree++)
        for (int rank = 0; rank < fold.rank_count; rank++) {
            struct sim_tree_place place;
            sim_tree_place(&shape, tree, 4711, rank, &place);
            for (int i = 0; i < place.child_count; i++) {
                int channel = place.child_channel[i];
                uint32_t link = sim_fold_link(&fold, rank, channel / 2, channel % 2 ? -1 : 1);
                struct sim_link ends;
                assert_int_equal(sim_link_get(&topology, link, &ends), 0);
                assert_int_equal(ends.to, sim_fold_node(&fold, place.child[i]));
                assert_int_equal(used[link]++, 0);
            }
        }
    free(used);
    close_both(&machine, &topology);
}

static void test_shapes_that_the_axes_do_not_give_are_refused(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_k("24 18 16 2 3 2", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){29, 2, 2}, 3), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "29x2x2 cannot be folded out of 24x18x16x2x3x2"));
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){48, 0, 2}, 3), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "side 1 of the job's torus is 0"));
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){1 << 30, 1 << 30, 4}, 3), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "more ranks than the machine has nodes, 82944"));
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){2, 2, 2, 2}, 4), -EINVAL);
    assert_int_equal(sim_fold_whole(&fold, &topology, 0), -EINVAL);
    close_both(&machine, &topology);
}

static void test_a_box_is_moved_away_from_dead_nodes(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("4 6", "X", "dead_node = 1 0\ndead_node = 3 4\n", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){4, 3}, 2), 0);
    assert_true(fold.along[1].origin[0] == 1);
    for (int rank = 0; rank < fold.rank_count; rank++)
        assert_int_equal(sim_node_check(&topology, sim_fold_node(&fold, rank)), 0);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

static void test_a_box_finds_its_only_place(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("3 3", "none", "dead_node = 0 1\ndead_node = 2 2\n", &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){2, 2}, 2), 0);
    assert_true(fold.along[0].origin[0] == 1 && fold.along[1].origin[0] == 0);
    look_at_fold(&fold, &topology);
    close_both(&machine, &topology);
}

static void test_a_dead_node_that_cannot_be_avoided_is_named(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    open_torus("4 6", "X", "dead_node = 1 2\n", &machine, &topology);
    assert_int_equal(sim_fold_whole(&fold, &topology, 2), -EHOSTUNREACH);
    assert_non_null(strstr(leat_error_detail(), "no place for (X4)x(Y6): node (1,2) is dead"));
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){4, 4}, 2), -EHOSTUNREACH);
    close_both(&machine, &topology);
}

static void test_a_cluster_is_no_torus(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_fold fold;
    must_open(SIM_CLUSTER_TEXT "hosts = 4\ngpus_per_host = 1\ngpus_per_nvlink = 1\n"
                               "nics_per_host = 1\noutside = fat-tree\nlevels = 2\n"
                               "hosts_per_pod = 2\nleaf_rails = 1\nleaf_uplinks = 1\n",
              &machine, &topology);
    assert_int_equal(sim_fold_open(&fold, &topology, (int[]){2, 2}, 2), -EINVAL);
    assert_int_equal(sim_fold_whole(&fold, &topology, 2), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "test.machine is no torus"));
    close_both(&machine, &topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_9216_ranks_are_folded_as_published),
        cmocka_unit_test(test_the_whole_machine_is_a_torus_of_three_rings),
        cmocka_unit_test(test_the_largest_design_folds_in_no_time_and_memory),
        cmocka_unit_test(test_the_machine_is_one_ring_or_two),
        cmocka_unit_test(test_every_small_machine_folds_whole),
        cmocka_unit_test(test_a_side_is_no_ring_only_where_it_cannot_be),
        cmocka_unit_test(test_a_ring_is_worth_more_than_a_whole_axis),
        cmocka_unit_test(test_a_part_of_a_ring_is_none),
        cmocka_unit_test(test_two_links_of_a_side_of_two_are_told_apart),
        cmocka_unit_test(test_three_trees_use_no_link_of_the_machine_twice),
        cmocka_unit_test(test_shapes_that_the_axes_do_not_give_are_refused),
        cmocka_unit_test(test_a_box_is_moved_away_from_dead_nodes),
        cmocka_unit_test(test_a_box_finds_its_only_place),
        cmocka_unit_test(test_a_dead_node_that_cannot_be_avoided_is_named),
        cmocka_unit_test(test_a_cluster_is_no_torus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
