// SPDX-License-Identifier: Apache-2.0
// GPU clusters: fat trees and dragonflies, their cables, routes and what dead things do to them.
//
// Advantage: small clusters, full and with a last pod that is not, are looked at as a whole.
// Disadvantage: how well routes spread is checked for one pattern only.

#include "sim_parts.h"

#include "sim/cluster.h"

#include <errno.h>
#include <stdbool.h>

#define HOSTS(hosts, gpus, nvlink, nics)                                                           \
    SIM_CLUSTER_TEXT "hosts = " hosts "\ngpus_per_host = " gpus "\ngpus_per_nvlink = " nvlink      \
                     "\nnics_per_host = " nics "\n"
#define FAT_TREE(levels, pod, rails, uplinks)                                                      \
    "outside = fat-tree\nlevels = " levels "\nhosts_per_pod = " pod "\nleaf_rails = " rails        \
    "\nleaf_uplinks = " uplinks "\n"
#define DRAGONFLY(routers, hosts, cables)                                                          \
    "outside = dragonfly\nrouters_per_group = " routers "\nhosts_per_router = " hosts              \
    "\nglobal_links = " cables "\n"

#define TWO_LEVELS   HOSTS("8", "4", "2", "2") FAT_TREE("2", "4", "2", "3")
#define THREE_LEVELS HOSTS("8", "4", "4", "4") FAT_TREE("3", "2", "2", "2") "spine_uplinks = 2\n"
#define FLY          HOSTS("12", "2", "2", "2") DRAGONFLY("3", "1", "2")

static const char *const clusters[] = {
    TWO_LEVELS,
    THREE_LEVELS,
    FLY,
    HOSTS("7", "3", "1", "1") FAT_TREE("2", "3", "1", "2"),
    HOSTS("5", "1", "1", "3") FAT_TREE("3", "2", "2", "3") "spine_uplinks = 1\n",
    HOSTS("1", "8", "4", "8") FAT_TREE("2", "4", "8", "4"),
    HOSTS("1", "1", "1", "1") DRAGONFLY("1", "1", "1"),
    HOSTS("11", "2", "1", "1") DRAGONFLY("2", "2", "3"),
    HOSTS("4", "2", "2", "1") DRAGONFLY("2", "2", "1"),
    HOSTS("8", "1", "1", "1") DRAGONFLY("2", "1", "2"), // a port of each group is left over
};

static void open_with(const char *cluster, const char *more, struct sim_machine *machine,
                      struct sim_topology *topology)
{
    char text[2048];
    snprintf(text, sizeof text, "%s%s", more, cluster);
    must_open(text, machine, topology);
}

static bool takes(const struct sim_topology *topology, int from, int to, const char *step)
{
    uint32_t links[128];
    int count = look_at_route(topology, from, to, 0, links, 128);
    for (int i = 0; i < count; i++) {
        char text[128];
        sim_link_text(topology, links[i], text, sizeof text);
        if (!strcmp(text, step))
            return true;
    }
    return false;
}

static void test_cables_are_each_vertex_s_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        open_with(clusters[i], "", &machine, &topology);
        look_at_all_links(&topology);
        close_both(&machine, &topology);
    }
}

static void test_every_cable_has_one_the_other_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        open_with(clusters[i], "", &machine, &topology);
        for (uint32_t link = 0; link < topology.link_count; link++) {
            struct sim_link there, back;
            if (sim_link_get(&topology, link, &there) != 0)
                continue;
            int ways = 0, returns = 0;
            for (uint32_t other = 0; other < topology.link_count; other++) {
                if (sim_link_get(&topology, other, &back) != 0)
                    continue;
                ways += back.from == there.from && back.to == there.to;
                returns += back.from == there.to && back.to == there.from;
            }
            assert_int_equal(ways, returns);
        }
        close_both(&machine, &topology);
    }
}

