// SPDX-License-Identifier: Apache-2.0
// Halos whose ranks are on several hosts: each value stamped with rank, element and step, in every
// mode, in forwarded and onehop plans, forward and back; migration,
// plans in files; disagreement, a rank that is killed, a link that is cut.
//
// Advantage: real processes and a real provider. Disadvantage: which provider is the machine's.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/fabric_job.h"
#include "core/job.h"
#include "support/splitmix.h"

#include <errno.h>
#include <leat/halo.h>
#include <math.h>
#include <string.h>
#include <time.h>

// ---- Ranks ----

enum { X, STAMP, FIELDS };
enum { MOST_HOME = 60, STEPS = 3 };

#define EDGE_NM 3.0 // of a domain

struct bound {
    leat_job *job;
    leat_plan *plan;
    leat_halo *halo;
    leat_plan_info info;
    leat_region *region[FIELDS];
    double *x;
    uint32_t *stamp; /* rank, element, step */
    int grid[3];
    uint32_t home_count;
    uint64_t random;
    char said[1200]; /* what was wrong first, or "" */
};

__attribute__((format(printf, 3, 4))) static bool check(struct bound *self, bool held,
                                                        const char *format, ...)
{
    va_list arguments;
    if (held || *self->said)
        return held;
    va_start(arguments, format);
    vsnprintf(self->said, sizeof self->said, format, arguments);
    va_end(arguments);
    return false;
}

