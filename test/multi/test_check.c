// SPDX-License-Identifier: Apache-2.0
// `leat halo check` and what it is made of: a right plan passes in every mode, and each way to
// break one is named with rank, pulse and slot.

#include "multi/boxes.h"
#include "multi/graphs.h"

#include "core/job.h"
#include "halo/check.h"

#include <errno.h>
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    struct graph graph;
    struct box box;
    bool of_box;
};

static char file[] = "leat-check-XXXXXX";

static void write_plan(struct rank_thread *self)
{
    struct job *job = self->user;
    leat_plan *plan = job->of_box ? box_plan(self, &job->box) : graph_plan(self, &job->graph);
    rank_check(self, !leat_plan_write(self->job, plan, file), "%s", leat_error_detail());
    leat_plan_free(plan);
}

static struct plan_set written(struct job *job, int ranks)
{
    struct plan_set set = {0};
    ranks_run(ranks, write_plan, job);
    free(job);
    if (leat_plan_set_read(file, &set))
        fail_msg("%s", leat_error_detail());
    return set;
}

static struct job *new_job(void)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    return job;
}

// Rank 0 to rank 1: elements 0 1, then 2 3; back: two.
static struct plan_set two_lists(void)
{
    struct job *job = new_job();
    struct ranks_random random = {1};
    job->graph = (struct graph){.rank_count = 2, .home = {6, 4}};
    for (int e = 0; e < 3; e++)
        graph_join(&job->graph, e == 2, e < 2, 2, &random);
    for (uint32_t i = 0; i < 4; i++)
        job->graph.edge[i / 2].index[i % 2] = i;
    return written(job, 2);
}

static struct plan_set cube(void)
{
    static const int grid[3] = {2, 2, 2};
    struct job *job = new_job();
    job->of_box = true;
    box_fill(&job->box, grid, 0.9, 60, 0, 3);
    return written(job, 8);
}

static void expect(const struct check_report *report, enum finding_kind kind, uint64_t count,
                   int rank, int pulse, uint32_t slot, const char *words)
{
    if (report->count[kind] != count)
        fail_msg("%llu findings \"%s\" instead of %llu; first: %s",
                 (unsigned long long)report->count[kind], leat_finding_names[kind],
                 (unsigned long long)count, report->finding[0].text);
    for (size_t i = 0; i < report->kept; i++) {
        const struct finding *finding = &report->finding[i];
        if (finding->kind == kind && finding->rank == rank && finding->pulse == pulse &&
            finding->slot == slot && strstr(finding->text, words))
            return;
    }
    fail_msg("no finding \"%s\" at rank %d, pulse %d, slot %u with \"%s\"; first: %s",
             leat_finding_names[kind], rank, pulse, slot, words, report->finding[0].text);
}

static struct check_report *new_report(void)
{
    struct check_report *report = calloc(1, sizeof *report);
    assert_non_null(report);
    return report;
}

static struct check_report *compared(struct plan_set *set)
{
    struct check_report *report = new_report();
    leat_check_pairs(set, report);
    return report;
}

static struct check_report *replayed(struct plan_set *set, enum leat_mode mode)
{
    struct check_report *report = compared(set);
    assert_int_equal(leat_check_total(report), 0);
    if (leat_check_replay(set, mode, 3, report))
        fail_msg("%s", leat_error_detail());
    return report;
}

static void finish(struct plan_set *set, struct check_report *report)
{
    leat_plan_set_free(set);
    free(report);
}

static void test_a_right_plan_passes_in_every_mode(void **state)
{
    (void)state;
    for (int which = 0; which < 6; which++) {
        struct job *job = new_job();
        int ranks = 1 + which;
        graph_random(&job->graph, ranks, 70 + (uint64_t)which);
        struct plan_set set = which ? written(job, ranks) : cube();
        if (!which)
            free(job);
        uint64_t ghosts = 0;
        for (int rank = 0; rank < set.rank_count; rank++)
            ghosts += set.plan[rank]->element_count - set.plan[rank]->home_count;
        for (int m = 0; m < GRAPH_MODES; m++) {
            struct check_report *report = replayed(&set, graph_modes[m]);
            if (leat_check_total(report))
                fail_msg("%s", report->finding[0].text);
            assert_int_equal(report->ghosts, 3 * ghosts);
            assert_int_equal(report->exchanges, 6);
            free(report);
        }
        leat_plan_set_free(&set);
    }
}

