// SPDX-License-Identifier: Apache-2.0
// What the ranks of the driver do together: sums, verdicts, the input that rank 0 has read. Ranks
// are threads.

#include "multi/ranks.h"

#include "md/md.h"

#include <errno.h>
#include <limits.h>

#define RANKS 4

static struct md_rank *make_rank(struct rank_thread *self)
{
    struct md_rank *rank = calloc(1, sizeof *rank);
    if (!rank_check(self, rank != NULL, "no memory"))
        return NULL;
    rank->job = self->job;
    rank->rank = self->rank;
    rank->rank_count = self->rank_count;
    return rank;
}

// The job first, as it may still look at what a wait has given up.
static void end_rank(struct rank_thread *self, struct md_rank *rank)
{
    leat_close(self->job, NULL);
    self->job = NULL;
    md_together_end(&rank->together);
    free(rank);
}

static void rank_of_sums(struct rank_thread *self)
{
    double(*results)[MD_SUM_WORDS] = self->user;
    struct md_rank *rank = make_rank(self);
    if (!rank)
        return;
    double *word = results[self->rank];
    for (int i = 0; i < MD_SUM_WORDS; i++)
        word[i] = 1.0 / (3 + i + 100 * self->rank);
    int error = md_sum(rank, word, MD_SUM_WORDS);
    rank_check(self, !error, "%s", leat_error_detail());
    for (int i = 0; i < MD_SUM_WORDS; i++) {
        double sum = 0.0;
        for (int r = 0; r < RANKS; r++)
            sum += 1.0 / (3 + i + 100 * r);
        double off = word[i] - sum;
        rank_check(self, off < 1e-15 && off > -1e-15, "sum %d is off by %g", i, off);
    }
    double one = 1.0 + self->rank;
    rank_check(self, !md_sum(rank, &one, 1) && one == 10.0, "the sum of 1 to 4 is %g", one);
    rank_check(self, md_sum(rank, word, MD_SUM_WORDS + 1) == -EINVAL, "too many words pass");
    end_rank(self, rank);
}

static void test_sums_are_the_same_to_the_bit_on_all_ranks(void **state)
{
    (void)state;
    static double results[RANKS][MD_SUM_WORDS];
    ranks_run(RANKS, rank_of_sums, results);
    for (int r = 1; r < RANKS; r++)
        assert_memory_equal(results[r], results[0], sizeof results[0]);
}

static void rank_with_verdict(struct rank_thread *self)
{
    struct md_rank *rank = make_rank(self);
    if (!rank)
        return;
    rank_check(self, md_agree(rank, 0) == 0, "%s", leat_error_detail());
    int own = 0;
    if (self->rank == 1 || self->rank == 3)
        own = leat_fail(-EDOM, "water %d has no solution", 70 + self->rank);
    int error = md_agree(rank, own);
    rank_check(self, error == (own ? -EDOM : -EREMOTEIO), "%d", error);
    const char *words = self->rank == 1   ? "water 71 has no solution"
                        : self->rank == 3 ? "water 73 has no solution"
                                          : "rank 1: water 71 has no solution";
    rank_check(self, !strcmp(leat_error_detail(), words), "%s", leat_error_detail());
    rank_check(self, md_agree_on_files(rank, 0) == 0, "an old verdict comes back");
    end_rank(self, rank);
}

static void test_the_lowest_rank_that_failed_is_told_to_those_that_did_not(void **state)
{
    (void)state;
    ranks_run(RANKS, rank_with_verdict, NULL);
}

static void rank_that_misses_one(struct rank_thread *self)
{
    struct md_rank *rank = make_rank(self);
    double word = 1.0;
    if (!rank)
        return;
    rank_check(self, !md_agree(rank, 0), "%s", leat_error_detail());
    if (self->rank != 2) {
        self->job->config.timeout_s = 0.2;
        rank_check(self, md_sum(rank, &word, 1) == -ETIMEDOUT, "%s", leat_error_detail());
        rank_check(self, word == 1.0, "a sum that was not made is %g", word);
        // At once: the deadline of the test is this one's.
        self->job->config.timeout_s = 1000;
        rank_check(self, md_agree(rank, 0) == -ETIMEDOUT, "went on after a time-out");
    }
    leat_barrier(self->job);
    end_rank(self, rank);
}

