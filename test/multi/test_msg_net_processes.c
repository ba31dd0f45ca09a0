// SPDX-License-Identifier: Apache-2.0
// The message network of one host between ranks that are processes.
//
// This program starts itself under the launcher. Each rank writes what it found into a file of its
// own; the parent, which alone can assert, reads them all.

#define _GNU_SOURCE
#include "multi/msg_net_parts.h"

#include "core/launch.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

// ---- the ranks' side ----

// From here on the kernel answers `number` with `error`.
static bool forbid(struct rank_thread *self, long number, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return rank_check(self,
                      !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
                          !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
                      "no filter: %s", strerror(errno));
}

static void part_wake_by_exchange(struct rank_thread *self)
{
    if (forbid(self, SYS_membarrier, ENOSYS))
        part_wake(self);
}

// One of the two cannot take part in barriers, the other one can.
static void part_wake_mixed(struct rank_thread *self)
{
    if (self->rank == 0 || forbid(self, SYS_membarrier, ENOSYS))
        part_wake(self);
}

// The barrier was there at open and is refused later.
static void part_wake_refused(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    if (!net || !forbid(self, SYS_membarrier, EPERM))
        return;
    uint64_t begin = leat_now_ns();
    net->ops->sleep_prepare(net);
    net->ops->sleep(net, LONG_SLEEP_NS);
    rank_check(self, leat_now_ns() - begin < LONG_SLEEP_NS / 2, "slept without a barrier");
    net->ops->close(net);
}

static bool trade(struct rank_thread *self, struct msg_net *net, int to,
                  const struct msg_token *token, struct msg_token *theirs)
{
    uint32_t bytes;
    if (!send_patiently(self, net, to, token, sizeof *token))
        return false;
    const void *packet = peek_patiently(self, net, &bytes);
    if (!packet)
        return false;
    memcpy(theirs, packet, sizeof *theirs);
    net->ops->queue_release(net);
    return true;
}

// How many of the bytes are not those of `who` from place `at` on.
static uint64_t wrong_bytes(const uint8_t *bytes, uint64_t count, uint64_t who, uint64_t at)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += bytes[i] != stamp(who, 9, at + i);
    return wrong;
}

// Where this machine permits no attach at all, there is nothing to try.
static bool expose(struct rank_thread *self, struct msg_net *net, const void *address,
                   uint64_t bytes, struct msg_token *token)
{
    int error = net->ops->expose(net, 1 - self->rank, address, bytes, token);
    if (error == -EPERM && !self->failure_count++)
        snprintf(self->failure, sizeof self->failure, "skip");
    return rank_check(self, error == 0, "expose: %s", leat_error_detail());
}

static void part_bulk(struct rank_thread *self)
{
    enum { BYTES = 3 << 20 };
    const uint64_t sizes[] = {0, 1, 7, 64, 4095, 4096, 4097, 65536, (1 << 20) + 3};
    struct msg_net *net = open_net(self, 1 << 14);
    uint8_t *mine = malloc(BYTES), *copy = malloc(BYTES);
    struct msg_token token, theirs;
    int peer = 1 - self->rank;
    if (!net || !mine || !copy)
        return;
    for (uint64_t i = 0; i < BYTES; i++)
        mine[i] = stamp((uint64_t)self->rank, 9, i);
    if (!expose(self, net, mine, BYTES, &token) || !trade(self, net, peer, &token, &theirs))
        return;
    rank_check(self, !net->ops->map(net, peer, &theirs, BYTES), "it lies in no shared memory");
    // A peer that names this rank's own memory would be written there.
    const struct msg_token own = {
        {UINT64_C(2) << 32 | (uint32_t)self->rank, (uint64_t)(uintptr_t)mine, BYTES}};
    rank_check(self, net->ops->map(net, self->rank, &own, BYTES) == mine,
               "the token of an address");
    rank_check(self, !net->ops->map(net, peer, &own, BYTES), "a peer's token leads into this rank");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = sizes[i], from = 1000 * i + 1;
        memset(copy, 0x5a, BYTES);
        int error = net->ops->bulk_get(net, peer, &theirs, from, copy + i, bytes, NULL);
        rank_check(self, error == 0, "get: %s", leat_error_detail());
        rank_check(self, wrong_bytes(copy + i, bytes, (uint64_t)peer, from) == 0,
                   "%llu bytes came wrong", (unsigned long long)bytes);
        rank_check(self, copy[i + bytes] == 0x5a && (i == 0 || copy[i - 1] == 0x5a), "too many");
    }
    rank_check(self, net->ops->bulk_get(net, peer, &theirs, BYTES - 4, copy, 5, NULL) == -EPROTO,
               "beyond what was exposed");
    leat_barrier(self->job);
    // Each writes the middle third of the other's.
    for (uint64_t i = 0; i < BYTES / 3; i++)
        copy[i] = stamp((uint64_t)self->rank + 50, 9, i);
    int error = net->ops->bulk_put(net, peer, &theirs, BYTES / 3, copy, BYTES / 3, NULL);
    rank_check(self, error == 0, "put: %s", leat_error_detail());
    leat_barrier(self->job);
    uint64_t wrong = wrong_bytes(mine, BYTES / 3, (uint64_t)self->rank, 0) +
                     wrong_bytes(mine + BYTES / 3, BYTES / 3, (uint64_t)peer + 50, 0) +
                     wrong_bytes(mine + 2 * (BYTES / 3), BYTES - 2 * (BYTES / 3),
                                 (uint64_t)self->rank, 2 * (BYTES / 3));
    rank_check(self, wrong == 0, "%llu bytes are wrong after the puts", (unsigned long long)wrong);
    rank_check(self,
               __atomic_load_n(&leat_rank_record(self->job, self->rank)->attach,
                               __ATOMIC_RELAXED) == ATTACH_PERMITTED,
               "the verdict is not remembered");
    free(mine);
    free(copy);
    net->ops->close(net);
}