static void test_a_swapped_peer_is_named_on_both_sides(void **state)
{
    (void)state;
    struct plan_set set = cube();
    int peer = set.plan[3]->pulse[0].send_rank;
    set.plan[3]->pulse[0].send_rank = 4;
    struct check_report *report = compared(&set);
    char words[64];
    snprintf(words, sizeof words, "to rank 4, which expects nothing more");
    expect(report, FINDING_DISAGREES, 2, 3, 0, 0, words);
    snprintf(words, sizeof words, "from rank 3, which sends nothing more");
    expect(report, FINDING_DISAGREES, 2, peer, 0, 0, words);
    finish(&set, report);
}

static void test_a_count_off_by_one_is_named_on_both_sides_with_its_slot(void **state)
{
    (void)state;
    struct plan_set set = two_lists();
    set.plan[0]->pulse[1].send_count = set.plan[0]->pulse[1].dependent_start = 1;
    struct check_report *report = compared(&set);
    expect(report, FINDING_DISAGREES, 2, 0, 1, 1, "sends 1 elements to rank 1, which expects 2");
    expect(report, FINDING_DISAGREES, 2, 1, 1, 1, "expects 2 elements from rank 0, which sends 1");
    finish(&set, report);
}

static void test_an_element_sent_twice_and_the_one_it_replaces_are_named(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++) {
        struct plan_set set = two_lists();
        set.plan[0]->index[3] = 1; // was 3
        struct check_report *report = replayed(&set, graph_modes[m]);
        expect(report, FINDING_MISSING, 1, 1, 1, 1, "element 3 of rank 0 does not arrive");
        expect(report, FINDING_DOUBLE, 1, 1, 1, 1, "element 1 of rank 0 comes 2 times; 1 expected");
        assert_int_equal(leat_check_total(report), 2);
        finish(&set, report);
    }
}

static void test_elements_in_each_others_places_are_named(void **state)
{
    (void)state;
    struct plan_set set = two_lists();
    set.plan[0]->index[0] = 1;
    set.plan[0]->index[1] = 0;
    struct check_report *report = replayed(&set, LEAT_MODE_FUSED);
    expect(report, FINDING_MISPLACED, 2, 1, 0, 0, "element 1 of rank 0 is where element 0");
    expect(report, FINDING_MISPLACED, 2, 1, 0, 1, "element 0 of rank 0 is where element 1");
    finish(&set, report);
}

static void test_a_pulse_that_is_not_sent_is_named(void **state)
{
    (void)state;
    struct plan_set set = two_lists();
    leat_pulse *pulse = &set.plan[0]->pulse[1];
    pulse->send_rank = LEAT_NOBODY;
    pulse->send_count = pulse->dependent_start = 0;
    struct check_report *report = compared(&set);
    expect(report, FINDING_DISAGREES, 1, 1, 1, 0, "rank 0, which sends nothing more");
    finish(&set, report);
}

static void test_a_zone_that_forgets_what_was_crossed_is_named(void **state)
{
    (void)state;
    struct plan_set set = cube();
    struct leat_plan *plan = set.plan[5];
    const leat_pulse *last = &plan->pulse[2];
    uint32_t slot = 0;
    while (slot < last->recv_count && plan->zone[last->recv_offset + slot] != 7)
        slot++;
    assert_true(slot < last->recv_count);
    plan->zone[last->recv_offset + slot] = 1;
    struct check_report *report = compared(&set);
    expect(report, FINDING_DISAGREES, 1, last->recv_rank, 2, slot, "has crossed dimensions 6");
    finish(&set, report);
}

