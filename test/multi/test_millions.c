// SPDX-License-Identifier: Apache-2.0
// Very many exchanges between two ranks, as threads and as processes: each value carries whose it
// is and of which step, each ghost a checksum over its values, and the reader reads each once.
//
// A signal that overtakes its data, a word that serves two events, a sender that overwrites what is
// still read: all of these are rare, so they are looked for often. LEAT_LONG=1 makes a million
// exchanges in fused and resident and a hundred thousand in the other modes, otherwise a fiftieth.
// Delays at random let either side come first. Counters start near the end of their range.

#define _GNU_SOURCE
#include "multi/ranks.h"

#include "core/job.h"
#include "core/launch.h"

#include <leat/halo.h>

#include <sched.h>
#include <unistd.h>

#define HOME       24u
#define COMPONENTS 4u
#define SENT       (HOME / 2)
#define LISTS      3u /* of SENT / LISTS elements, some to the same place one after the other */
#define LIST       (SENT / LISTS)

struct end {
    struct rank_thread *self;
    double *x, *f;
    struct ranks_random random;
    uint64_t read; /* values checked by this rank */
};

static const char *const mode_names[] = {"fused", "host", "stream", "pulse", "resident"};

static uint64_t exchanges_of(enum leat_mode mode)
{
    bool quick = mode == LEAT_MODE_FUSED || mode == LEAT_MODE_RESIDENT;
    uint64_t whole = quick ? 1000000 : 100000;
    const char *all = getenv("LEAT_LONG");
    const uint64_t part = getenv("LEAT_PATHS") ? 500 : 50; // the second time round, by the proxy
    return all && !strcmp(all, "1") ? whole : whole / part;
}

// Exact in a double: 52 bits of what it is, or of a hash of that.
static double value_of(int rank, uint64_t step, uint32_t element, uint32_t component)
{
    struct ranks_random random = {step << 8 | (uint64_t)rank << 7 | element};
    if (component == 0)
        return (double)random.state;
    uint64_t sum = 0;
    for (uint32_t c = 1; c <= component; c++)
        sum += ranks_random_word(&random) >> 13;
    return (double)(sum & ((UINT64_C(1) << 52) - 1));
}

static double checksum(const double *values)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c + 1 < COMPONENTS; c++) {
        uint64_t bits;
        memcpy(&bits, &values[c], sizeof bits);
        sum = (sum << 7 | sum >> 57) ^ bits;
    }
    return (double)(sum >> 12);
}

static void write_home(struct end *end, uint64_t step)
{
    for (uint32_t i = 0; i < HOME; i++) {
        for (uint32_t c = 0; c + 1 < COMPONENTS; c++)
            end->x[i * COMPONENTS + c] = value_of(end->self->rank, step, i, c);
        end->x[i * COMPONENTS + COMPONENTS - 1] = checksum(&end->x[i * COMPONENTS]);
    }
}

// Either side comes late now and then: mostly by less than an exchange, seldom by a lot.
static void dawdle(struct ranks_random *random)
{
    uint64_t word = ranks_random_word(random);
    if (word % 4096 == 0)
        sched_yield();
    if (word % 16)
        return;
    uint64_t until = leat_now_ns() + (word >> 32) % (word % 1024 ? 3000 : 60000);
    while (leat_now_ns() < until)
        ;
}

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct end *end = user;
    (void)block;
    (void)block_count;
    dawdle(&end->random);
    for (uint32_t g = 0; g < SENT; g++) {
        double seen[COMPONENTS];
        for (uint32_t c = 0; c < COMPONENTS; c++)
            seen[c] = ((volatile double *)end->x)[(HOME + g) * COMPONENTS + c];
        // Ghosts are of the first elements, list after list.
        double wanted = value_of(!end->self->rank, step, g, 0);
        if (seen[0] != wanted || seen[COMPONENTS - 1] != checksum(seen)) {
            rank_check(end->self, false, "step %llu, ghost %u: %.0f instead of %.0f, sum %.0f",
                       (unsigned long long)step, g, seen[0], wanted, seen[COMPONENTS - 1]);
            return -1;
        }
        end->f[HOME + g] = (double)(step * SENT + g);
    }
    for (uint32_t i = 0; i < HOME; i++)
        end->f[i] = i;
    end->read += SENT * COMPONENTS;
    return 0;
}

static int advance(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct end *end = user;
    (void)block;
    (void)block_count;
    for (uint32_t i = 0; i < HOME; i++) {
        double wanted = i + (i < SENT ? (double)(step * SENT + i) : 0);
        if (end->f[i] != wanted) {
            rank_check(end->self, false, "step %llu, element %u: sum %.0f instead of %.0f",
                       (unsigned long long)step, i, end->f[i], wanted);
            return -2;
        }
    }
    end->read += HOME;
    write_home(end, step + 1);
    dawdle(&end->random);
    return 0;
}

