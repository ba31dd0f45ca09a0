// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: this program starts itself under the launcher and plays one part a rank.
//
// What a rank finds out goes into a file that the parent reads, since only the parent can assert.

#define _GNU_SOURCE
#include "multi/boxes.h"

#include "core/job.h"
#include "core/launch.h"
#include "halo/letter.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANKS 4

// ---- the ranks' side ----

struct rank {
    leat_job *job;
    struct rank_thread self; /* so that the boxes' helpers serve here too */
    struct box box;
    leat_plan *plan;
    leat_halo *halo;
    double *x, *f;
};

static void set_up(struct rank *rank, enum leat_mode mode)
{
    const int grid[3] = {2, 2, 1};
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &rank->job))
        _exit(10);
    leat_job_info_get(rank->job, &info);
    rank->self =
        (struct rank_thread){.job = rank->job, .rank = info.rank, .rank_count = info.rank_count};
    box_fill(&rank->box, grid, 0.9, 200, 0, 5);
    rank->plan = box_plan(&rank->self, &rank->box);
    uint64_t bytes = box_info(rank->plan).element_count * 24ull;
    leat_region *x, *f;
    rank->x = box_region(&rank->self, bytes, &x);
    rank->f = box_region(&rank->self, bytes, &f);
    const leat_field fields[2] = {
        {.place = {x, 0}, .element = LEAT_F64, .components = 3, .shifted = 1, .acknowledged_by = 2},
        {.place = {f, 0}, .element = LEAT_F64, .components = 3, .acknowledged_by = 1}};
    const leat_halo_options options = {
        .size = sizeof options, .mode = mode, .field_count = 2, .fields = fields};
    if (leat_halo_open(rank->job, rank->plan, &options, &rank->halo))
        _exit(11);
    memcpy(rank->x, rank->box.x[info.rank], rank->box.count[info.rank] * 24);
}

static int step(struct rank *rank)
{
    int error = leat_halo_exchange(rank->halo, 0, LEAT_FORWARD);
    return error ? error : leat_halo_exchange(rank->halo, 1, LEAT_REVERSE);
}

// Every ghost lies at some rank's point, whole box edges apart.
static bool ghosts_are_points(const struct rank *rank)
{
    leat_plan_info info = box_info(rank->plan);
    for (uint32_t g = info.home_count; g < info.element_count; g++) {
        bool found = false;
        for (int r = 0; !found && r < RANKS; r++)
            for (uint32_t i = 0; !found && i < rank->box.count[r]; i++) {
                found = true;
                for (uint32_t d = 0; d < 3; d++) {
                    double edge = rank->box.decomposition.box_nm[d][d];
                    double moved = rank->x[3 * g + d] - rank->box.x[r][3 * i + d];
                    found &= fabs(moved - edge * round(moved / edge)) < 1e-12;
                }
            }
        if (!found)
            return false;
    }
    return info.element_count > info.home_count;
}

static int play_exchange(struct rank *rank)
{
    int error = 0;
    for (int i = 0; !error && i < 500; i++)
        error = step(rank);
    return error ? 12 : ghosts_are_points(rank) ? 0 : 13;
}

// Memory that is not in the segment crosses by the kernel, both ways, where it lets us.
static int play_registered(struct rank *rank)
{
    static uint64_t mine[100000], theirs[100000];
    int next = (rank->self.rank + 1) % RANKS;
    for (size_t i = 0; i < 100000; i++)
        mine[i] = (uint64_t)rank->self.rank << 32 | i;
    leat_region *own, *sink, *peer;
    leat_region_options options = {
        .size = sizeof options, .bytes = sizeof mine, .address = mine, .name = "mine"};
    if (leat_region_register(rank->job, &options, &own))
        return 20;
    options =
        (leat_region_options){.size = sizeof options, .bytes = sizeof theirs, .address = theirs};
    if (leat_region_register(rank->job, &options, &sink))
        return 21;
    options = (leat_region_options){.size = sizeof options, .name = "mine", .owner = next};
    if (leat_region_register(rank->job, &options, &peer))
        return leat_barrier(rank->job), 77;
    const leat_place none = {0};
    if (leat_copy(rank->job, (leat_place){sink, 0}, (leat_place){peer, 0}, sizeof mine, none, 0))
        return 23;
    for (size_t i = 0; i < 100000; i++)
        if (theirs[i] != ((uint64_t)next << 32 | i))
            return 24;
    return leat_barrier(rank->job) ? 25 : 0;
}