// A plan that leat_halo_open refuses is a finding of every rank, not an error of the replay.
static void test_a_plan_that_cannot_be_opened_is_a_finding(void **state)
{
    (void)state;
    struct plan_set set = two_lists();
    set.plan[0]->index[1] = 0; // twice in one pulse
    struct check_report *report = replayed(&set, LEAT_MODE_HOST);
    assert_int_equal(report->count[FINDING_FAILED], 2);
    expect(report, FINDING_FAILED, 2, 0, -1, 0, "sends element 0 again");
    finish(&set, report);
}

// ---- The command ----

static int command(const char *arguments, char *out, size_t bytes)
{
    const char *leat = getenv("LEAT_BIN");
    if (!leat) {
        print_message("LEAT_BIN names no command to try\n");
        skip();
    }
    char line[1024];
    snprintf(line, sizeof line, "'%s' halo %s 2>&1", leat, arguments);
    FILE *stream = popen(line, "r");
    assert_non_null(stream);
    size_t got = fread(out, 1, bytes - 1, stream);
    out[got] = '\0';
    int status = pclose(stream);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_the_command_says_right_or_wrong_by_its_status(void **state)
{
    (void)state;
    char out[20000], line[128];
    struct plan_set set = two_lists();
    snprintf(line, sizeof line, "check %s", file);
    assert_int_equal(command(line, out, sizeof out), 0);
    assert_non_null(strstr(out, "30 exchanges, 90 ghosts looked at: all right"));
    snprintf(line, sizeof line, "check %s --mode host --steps 2", file);
    assert_int_equal(command(line, out, sizeof out), 0);
    assert_non_null(strstr(out, "4 exchanges, 12 ghosts"));
    set.plan[0]->index[3] = 1;
    assert_int_equal(leat_plan_set_write(&set, file), 0);
    assert_int_equal(command(line, out, sizeof out), 1);
    assert_non_null(strstr(out, "rank 1, pulse 1, slot 1: element 3 of rank 0 does not arrive"));
    assert_non_null(strstr(out, "1 missing, 1 double"));
    leat_plan_set_free(&set);
    assert_int_equal(command("check leat-no-such-plan", out, sizeof out), 1);
    assert_non_null(strstr(out, "leat-no-such-plan"));
    static const char *const wrong[] = {"", "check", "check a b", "mend a", "check a --mode some"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(command(wrong[i], out, sizeof out), 2);
}

static void test_the_command_prints_json(void **state)
{
    (void)state;
    char out[20000], line[128];
    struct plan_set set = two_lists();
    set.plan[0]->pulse[1].send_rank = 0;
    assert_int_equal(leat_plan_set_write(&set, file), 0);
    leat_plan_set_free(&set);
    snprintf(line, sizeof line, "check %s --json", file);
    assert_int_equal(command(line, out, sizeof out), 1);
    json_t *root = json_loads(out, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "leat.halo.check/1");
    assert_true(json_is_false(json_object_get(root, "right")));
    json_t *counts = json_object_get(root, "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, "disagrees")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "findings")), 2);
    json_decref(root);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_plan_passes_in_every_mode),
        cmocka_unit_test(test_a_swapped_peer_is_named_on_both_sides),
        cmocka_unit_test(test_a_count_off_by_one_is_named_on_both_sides_with_its_slot),
        cmocka_unit_test(test_an_element_sent_twice_and_the_one_it_replaces_are_named),
        cmocka_unit_test(test_elements_in_each_others_places_are_named),
        cmocka_unit_test(test_a_pulse_that_is_not_sent_is_named),
        cmocka_unit_test(test_a_zone_that_forgets_what_was_crossed_is_named),
        cmocka_unit_test(test_a_plan_that_cannot_be_opened_is_a_finding),
        cmocka_unit_test(test_the_command_says_right_or_wrong_by_its_status),
        cmocka_unit_test(test_the_command_prints_json),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