static void test_routes_lead_there_for_every_pair_and_choice(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        struct sim_machine machine;
        struct sim_topology topology;
        open_with(clusters[i], "", &machine, &topology);
        for (int from = 0; from < topology.node_count; from++)
            for (int to = 0; to < topology.node_count; to++)
                for (uint32_t choice = 0; choice < 13; choice += 3) {
                    uint32_t links[8];
                    int count = look_at_route(&topology, from, to, choice, links, 8);
                    assert_in_range(count, 0, topology.hops_max);
                    if (choice == 0)
                        assert_int_equal(sim_hops(&topology, from, to), count);
                }
        close_both(&machine, &topology);
    }
}

static void test_near_gpus_are_reached_by_the_near_way(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_with(TWO_LEVELS, "", &machine, &topology);
    assert_int_equal(topology.node_count, 32);
    uint32_t links[6];
    assert_int_equal(look_at_route(&topology, 0, 1, 0, links, 6), 2);
    assert_true(sim_route_ns(&topology, links, 2) == 500 + 2 * 400);
    assert_true(takes(&topology, 0, 1, "gpu 0 to nvswitch 0"));
    assert_int_equal(look_at_route(&topology, 0, 2, 0, links, 6), 2);
    assert_true(sim_route_ns(&topology, links, 2) == 500 + 2 * 350);
    assert_true(takes(&topology, 0, 2, "gpu 0 to host 0"));
    assert_int_equal(look_at_route(&topology, 0, 4, 0, links, 6), 4); // the same leaf
    assert_true(sim_route_ns(&topology, links, 4) == 500 + 2 * 350 + 2 * 300);
    assert_int_equal(look_at_route(&topology, 0, 16, 0, links, 6), 6); // another pod
    assert_true(sim_route_ns(&topology, links, 6) == 500 + 2 * 350 + 2 * 300 + 2 * 250);
    close_both(&machine, &topology);
}

static void test_rates_are_those_of_the_kind_of_cable(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    struct sim_link link;
    uint32_t links[8];
    open_with(THREE_LEVELS, "", &machine, &topology);
    static const double expected[] = {55, 48, 40, 40, 40, 40, 48, 55};
    assert_int_equal(look_at_route(&topology, 0, 31, 0, links, 8), 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(sim_link_get(&topology, links[i], &link), 0);
        assert_true(link.gb_per_s == expected[i]);
    }
    assert_int_equal(look_at_route(&topology, 0, 3, 0, links, 8), 2);
    assert_int_equal(sim_link_get(&topology, links[1], &link), 0);
    assert_true(link.gb_per_s == 400);
    close_both(&machine, &topology);
}

static void test_gpus_use_their_own_cards(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    uint32_t links[8];
    open_with(TWO_LEVELS, "", &machine, &topology); // four GPUs, two cards
    for (int gpu = 0; gpu < 4; gpu++) {
        look_at_route(&topology, gpu, 16, 0, links, 8);
        assert_int_equal(links[1], topology.first[L_NIC_UP] + (uint32_t)(gpu / 2));
    }
    close_both(&machine, &topology);
    open_with(clusters[4], "", &machine, &topology); // one GPU, three cards
    for (uint32_t choice = 0; choice < 3; choice++) {
        look_at_route(&topology, 0, 4, choice, links, 8);
        assert_int_equal(links[1], topology.first[L_NIC_UP] + choice);
    }
    close_both(&machine, &topology);
}

// A leaf has as many uplinks as hosts: every host sends to the next pod, and no cable is shared.
static void test_streams_to_different_hosts_spread_over_the_uplinks(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    must_open(HOSTS("16", "2", "2", "2") FAT_TREE("3", "4", "2", "4") "spine_uplinks = 4\n",
              &machine, &topology);
    uint8_t *used = calloc(topology.link_count, 1);
    assert_non_null(used);
    for (int from = 0; from < 32; from++) {
        uint32_t links[8];
        int count = look_at_route(&topology, from, (from + 8) % 32, 0, links, 8);
        assert_int_equal(count, 8);
        for (int i = 0; i < count; i++)
            assert_int_equal(used[links[i]]++, 0);
    }
    free(used);
    close_both(&machine, &topology);
}