static int keep_room(void *user, leat_migration *migration, uint32_t groups, uint32_t elements)
{
    (void)user;
    (void)migration;
    return groups > RANKS || elements > RANKS ? -ENOMEM : 0;
}

// An element a rank goes one domain up, so every rank writes a letter and gets one.
static int wander(struct rank *rank)
{
    static double x_nm[3 * RANKS];
    static uint32_t start[RANKS + 1] = {0, 1};
    static leat_groups groups = {0, start};
    const leat_decomposition decomposition = {.size = sizeof decomposition,
                                              .grid = {1, 1, RANKS},
                                              .box_nm = {{3, 0, 0}, {0, 3, 0}, {0, 0, 2 * RANKS}},
                                              .cutoff_nm = 1};
    if (groups.group_count == 0) {
        groups.group_count = 1;
        x_nm[2] = 2 * rank->self.rank + 1;
    }
    leat_migrating field = {x_nm, 3 * sizeof(double), 0};
    leat_migration migration = {.size = sizeof migration,
                                .groups = &groups,
                                .field_count = 1,
                                .fields = &field,
                                .resize = keep_room};
    x_nm[2] += 2;
    int error = leat_halo_migrate(rank->job, &decomposition, &migration);
    return error || x_nm[2] == 2 * rank->self.rank + 1 ? error : -EBADMSG;
}

static int write_around(struct rank *rank)
{
    static char letter[100000];
    int next = (rank->self.rank + 1) % RANKS, before = (rank->self.rank + RANKS - 1) % RANKS;
    const void *data;
    uint64_t bytes;
    return leat_letter_swap(rank->job, next, letter, sizeof letter, before, &data, &bytes);
}

// Rank 2 dies by `signal` in mid-run; the others note what they were told and after how long.
static int play_victim(struct rank *rank, int signal, int (*act)(struct rank *),
                       const char *directory)
{
    uint64_t begin = 0;
    int error = 0;
    for (int i = 0; !error; i++) {
        if (rank->self.rank == 2 && i == 300)
            raise(signal);
        begin = leat_now_ns();
        error = act(rank);
    }
    char path[256], text[LEAT_DETAIL_BYTES + 64];
    snprintf(path, sizeof path, "%s/%d", directory, rank->self.rank);
    FILE *file = fopen(path, "w");
    if (!file)
        return 30;
    snprintf(text, sizeof text, "%d %.3f %s\n", error, (double)(leat_now_ns() - begin) * 1e-9,
             leat_error_detail());
    fputs(text, file);
    fclose(file);
    leat_close(rank->job, text);
    rank->job = NULL;
    return 31;
}

static int (*act_of(const char *part))(struct rank *)
{
    return strstr(part, "letters") ? write_around : strstr(part, "migration") ? wander : step;
}

static int play(const char *part, const char *directory)
{
    static struct rank rank;
    bool kills = !strncmp(part, "kill", 4), stops = !strncmp(part, "stop", 4);
    set_up(&rank, !strcmp(part, "host") ? LEAT_MODE_HOST : LEAT_MODE_FUSED);
    int status = !strcmp(part, "registered") ? play_registered(&rank)
                 : kills || stops
                     ? play_victim(&rank, kills ? SIGKILL : SIGSTOP, act_of(part), directory)
                     : play_exchange(&rank);
    leat_close(rank.job, NULL);
    return status;
}

// ---- the parent's side ----

