// SPDX-License-Identifier: Apache-2.0
// Machine files: the shipped ones, what a line may look like, what is refused and where.
//
// Advantage: each fault is one line in an otherwise sound text. Disadvantage: says nothing about
// whether a figure is right for its machine.

#include "sim_parts.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define TORUS SIM_TORUS_TEXT "sides = 4 3 2\nwrap = X\n"
#define CLUSTER                                                                                    \
    SIM_CLUSTER_TEXT "hosts = 4\ngpus_per_host = 8\ngpus_per_nvlink = 4\nnics_per_host = 4\n"
#define FAT_TREE                                                                                   \
    CLUSTER "outside = fat-tree\nlevels = 2\nhosts_per_pod = 2\nleaf_rails = 1\n"                  \
            "leaf_uplinks = 2\n"

static void refuse(const char *text, const char *word)
{
    struct sim_machine machine;
    memset(&machine, 0xA5, sizeof machine);
    assert_int_equal(sim_machine_parse(text, strlen(text), "test.machine", &machine), -EINVAL);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
    assert_null(machine.dead);
    assert_int_equal(machine.dead_count, 0);
}

static bool read_shipped(const char *name, struct sim_machine *machine)
{
    const char *source = getenv("LEAT_SOURCE_DIR");
    if (!source) {
        printf("skipped: LEAT_SOURCE_DIR is not set\n");
        return false;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/share/machines/%s", source, name);
    if (sim_machine_read(path, machine) != 0)
        fail_msg("%s", leat_error_detail());
    return true;
}

static void test_the_k_computer_is_as_published(void **state)
{
    (void)state;
    struct sim_machine machine;
    if (!read_shipped("k.machine", &machine))
        skip();
    static const int sides[] = {24, 18, 16, 2, 3, 2};
    static const bool wraps[] = {true, false, true, false, true, false};
    assert_int_equal(machine.kind, SIM_TORUS);
    assert_string_equal(machine.name, "K computer");
    assert_int_equal(machine.torus.axis_count, 6);
    assert_memory_equal(machine.torus.side, sides, sizeof sides);
    assert_memory_equal(machine.torus.wrap, wraps, sizeof wraps);
    assert_memory_equal(machine.torus.letter, "XYZABC", 6);
    assert_true(machine.torus.link_gb_per_s == 4.7 && machine.torus.link_raw_gb_per_s == 5.0);
    assert_true(machine.torus.hop_ns == 100 && machine.torus.latency_ns == 910);
    assert_true(machine.software_send_ns + machine.software_receive_ns == 360);
    assert_true(machine.node_gb_per_s == 16 && machine.copy_gb_per_s == 5.4);
    assert_int_equal(machine.tni_count, 4);
    assert_int_equal(machine.barrier_words, 8);
    assert_true(machine.descriptor_push);
    assert_true(machine.memory_bytes == (uint64_t)16 << 30);
    sim_machine_end(&machine);
}

static void test_the_gpu_cluster_is_read(void **state)
{
    (void)state;
    struct sim_machine machine;
    if (!read_shipped("gpu-cluster.machine", &machine))
        skip();
    assert_int_equal(machine.kind, SIM_CLUSTER);
    assert_int_equal(machine.cluster.hosts, 1024);
    assert_int_equal(machine.cluster.gpus_per_host, 8);
    assert_int_equal(machine.cluster.outside, SIM_FAT_TREE);
    assert_int_equal(machine.cluster.levels, 3);
    sim_machine_end(&machine);
}

static void test_comments_spaces_and_dos_line_ends_do_not_matter(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(
        "\xef\xbb\xbf# a comment\r\n\r\n  hop_ns=1e2 # nanoseconds\r\n\tlatency_ns =  910\r\n"
        "kind = torus\nlink_gb_per_s = 4.7\n" SIM_NODE_TEXT "wrap = none\nsides = 5x2",
        &machine);
    assert_true(machine.torus.hop_ns == 100 && machine.torus.latency_ns == 910);
    assert_int_equal(machine.torus.axis_count, 2);
    assert_int_equal(machine.torus.side[1], 2);
    sim_machine_end(&machine);
}

static void test_what_may_be_left_out_is_none(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(TORUS, &machine);
    assert_string_equal(machine.name, "test");
    assert_true(machine.torus.link_raw_gb_per_s == 4.7); // as the link, having no other figure
    assert_true(machine.node_gb_per_s == 0 && machine.descriptor_fetch_ns == 0);
    assert_true(machine.barrier_words == 0 && machine.memory_bytes == 0);
    assert_false(machine.descriptor_push);
    sim_machine_end(&machine);
}

static void test_axes_may_have_other_letters(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(SIM_TORUS_TEXT "wrap = T R\naxes = R S T\nsides = 4 3 2\n", &machine);
    static const bool wraps[] = {true, false, true};
    assert_memory_equal(machine.torus.wrap, wraps, sizeof wraps);
    sim_machine_end(&machine);
}

static void test_bytes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"4096", 4096}, {"1.5K", 1536}, {"3m", 3 << 20}, {"80G", (uint64_t)80 << 30}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, TORUS "memory_bytes = %s\n", cases[i].text);
        struct sim_machine machine;
        must_parse(text, &machine);
        assert_true(machine.memory_bytes == cases[i].bytes);
        sim_machine_end(&machine);
    }
}