static void test_a_dragonfly_needs_three_cables_at_most(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_with(FLY, "", &machine, &topology); // four groups of three routers
    assert_int_equal(topology.first[V_SPINE] - topology.first[V_LEAF], 12);
    assert_int_equal(topology.hops_max, 7);
    uint32_t links[7];
    assert_int_equal(look_at_route(&topology, 0, 2, 0, links, 7), 5);
    int longest = 0;
    for (int to = 0; to < 24; to++) {
        int count = look_at_route(&topology, 0, to, 0, links, 7);
        longest = count > longest ? count : longest;
    }
    assert_int_equal(longest, 7);
    close_both(&machine, &topology);
}

static void test_groups_that_cannot_all_be_joined_are_refused(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    must_parse(HOSTS("12", "1", "1", "1") DRAGONFLY("2", "1", "2"), &machine);
    assert_int_equal(sim_topology_open(&topology, &machine), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "6 groups need 5 cables to the others each, and 2 "
                                                "routers with 2 global_links have 4"));
    close_both(&machine, &topology);
}

static void test_neighbours_are_those_of_the_same_switch(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    int nodes[8];
    memset(nodes, 0xA5, sizeof nodes);
    open_with(TWO_LEVELS, "", &machine, &topology); // NVLink joins two
    assert_int_equal(sim_neighbours(&topology, 3, nodes, 8), 1);
    assert_int_equal(nodes[0], 2);
    close_both(&machine, &topology);
    open_with(clusters[3], "dead_node = gpu 4\n", &machine, &topology); // a host of three
    assert_int_equal(sim_neighbours(&topology, 3, nodes, 8), 1);
    assert_int_equal(nodes[0], 5);
    close_both(&machine, &topology);
    open_with(clusters[4], "", &machine, &topology); // hosts of one, two to a pod
    assert_int_equal(sim_neighbours(&topology, 2, nodes, 8), 1);
    assert_int_equal(nodes[0], 3);
    assert_int_equal(sim_neighbours(&topology, 4, nodes, 8), 0); // the last pod has one
    close_both(&machine, &topology);
}

static void test_a_dead_spine_is_avoided_at_no_cost(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_with(TWO_LEVELS, "dead_node = spine 1\n", &machine, &topology);
    for (int from = 0; from < 16; from++)
        for (int to = 16; to < 32; to++) {
            uint32_t links[64];
            assert_int_equal(look_at_route(&topology, from, to, 0, links, 64), 6);
        }
    close_both(&machine, &topology);
}

static void test_a_dead_cable_between_switches_is_avoided(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_with(THREE_LEVELS, "dead_link = leaf 0 spine 1\ndead_link = spine 0 core 0\n", &machine,
              &topology);
    assert_int_equal(topology.dead_link_count, 4);
    uint32_t links[64];
    for (int to = 8; to < 32; to++)
        assert_int_equal(look_at_route(&topology, 0, to, 0, links, 64), 8);
    close_both(&machine, &topology);
    open_with(FLY, "dead_link = router 0 router 1\n", &machine, &topology);
    assert_int_equal(look_at_route(&topology, 0, 2, 0, links, 64), 6);
    close_both(&machine, &topology);
}

static void test_with_a_dead_card_another_is_used(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    uint32_t links[64];
    open_with(TWO_LEVELS, "dead_link = host 0 nic 0\n", &machine, &topology);
    look_at_route(&topology, 0, 16, 0, links, 64);
    assert_int_equal(links[1], topology.first[L_NIC_UP] + 1);
    look_at_route(&topology, 16, 0, 0, links, 64);
    close_both(&machine, &topology);
}

static void test_with_dead_nvlink_pcie_is_used(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    open_with(THREE_LEVELS, "dead_link = gpu 1 nvswitch 0\n", &machine, &topology);
    assert_true(takes(&topology, 0, 1, "gpu 0 to host 0"));
    assert_true(takes(&topology, 0, 2, "gpu 0 to nvswitch 0"));
    close_both(&machine, &topology);
}

