// SPDX-License-Identifier: Apache-2.0
// Plans from the caller's own lists, in every mode: what arrives and what comes back on any graph,
// for any element size, with several fields and several halos at a time.

#include "multi/boxes.h"
#include "multi/graphs.h"

#include "core/job.h"

#include <errno.h>
#include <math.h>

struct job {
    struct graph graph[3];
    enum leat_mode mode;
    int field_count, steps, halo_count;
    leat_field field[LEAT_FIELDS_MAX]; // places are filled in by each rank
    uint64_t seed;
};

struct bound {
    const struct graph *graph;
    leat_plan *plan;
    leat_plan_info info;
    leat_region *region[LEAT_FIELDS_MAX];
    void *data[LEAT_FIELDS_MAX];
    leat_field field[LEAT_FIELDS_MAX];
    leat_halo *halo;
};

static uint32_t element_bytes(const leat_field *field)
{
    return (uint32_t)field->components * (field->element == LEAT_F64 ? 8 : 4);
}

static bool bind(struct rank_thread *self, const struct job *job, int which, struct bound *bound)
{
    *bound = (struct bound){.graph = &job->graph[which]};
    bound->plan = graph_plan(self, bound->graph);
    if (!bound->plan)
        return false;
    bound->info = box_info(bound->plan);
    for (int f = 0; f < job->field_count; f++) {
        bound->field[f] = job->field[f];
        uint64_t bytes = (uint64_t)bound->info.element_count * element_bytes(&job->field[f]);
        bound->data[f] = box_region(self, bytes + 8, &bound->region[f]);
        bound->field[f].place.region = bound->region[f];
    }
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = job->mode,
                                       .field_count = job->field_count,
                                       .fields = bound->field};
    return rank_check(self, !leat_halo_open(self->job, bound->plan, &options, &bound->halo), "%s",
                      leat_error_detail());
}

static void unbind(struct bound *bound)
{
    leat_halo_free(bound->halo);
    leat_plan_free(bound->plan);
    for (int f = 0; f < LEAT_FIELDS_MAX; f++)
        leat_region_free(bound->region[f]);
}

// ---- Values: whole numbers and quarters, so that every sum is exact in every type ----

static double get(const struct bound *bound, int f, uint32_t element, int component)
{
    return graph_get(&bound->field[f], bound->data[f], element, component);
}

static void set(const struct bound *bound, int f, uint32_t element, int component, double value)
{
    graph_set(&bound->field[f], bound->data[f], element, component, value);
}

static double stamp(int rank, uint32_t element, int f, int component, int step)
{
    return (double)(rank * 400000 + (int)element * 8000 + (step % 20) * 400 + component * 5 + f);
}

static bool forward(struct rank_thread *self, const struct bound *bound, int f, int step)
{
    int components = bound->field[f].components;
    for (uint32_t i = 0; i < bound->info.home_count; i++)
        for (int c = 0; c < components; c++)
            set(bound, f, i, c, stamp(self->rank, i, f, c, step));
    if (!rank_check(self, !leat_halo_exchange(bound->halo, f, LEAT_FORWARD), "%s",
                    leat_error_detail()))
        return false;
    uint32_t ghost = bound->info.home_count;
    for (int e = 0; e < bound->graph->edge_count; e++) {
        const struct graph_edge *edge = &bound->graph->edge[e];
        for (uint32_t i = 0; edge->to == self->rank && i < edge->count; i++, ghost++)
            for (int c = 0; c < components; c++) {
                double wanted = stamp(edge->from, edge->index[i], f, c, step);
                if (bound->field[f].shifted && c < 3)
                    wanted += edge->shift_nm[c];
                if (!rank_check(self, get(bound, f, ghost, c) == wanted,
                                "field %d, step %d, edge %d (%d to %d), entry %u, component %d: "
                                "%g instead of %g",
                                f, step, e, edge->from, edge->to, i, c, get(bound, f, ghost, c),
                                wanted))
                    return false;
            }
    }
    return rank_check(self, ghost == bound->info.element_count, "%u elements instead of %u",
                      bound->info.element_count, ghost);
}

// What a ghost sends back: known to its owner from the edge and the place in it.
static double returned(int edge, uint32_t entry, int component, int step)
{
    return (double)(edge + 3 * (int)entry + component + step % 50) + 0.25;
}