static void delay(struct bound *self)
{
    uint64_t ns = splitmix_next(&self->random) % 1000000;
    if (ns < 300000)
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

// In the rank's domain; every rank can tell.
static double place(const struct bound *self, int rank, uint32_t element, int d)
{
    uint64_t seed = (uint64_t)rank << 32 | element << 2 | (uint64_t)d;
    const int *grid = self->grid;
    const int cell[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    double fraction = (double)(splitmix_next(&seed) >> 11) * 0x1p-53;
    return EDGE_NM * (cell[d] + 0.001 + 0.998 * fraction);
}

static double value(const struct bound *self, int rank, uint32_t element, int d, int step)
{
    return place(self, rank, element, d) + 1e-3 * step;
}

static void write_home(struct bound *self, int step)
{
    for (uint32_t i = 0; i < self->info.home_count; i++) {
        for (int d = 0; d < 3; d++)
            self->x[3 * i + (uint32_t)d] =
                value(self, self->job ? (int)self->stamp[3 * i] : 0, i, d, step);
        self->stamp[3 * i + 1] = i;
        self->stamp[3 * i + 2] = (uint32_t)step;
    }
}

static void poison_ghosts(struct bound *self)
{
    // Twice as many: two landing zones.
    uint32_t ghosts = self->info.element_count - self->info.home_count;
    for (uint64_t i = 3ull * self->info.home_count; i < 3ull * (self->info.home_count + 2 * ghosts);
         i++) {
        self->x[i] = NAN;
        self->stamp[i] = 0xdeadbeef;
    }
}

static void check_ghost(struct bound *self, uint32_t g, uint32_t shifted, int step)
{
    const uint32_t *stamp = self->stamp + 3 * shifted;
    int ranks = self->grid[0] * self->grid[1] * self->grid[2];
    if (!check(self,
               stamp[0] < (uint32_t)ranks && stamp[1] < MOST_HOME && stamp[2] == (uint32_t)step,
               "step %d, ghost %u is of rank %u, element %u, step %u", step, g, stamp[0], stamp[1],
               stamp[2]))
        return;
    for (int d = 0; d < 3; d++) {
        double home = value(self, (int)stamp[0], stamp[1], d, step);
        double boxes = (self->x[3 * g + (uint32_t)d] - home) / (EDGE_NM * self->grid[d]);
        check(self, fabs(boxes - round(boxes)) < 1e-9 && fabs(boxes) < 1.5,
              "step %d, ghost %u of rank %u, element %u: %g for %g", step, g, stamp[0], stamp[1],
              self->x[3 * g + (uint32_t)d], home);
    }
}

// Each ghost gives one back; what comes home is a whole number, and all of them are the ghosts.
static void check_back(struct bound *self, int step)
{
    double total = 0, sums[2];
    for (uint32_t i = 0; i < self->info.home_count; i++) {
        double k = self->x[3 * i] - value(self, (int)self->stamp[3 * i], i, 0, step);
        check(self, fabs(k - round(k)) < 1e-9 && k > -0.5 && k < 26.5, "element %u got %g back", i,
              k);
        total += round(k);
    }
    sums[0] = total;
    sums[1] = self->info.element_count - self->info.home_count;
    check(self, !leat_reduce(self->job, REDUCE_SUM, sums, 2), "%s", leat_error_detail());
    check(self, sums[0] == sums[1] && sums[1] > 0, "%g came back of %g", sums[0], sums[1]);
}

static void step(struct bound *self, int number)
{
    leat_halo_info info = {.size = sizeof info};
    write_home(self, number);
    delay(self);
    check(self, !leat_halo_exchange(self->halo, STAMP, LEAT_FORWARD), "%s", leat_error_detail());
    delay(self);
    check(self, !leat_halo_exchange(self->halo, X, LEAT_FORWARD), "%s", leat_error_detail());
    if (*self->said)
        return;
    leat_halo_info_get(self->halo, &info);
    for (uint32_t g = self->info.home_count; g < self->info.element_count; g++)
        check_ghost(self, g, g + info.ghost_shift[STAMP], number);
    for (uint32_t g = self->info.home_count; g < self->info.element_count; g++)
        self->x[3 * g] = self->x[3 * g + 1] = self->x[3 * g + 2] = 1;
    delay(self);
    check(self, !leat_halo_exchange(self->halo, X, LEAT_REVERSE), "%s", leat_error_detail());
    check_back(self, number);
}

static int allocate(struct bound *self)
{
    uint64_t elements = 2ull * self->info.element_count + 1;
    for (int f = 0; f < FIELDS; f++) {
        leat_region_options options = {.size = sizeof options,
                                       .bytes = 3 * elements * (f == X ? 8 : 4)};
        leat_region_info info = {.size = sizeof info};
        int error = leat_region_alloc(self->job, &options, &self->region[f]);
        if (!error)
            error = leat_region_info_get(self->region[f], &info);
        if (error)
            return error;
        *(f == X ? (void **)&self->x : (void **)&self->stamp) = info.address;
    }
    return 0;
}

static int open_halo(struct bound *self, enum leat_mode mode, int zones, int components)
{
    const leat_field fields[FIELDS] = {[X] = {.place = {self->region[X], 0},
                                              .element = LEAT_F64,
                                              .components = components,
                                              .shifted = 1,
                                              .acknowledged_by = zones == 1 ? X + 1 : 0},
                                       [STAMP] = {.place = {self->region[STAMP], 0},
                                                  .element = LEAT_WORDS,
                                                  .components = 3,
                                                  .zones = zones}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = mode,
                                       .field_count = FIELDS,
                                       .fields = fields,
                                       .first_epoch = UINT64_MAX - 2};
    return leat_halo_open(self->job, self->plan, &options, &self->halo);
}

static int build(struct bound *self, int rank, enum leat_plan_kind kind, uint32_t home_count)
{
    static double home[3 * MOST_HOME];
    static uint32_t start[MOST_HOME + 1];
    const leat_groups groups = {home_count, start};
    const int *grid = self->grid;
    const leat_decomposition boxes = {
        .size = sizeof boxes,
        .grid = {grid[0], grid[1], grid[2]},
        .box_nm = {{EDGE_NM * grid[0], 0, 0}, {0, EDGE_NM * grid[1], 0}, {0, 0, EDGE_NM * grid[2]}},
        .cutoff_nm = 0.9,
        .kind = kind};
    for (uint32_t i = 0; i < home_count; i++) {
        for (int d = 0; d < 3; d++)
            home[3 * i + (uint32_t)d] = place(self, rank, i, d);
        start[i + 1] = i + 1;
    }
    int error = leat_plan_build(self->job, &boxes, &groups, home, &self->plan);
    self->info = (leat_plan_info){.size = sizeof self->info};
    if (!error)
        error = leat_plan_info_get(self->plan, &self->info);
    if (!error)
        error = allocate(self);
    for (uint32_t i = 0; !error && i < home_count; i++)
        self->stamp[3 * i] = (uint32_t)rank;
    if (!error)
        poison_ghosts(self);
    return error;
}

static void let_go(struct bound *self)
{
    leat_halo_free(self->halo);
    leat_plan_free(self->plan);
    for (int f = 0; f < FIELDS; f++)
        leat_region_free(self->region[f]);
    self->halo = NULL;
    self->plan = NULL;
}

static void round_of(struct bound *self, int rank, enum leat_plan_kind kind, enum leat_mode mode,
                     int zones)
{
    // Rank 1 has nothing where two zones are.
    uint32_t count = zones == 2 && rank == 1 ? 0 : MOST_HOME - 7 * (uint32_t)rank;
    if (check(self, !build(self, rank, kind, count), "plan: %s", leat_error_detail()) &&
        check(self, !open_halo(self, mode, zones, 3), "mode %d: %s", (int)mode,
              leat_error_detail()))
        for (int number = 0; !*self->said && number < STEPS; number++)
            step(self, number);
    check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    let_go(self);
}

static void play_modes(struct bound *self, int rank)
{
    static const enum leat_mode modes[] = {LEAT_MODE_HOST, LEAT_MODE_FUSED, LEAT_MODE_STREAM,
                                           LEAT_MODE_PULSE, LEAT_MODE_RESIDENT};
    for (size_t m = 0; !*self->said && m < sizeof modes / sizeof *modes; m++)
        round_of(self, rank, LEAT_PLAN_FORWARDED, modes[m], 1);
}

static void play_kinds(struct bound *self, int rank)
{
    round_of(self, rank, LEAT_PLAN_FORWARDED, LEAT_MODE_FUSED, 2);
    round_of(self, rank, LEAT_PLAN_FORWARDED, LEAT_MODE_HOST, 1);
    round_of(self, rank, LEAT_PLAN_ONEHOP, LEAT_MODE_FUSED, 1);
    round_of(self, rank, LEAT_PLAN_ONEHOP, LEAT_MODE_HOST, 2);
}

static int make_room(void *user, leat_migration *migration, uint32_t groups, uint32_t elements)
{
    (void)user, (void)migration;
    return groups == elements && elements <= MOST_HOME ? 0 : -ENOSPC;
}

// Everything moves on to the next rank; the plan of what is then there is written, and read again.
static void play_migrate(struct bound *self, int rank)
{
    enum { COUNT = 20 };
    static double x[3 * MOST_HOME];
    static uint32_t stamp[2 * MOST_HOME], start[MOST_HOME + 1];
    const int count = self->grid[1] * self->grid[2], next = (rank + 1) % count;
    const int *grid = self->grid;
    leat_groups groups = {COUNT, start};
    leat_migrating fields[] = {{x, 24, 0}, {stamp, 8, 0}};
    leat_migration migration = {.size = sizeof migration,
                                .groups = &groups,
                                .field_count = 2,
                                .fields = fields,
                                .resize = make_room};
    const leat_decomposition boxes = {
        .size = sizeof boxes,
        .grid = {1, grid[1], grid[2]},
        .box_nm = {{EDGE_NM, 0, 0}, {0, EDGE_NM * grid[1], 0}, {0, 0, EDGE_NM * grid[2]}},
        .cutoff_nm = 0.9};
    for (uint32_t i = 0; i < COUNT; i++) {
        for (int d = 0; d < 3; d++)
            x[3 * i + (uint32_t)d] = place(self, next, i, d);
        stamp[2 * i] = (uint32_t)rank;
        stamp[2 * i + 1] = i;
        start[i + 1] = i + 1;
    }
    check(self, !leat_halo_migrate(self->job, &boxes, &migration), "%s", leat_error_detail());
    check(self, groups.group_count == COUNT, "%u groups", groups.group_count);
    for (uint32_t i = 0; i < COUNT && !*self->said; i++)
        check(self,
              stamp[2 * i] == (uint32_t)((rank + count - 1) % count) && stamp[2 * i + 1] < COUNT &&
                  x[3 * i] == place(self, rank, stamp[2 * i + 1], 0),
              "element %u is %u of rank %u", i, stamp[2 * i + 1], stamp[2 * i]);
    leat_plan *plan = NULL, *again = NULL;
    leat_plan_info written = {.size = sizeof written}, read = {.size = sizeof read};
    const char *path = "far_halo.plan";
    int error = leat_plan_build(self->job, &boxes, &groups, x, &plan);
    if (!error)
        error = leat_plan_write(self->job, plan, path);
    if (!error && rank == 0)
        error = leat_plan_read(path, count - 1, &again);
    check(self, !error, "plan: %s", leat_error_detail());
    if (again && !leat_plan_info_get(plan, &written) && !leat_plan_info_get(again, &read))
        check(self, read.pulse_count == written.pulse_count && read.home_count == COUNT,
              "%d pulses of %d, %u elements", read.pulse_count, written.pulse_count,
              read.home_count);
    check(self, rank || again, "nothing was read");
    leat_plan_free(plan);
    leat_plan_free(again);
    check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    if (rank == 0)
        unlink(path);
}

static void play_disagree(struct bound *self, int rank)
{
    check(self, !build(self, rank, LEAT_PLAN_FORWARDED, 20), "%s", leat_error_detail());
    int error = open_halo(self, LEAT_MODE_HOST, 1, rank == 1 ? 4 : 3);
    check(self, error == -EPROTO || error == -EREMOTEIO, "a halo of unequal sides: %d", error);
    check(self, strstr(leat_error_detail(), "components of type") != NULL, "%s",
          leat_error_detail());
    let_go(self);
}

static void play_endless(struct bound *self, int rank)
{
    int error = 0;
    check(self, !build(self, rank, LEAT_PLAN_FORWARDED, 20), "%s", leat_error_detail());
    check(self, !open_halo(self, LEAT_MODE_HOST, 1, 3), "%s", leat_error_detail());
    for (int number = 0; !error && !*self->said; number++) {
        error = leat_halo_exchange(self->halo, X, LEAT_FORWARD);
        if (number == 20) {
            printf("open %d\n", (int)getpid());
            fflush(stdout);
        }
    }
    printf("halo %d: %s\n", error, leat_error_detail());
    let_go(self);
}

static const struct {
    const char *name;
    void (*play)(struct bound *self, int rank);
} roles[] = {{"modes", play_modes},
             {"kinds", play_kinds},
             {"migrate", play_migrate},
             {"disagree", play_disagree},
             {"endless", play_endless}};

static void play_role(int argc, char **argv)
{
    static struct bound self;
    leat_job_info info = {.size = sizeof info};
    if (argc != 3 || strcmp(argv[1], "rank") != 0)
        return;
    alarm(3 * ROOT_LIMIT_MS / 1000); // should the test be killed
    if (leat_open(NULL, &self.job) || leat_job_info_get(self.job, &info)) {
        printf("open: %s\n", leat_error_detail());
        exit(3);
    }
    self.random = (uint64_t)info.rank + 1;
    self.grid[0] = 1;
    self.grid[1] = info.rank_count / 2;
    self.grid[2] = 2;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i].name, argv[2]))
            roles[i].play(&self, info.rank);
    printf("%s %s\n", argv[2], *self.said ? self.said : "is all right");
    fflush(stdout);
    leat_close(self.job, *self.said ? self.said : NULL);
    exit(*self.said != 0);
}

