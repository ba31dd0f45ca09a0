// SPDX-License-Identifier: Apache-2.0
// Tori and meshes: sizes, links, routes and what dead things do to them.
//
// Small machines of every mixture are looked at as a whole, with the breadth-first search as the
// judge of lengths. Advantage: nothing is taken from the code that computes routes. Disadvantage:
// the search reads the same links, so those are checked first.

#include "sim_parts.h"

#include "sim/torus.h"

#include <errno.h>
#include <stdbool.h>

#define K_SIDES "24 18 16 2 3 2"

static const char *const small[][2] = {
    {"5", "X"},         {"5", "none"},
    {"2", "X"},         {"2", "none"},
    {"1", "none"},      {"4 3", "X"},
    {"4 3", "Y"},       {"2 2", "X"},
    {"2 2 2", "none"},  {"2 1 3", "X Y Z"},
    {"4 3 2", "X Z"},   {"3 2 4", "none"},
    {"4 4 4", "X Y Z"}, {"3 4 2 2 3 2", "X Z B"},
};

static void test_the_k_computer_has_82944_nodes_and_40_hops(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus(K_SIDES, "X Z B", "", &machine, &topology);
    assert_int_equal(topology.node_count, 82944);
    assert_int_equal(topology.link_count, 829440); // ten of each node, open ends of Y included
    assert_int_equal(topology.hops_max, 40);
    close_both(&machine, &topology);
}

static void test_the_other_published_sizes_load(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("24 18 17 2 3 2", "X Z B", "", &machine, &topology);
    assert_int_equal(topology.node_count, 88128);
    close_both(&machine, &topology);
    open_torus("32 32 32 2 3 2", "X Z B", "", &machine, &topology);
    assert_int_equal(topology.node_count, 393216);
    assert_int_equal(topology.hops_max, 66);
    uint32_t links[66];
    int far[] = {16, 31, 16, 1, 1, 1};
    int end = sim_torus_node(&machine.torus, far);
    assert_int_equal(look_at_route(&topology, 0, end, 0, links, 66), 66);
    close_both(&machine, &topology);
}

static void test_a_hop_adds_to_the_latency(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus(K_SIDES, "X Z B", "", &machine, &topology);
    int far[] = {12, 17, 8, 1, 1, 1};
    uint32_t links[40];
    int count = look_at_route(&topology, 0, 1, 0, links, 40);
    assert_int_equal(count, 1);
    assert_true(sim_route_ns(&topology, links, count) == 910);
    count = look_at_route(&topology, 0, sim_torus_node(&machine.torus, far), 0, links, 40);
    assert_int_equal(count, 40);
    assert_true(sim_route_ns(&topology, links, count) == 910 + 39 * 100);
    close_both(&machine, &topology);
}

static void test_links_are_each_node_s_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        open_torus(small[i][0], small[i][1], "", &machine, &topology);
        look_at_all_links(&topology);
        close_both(&machine, &topology);
    }
}

static void test_routes_are_as_short_as_a_search_finds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        open_torus(small[i][0], small[i][1], "", &machine, &topology);
        uint32_t links[64], searched[64];
        int farthest = 0, step = topology.node_count > 100 ? 7 : 1;
        for (int from = 0; from < topology.node_count; from += step)
            for (int to = 0; to < topology.node_count; to++) {
                int count = look_at_route(&topology, from, to, (uint32_t)to, links, 64);
                assert_int_equal(sim_hops(&topology, from, to), count);
                farthest = count > farthest ? count : farthest;
                if (from != to)
                    assert_int_equal(sim_route_search(&topology, from, to, searched, 64), count);
            }
        assert_int_equal(farthest, topology.hops_max);
        close_both(&machine, &topology);
    }
}

static void test_routes_take_the_axes_in_order(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("3 4 2 2 3 2", "X Z B", "", &machine, &topology);
    for (int to = 1; to < topology.node_count; to++) {
        uint32_t links[16];
        int count = look_at_route(&topology, 0, to, 0, links, 16), last_axis = 0;
        for (int i = 0; i < count; i++) {
            struct sim_link link;
            int from[6], end[6], axis = 0;
            assert_int_equal(sim_link_get(&topology, links[i], &link), 0);
            sim_torus_coordinates(&machine.torus, (int)link.from, from);
            sim_torus_coordinates(&machine.torus, (int)link.to, end);
            while (from[axis] == end[axis])
                axis++;
            assert_in_range(axis, last_axis, 5);
            last_axis = axis;
        }
    }
    close_both(&machine, &topology);
}

static void test_a_choice_decides_half_round_a_ring(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("6 4", "X Y", "", &machine, &topology);
    int half[] = {3, 2}, node = sim_torus_node(&machine.torus, half);
    for (uint32_t choice = 0; choice < 4; choice++) {
        uint32_t links[5];
        assert_int_equal(look_at_route(&topology, 0, node, choice, links, 5), 5);
        int along_x = choice & 1 ? -1 : 1, along_y = choice & 2 ? -1 : 1;
        assert_int_equal(links[0], sim_torus_link(&machine.torus, 0, 0, along_x));
        int turn = sim_torus_node(&machine.torus, (int[]){3, 0});
        assert_int_equal(links[3], sim_torus_link(&machine.torus, turn, 1, along_y));
    }
    close_both(&machine, &topology);
}