static void test_dead_things_are_kept_in_order_with_their_lines(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse("dead_node = 1 2 0\n\ndead_link = 0 0 1 +X # cable\ndead_node = 3 0 0\n" TORUS,
               &machine);
    assert_int_equal(machine.dead_count, 3);
    assert_string_equal(machine.dead[0].text, "1 2 0");
    assert_string_equal(machine.dead[1].text, "0 0 1 +X");
    assert_string_equal(machine.dead[2].text, "3 0 0");
    assert_true(!machine.dead[0].is_link && machine.dead[1].is_link && !machine.dead[2].is_link);
    assert_int_equal(machine.dead[0].line, 1);
    assert_int_equal(machine.dead[1].line, 3);
    assert_int_equal(machine.dead[2].line, 4);
    sim_machine_end(&machine);
    sim_machine_end(&machine); // harmless
}

static void test_lines_that_say_nothing_are_refused(void **state)
{
    (void)state;
    refuse("hop_ns 100\n" TORUS, "test.machine:1: expected 'key = value', got 'hop_ns 100'");
    refuse("\nhop_ns =\n", "test.machine:2: hop_ns has no value");
    refuse("# one\nhops_ns = 100\n" TORUS, "test.machine:2: 'hops_ns' is no key");
    refuse("hop_ns = 100\n" TORUS, "hop_ns was given in line 1 already");
    refuse("kind = torus\n" TORUS, "kind was given in line 1 already");
}

static void test_the_kind_decides_on_the_keys(void **state)
{
    (void)state;
    refuse(SIM_NODE_TEXT, "expected a line 'kind = torus' or 'kind = cluster'");
    refuse("kind = hypercube\n" SIM_NODE_TEXT, "test.machine:1: kind: expected torus or cluster");
    refuse("hosts = 4\n" TORUS, "test.machine:1: hosts is no key of a torus");
    refuse("sides = 4\n" FAT_TREE, "test.machine:1: sides is no key of a cluster with a fat tree");
    refuse("global_links = 4\n" FAT_TREE, "global_links is no key of a cluster with a fat tree");
    refuse("levels = 2\noutside = dragonfly\n" CLUSTER,
           "levels is no key of a cluster with a drag");
}

static void test_a_figure_is_never_invented(void **state)
{
    (void)state;
    refuse(SIM_NODE_TEXT "kind = torus\nsides = 4\nwrap = X\nlink_gb_per_s = 1\nlatency_ns = 9\n",
           "test.machine: a torus needs a line 'hop_ns = ...'");
    refuse(SIM_TORUS_TEXT "sides = 4\n", "a torus needs a line 'wrap = ...'");
    refuse(CLUSTER, "a cluster with a fat tree needs a line 'outside = ...'");
    refuse(CLUSTER "outside = dragonfly\nrouters_per_group = 2\nglobal_links = 1\n",
           "a cluster with a dragonfly needs a line 'hosts_per_router = ...'");
    refuse("levels = 3\nhosts_per_pod = 2\nleaf_rails = 1\nleaf_uplinks = 2\n" CLUSTER
           "outside = fat-tree\n",
           "levels = 3 needs a line 'spine_uplinks = ...'");
}

static void test_numbers_are_whole_numbers_in_their_range(void **state)
{
    (void)state;
    static const struct {
        const char *line, *word;
    } cases[] = {
        {"memory_bytes = many", "memory_bytes: expected bytes as a whole number"},
        {"memory_bytes = 16Q", "got '16Q'"},
        {"memory_bytes = 1.5", "expected bytes as a whole number"},
        {"memory_bytes = nan", "expected bytes as a whole number"},
        {"memory_bytes = -1", "memory_bytes: expected 0 to 1e+18, got -1"},
        {"barrier_words = 8.5", "barrier_words: expected a whole number, got '8.5'"},
        {"barrier_words = 8 words", "expected a whole number, got '8 words'"},
        {"barrier_words = 99999", "barrier_words: expected 0 to 1024"},
        {"descriptor_fetch_ns = inf", "descriptor_fetch_ns: expected a number, got 'inf'"},
        {"descriptor_fetch_ns = 12ns", "expected a number, got '12ns'"},
        {"descriptor_push = true", "descriptor_push: expected yes or no, got 'true'"},
        {"link_raw_gb_per_s = 0", "link_raw_gb_per_s: expected 1e-06 to 1e+06, got 0"},
        {"link_raw_gb_per_s = 4.6", "link_raw_gb_per_s, 4.6, is less than link_gb_per_s, 4.7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s\n" TORUS, cases[i].line);
        refuse(text, cases[i].word);
    }
}