// More than 2 GiB in one piece, seen in a few pages again and again: the period is prime to what
// the kernel moves at a time, so bytes that come twice or are left out come in the wrong places.
#define PERIOD  ((UINT64_C(16) << 20) + 4096)
#define LARGE   ((UINT64_C(2) << 30) + (UINT64_C(40) << 20))
#define PERIODS (LARGE / PERIOD + 1)

static uint8_t *repeated(struct rank_thread *self)
{
    int fd = memfd_create("periodic", MFD_CLOEXEC);
    uint8_t *whole =
        mmap(NULL, PERIODS * PERIOD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool made = fd >= 0 && whole != MAP_FAILED && !ftruncate(fd, (off_t)PERIOD);
    for (uint64_t i = 0; made && i < PERIODS; i++)
        made = mmap(whole + i * PERIOD, PERIOD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    0) != MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return rank_check(self, made, "cannot map: %s", strerror(errno)) ? whole : NULL;
}

static void part_large(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    uint8_t *memory = repeated(self);
    struct msg_token token, theirs;
    if (!net || !memory)
        return;
    for (uint64_t i = 0; self->rank == 0 && i < PERIOD; i++)
        memory[i] = stamp(3, 9, i);
    if (!expose(self, net, memory, LARGE, &token) ||
        !trade(self, net, 1 - self->rank, &token, &theirs))
        return;
    leat_barrier(self->job);
    if (self->rank == 1) {
        int error = net->ops->bulk_get(net, 0, &theirs, 0, memory, LARGE, NULL);
        rank_check(self, error == 0, "get: %s", leat_error_detail());
        uint64_t wrong = wrong_bytes(memory, PERIOD, 3, 0);
        rank_check(self, wrong == 0, "%llu bytes are wrong", (unsigned long long)wrong);
    }
    leat_barrier(self->job);
    net->ops->close(net);
}

// Rank 1 may not attach; it is told so, and rank 0 then exposes nothing any more.
static void closed_way(struct rank_thread *self, int answer)
{
    struct msg_net *net = open_net(self, 1 << 14);
    static uint8_t mine[4096], copy[4096];
    struct msg_token token, theirs;
    int peer = 1 - self->rank;
    if (!net)
        return;
    int error;
    if (!expose(self, net, mine, sizeof mine, &token) || !trade(self, net, peer, &token, &theirs))
        return;
    leat_barrier(self->job);
    if (self->rank == 1 && forbid(self, SYS_process_vm_readv, answer)) {
        error = net->ops->bulk_get(net, 0, &theirs, 0, copy, sizeof copy, NULL);
        rank_check(self, error == -EPERM, "get: %d", error);
        rank_check(self, strstr(leat_error_detail(), "rank 0") != NULL, "%s", leat_error_detail());
        error = net->ops->bulk_put(net, 0, &theirs, 0, copy, sizeof copy, NULL);
        rank_check(self, error == -EPERM, "put: %d", error);
    }
    leat_barrier(self->job);
    if (self->rank == 0) {
        error = net->ops->expose(net, peer, mine, sizeof mine, &token);
        rank_check(self, error == -EPERM, "expose: %d", error);
        rank_check(self, strstr(leat_error_detail(), "refused") != NULL, "%s", leat_error_detail());
    }
    leat_barrier(self->job);
    net->ops->close(net);
}

static void part_closed_eperm(struct rank_thread *self)
{
    closed_way(self, EPERM);
}

static void part_closed_enosys(struct rank_thread *self)
{
    closed_way(self, ENOSYS);
}

// Rank 1 is killed between claim and publication; rank 2 has sent behind it.
static void part_killed_claimer(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 4 * sizeof(struct shm_cell));
    struct endpoint *zero = &leat_arena_head(self->job, 0)->endpoint;
    uint64_t ticket, next[3] = {0};
    leat_barrier(self->job);
    if (!net)
        return;
    if (self->rank == 1) {
        struct shm_queue queue = {
            .cells = (struct shm_cell *)(void *)((char *)leat_arena_head(self->job, 0) +
                                                 zero->queue_offset),
            .tail = &zero->queue_tail,
            .count_bits = 2};
        if (!shm_queue_claim(&queue, 1, &ticket))
            raise(SIGTERM);
        raise(SIGKILL);
    }
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    while (__atomic_load_n(&zero->queue_tail, __ATOMIC_ACQUIRE) == 0 && leat_now_ns() < limit)
        sched_yield();
    for (uint64_t i = 0; self->rank == 2 && i < 10; i++) {
        int error;
        while ((error = send_packet(net, 0, i)) == -EAGAIN && leat_now_ns() < limit)
            sched_yield();
        rank_check(self, error == 0, "send: %d", error);
    }
    while (self->rank == 0 && next[2] < 10 && leat_now_ns() < limit)
        if (!take_packet(self, net, next))
            net->ops->progress(net, leat_now_ns());
    rank_check(self, self->rank != 0 || next[2] == 10, "%llu packets got past the dead one's",
               (unsigned long long)next[2]);
    net->ops->close(net);
}