static void test_a_side_of_two_has_one_link_or_two(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    uint32_t links[1];
    open_torus("2 3", "none", "", &machine, &topology);
    uint32_t only = sim_torus_link(&machine.torus, 0, 0, 1);
    assert_int_equal(sim_torus_link(&machine.torus, 0, 0, -1), only);
    assert_int_equal(look_at_route(&topology, 0, 3, 1, links, 1), 1);
    assert_int_equal(links[0], only);
    close_both(&machine, &topology);
    open_torus("2 3", "X", "", &machine, &topology);
    for (uint32_t choice = 0; choice < 2; choice++) {
        assert_int_equal(look_at_route(&topology, 0, 3, choice, links, 1), 1);
        assert_int_equal(links[0], sim_torus_link(&machine.torus, 0, 0, choice ? -1 : 1));
    }
    assert_true(sim_torus_link(&machine.torus, 0, 0, 1) !=
                sim_torus_link(&machine.torus, 0, 0, -1));
    close_both(&machine, &topology);
}

static void test_a_mesh_ends(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("4 3", "Y", "", &machine, &topology);
    assert_int_equal(sim_torus_link(&machine.torus, 0, 0, -1), SIM_LINK_NONE);
    assert_int_equal(sim_torus_link(&machine.torus, 9, 0, 1), SIM_LINK_NONE);
    assert_int_not_equal(sim_torus_link(&machine.torus, 0, 1, -1), SIM_LINK_NONE);
    int nodes[8];
    memset(nodes, 0xA5, sizeof nodes);
    assert_int_equal(sim_neighbours(&topology, 0, nodes, 8), 3);
    assert_int_equal(nodes[0], 1);
    assert_int_equal(nodes[1], 2);
    assert_int_equal(nodes[2], 3);
    assert_int_equal(sim_neighbours(&topology, 4, nodes, 1), 4); // counts what does not fit
    close_both(&machine, &topology);
}

static void test_two_links_make_one_neighbour(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("2 2", "X", "", &machine, &topology);
    int nodes[4];
    memset(nodes, 0xA5, sizeof nodes);
    assert_int_equal(sim_neighbours(&topology, 3, nodes, 4), 2);
    assert_int_equal(nodes[0], 1);
    assert_int_equal(nodes[1], 2);
    close_both(&machine, &topology);
}

static void test_a_dead_link_is_gone_round_without_a_longer_way(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("4 4", "X Y", "dead_link = 0 0 +X\n", &machine, &topology);
    uint32_t links[32], dead = sim_torus_link(&machine.torus, 0, 0, 1);
    assert_true(sim_link_is_dead(&topology, dead));
    assert_true(sim_link_is_dead(&topology, sim_torus_link(&machine.torus, 4, 0, -1)));
    assert_int_equal(topology.dead_link_count, 2);
    // Along Y first; and the other way round the ring where that is as long.
    assert_int_equal(look_at_route(&topology, 0, 5, 0, links, 32), 2);
    assert_int_equal(look_at_route(&topology, 0, 4, 0, links, 32), 3);
    assert_int_equal(sim_hops(&topology, 0, 4), 3);
    assert_int_equal(sim_hops(&topology, 0, 8), 2);
    int nodes[4];
    assert_int_equal(sim_neighbours(&topology, 0, nodes, 4), 3);
    close_both(&machine, &topology);
}

static void test_of_two_links_the_living_one_is_taken(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("2 3", "X", "dead_link = 0 0 -X\n", &machine, &topology);
    uint32_t links[32];
    for (uint32_t choice = 0; choice < 2; choice++) {
        assert_int_equal(look_at_route(&topology, 0, 3, choice, links, 32), 1);
        assert_int_equal(links[0], sim_torus_link(&machine.torus, 0, 0, 1));
        assert_int_equal(look_at_route(&topology, 3, 0, choice, links, 32), 1);
        assert_int_equal(links[0], sim_torus_link(&machine.torus, 3, 0, -1));
    }
    close_both(&machine, &topology);
}

static void test_routes_avoid_a_dead_node(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("5 4 3", "X", "dead_node = 2 1 1\ndead_node = (1,2,0)\n", &machine, &topology);
    int first = sim_torus_node(&machine.torus, (int[]){2, 1, 1});
    int second = sim_torus_node(&machine.torus, (int[]){1, 2, 0});
    for (int from = 0; from < topology.node_count; from++)
        for (int to = 0; to < topology.node_count; to++) {
            uint32_t links[128], searched[128];
            if (from == first || from == second || to == first || to == second || from == to)
                continue;
            int count = look_at_route(&topology, from, to, 0, links, 128);
            assert_int_equal(sim_route_search(&topology, from, to, searched, 128), count);
        }
    close_both(&machine, &topology);
}