static void test_sides_and_axes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 4 0\n", "sides: expected one to six sides");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 2 2 2 2 2 2 2\n", "sides: expected one to six sides");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 65536 65536\n", "at most 2^24 nodes");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = four\n", "sides: expected one to six sides");
    refuse(SIM_TORUS_TEXT "wrap = W\nsides = 4 4\n", "wrap: expected letters of the axes");
    refuse(SIM_TORUS_TEXT "wrap = X X\nsides = 4 4\n", "wrap: expected letters of the axes");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 4 4\naxes = X\n", "as many letters as there are");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 4 4\naxes = X X\n", "a different capital letter");
    refuse(SIM_TORUS_TEXT "wrap = X\nsides = 4 4\naxes = X Y Z\n", "a different capital letter");
}

static void test_figures_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    refuse(SIM_NODE_TEXT "kind = torus\nsides = 4\nwrap = X\nlink_gb_per_s = 1\nlatency_ns = 9\n"
                         "hop_ns = 10\n",
           "latency_ns, 9, holds the first hop but is less than hop_ns, 10");
    refuse(SIM_CLUSTER_TEXT "hosts = 4\ngpus_per_host = 8\ngpus_per_nvlink = 3\n"
                            "nics_per_host = 4\noutside = dragonfly\nrouters_per_group = 2\n"
                            "hosts_per_router = 1\nglobal_links = 1\n",
           "gpus_per_nvlink, 3, has to divide gpus_per_host, 8");
    refuse(FAT_TREE "spine_uplinks = 2\n", "spine_uplinks is for levels = 3");
}

static void test_a_nul_byte_is_refused(void **state)
{
    (void)state;
    static const char text[] = "kind = torus\n\0sides = 4\n";
    struct sim_machine machine;
    assert_int_equal(sim_machine_parse(text, sizeof text, "x", &machine), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "x: there is a NUL byte"));
}

static void test_a_name_is_found_in_the_folders_of_the_environment(void **state)
{
    (void)state;
    char folder[] = "/tmp/leat_machines_XXXXXX", path[64], folders[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/mine.machine", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(TORUS, file);
    assert_int_equal(fclose(file), 0);
    snprintf(folders, sizeof folders, "/nowhere:%s", folder);
    setenv("LEAT_MACHINES", folders, 1);
    struct sim_machine machine;
    int error = sim_machine_read("mine", &machine);
    unsetenv("LEAT_MACHINES");
    unlink(path);
    rmdir(folder);
    assert_int_equal(error, 0);
    assert_string_equal(machine.file, path);
    assert_string_equal(machine.name, "mine");
    sim_machine_end(&machine);
}

static void test_a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct sim_machine machine;
    assert_int_equal(sim_machine_read("no-such-machine", &machine), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "machine 'no-such-machine'"));
    sim_machine_end(&machine);
    assert_int_equal(sim_machine_read("/", &machine), -EISDIR);
    sim_machine_end(&machine);
}

static void test_a_file_without_end_is_refused(void **state)
{
    (void)state;
    struct sim_machine machine;
    assert_int_equal(sim_machine_read("/dev/zero", &machine), -EFBIG);
    sim_machine_end(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_k_computer_is_as_published),
        cmocka_unit_test(test_the_gpu_cluster_is_read),
        cmocka_unit_test(test_comments_spaces_and_dos_line_ends_do_not_matter),
        cmocka_unit_test(test_what_may_be_left_out_is_none),
        cmocka_unit_test(test_axes_may_have_other_letters),
        cmocka_unit_test(test_bytes_have_units),
        cmocka_unit_test(test_dead_things_are_kept_in_order_with_their_lines),
        cmocka_unit_test(test_lines_that_say_nothing_are_refused),
        cmocka_unit_test(test_the_kind_decides_on_the_keys),
        cmocka_unit_test(test_a_figure_is_never_invented),
        cmocka_unit_test(test_numbers_are_whole_numbers_in_their_range),
        cmocka_unit_test(test_sides_and_axes_that_do_not_fit_are_refused),
        cmocka_unit_test(test_figures_that_contradict_each_other_are_refused),
        cmocka_unit_test(test_a_nul_byte_is_refused),
        cmocka_unit_test(test_a_name_is_found_in_the_folders_of_the_environment),
        cmocka_unit_test(test_a_file_that_is_not_there_is_named),
        cmocka_unit_test(test_a_file_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