// Rank 1 is killed while rank 0 sleeps in slices, as the engine does.
static void part_killed_peer(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    leat_barrier(self->job);
    if (!net)
        return;
    if (self->rank == 1)
        raise(SIGKILL);
    uint64_t begin = leat_now_ns();
    int error = 0;
    while (!(error = net->ops->alive(net, 1)) && leat_now_ns() - begin < GIVE_UP_NS) {
        net->ops->sleep_prepare(net);
        net->ops->sleep(net, 20000000);
    }
    rank_check(self, error == -ECONNRESET, "alive: %d", error);
    rank_check(self, strstr(leat_error_detail(), "rank 1") != NULL, "%s", leat_error_detail());
    rank_check(self, leat_now_ns() - begin < 3000000000, "it took %.1f s",
               (double)(leat_now_ns() - begin) * 1e-9);
    net->ops->close(net);
}

static double status_mib(const char *field)
{
    char line[256];
    double kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field)))
            kib = strtod(line + strlen(field) + 1, NULL);
    if (file)
        fclose(file);
    return kib / 1024;
}

// Everybody sends eight bytes to everybody, and then says how much memory it takes.
static void part_memory(struct rank_thread *self)
{
    double before = status_mib("VmRSS");
    struct msg_net *net = open_net(self, 1 << 20);
    double open = status_mib("VmRSS");
    uint64_t value = (uint64_t)self->rank, sum = 0;
    uint32_t bytes;
    if (!net)
        return;
    for (int hop = 1; hop < self->rank_count; hop++)
        send_patiently(self, net, (self->rank + hop) % self->rank_count, &value, sizeof value);
    for (int hop = 1; hop < self->rank_count; hop++) {
        const uint64_t *packet = peek_patiently(self, net, &bytes);
        if (!packet)
            return;
        sum += *packet;
        net->ops->queue_release(net);
    }
    uint64_t all = (uint64_t)self->rank_count * (uint64_t)(self->rank_count - 1) / 2;
    rank_check(self, sum == all - value, "sum %llu", (unsigned long long)sum);
    double after = status_mib("VmRSS");
    if (self->rank == 0)
        printf("resident at start %.2f, once open %.2f, after 8 B to all of %d ranks %.2f MiB\n",
               before, open, self->rank_count, after);
    rank_check(self, SANITIZED || after < 12, "%.1f MiB are resident", after);
    leat_barrier(self->job);
    net->ops->close(net);
}

static const struct {
    const char *name;
    void (*body)(struct rank_thread *self);
} parts[] = {
    {"storm", part_storm},
    {"wake", part_wake},
    {"wake_by_exchange", part_wake_by_exchange},
    {"wake_mixed", part_wake_mixed},
    {"wake_refused", part_wake_refused},
    {"bulk", part_bulk},
    {"large", part_large},
    {"closed_eperm", part_closed_eperm},
    {"closed_enosys", part_closed_enosys},
    {"killed_claimer", part_killed_claimer},
    {"killed_peer", part_killed_peer},
    {"memory", part_memory},
};