static bool check_sums(struct rank_thread *self, const struct bound *bound, int f, int step)
{
    const struct graph *graph = bound->graph;
    double sum[GRAPH_HOME];
    for (int c = 0; c < bound->field[f].components; c++) {
        for (uint32_t i = 0; i < bound->info.home_count; i++)
            sum[i] = (double)i;
        for (int e = 0; e < graph->edge_count; e++)
            for (uint32_t i = 0; graph->edge[e].from == self->rank && i < graph->edge[e].count; i++)
                sum[graph->edge[e].index[i]] += returned(e, i, c, step);
        for (uint32_t i = 0; i < bound->info.home_count; i++)
            if (!rank_check(self, get(bound, f, i, c) == sum[i],
                            "field %d, step %d, element %u, component %d: %g instead of %g", f,
                            step, i, c, get(bound, f, i, c), sum[i]))
                return false;
    }
    return true;
}

// Ghosts' values before the way back (fill), or whether they are still there (look).
static bool ghosts(struct rank_thread *self, const struct bound *bound, int f, int step, bool fill)
{
    uint32_t ghost = bound->info.home_count;
    bool held = true;
    for (int e = 0; e < bound->graph->edge_count; e++) {
        const struct graph_edge *edge = &bound->graph->edge[e];
        for (uint32_t i = 0; edge->to == self->rank && i < edge->count; i++, ghost++)
            for (int c = 0; c < bound->field[f].components; c++)
                if (fill)
                    set(bound, f, ghost, c, returned(e, i, c, step));
                else
                    held &=
                        rank_check(self, get(bound, f, ghost, c) == returned(e, i, c, step),
                                   "field %d, step %d: the way back changed ghost %u of edge %d", f,
                                   step, i, e);
    }
    return held;
}

static bool reverse(struct rank_thread *self, const struct bound *bound, int f, int step)
{
    for (uint32_t i = 0; i < bound->info.home_count; i++)
        for (int c = 0; c < bound->field[f].components; c++)
            set(bound, f, i, c, (double)i);
    ghosts(self, bound, f, step, true);
    return rank_check(self, !leat_halo_exchange(bound->halo, f, LEAT_REVERSE), "%s",
                      leat_error_detail()) &&
           check_sums(self, bound, f, step) &&
           // Where another exchange acknowledges, a peer's next data may be there already.
           (bound->field[f].acknowledged_by || ghosts(self, bound, f, step, false));
}

// ---- Every graph, every field, both ways ----

// A rank may still write its arrays after the open: whoever is first must not be overtaken.
static void start_late(struct rank_thread *self)
{
    const struct job *job = self->user;
    struct bound bound;
    if (!bind(self, job, 0, &bound))
        return;
    uint64_t until = leat_now_ns() + (uint64_t)self->rank * 2000000;
    while (leat_now_ns() < until)
        ;
    for (uint32_t g = bound.info.home_count; g < bound.info.element_count; g++)
        set(&bound, 0, g, 0, -1);
    if (forward(self, &bound, 0, 0))
        unbind(&bound);
}

static void both_ways(struct rank_thread *self)
{
    const struct job *job = self->user;
    struct bound bound;
    bool held = bind(self, job, 0, &bound);
    for (int step = 0; held && step < job->steps; step++)
        for (int f = 0; held && f < job->field_count; f++) {
            held = forward(self, &bound, f, step);
            if (held && job->field[f].element != LEAT_WORDS)
                held = reverse(self, &bound, f, step);
        }
    if (held)
        unbind(&bound);
}

static struct job *new_job(int steps)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->steps = steps;
    job->halo_count = 1;
    return job;
}

static void add_field(struct job *job, enum leat_element element, int components, int shifted)
{
    job->field[job->field_count++] =
        (leat_field){.element = element, .components = components, .shifted = shifted};
}

static void run_in_all_modes(struct job *job, void (*body)(struct rank_thread *self))
{
    for (int m = 0; m < GRAPH_MODES; m++) {
        job->mode = graph_modes[m];
        ranks_run(job->graph[0].rank_count, body, job);
    }
}

static void test_a_ring_with_unequal_counts(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        struct job *job = new_job(4);
        graph_ring(&job->graph[0], ranks);
        add_field(job, LEAT_F64, 3, 1);
        add_field(job, LEAT_WORDS, 2, 0);
        run_in_all_modes(job, both_ways);
        free(job);
    }
}