// ---- The tests ----

// `where` NULL: on this host.
static void start(struct started *ranks, const int *where, int count, const char *timeout_s,
                  const char *role)
{
    fabric_start(ranks, where, count, 7960, where ? NULL : "require:fabric", timeout_s, role);
}

static void run(const int *where, int count, const char *role)
{
    static struct started ranks[4];
    char words[64];
    start(ranks, where, count, "20", role);
    snprintf(words, sizeof words, "%s is all right", role);
    for (int rank = 0; rank < count; rank++) {
        root_finish(&ranks[rank]);
        if (!strstr(ranks[rank].text, words))
            print_error("rank %d: %s\n", rank, ranks[rank].text);
    }
    for (int rank = 0; rank < count; rank++)
        root_expect(&ranks[rank], words);
}

static const int by_turns[] = {0, 1, 1, 0};

static void test_stamped_values_where_libfabric_is_required(void **state)
{
    (void)state;
    need_fabric();
    run(NULL, 2, "modes");
}

static void test_stamped_values_between_networks(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    run(by_turns, 4, "kinds");
}

static void test_elements_migrate_and_plans_are_written_between_networks(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    run(by_turns, 4, "migrate");
}

static void test_sides_that_disagree_are_named(void **state)
{
    (void)state;
    need_fabric();
    run(NULL, 2, "disagree");
}