static leat_plan *plan_of(struct rank_thread *self)
{
    uint32_t index[LISTS][LIST];
    leat_list sends[LISTS], receives[LISTS];
    for (uint32_t l = 0; l < LISTS; l++) {
        for (uint32_t i = 0; i < LIST; i++)
            index[l][i] = l * LIST + i;
        sends[l] = (leat_list){.rank = !self->rank, .count = LIST, .index = index[l]};
        receives[l] = (leat_list){.rank = !self->rank, .count = LIST};
    }
    leat_lists lists = {.size = sizeof lists,
                        .home_count = HOME,
                        .send_count = LISTS,
                        .recv_count = LISTS,
                        .sends = sends,
                        .receives = receives};
    leat_plan *plan = NULL;
    rank_check(self, !leat_plan_lists(self->job, &lists, &plan), "%s", leat_error_detail());
    return plan;
}

static double *array_of(struct rank_thread *self, uint32_t components, leat_region **region)
{
    leat_region_options options = {.size = sizeof options,
                                   .bytes = (HOME + SENT) * components * sizeof(double)};
    leat_region_info info = {.size = sizeof info};
    if (!rank_check(self, !leat_region_alloc(self->job, &options, region), "%s",
                    leat_error_detail()))
        return NULL;
    leat_region_info_get(*region, &info);
    return info.address;
}

static void exchange_often(struct rank_thread *self)
{
    enum leat_mode mode = *(const enum leat_mode *)self->user;
    uint64_t steps = exchanges_of(mode) / 2, done = 0; // forward and back
    leat_region *x, *f;
    struct end end = {.self = self, .random = {(uint64_t)self->rank + 1}};
    leat_plan *plan = plan_of(self);
    end.x = array_of(self, COMPONENTS, &x);
    end.f = array_of(self, 1, &f);
    if (!plan || !end.x || !end.f)
        return;
    const leat_field fields[2] = {
        {.place = {x, 0}, .element = LEAT_F64, .components = COMPONENTS, .acknowledged_by = 2},
        {.place = {f, 0}, .element = LEAT_F64, .components = 1, .acknowledged_by = 1}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = mode,
                                       .field_count = 2,
                                       .fields = fields,
                                       .first_epoch = UINT64_MAX - 300};
    leat_halo *halo = NULL;
    if (!rank_check(self, !leat_halo_open(self->job, plan, &options, &halo), "%s",
                    leat_error_detail()))
        return;
    write_home(&end, 0);
    const leat_step step = {.size = sizeof step,
                            .forward_field = 0,
                            .reverse_field = 1,
                            .consume = consume,
                            .advance = advance,
                            .user = &end};
    uint64_t begin = leat_now_ns();
    int error = leat_halo_run(halo, &step, steps, &done);
    rank_check(self, !error && done == steps, "%d after %llu steps: %s", error,
               (unsigned long long)done, leat_error_detail());
    if (!self->rank)
        print_message("%-8s %8llu exchanges, %10llu values checked, %.2f us an exchange\n",
                      mode_names[mode], (unsigned long long)(2 * done),
                      (unsigned long long)end.read,
                      (double)(leat_now_ns() - begin) * 1e-3 / (double)(2 * steps));
    leat_halo_free(halo);
    leat_plan_free(plan);
}

// ---- as processes ----

static int play(const char *name)
{
    enum leat_mode mode = LEAT_MODE_FUSED;
    for (int m = 0; m < 5; m++)
        if (!strcmp(name, mode_names[m]))
            mode = (enum leat_mode)m;
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &job))
        return 10;
    leat_job_info_get(job, &info);
    struct rank_thread self = {
        .job = job, .rank = info.rank, .rank_count = info.rank_count, .user = &mode};
    exchange_often(&self);
    if (self.failure_count)
        fprintf(stderr, "rank %d: %s\n", self.rank, self.failure);
    leat_close(job, self.failure_count ? self.failure : NULL);
    return self.failure_count ? 11 : 0;
}

static void run_processes(enum leat_mode mode)
{
    char *const arguments[] = {"test_millions", (char *)(uintptr_t)mode_names[mode], NULL};
    const struct launch_options options = {
        .rank_count = 2, .arena_bytes = 16 << 20, .program = "/proc/self/exe", .argv = arguments};
    int status = -1;
    int error = leat_launch(&options, &status);
    if (error)
        fail_msg("leat_launch: %s", leat_error_detail());
    assert_int_equal(status, 0);
}

static void test_thread_ranks_never_read_a_wrong_value(void **state)
{
    (void)state;
    for (enum leat_mode mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        ranks_run(2, exchange_often, &mode);
}

static void test_process_ranks_never_read_a_wrong_value(void **state)
{
    (void)state;
    for (enum leat_mode mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        run_processes(mode);
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return play(argc > 1 ? argv[1] : "");
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_ranks_never_read_a_wrong_value),
        cmocka_unit_test(test_process_ranks_never_read_a_wrong_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