static void test_ghosts_are_the_callers_until_the_first_exchange(void **state)
{
    (void)state;
    struct job *job = new_job(1);
    graph_ring(&job->graph[0], 4);
    add_field(job, LEAT_F64, 3, 0);
    add_field(job, LEAT_F64, 3, 0);
    job->field[0].acknowledged_by = 2;
    run_in_all_modes(job, start_late);
    free(job);
}

static void test_a_star_whose_ranks_have_different_numbers_of_pulses(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks += 3) {
        struct job *job = new_job(4);
        graph_star(&job->graph[0], ranks);
        add_field(job, LEAT_F32, 3, 1);
        add_field(job, LEAT_WORDS, 1, 0);
        run_in_all_modes(job, both_ways);
        free(job);
    }
}

static void test_random_graphs_with_several_lists_between_two_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct job *job = new_job(3);
        graph_random(&job->graph[0], 1 + (int)(seed % 6), seed);
        add_field(job, LEAT_F64, 1, 0);
        add_field(job, LEAT_F32, 4, 1);
        run_in_all_modes(job, both_ways);
        free(job);
    }
}

static void test_sends_without_receives_and_the_other_way_round(void **state)
{
    (void)state;
    struct job *job = new_job(5);
    struct ranks_random random = {3};
    struct graph *graph = &job->graph[0];
    *graph = (struct graph){.rank_count = 3, .home = {9, 0, 5}};
    for (int e = 0; e < 4; e++)
        graph_join(graph, 0, 1, (uint32_t)e, &random); // rank 1 has nothing of its own, 2 no part
    graph_join(graph, 0, 0, 4, &random);
    add_field(job, LEAT_F64, 3, 1);
    run_in_all_modes(job, both_ways);
    free(job);
}

static void test_64_lists_to_oneself_and_none_at_all(void **state)
{
    (void)state;
    struct job *job = new_job(3);
    struct ranks_random random = {4};
    job->graph[0] = (struct graph){.rank_count = 1, .home = {17}};
    add_field(job, LEAT_F32, 1, 0);
    run_in_all_modes(job, both_ways);
    for (int e = 0; e < 64; e++)
        graph_join(&job->graph[0], 0, 0, (uint32_t)e % 5, &random);
    run_in_all_modes(job, both_ways);
    free(job);
}

static void test_words_of_1_to_64_components(void **state)
{
    (void)state;
    for (int components = 1; components <= 64; components += LEAT_FIELDS_MAX) {
        struct job *job = new_job(2);
        graph_ring(&job->graph[0], 3);
        for (int f = 0; f < LEAT_FIELDS_MAX; f++)
            add_field(job, LEAT_WORDS, components + f, 0);
        run_in_all_modes(job, both_ways);
        free(job);
    }
}

static void test_floats_and_doubles_of_1_3_4_and_7_components_both_ways(void **state)
{
    (void)state;
    static const int components[] = {1, 3, 4, 7};
    for (int shifted = 0; shifted < 2; shifted++) {
        struct job *job = new_job(3);
        graph_random(&job->graph[0], 4, 99);
        for (int i = 0; i < 4; i++) {
            add_field(job, LEAT_F32, components[i], shifted && components[i] >= 3);
            add_field(job, LEAT_F64, components[i], shifted && components[i] >= 3);
        }
        run_in_all_modes(job, both_ways);
        free(job);
    }
}

// ---- Sequences of their own ----

// Any field, either way, in an order that nobody planned but all ranks share: an acknowledgement
// that is taken from the wrong exchange shows as a stale or torn value.
static void in_any_order(struct rank_thread *self)
{
    const struct job *job = self->user;
    struct bound bound[3];
    bool held = true;
    for (int h = 0; held && h < job->halo_count; h++)
        held = bind(self, job, h, &bound[h]);
    struct ranks_random random = {job->seed}, own = {job->seed + 1000 + (uint64_t)self->rank};
    for (int step = 0; held && step < job->steps; step++) {
        uint64_t pick = ranks_random_word(&random);
        int f = (int)(pick % (uint64_t)job->field_count),
            h = (int)((pick >> 8) % (uint64_t)job->halo_count);
        bool back = pick >> 40 & 1 && job->field[f].element != LEAT_WORDS;
        uint64_t until = leat_now_ns() + ranks_random_word(&own) % 20000;
        while (leat_now_ns() < until)
            ;
        held = back ? reverse(self, &bound[h], f, step) : forward(self, &bound[h], f, step);
    }
    for (int h = job->halo_count - 1; held && h >= 0; h--)
        unbind(&bound[h]);
}

