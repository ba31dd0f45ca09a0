// SPDX-License-Identifier: Apache-2.0
// A rank is killed or stopped at a random moment of a run of exchanges: all others end with an
// error that names it and the pulse, in time, and nothing is left of the job.
//
// This program starts itself under the launcher. A thread of the victim sends the signal to its own
// process after a random delay, so it strikes anywhere in an exchange, in any mode, with one block
// or two. Survivors leave what they were told, and when, in files. LEAT_LONG=1 makes 200 of 20.

#define _GNU_SOURCE
#include "multi/boxes.h"

#include "core/job.h"
#include "core/launch.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#define RANKS 4
#define MODES 5

// What happens to whom: argv of a rank.
struct fate {
    int victim, signal, mode, delay_us;
    char directory[64];
};

// ---- the ranks' side ----

static void leave_word(const struct fate *fate, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fate->directory, name);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static int strike(void *user)
{
    const struct fate *fate = user;
    char text[64];
    usleep((useconds_t)fate->delay_us);
    snprintf(text, sizeof text, "%llu %d\n", (unsigned long long)leat_now_ns(), (int)getpid());
    leave_word(fate, "struck", text);
    kill(getpid(), fate->signal);
    return 0;
}

struct arrays {
    double *x, *f;
    uint32_t home, elements;
};

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct arrays *arrays = user;
    for (uint32_t e = 3 * block; !step && e < 3 * arrays->elements; e += 3 * block_count)
        arrays->f[e] = 1;
    return 0;
}

static leat_halo *open_halo(struct rank_thread *self, struct box *box, const struct fate *fate,
                            struct arrays *arrays)
{
    const int grid[3] = {2, 2, 1};
    box_fill(box, grid, 0.9, 60, 0, 5);
    leat_plan *plan = box_plan(self, box);
    if (!plan)
        return NULL;
    arrays->home = box_info(plan).home_count;
    arrays->elements = box_info(plan).element_count;
    leat_region *x, *f;
    arrays->x = box_region(self, arrays->elements * 24ull, &x);
    arrays->f = box_region(self, arrays->elements * 24ull, &f);
    const leat_field fields[2] = {
        {.place = {x, 0}, .element = LEAT_F64, .components = 3, .shifted = 1, .acknowledged_by = 2},
        {.place = {f, 0}, .element = LEAT_F64, .components = 3, .acknowledged_by = 1}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = (enum leat_mode)fate->mode,
                                       .field_count = 2,
                                       .fields = fields};
    leat_halo *halo = NULL;
    return leat_halo_open(self->job, plan, &options, &halo) ? NULL : halo;
}

static int play(const struct fate *fate)
{
    static struct box box;
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &job))
        return 10;
    leat_job_info_get(job, &info);
    struct rank_thread self = {.job = job, .rank = info.rank, .rank_count = info.rank_count};
    struct arrays arrays;
    leat_halo *halo = open_halo(&self, &box, fate, &arrays);
    thrd_t thread;
    if (!halo || leat_barrier(job))
        return 11;
    if (info.rank == fate->victim &&
        thrd_create(&thread, strike, (void *)(uintptr_t)fate) != thrd_success)
        return 12;
    const leat_step step = {.size = sizeof step,
                            .forward_field = 0,
                            .reverse_field = 1,
                            .consume = consume,
                            .user = &arrays};
    uint64_t done;
    int error = leat_halo_run(halo, &step, UINT64_MAX / 8, &done);
    char name[16], text[LEAT_DETAIL_BYTES + 64];
    snprintf(name, sizeof name, "%d", info.rank);
    snprintf(text, sizeof text, "%llu %d %d %s\n", (unsigned long long)leat_now_ns(), (int)getpid(),
             error, leat_error_detail());
    leave_word(fate, name, text);
    leat_close(job, leat_error_detail());
    return 13;
}

// ---- the parent's side ----

static void read_word(const struct fate *fate, const char *name, char *text, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fate->directory, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s was not left: victim %d, signal %d, mode %d, delay %d us", name, fate->victim,
                 fate->signal, fate->mode, fate->delay_us);
    assert_non_null(fgets(text, (int)bytes, file));
    fclose(file);
    unlink(path);
}

static int names_of_leat_in_shm(void)
{
    DIR *directory = opendir("/dev/shm");
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += strstr(entry->d_name, "leat") != NULL;
    if (directory)
        closedir(directory);
    return count;
}

