// SPDX-License-Identifier: Apache-2.0
// The halo's proxy: what it carries, that its ring may be full, and what it says when it cannot.
//
// Ranks are threads here, and LEAT_PATHS=require:proxy keeps kernels from storing to their peers; a
// transport of the test's stands in where an order is to fail or to hang. Registered memory of
// other processes needs no such rule. multi.stamps and others run through the proxy as a whole, too
// (test/CMakeLists.txt).

#define _GNU_SOURCE
#include "multi/ranks.h"

#include "core/launch.h"
#include "halo/proxy.h"

#include <leat/halo.h>

#include <errno.h>
#include <unistd.h>

#define LISTS                                                                                      \
    64u /* more than the ring has room for: as many orders for coordinates, and for room */
#define HOME 128u
#define EACH (HOME / LISTS)

enum { X, F, FIELDS };

struct pair {
    struct rank_thread *self;
    leat_region *region[FIELDS];
    double *x, *f;
    leat_plan *plan;
    leat_halo *halo;
};

static double stamp(int rank, int step, uint32_t i)
{
    return rank * 1e6 + step * 1e3 + i + 1;
}

static bool open_memory(struct pair *pair, bool registered)
{
    static _Thread_local double memory[FIELDS][2 * HOME];
    double **array[FIELDS] = {&pair->x, &pair->f};
    leat_region_info info = {.size = sizeof info};
    bool held = true;
    for (int f = 0; held && f < FIELDS; f++) {
        leat_region_options options = {.size = sizeof options, .bytes = sizeof memory[f]};
        if (registered)
            options.address = memory[f];
        held = registered ? !leat_region_register(pair->self->job, &options, &pair->region[f])
                          : !leat_region_alloc(pair->self->job, &options, &pair->region[f]);
        if (held)
            leat_region_info_get(pair->region[f], &info);
        *array[f] = info.address;
        for (uint32_t i = 0; held && i < 2 * HOME; i++)
            (*array[f])[i] = -7;
    }
    return held;
}

// So many lists to the next rank, of HOME elements in all, each of which comes back.
static int open_pair(struct rank_thread *self, enum leat_mode mode, uint32_t lists, bool registered,
                     struct pair *pair)
{
    static const int count = 2;
    uint32_t index[HOME];
    leat_list sends[LISTS], receives[LISTS];
    const int next = (self->rank + 1) % count;
    *pair = (struct pair){.self = self};
    for (uint32_t i = 0; i < HOME; i++)
        index[i] = i;
    for (uint32_t l = 0; l < lists; l++) {
        const uint32_t each = HOME / lists;
        sends[l] = (leat_list){.rank = next, .count = each, .index = index + l * each};
        receives[l] = (leat_list){.rank = next, .count = each};
    }
    const leat_lists both = {sizeof both, HOME, (int)lists, (int)lists, sends, receives};
    int error = leat_plan_lists(self->job, &both, &pair->plan);
    if (!error && !open_memory(pair, registered))
        error = -ENOMEM;
    leat_field fields[FIELDS];
    for (int f = 0; f < FIELDS; f++)
        fields[f] =
            (leat_field){.place = {pair->region[f], 0}, .element = LEAT_F64, .components = 1};
    const leat_halo_options options = {
        .size = sizeof options, .mode = mode, .field_count = FIELDS, .fields = fields};
    return error ? error : leat_halo_open(self->job, pair->plan, &options, &pair->halo);
}

static void close_pair(struct pair *pair)
{
    leat_halo_free(pair->halo);
    leat_plan_free(pair->plan);
    for (int f = 0; f < FIELDS; f++)
        leat_region_free(pair->region[f]);
}

// 0, or the exchange's error; -EBADMSG: a value is wrong.
static int one_step(struct pair *pair, int step)
{
    const int me = pair->self->rank;
    for (uint32_t i = 0; i < HOME; i++) {
        pair->x[i] = stamp(me, step, i);
        pair->f[i] = 1;
    }
    int error = leat_halo_exchange(pair->halo, X, LEAT_FORWARD);
    for (uint32_t i = 0; !error && i < HOME; i++) {
        if (pair->x[HOME + i] != stamp(!me, step, i))
            return -EBADMSG;
        pair->f[HOME + i] = pair->x[HOME + i];
        pair->x[HOME + i] = -7;
    }
    if (!error)
        error = leat_halo_exchange(pair->halo, F, LEAT_REVERSE);
    for (uint32_t i = 0; !error && i < HOME; i++)
        if (pair->f[i] != 1 + stamp(me, step, i))
            return -EBADMSG;
    return error;
}