static int launch(const char *part, const char *directory)
{
    char *const arguments[] = {"test_processes", (char *)part, (char *)directory, NULL};
    const struct launch_options options = {.rank_count = RANKS,
                                           .arena_bytes = 64 << 20,
                                           .program = "/proc/self/exe",
                                           .argv = arguments};
    int status = -1;
    int error = leat_launch(&options, &status);
    if (error)
        fail_msg("leat_launch: %s", leat_error_detail());
    return status;
}

static void test_processes_exchange_over_the_mapped_segment(void **state)
{
    (void)state;
    assert_int_equal(launch("fused", ""), 0);
    assert_int_equal(launch("host", ""), 0);
}

static void test_registered_memory_crosses_by_attach(void **state)
{
    (void)state;
    int status = launch("registered", "");
    if (status == 77) {
        print_message("cross-memory attach is not permitted here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void read_verdict(const char *directory, int rank, int *error, double *seconds,
                         char detail[LEAT_DETAIL_BYTES])
{
    char path[256];
    snprintf(path, sizeof path, "%s/%d", directory, rank);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("rank %d left no verdict", rank);
    assert_int_equal(fscanf(file, "%d %lf ", error, seconds), 2);
    assert_non_null(fgets(detail, LEAT_DETAIL_BYTES, file));
    fclose(file);
    unlink(path);
}

static void victim(const char *part, int expected, double limit_s, const char *word,
                   const char *what)
{
    char directory[] = "/tmp/leat-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    uint64_t begin = leat_now_ns();
    assert_int_not_equal(launch(part, directory), 0);
    double whole_s = (double)(leat_now_ns() - begin) * 1e-9;
    bool caught = false, worded = false;
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank == 2)
            continue;
        int error;
        double seconds;
        char detail[LEAT_DETAIL_BYTES];
        read_verdict(directory, rank, &error, &seconds, detail);
        assert_true(error == expected || error == -ECONNRESET);
        caught |= error == expected;
        worded |= strstr(detail, word) != NULL;
        assert_true(seconds < limit_s);
        if (!strstr(detail, what) || !strstr(detail, "rank 2"))
            fail_msg("rank %d, \"%s\" or \"rank 2\" is not in: %s", rank, what, detail);
    }
    assert_true(caught);
    assert_true(worded);
    assert_true(whole_s < limit_s + 4);
    rmdir(directory);
}

static void test_a_killed_rank_ends_the_others_within_a_second(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        victim("kill", -ECONNRESET, 1.0, "rank 2", "pulse");
}

static void test_a_stopped_rank_ends_the_others_at_their_time_out(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "1", 1);
    victim("stop", -ETIMEDOUT, 3.0, "stopped", "pulse");
    unsetenv("LEAT_TIMEOUT");
}

static void test_a_rank_killed_in_a_migration_ends_the_others_within_a_second(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        victim("kill a migration", -ECONNRESET, 1.0, "rank 2", "rank");
        victim("kill letters", -ECONNRESET, 1.0, "rank 2", "letter");
    }
}

static void test_a_rank_stopped_in_a_migration_ends_the_others_at_their_time_out(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "1", 1);
    victim("stop a migration", -ETIMEDOUT, 3.0, "stopped", "rank");
    victim("stop letters", -ETIMEDOUT, 3.0, "stopped", "letter");
    unsetenv("LEAT_TIMEOUT");
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return play(argv[1], argc > 2 ? argv[2] : "");
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_exchange_over_the_mapped_segment),
        cmocka_unit_test(test_registered_memory_crosses_by_attach),
        cmocka_unit_test(test_a_killed_rank_ends_the_others_within_a_second),
        cmocka_unit_test(test_a_stopped_rank_ends_the_others_at_their_time_out),
        cmocka_unit_test(test_a_rank_killed_in_a_migration_ends_the_others_within_a_second),
        cmocka_unit_test(test_a_rank_stopped_in_a_migration_ends_the_others_at_their_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