static void test_a_missing_rank_is_a_time_out_and_nothing_is_sent_after_it(void **state)
{
    (void)state;
    ranks_run(RANKS, rank_that_misses_one, NULL);
}

static void rank_that_is_left(struct rank_thread *self)
{
    struct md_rank *rank = make_rank(self);
    if (!rank)
        return;
    rank_check(self, !md_agree(rank, 0), "%s", leat_error_detail());
    if (self->rank != 2) {
        uint64_t begin_ns = leat_now_ns();
        int error = md_agree_on_files(rank, 0);
        double seconds = (double)(leat_now_ns() - begin_ns) * 1e-9;
        rank_check(self, error == -ECONNRESET, "%d", error);
        rank_check(self, strstr(leat_error_detail(), "rank 2") != NULL, "%s", leat_error_detail());
        rank_check(self, seconds < 5, "after %g s", seconds);
        leat_close(self->job, leat_error_detail());
        self->job = NULL;
    }
    end_rank(self, rank);
}

static void test_a_rank_that_has_left_is_named(void **state)
{
    (void)state;
    ranks_run(RANKS, rank_that_is_left, NULL);
}

// ---- The input ----

static void fill_options(struct md_options *options, char path[3][PATH_MAX])
{
    const char *suffix[3] = {"gro", "top", "mdp"};
    for (int i = 0; i < 3; i++)
        snprintf(path[i], PATH_MAX, "%s/test/data/water.%s", getenv("LEAT_SOURCE_DIR"), suffix[i]);
    *options = (struct md_options){.gro = path[0],
                                   .top = path[1],
                                   .mdp = path[2],
                                   .rank_count = RANKS,
                                   .precision = MD_MIXED,
                                   .tile = {1, 1, 2}};
}

static void compare_molecules(struct rank_thread *self, const struct md_molecule_type *a,
                              const struct md_molecule_type *b)
{
    bool same = !strcmp(a->name, b->name) && a->atom_count == b->atom_count &&
                a->settle_count == b->settle_count;
    for (int i = 0; same && i < a->atom_count; i++)
        same =
            a->atoms[i].type == b->atoms[i].type && a->atoms[i].charge_e == b->atoms[i].charge_e &&
            a->atoms[i].mass_u == b->atoms[i].mass_u && !strcmp(a->atoms[i].name, b->atoms[i].name);
    size_t starts = (size_t)a->atom_count + 1;
    same = same && !memcmp(a->exclusion_start, b->exclusion_start, starts * sizeof(int)) &&
           !memcmp(a->exclusion, b->exclusion,
                   (size_t)a->exclusion_start[a->atom_count] * sizeof(int));
    for (int s = 0; same && s < a->settle_count; s++)
        same = a->settles[s].oxygen == b->settles[s].oxygen &&
               a->settles[s].d_oh_nm == b->settles[s].d_oh_nm &&
               a->settles[s].d_hh_nm == b->settles[s].d_hh_nm;
    rank_check(self, same, "molecule type %s differs", a->name);
}