static bool right(struct rank_thread *self, int error, const char *what)
{
    return rank_check(self, !error, "%s: %d, %s", what, error, leat_error_detail());
}

static leat_stats stats_of(const leat_job *job)
{
    leat_stats stats = {.size = sizeof stats};
    leat_stats_read(job, LEAT_ALL_PEERS, &stats);
    return stats;
}

// ---- what is carried and counted ----

#define STEPS         20
#define NETWORK_STEPS 4

static void carry_all(struct rank_thread *self)
{
    const enum leat_mode *mode = self->user;
    struct pair pair;
    int error = open_pair(self, *mode, 1, false, &pair);
    const leat_stats before = stats_of(self->job);
    for (int step = 0; !error && step < STEPS; step++)
        error = one_step(&pair, step);
    right(self, error, "steps through the proxy");
    if (!error)
        leat_proxy_drain(self->job);
    const leat_stats after = stats_of(self->job);
    // Of a step: coordinates, forces, and room for both but for the first forces.
    rank_check(self, after.proxy_orders - before.proxy_orders == 4 * STEPS - 1, "%llu orders",
               (unsigned long long)(after.proxy_orders - before.proxy_orders));
    rank_check(self, after.proxy_bytes - before.proxy_bytes == 2ull * STEPS * HOME * sizeof(double),
               "%llu bytes", (unsigned long long)(after.proxy_bytes - before.proxy_bytes));
    if (*mode == LEAT_MODE_FUSED)
        rank_check(self,
                   after.launches - before.launches == 2 * STEPS &&
                       after.blocking_waits == before.blocking_waits,
                   "%llu launches, %llu blocking waits",
                   (unsigned long long)(after.launches - before.launches),
                   (unsigned long long)(after.blocking_waits - before.blocking_waits));
    close_pair(&pair);
}

static void test_every_mode_is_carried_and_counted(void **state)
{
    (void)state;
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        ranks_run(2, carry_all, &mode);
}

// ---- a full ring ----

static void fill_the_ring(struct rank_thread *self)
{
    struct pair pair;
    int error = open_pair(self, LEAT_MODE_FUSED, LISTS, false, &pair);
    for (int step = 0; !error && step < STEPS; step++)
        error = one_step(&pair, step);
    right(self, error, "steps of more pulses than the ring has slots");
    close_pair(&pair);
}

static void test_more_orders_than_the_ring_holds(void **state)
{
    (void)state;
    assert_true(2 * LISTS > K_RING_ORDERS);
    setenv("LEAT_BLOCKS", "2", 1);
    ranks_run(2, fill_the_ring, NULL);
    unsetenv("LEAT_BLOCKS");
}

// ---- orders that fail, hang or are slow ----

static int hang;                    /* orders wait while it is 1 */
static const struct transport *own; /* what the test's transport stands in for */

static int refuse(struct leat_job *job, const struct put_signal *order)
{
    (void)job;
    (void)order;
    return leat_fail(-EIO, "the cable is cut");
}

static int wait_first(struct leat_job *job, const struct put_signal *order)
{
    while (__atomic_load_n(&hang, __ATOMIC_ACQUIRE))
        usleep(100);
    return own->put_signal(job, order);
}

static const struct transport refusing = {.name = "refusing", .put_signal = refuse};
static const struct transport hanging = {.name = "hanging", .put_signal = wait_first};

static void stand_in(struct leat_halo *halo, const struct transport *transport)
{
    for (int i = 0; i < halo->peer_count; i++) {
        struct halo_peer *peer = &halo->peer[i];
        leat_region *regions[] = {peer->signals, peer->returned, peer->base[X], peer->base[F]};
        for (size_t r = 0; r < sizeof regions / sizeof *regions; r++)
            regions[r]->transport = transport;
    }
}