// Going round must not make other people's GPUs and hosts into switches.
static void test_gpus_and_hosts_pass_nothing_on(void **state)
{
    (void)state;
    struct sim_machine machine;
    struct sim_topology topology;
    uint32_t links[64];
    open_with(TWO_LEVELS, "dead_link = gpu 0 host 0\n", &machine, &topology);
    assert_int_equal(sim_route(&topology, 0, 16, 0, links, 64), -EHOSTUNREACH);
    assert_int_equal(look_at_route(&topology, 0, 1, 0, links, 64), 2);
    close_both(&machine, &topology);
    // Leaf 0 has lost the spines, so only hosts on both rails could bring its packets to leaf 1.
    open_with(TWO_LEVELS,
              "dead_link = leaf 0 spine 0\ndead_link = leaf 0 spine 1\ndead_link = leaf 0 spine 2\n"
              "dead_link = host 0 nic 1\n",
              &machine, &topology);
    assert_int_equal(sim_route(&topology, 0, 16, 0, links, 64), -EHOSTUNREACH);
    assert_int_equal(look_at_route(&topology, 0, 4, 0, links, 64), 4);
    close_both(&machine, &topology);
}

static void test_names_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "dead_node = gpu 32",
        "dead_node = gpu",
        "dead_node = leaf 4",
        "dead_node = core 0",
        "dead_node = router 0",
        "dead_node = gpu 1 2",
        "dead_node = 17",
        "dead_link = leaf 0",
        "dead_link = leaf 0 leaf 1",
        "dead_link = host 0 nic 2",
        "dead_link = leaf 0 nic 0",
        "dead_link = gpu 0 gpu 1",
        "dead_link = gpu 0 host 1",
        "dead_node = gpu -1",
        "dead_node = gpu 99999999999",
        "dead_link = host 0 nic 0 x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[1024];
        snprintf(text, sizeof text, "\n%s\n" TWO_LEVELS, lines[i]);
        struct sim_machine machine;
        struct sim_topology topology;
        must_parse(text, &machine);
        assert_int_equal(sim_topology_open(&topology, &machine), -EINVAL);
        assert_non_null(strstr(leat_error_detail(), "test.machine:2: expected "));
        close_both(&machine, &topology);
    }
}

static void test_the_shipped_cluster_opens(void **state)
{
    (void)state;
    const char *source = getenv("LEAT_SOURCE_DIR");
    if (!source) {
        printf("skipped: LEAT_SOURCE_DIR is not set\n");
        skip();
    }
    char path[4096];
    struct sim_machine machine;
    struct sim_topology topology;
    snprintf(path, sizeof path, "%s/share/machines/gpu-cluster.machine", source);
    assert_int_equal(sim_machine_read(path, &machine), 0);
    assert_int_equal(sim_topology_open(&topology, &machine), 0);
    assert_int_equal(topology.node_count, 8192);
    look_at_all_links(&topology);
    uint32_t links[8];
    assert_int_equal(look_at_route(&topology, 5, 8191, 0, links, 8), 8);
    close_both(&machine, &topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cables_are_each_vertex_s_own),
        cmocka_unit_test(test_every_cable_has_one_the_other_way),
        cmocka_unit_test(test_routes_lead_there_for_every_pair_and_choice),
        cmocka_unit_test(test_near_gpus_are_reached_by_the_near_way),
        cmocka_unit_test(test_rates_are_those_of_the_kind_of_cable),
        cmocka_unit_test(test_gpus_use_their_own_cards),
        cmocka_unit_test(test_streams_to_different_hosts_spread_over_the_uplinks),
        cmocka_unit_test(test_a_dragonfly_needs_three_cables_at_most),
        cmocka_unit_test(test_groups_that_cannot_all_be_joined_are_refused),
        cmocka_unit_test(test_neighbours_are_those_of_the_same_switch),
        cmocka_unit_test(test_a_dead_spine_is_avoided_at_no_cost),
        cmocka_unit_test(test_a_dead_cable_between_switches_is_avoided),
        cmocka_unit_test(test_with_a_dead_card_another_is_used),
        cmocka_unit_test(test_with_dead_nvlink_pcie_is_used),
        cmocka_unit_test(test_gpus_and_hosts_pass_nothing_on),
        cmocka_unit_test(test_names_that_do_not_exist_are_refused),
        cmocka_unit_test(test_the_shipped_cluster_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