static int launch(const struct fate *fate)
{
    char text[4][16];
    const int numbers[4] = {fate->victim, fate->signal, fate->mode, fate->delay_us};
    for (int i = 0; i < 4; i++)
        snprintf(text[i], sizeof text[i], "%d", numbers[i]);
    char *const arguments[] = {
        "test_kills", text[0], text[1], text[2], text[3], (char *)(uintptr_t)fate->directory, NULL};
    const struct launch_options options = {.rank_count = RANKS,
                                           .arena_bytes = 16 << 20,
                                           .program = "/proc/self/exe",
                                           .argv = arguments};
    int status = -1;
    int error = leat_launch(&options, &status);
    if (error)
        fail_msg("leat_launch: %s", leat_error_detail());
    return status;
}

// Seconds until the last survivor has ended.
static double check_survivors(const struct fate *fate, uint64_t struck_ns)
{
    double last = 0;
    bool direct = false; /* somebody waited for the victim itself */
    int wanted = fate->signal == SIGKILL ? -ECONNRESET : -ETIMEDOUT;
    for (int rank = 0; rank < RANKS; rank++) {
        char name[16], text[LEAT_DETAIL_BYTES + 64], victim[16];
        unsigned long long end_ns;
        int pid, error, used = 0;
        if (rank == fate->victim)
            continue;
        snprintf(name, sizeof name, "%d", rank);
        snprintf(victim, sizeof victim, "rank %d", fate->victim);
        read_word(fate, name, text, sizeof text);
        assert_int_equal(sscanf(text, "%llu %d %d %n", &end_ns, &pid, &error, &used), 3);
        // Behind one whose time is up the others find that one gone.
        if ((error != wanted && error != -ECONNRESET) || !strstr(text + used, "pulse") ||
            !strstr(text + used, victim))
            fail_msg("rank %d, mode %d: %d where %d was due, naming %s: %s", rank, fate->mode,
                     error, wanted, victim, text + used);
        direct |= error == wanted;
        assert_true(kill(pid, 0) < 0 && errno == ESRCH);
        double seconds = (double)(end_ns - struck_ns) * 1e-9;
        last = seconds > last ? seconds : last;
    }
    assert_true(direct);
    return last;
}

static double strike_once(struct fate *fate, bool two_blocks)
{
    char text[128];
    unsigned long long struck_ns;
    int pid;
    snprintf(fate->directory, sizeof fate->directory, "/tmp/leat-test-XXXXXX");
    assert_non_null(mkdtemp(fate->directory));
    setenv("LEAT_BLOCKS", two_blocks ? "2" : "1", 1);
    assert_int_not_equal(launch(fate), 0);
    unsetenv("LEAT_BLOCKS");
    read_word(fate, "struck", text, sizeof text);
    assert_int_equal(sscanf(text, "%llu %d", &struck_ns, &pid), 2);
    double seconds = check_survivors(fate, struck_ns);
    assert_true(kill(pid, 0) < 0 && errno == ESRCH);
    assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    assert_int_equal(rmdir(fate->directory), 0);
    return seconds;
}

static void strike_often(int signal, int count, double limit_s)
{
    struct ranks_random random = {(uint64_t)signal};
    int before = names_of_leat_in_shm();
    const char *all = getenv("LEAT_LONG");
    double slowest = 0;
    if (all && !strcmp(all, "1"))
        count *= 10;
    for (int i = 0; i < count; i++) {
        struct fate fate = {.victim = (int)(ranks_random_word(&random) % RANKS),
                            .signal = signal,
                            .mode = i % MODES,
                            .delay_us = (int)(ranks_random_word(&random) % 20000)};
        double seconds = strike_once(&fate, i / MODES % 2);
        slowest = seconds > slowest ? seconds : slowest;
        if (seconds > limit_s)
            fail_msg("the last survivor took %.2f s, %.2f were allowed: mode %d", seconds, limit_s,
                     fate.mode);
    }
    assert_int_equal(names_of_leat_in_shm(), before);
    print_message("%d times signal %d: the slowest survivor took %.2f s\n", count, signal, slowest);
}

static void test_a_rank_killed_at_any_moment_ends_the_others_within_a_second(void **state)
{
    (void)state;
    strike_often(SIGKILL, 15, 1.0);
}

static void test_a_rank_stopped_at_any_moment_ends_the_others_at_their_time_out(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "1", 1);
    strike_often(SIGSTOP, 5, 2.5);
    unsetenv("LEAT_TIMEOUT");
}

int main(int argc, char **argv)
{
    if (leat_launched() && argc == 6) {
        struct fate fate = {atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), ""};
        snprintf(fate.directory, sizeof fate.directory, "%s", argv[5]);
        return play(&fate);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_killed_at_any_moment_ends_the_others_within_a_second),
        cmocka_unit_test(test_a_rank_stopped_at_any_moment_ends_the_others_at_their_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