static void be_refused(struct rank_thread *self)
{
    const enum leat_mode *mode = self->user;
    struct pair pair;
    int error = open_pair(self, *mode, 2, false, &pair);
    if (!right(self, error, "opening"))
        return;
    if (self->rank == 0)
        stand_in(pair.halo, &refusing);
    const uint64_t begin = leat_now_ns();
    for (int step = 0; !error && step < 3; step++)
        error = one_step(&pair, step);
    const double seconds = (double)(leat_now_ns() - begin) * 1e-9;
    if (self->rank == 0) {
        const char *said = leat_error_detail();
        rank_check(self,
                   error == -EIO && strstr(said, "pulse") && strstr(said, "rank 1") &&
                       strstr(said, "refusing") && strstr(said, "the cable is cut"),
                   "%d: %s", error, said);
        rank_check(self, seconds < 1, "after %g s", seconds);
        leat_close(self->job, said); // ends the other's wait
        self->job = NULL;
    } else {
        rank_check(self, error == -ECONNRESET && strstr(leat_error_detail(), "rank 0"), "%d: %s",
                   error, leat_error_detail());
    }
    leat_halo_free(pair.halo);
    leat_plan_free(pair.plan);
}

static void test_an_order_that_fails_ends_the_exchange_and_names_it(void **state)
{
    (void)state;
    static const enum leat_mode modes[] = {LEAT_MODE_FUSED, LEAT_MODE_PULSE, LEAT_MODE_STREAM};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        enum leat_mode mode = modes[m];
        ranks_run(2, be_refused, &mode);
    }
}

static void hang_up(struct rank_thread *self)
{
    struct pair pair;
    self->job->timeout_ns = 300000000;
    int error = open_pair(self, LEAT_MODE_FUSED, LISTS, false, &pair);
    if (!right(self, error, "opening"))
        return;
    if (self->rank == 0)
        stand_in(pair.halo, &hanging);
    error = one_step(&pair, 0);
    const char *said = leat_error_detail();
    rank_check(self,
               error == -ETIMEDOUT && strstr(said, "pulse") &&
                   strstr(said, self->rank ? "rank 0" : "the proxy thread of rank 0"),
               "%d: %s", error, said);
    leat_barrier(self->job);
    __atomic_store_n(&hang, 0, __ATOMIC_RELEASE);
    close_pair(&pair);
}

static void test_a_proxy_that_hangs_is_named_at_the_time_out(void **state)
{
    (void)state;
    own = leat_transports[ROW_SHM];
    __atomic_store_n(&hang, 1, __ATOMIC_RELEASE);
    ranks_run(2, hang_up, NULL);
}

// The last orders are on their way when the exchange has returned.
static int delay(struct leat_job *job, const struct put_signal *order)
{
    usleep(2000);
    return own->put_signal(job, order);
}

static const struct transport slow = {.name = "slow", .put_signal = delay};

static void leave_at_once(struct rank_thread *self)
{
    struct pair pair;
    int error = open_pair(self, LEAT_MODE_FUSED, 4, false, &pair);
    if (!right(self, error, "opening"))
        return;
    // Rank 0's proxy is late: all that rank 1 still waits for comes when rank 0 is through.
    if (self->rank == 0)
        stand_in(pair.halo, &slow);
    for (int step = 0; !error && step < 3; step++)
        error = one_step(&pair, step);
    right(self, error, "a peer that leaves at once");
    if (self->rank == 0 && !error) {
        leat_close(self->job, NULL);
        self->job = NULL;
    }
    leat_halo_free(pair.halo);
    leat_plan_free(pair.plan);
}

static void test_what_was_sent_arrives_though_its_sender_leaves(void **state)
{
    (void)state;
    own = leat_transports[ROW_SHM];
    for (int i = 0; i < 3; i++)
        ranks_run(2, leave_at_once, NULL);
}

// ---- registered memory of other processes ----

// The kernel may not permit it, or there may be no network: 77.
static bool reaches(struct rank_thread *self, int registered)
{
    leat_path_report report = {.size = sizeof report};
    int error = leat_barrier(self->job); // the kernel is asked about those who are there
    if (!error)
        error = leat_path_query(self->job, !self->rank, registered, &report);
    return !leat_agree(self->job, error);
}