static void test_fields_that_drift_apart_keep_their_own_sequences(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct job *job = new_job(300);
        job->seed = seed;
        graph_ring(&job->graph[0], 4);
        add_field(job, LEAT_F64, 3, 1);
        add_field(job, LEAT_F64, 3, 0);
        add_field(job, LEAT_WORDS, 1, 0);
        job->field[0].acknowledged_by = seed % 2 ? 2 : 0;
        job->field[1].acknowledged_by = seed % 2 ? 1 : 2;
        run_in_all_modes(job, in_any_order);
        free(job);
    }
}

static void test_several_halos_at_a_time_on_one_job(void **state)
{
    (void)state;
    struct job *job = new_job(300);
    job->seed = 5;
    job->halo_count = 3;
    graph_ring(&job->graph[0], 4);
    graph_star(&job->graph[1], 4);
    graph_random(&job->graph[2], 4, 12);
    add_field(job, LEAT_F32, 4, 1);
    add_field(job, LEAT_F64, 1, 0);
    job->field[0].acknowledged_by = 1;
    run_in_all_modes(job, in_any_order);
    free(job);
}

// ---- What can be wrong in lists ----

struct mistake {
    leat_lists lists;
    int error;
    const char *words[3];
};

static void make_mistake(struct rank_thread *self)
{
    const struct mistake *mistake = self->user;
    leat_plan *plan = NULL;
    int error = leat_plan_lists(self->job, &mistake->lists, &plan);
    rank_check(self, error == mistake->error && !plan, "%d instead of %d: %s", error,
               mistake->error, leat_error_detail());
    for (int i = 0; i < 3; i++)
        rank_check(self, strstr(leat_error_detail(), mistake->words[i]), "\"%s\" is not in: %s",
                   mistake->words[i], leat_error_detail());
    leat_plan_free(plan);
}