static int play(const char *part, const char *directory, const char *rounds_text)
{
    static struct rank_thread self;
    uint64_t rounds = strtoull(rounds_text, NULL, 10);
    leat_job_info info = {.size = sizeof info};
    if (leat_open(NULL, &self.job))
        return 1;
    leat_job_info_get(self.job, &info);
    self.rank = info.rank;
    self.rank_count = info.rank_count;
    self.user = rounds ? &rounds : NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, part))
            parts[i].body(&self);
    char path[256];
    snprintf(path, sizeof path, "%s/%d", directory, self.rank);
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fputs(self.failure_count ? self.failure : "ok", file);
    fclose(file);
    leat_close(self.job, self.failure_count ? "a check failed" : NULL);
    return self.failure_count ? 1 : 0;
}

// ---- the parent's side ----

static void launch(const char *part, int rank_count, int victim)
{
    char directory[] = "/tmp/leat-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    const char *rounds = getenv("LEAT_TEST_WAKE_ROUNDS");
    char *const arguments[] = {"test_msg_net_processes", (char *)part, directory,
                               (char *)(rounds ? rounds : ""), NULL};
    const struct launch_options options = {.rank_count = rank_count,
                                           .arena_bytes = 64 << 20,
                                           .survive = victim >= 0,
                                           .program = "/proc/self/exe",
                                           .argv = arguments};
    int status = -1, failed = 0;
    bool skipped = false;
    if (leat_launch(&options, &status))
        fail_msg("leat_launch: %s", leat_error_detail());
    for (int rank = 0; rank < rank_count; rank++) {
        char path[256], text[1400] = "left no word";
        snprintf(path, sizeof path, "%s/%d", directory, rank);
        FILE *file = fopen(path, "r");
        if (file) {
            size_t bytes = fread(text, 1, sizeof text - 1, file);
            text[bytes] = 0;
            fclose(file);
            unlink(path);
        }
        skipped |= !strcmp(text, "skip");
        if (rank == victim || !strcmp(text, "ok"))
            continue;
        print_error("rank %d of %d: %s\n", rank, rank_count, text);
        failed++;
    }
    rmdir(directory);
    if (skipped) {
        print_message("cross-memory attach is not permitted here\n");
        skip();
    }
    assert_int_equal(failed, 0);
    assert_int_equal(status, victim < 0 ? 0 : 128 + SIGKILL);
}

static void test_everybody_to_everybody_keeps_each_senders_order(void **state)
{
    (void)state;
    launch("storm", 2, -1);
    launch("storm", 8, -1);
}

static void test_no_wake_up_is_lost(void **state)
{
    (void)state;
    launch("wake", 2, -1);
}

static void test_no_wake_up_is_lost_without_the_kernels_barrier(void **state)
{
    (void)state;
    launch("wake_by_exchange", 2, -1);
    launch("wake_mixed", 2, -1);
}

static void test_nobody_sleeps_once_the_barrier_is_refused(void **state)
{
    (void)state;
    launch("wake_refused", 1, -1);
}

static void test_memory_of_a_process_is_copied_by_attach(void **state)
{
    (void)state;
    launch("bulk", 2, -1);
}

__attribute__((unused)) static void test_a_copy_of_more_than_two_gigabytes(void **state)
{
    (void)state;
    launch("large", 2, -1);
}

static void test_a_refused_attach_closes_that_way_for_both_sides(void **state)
{
    (void)state;
    launch("closed_eperm", 2, -1);
    launch("closed_enosys", 2, -1);
}

static void test_a_cell_of_a_killed_sender_is_passed_over(void **state)
{
    (void)state;
    launch("killed_claimer", 3, 1);
}

static void test_a_killed_peer_is_noticed_by_a_sleeper(void **state)
{
    (void)state;
    launch("killed_peer", 2, 1);
}

static void test_64_ranks_take_little_memory(void **state)
{
    (void)state;
    launch("memory", 64, -1);
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return argc == 4 ? play(argv[1], argv[2], argv[3]) : 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_to_everybody_keeps_each_senders_order),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_no_wake_up_is_lost_without_the_kernels_barrier),
        cmocka_unit_test(test_nobody_sleeps_once_the_barrier_is_refused),
        cmocka_unit_test(test_memory_of_a_process_is_copied_by_attach),
#ifndef __SANITIZE_THREAD__ // which notes every byte of it
        cmocka_unit_test(test_a_copy_of_more_than_two_gigabytes),
#endif
        cmocka_unit_test(test_a_refused_attach_closes_that_way_for_both_sides),
        cmocka_unit_test(test_a_cell_of_a_killed_sender_is_passed_over),
        cmocka_unit_test(test_a_killed_peer_is_noticed_by_a_sleeper),
        cmocka_unit_test(test_64_ranks_take_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