static int play_registered(struct rank_thread *self)
{
    struct pair pair;
    int error = open_pair(self, LEAT_MODE_FUSED, 2, true, &pair);
    for (int step = 0; !error && step < 200; step++)
        error = one_step(&pair, step);
    if (!error)
        leat_proxy_drain(self->job);
    close_pair(&pair);
    // The way back lands in memory of the library's, where kernels store.
    const uint64_t bytes = stats_of(self->job).proxy_bytes;
    return error ? error : bytes == 200 * HOME * sizeof(double) ? 0 : -EBADMSG;
}

static int play_network(struct rank_thread *self)
{
    int error = 0;
    for (int mode = LEAT_MODE_FUSED; !error && mode <= LEAT_MODE_RESIDENT; mode++) {
        struct pair pair;
        error = open_pair(self, (enum leat_mode)mode, 2, false, &pair);
        for (int step = 0; !error && step < NETWORK_STEPS; step++)
            error = one_step(&pair, step);
        close_pair(&pair);
    }
    const uint64_t bytes = stats_of(self->job).proxy_bytes;
    return error ? error : bytes == 5 * NETWORK_STEPS * 2ull * HOME * sizeof(double) ? 0 : -EBADMSG;
}

static int play_forbidden(struct rank_thread *self)
{
    struct pair pair;
    int error = open_pair(self, LEAT_MODE_FUSED, 2, true, &pair);
    const bool named = strstr(leat_error_detail(), "LEAT_PATHS forbids the proxy") != NULL;
    close_pair(&pair);
    return error == -EHOSTUNREACH && named ? 0 : -EBADMSG;
}

static int play(const char *part)
{
    struct rank_thread self = {0};
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &self.job))
        return 10;
    leat_job_info_get(self.job, &info);
    self.rank = info.rank;
    const bool network = !strcmp(part, "network");
    if (!reaches(&self, !network)) {
        fprintf(stderr, "%s\n", leat_error_detail());
        leat_close(self.job, NULL);
        return 77;
    }
    int error = network                      ? play_network(&self)
                : !strcmp(part, "forbidden") ? play_forbidden(&self)
                                             : play_registered(&self);
    if (error)
        fprintf(stderr, "rank %d: %d, %s\n", self.rank, error, leat_error_detail());
    leat_close(self.job, error ? leat_error_detail() : NULL);
    return error ? 12 : 0;
}

static int launch(const char *part)
{
    char *const arguments[] = {"test_proxy", (char *)part, NULL};
    const struct launch_options options = {
        .rank_count = 2, .arena_bytes = 64 << 20, .program = "/proc/self/exe", .argv = arguments};
    int status = -1;
    if (leat_launch(&options, &status))
        fail_msg("leat_launch: %s", leat_error_detail());
    if (status == 77) {
        print_message("no such path here\n");
        skip();
    }
    return status;
}

static void test_registered_fields_have_no_way_without_it(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "forbid:proxy", 1);
    assert_int_equal(launch("forbidden"), 0);
}

#ifndef __SANITIZE_THREAD__ // it does not see what another process or libfabric orders
static void test_registered_fields_of_processes_are_carried(void **state)
{
    (void)state;
    unsetenv("LEAT_PATHS");
    assert_int_equal(launch("registered"), 0);
}

static void test_every_mode_over_a_network(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "require:fabric", 1);
    assert_int_equal(launch("network"), 0);
}
#endif

int main(int argc, char **argv)
{
    if (leat_launched())
        return play(argc > 1 ? argv[1] : "");
    setenv("LEAT_PATHS", "require:proxy", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mode_is_carried_and_counted),
        cmocka_unit_test(test_more_orders_than_the_ring_holds),
        cmocka_unit_test(test_an_order_that_fails_ends_the_exchange_and_names_it),
        cmocka_unit_test(test_a_proxy_that_hangs_is_named_at_the_time_out),
        cmocka_unit_test(test_what_was_sent_arrives_though_its_sender_leaves),
        cmocka_unit_test(test_registered_fields_have_no_way_without_it),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_registered_fields_of_processes_are_carried),
        cmocka_unit_test(test_every_mode_over_a_network),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