static void test_a_list_that_is_wrong_in_itself_is_refused_where_it_is_given(void **state)
{
    (void)state;
    static const uint32_t good[] = {0, 3}, twice[] = {2, 1, 2}, beyond[] = {0, 4};
    const leat_list ok = {.rank = 0, .count = 2, .index = good};
    const leat_list sends[][2] = {
        {ok, {.rank = 0, .count = 3, .index = twice}},
        {ok, {.rank = 0, .count = 2, .index = beyond}},
        {ok, {.rank = 2, .count = 2, .index = good}},
        {ok, {.rank = -1, .count = 2, .index = good}},
        {ok, {.rank = 1, .count = 2}},
        {ok, {.rank = 1, .count = 1, .index = good, .shift_nm = {0, 0, NAN}}},
    };
    const struct mistake mistakes[] = {
        {{.sends = sends[0]}, -EINVAL, {"pulse 1", "entry 2", "element 2 again"}},
        {{.sends = sends[1]}, -EINVAL, {"list 1 to send", "entry 1 is element 4", "are 4"}},
        {{.sends = sends[2]}, -EINVAL, {"list 1 to send", "rank 2", "job of 2"}},
        {{.sends = sends[3]}, -EINVAL, {"list 1 to send", "rank -1", "job of 2"}},
        {{.sends = sends[4]}, -EINVAL, {"list 1 to send", "2 entries", "NULL"}},
        {{.sends = sends[5]}, -EINVAL, {"pulse 1", "shift", "dimension 2"}},
        {{.sends = NULL}, -EINVAL, {"2 lists", "sends", "NULL"}},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct mistake mistake = mistakes[i];
        mistake.lists.size = sizeof mistake.lists;
        mistake.lists.home_count = 4;
        mistake.lists.send_count = 2;
        ranks_run(2, make_mistake, &mistake);
    }
    struct mistake others[] = {
        {{.send_count = 65}, -E2BIG, {"65 lists", "64", "to send"}},
        {{.recv_count = -1}, -E2BIG, {"-1 to receive", "64", "0 to"}},
        {{.recv_count = 1, .receives = &sends[2][1]}, -EINVAL, {"list 0", "receive", "rank 2"}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        others[i].lists.size = sizeof others[i].lists;
        ranks_run(2, make_mistake, &others[i]);
    }
}

struct quarrel {
    struct job *job;
    struct graph graph[2]; /* what rank 0 believes, and everybody else */
    int error[GRAPH_RANKS];
    const char *words[4];
};

static void quarrel(struct rank_thread *self)
{
    const struct quarrel *quarrel = self->user;
    leat_plan *plan = graph_plan(self, &quarrel->graph[self->rank > 0]);
    leat_region *region = NULL;
    leat_halo *halo = NULL;
    box_region(self, 4096, &region);
    const leat_field field = {.place = {region, 0}, .element = LEAT_F32, .components = 1};
    const leat_halo_options options = {
        .size = sizeof options, .mode = quarrel->job->mode, .field_count = 1, .fields = &field};
    int error = leat_halo_open(self->job, plan, &options, &halo);
    rank_check(self, error == quarrel->error[self->rank] && !halo, "%d instead of %d: %s", error,
               quarrel->error[self->rank], leat_error_detail());
    for (int i = 0; i < 4; i++)
        rank_check(self, strstr(leat_error_detail(), quarrel->words[i]), "\"%s\" is not in: %s",
                   quarrel->words[i], leat_error_detail());
    leat_plan_free(plan);
    leat_region_free(region);
}

// Ring of three; rank 0's idea of it is then changed.
static struct quarrel *new_quarrel(void)
{
    struct quarrel *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->job = new_job(1);
    graph_ring(&made->graph[0], 3);
    made->graph[1] = made->graph[0];
    return made;
}

static void run_quarrel(struct quarrel *made)
{
    for (int m = 0; m < GRAPH_MODES; m++) {
        made->job->mode = graph_modes[m];
        ranks_run(3, quarrel, made);
    }
    free(made->job);
    free(made);
}

static void test_counts_that_differ_are_named_by_both_sides(void **state)
{
    (void)state;
    struct quarrel *made = new_quarrel();
    made->graph[0].edge[0].count = 2; // rank 0 to rank 1: 3 elsewhere
    made->error[0] = made->error[1] = -EPROTO;
    made->error[2] = -EREMOTEIO;
    made->words[0] = "pulse 0";
    made->words[1] = "rank 0";
    made->words[2] = "rank 1";
    made->words[3] = "2";
    run_quarrel(made);
}

static void test_a_list_that_only_the_sender_has_is_named(void **state)
{
    (void)state;
    struct quarrel *made = new_quarrel();
    struct ranks_random random = {1};
    graph_join(&made->graph[0], 0, 2, 6, &random);
    made->error[0] = -EPROTO;
    made->error[1] = made->error[2] = -EREMOTEIO;
    made->words[0] = "pulse 2";
    made->words[1] = "rank 0 sends 6 elements to rank 2";
    made->words[2] = "expects nothing more";
    made->words[3] = "from it";
    run_quarrel(made);
}

static void test_a_list_that_only_the_receiver_has_is_named(void **state)
{
    (void)state;
    struct quarrel *made = new_quarrel();
    struct ranks_random random = {1};
    graph_join(&made->graph[1], 0, 2, 6, &random);
    made->error[2] = -EPROTO;
    made->error[0] = made->error[1] = -EREMOTEIO;
    made->words[0] = "pulse 2";
    made->words[1] = "rank 2 expects 6 elements from rank 0";
    made->words[2] = "sends nothing more";
    made->words[3] = "to it";
    run_quarrel(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ring_with_unequal_counts),
        cmocka_unit_test(test_ghosts_are_the_callers_until_the_first_exchange),
        cmocka_unit_test(test_a_star_whose_ranks_have_different_numbers_of_pulses),
        cmocka_unit_test(test_random_graphs_with_several_lists_between_two_ranks),
        cmocka_unit_test(test_sends_without_receives_and_the_other_way_round),
        cmocka_unit_test(test_64_lists_to_oneself_and_none_at_all),
        cmocka_unit_test(test_words_of_1_to_64_components),
        cmocka_unit_test(test_floats_and_doubles_of_1_3_4_and_7_components_both_ways),
        cmocka_unit_test(test_fields_that_drift_apart_keep_their_own_sequences),
        cmocka_unit_test(test_several_halos_at_a_time_on_one_job),
        cmocka_unit_test(test_a_list_that_is_wrong_in_itself_is_refused_where_it_is_given),
        cmocka_unit_test(test_counts_that_differ_are_named_by_both_sides),
        cmocka_unit_test(test_a_list_that_only_the_sender_has_is_named),
        cmocka_unit_test(test_a_list_that_only_the_receiver_has_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