static void test_a_dead_node_is_named_as_an_end(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("5 4 3", "X", "\ndead_node = 2 1 1\n", &machine, &topology);
    int dead = sim_torus_node(&machine.torus, (int[]){2, 1, 1});
    uint32_t links[128];
    assert_int_equal(sim_route(&topology, 0, dead, 0, links, 128), -EHOSTUNREACH);
    assert_non_null(strstr(leat_error_detail(), "node (2,1,1) is dead (test.machine:13)"));
    assert_int_equal(sim_route(&topology, dead, 0, 0, links, 128), -EHOSTUNREACH);
    assert_int_equal(sim_hops(&topology, 0, dead), -EHOSTUNREACH);
    assert_int_equal(sim_node_check(&topology, dead), -EHOSTUNREACH);
    assert_int_equal(sim_node_check(&topology, 0), 0);
    close_both(&machine, &topology);
}

static void test_a_node_cut_off_is_named(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("3 3", "none", "dead_link = 0 0 +X\ndead_link = 0 0 +Y\n", &machine, &topology);
    uint32_t links[64];
    assert_int_equal(sim_route(&topology, 0, 8, 0, links, 64), -EHOSTUNREACH);
    assert_non_null(strstr(leat_error_detail(), "leaves no way from node (0,0) to (2,2)"));
    assert_int_equal(sim_hops(&topology, 1, 8), 3);
    close_both(&machine, &topology);
}

static void test_dead_things_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "dead_node = 5 0",  "dead_node = 0",       "dead_node = 0 0 0", "dead_node = -1 0",
        "dead_link = 0 0",  "dead_link = 0 0 +Z",  "dead_link = 0 0 X", "dead_link = 3 0 +X",
        "dead_link = 0 -X", "dead_link = 0 0 +XX", "dead_link = ,",     "dead_node = 0 x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s\n" SIM_TORUS_TEXT "sides = 4 3\nwrap = Y\n", lines[i]);
        struct sim_machine machine;
        struct sim_topology topology;
        must_parse(text, &machine);
        assert_int_equal(sim_topology_open(&topology, &machine), -EINVAL);
        assert_non_null(strstr(leat_error_detail(), "test.machine:1: expected the coordinates"));
        close_both(&machine, &topology); // harmless after the error
    }
}

static void test_a_short_array_and_nodes_outside_are_refused(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus("4 4", "X Y", "", &machine, &topology);
    uint32_t links[4] = {7, 7, 7, 7};
    assert_int_equal(sim_route(&topology, 0, 10, 0, links, 3), -ENOBUFS);
    assert_int_equal(links[3], 7);
    assert_int_equal(sim_route(&topology, 0, 16, 0, links, 4), -EINVAL);
    assert_int_equal(sim_route(&topology, -1, 0, 0, links, 4), -EINVAL);
    assert_int_equal(sim_hops(&topology, 0, 16), -EINVAL);
    int nodes[1];
    assert_int_equal(sim_neighbours(&topology, 16, nodes, 1), -EINVAL);
    close_both(&machine, &topology);
}

static void test_names_are_coordinates(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_torus(K_SIDES, "X Z B", "", &machine, &topology);
    char text[64];
    memset(text, 0xA5, sizeof text);
    int at[] = {3, 0, 2, 0, 1, 0};
    int node = sim_torus_node(&machine.torus, at);
    sim_link_text(&topology, sim_torus_link(&machine.torus, node, 0, 1), text, sizeof text);
    assert_string_equal(text, "(3,0,2,0,1,0) to (4,0,2,0,1,0)");
    sim_vertex_text(&topology, (uint32_t)node, text, 6);
    assert_string_equal(text, "(3,0,");
    close_both(&machine, &topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_k_computer_has_82944_nodes_and_40_hops),
        cmocka_unit_test(test_the_other_published_sizes_load),
        cmocka_unit_test(test_a_hop_adds_to_the_latency),
        cmocka_unit_test(test_links_are_each_node_s_own),
        cmocka_unit_test(test_routes_are_as_short_as_a_search_finds),
        cmocka_unit_test(test_routes_take_the_axes_in_order),
        cmocka_unit_test(test_a_choice_decides_half_round_a_ring),
        cmocka_unit_test(test_a_side_of_two_has_one_link_or_two),
        cmocka_unit_test(test_a_mesh_ends),
        cmocka_unit_test(test_two_links_make_one_neighbour),
        cmocka_unit_test(test_a_dead_link_is_gone_round_without_a_longer_way),
        cmocka_unit_test(test_of_two_links_the_living_one_is_taken),
        cmocka_unit_test(test_routes_avoid_a_dead_node),
        cmocka_unit_test(test_a_dead_node_is_named_as_an_end),
        cmocka_unit_test(test_a_node_cut_off_is_named),
        cmocka_unit_test(test_dead_things_that_do_not_exist_are_refused),
        cmocka_unit_test(test_a_short_array_and_nodes_outside_are_refused),
        cmocka_unit_test(test_names_are_coordinates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