static void compare_systems(struct rank_thread *self, const struct md_system *a,
                            const struct md_system *b)
{
    const struct md_topology *t = a->topology, *u = b->topology;
    size_t pairs = (size_t)t->type_count * (size_t)t->type_count * sizeof(double);
    rank_check(self, a->atom_count == b->atom_count && a->water_count == b->water_count, "counts");
    rank_check(self, a->list_nm == b->list_nm && a->inner_nm == b->inner_nm, "list cut-offs");
    rank_check(self, a->degrees == b->degrees && a->radius_nm == b->radius_nm, "what follows");
    rank_check(self, !memcmp(a->box_nm, b->box_nm, sizeof a->box_nm), "boxes");
    rank_check(self,
               a->settings.dt_ps == b->settings.dt_ps && a->settings.steps == b->settings.steps &&
                   !strcmp(a->settings.file, b->settings.file),
               "settings");
    if (!rank_check(self,
                    t->type_count == u->type_count && t->block_count == u->block_count &&
                        t->molecule_type_count == u->molecule_type_count &&
                        a->site_count == b->site_count,
                    "sizes of the topology"))
        return;
    rank_check(self, b->interaction.c6 == u->c6 && b->interaction.c12 == u->c12, "pointers");
    rank_check(self, !memcmp(t->c6, u->c6, pairs) && !memcmp(t->c12, u->c12, pairs), "pairs");
    rank_check(self, !strcmp(t->type_name[0], u->type_name[0]), "names of types");
    for (int i = 0; i < t->block_count; i++)
        rank_check(self,
                   t->blocks[i].count == u->blocks[i].count &&
                       t->blocks[i].first_atom == u->blocks[i].first_atom,
                   "block %d", i);
    for (int i = 0; i < a->site_count; i++)
        rank_check(self,
                   a->sites[i].charge_e == b->sites[i].charge_e &&
                       a->sites[i].mass_u == b->sites[i].mass_u,
                   "site %d", i);
    for (int i = 0; i < t->molecule_type_count; i++) {
        rank_check(self, a->first_site[i] == b->first_site[i], "first site %d", i);
        compare_molecules(self, &t->molecule_types[i], &u->molecule_types[i]);
    }
}

// Every rank reads the files too, and compares: also the coordinates of its share.
static void rank_with_input(struct rank_thread *self)
{
    char path[3][PATH_MAX];
    struct md_options options;
    struct md_rank *rank = make_rank(self);
    struct md_system read = {0};
    if (!rank)
        return;
    fill_options(&options, path);
    rank->options = &options;
    int error = md_system_share(rank);
    if (!error)
        error = md_agree(rank, md_domain_open(rank));
    rank_check(self, !error, "%s", leat_error_detail());
    rank_check(self, (rank->system.input != NULL) == (self->rank == 0), "who has coordinates");
    if (rank_check(self, !md_system_load(NULL, &options, false, &read), "%s",
                   leat_error_detail()) &&
        !error)
        compare_systems(self, &read, &rank->system);
    const struct md_atoms *atoms = &rank->domain.atoms;
    int wrong = 0;
    for (int i = 0; !error && read.input && i < 3 * atoms->count; i++) {
        int64_t at = 3 * atoms->id[i / 3] + i % 3;
        wrong +=
            atoms->x_nm[i] != read.input->x_nm[at] || atoms->v_nm_ps[i] != read.input->v_nm_ps[at];
    }
    rank_check(self, !wrong && atoms->count > 1000, "%d of %d wrong", wrong, 3 * atoms->count);
    double count = atoms->count;
    rank_check(self, !md_sum(rank, &count, 1) && count == 6000.0, "%g atoms in all", count);
    md_system_free(&read);
    md_domain_close(&rank->domain);
    md_system_free(&rank->system);
    end_rank(self, rank);
}

static void test_all_ranks_have_what_rank_0_has_read(void **state)
{
    (void)state;
    if (!getenv("LEAT_SOURCE_DIR")) {
        print_message("LEAT_SOURCE_DIR is not set: the input lies there\n");
        skip();
    }
    ranks_run(RANKS, rank_with_input, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_the_same_to_the_bit_on_all_ranks),
        cmocka_unit_test(test_the_lowest_rank_that_failed_is_told_to_those_that_did_not),
        cmocka_unit_test(test_a_missing_rank_is_a_time_out_and_nothing_is_sent_after_it),
        cmocka_unit_test(test_a_rank_that_has_left_is_named),
        cmocka_unit_test(test_all_ranks_have_what_rank_0_has_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