static void start_endless(struct started *ranks, const char *timeout_s)
{
    start(ranks, (const int[]){0, 1}, 2, timeout_s, "endless");
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
}

static void test_a_rank_killed_in_mid_exchange_is_named(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[2];
    start_endless(ranks, "20");
    uint64_t since_ms = root_now_ms();
    kill(ranks[1].pid, SIGKILL);
    root_finish(&ranks[1]);
    root_finish(&ranks[0]);
    assert_true(root_now_ms() - since_ms < 5000);
    root_expect(&ranks[0], "halo -104: ");
    root_expect(&ranks[0], "halo exchange ");
    root_expect(&ranks[0], "pulse ");
    root_expect(&ranks[0], "rank 1 was lost");
}

static void test_a_cut_link_in_mid_exchange_is_an_error_that_names_the_peer(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[2];
    start_endless(ranks, "3");
    uint64_t since_ms = root_now_ms();
    assert_int_equal(run_ip(0, "link set leat-a down"), 0);
    for (int rank = 0; rank < 2; rank++)
        root_finish(&ranks[rank]);
    uint64_t took_ms = root_now_ms() - since_ms;
    assert_int_equal(run_ip(0, "link set leat-a up"), 0);
    if (took_ms > 8000)
        fail_msg("a cut link was noticed after %d ms only", (int)took_ms);
    for (int rank = 0; rank < 2; rank++) {
        root_expect(&ranks[rank], "halo exchange ");
        root_expect(&ranks[rank], rank ? "rank 0 " : "rank 1 ");
        if (!strstr(ranks[rank].text, "halo -104: ") && !strstr(ranks[rank].text, "halo -110: "))
            fail_msg("rank %d: %s", rank, ranks[rank].text);
    }
}

int main(int argc, char **argv)
{
    play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stamped_values_where_libfabric_is_required),
        cmocka_unit_test(test_stamped_values_between_networks),
        cmocka_unit_test(test_elements_migrate_and_plans_are_written_between_networks),
        cmocka_unit_test(test_sides_that_disagree_are_named),
        cmocka_unit_test(test_a_rank_killed_in_mid_exchange_is_named),
        cmocka_unit_test(test_a_cut_link_in_mid_exchange_is_an_error_that_names_the_peer),
    };
    return cmocka_run_group_tests(tests, join_networks, leave_networks);
}
