// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller's own: puts, signals and meetings of blocks between ranks, and how waits in
// them end. Every value says who sent it in which step; blocks dawdle at random.

#include "multi/ranks.h"

#include <leat/device.h>

#include <errno.h>

#define STEPS  300
#define WORDS  97
#define POISON UINT64_C(0x7e57ed7e57ed7e57)

struct shown {
    /* By leat_put_signal, by leat_grid_signal; from the one behind: it has read. */
    char arrived[3][LEAT_SIGNAL_BYTES];
    uint64_t put[2][WORDS], stored[2][WORDS];
};

struct work {
    struct shown *mine, *theirs, *before;
    uint64_t *outbox; /* [WORDS] */
    uint64_t *wrong;  /* of each block */
    uint64_t *sums;   /* [steps' parity][blocks], written by each block and read by all */
    int rank, from, to, dawdle;
};

LEAT_DEVICE uint64_t stamp(int rank, uint64_t step, uint64_t word)
{
    return (uint64_t)rank << 48 | step << 16 | word;
}

LEAT_DEVICE void dawdle(const leat_grid *grid, const struct work *work, uint64_t step)
{
    uint64_t state = ((uint64_t)work->rank << 32 | grid->block) * 2654435761u + step * 40503u;
    for (volatile uint64_t i = work->dawdle ? state % 7 * 300 : 0; i; i--)
        continue;
}

LEAT_KERNEL(swap, struct work)
{
    for (uint64_t step = 1; step <= STEPS; step++) {
        if (grid->block == 0)
            for (uint64_t w = grid->lane; w < WORDS; w += grid->lane_count)
                work->outbox[w] = stamp(work->rank, step, w);
        leat_block_sync(grid);
        dawdle(grid, work, step);
        if (leat_signal_wait(grid, LEAT_SIGNAL_AT(work->mine->arrived, 2), step < 2 ? 0 : step - 2,
                             work->to))
            return;
        if (grid->block == 0)
            leat_put_signal(grid, work->theirs->put[step % 2], work->outbox,
                            WORDS * sizeof(uint64_t), LEAT_SIGNAL_AT(work->theirs->arrived, 0),
                            step);
        LEAT_FOR_EACH(w, 0, WORDS, grid)
        work->theirs->stored[step % 2][w] = stamp(work->rank, step, w + 1000);
        leat_grid_signal(grid, 3, LEAT_SIGNAL_AT(work->theirs->arrived, 1), step);
        work->sums[step % 2 * grid->block_count + grid->block] = step + grid->block;
        if (leat_signal_wait(grid, LEAT_SIGNAL_AT(work->mine->arrived, 0), step, work->from) ||
            leat_signal_wait(grid, LEAT_SIGNAL_AT(work->mine->arrived, 1), step, work->from))
            return;
        // All of it, by every block: also what other blocks were told of.
        for (uint64_t w = grid->lane; w < WORDS; w += grid->lane_count)
            if (work->mine->put[step % 2][w] != stamp(work->from, step, w) ||
                work->mine->stored[step % 2][w] != stamp(work->from, step, w + 1000))
                work->wrong[grid->block]++;
        dawdle(grid, work, step + 1);
        if (leat_grid_sync(grid))
            return;
        for (uint32_t b = 0; b < grid->block_count; b++)
            work->wrong[grid->block] += work->sums[step % 2 * grid->block_count + b] != step + b;
        leat_grid_signal(grid, 0, LEAT_SIGNAL_AT(work->before->arrived, 2), step);
    }
}

static bool region(struct rank_thread *self, const char *name, int owner, uint64_t bytes,
                   void **address)
{
    leat_region *made;
    leat_region_options options = {
        .size = sizeof options, .name = name, .owner = owner, .bytes = bytes};
    leat_region_info info = {.size = sizeof info};
    int error = bytes ? leat_region_alloc(self->job, &options, &made)
                      : leat_region_register(self->job, &options, &made);
    if (!error)
        error = leat_region_info_get(made, &info);
    *address = info.address;
    return rank_check(self, !error && *address, "%s: %s", name, leat_error_detail());
}

static bool lay_out(struct rank_thread *self, struct work *work)
{
    void *mine, *theirs, *before, *own;
    const int next = (self->rank + 1) % self->rank_count;
    const int last = (self->rank + self->rank_count - 1) % self->rank_count;
    if (!region(self, "shown", self->rank, sizeof(struct shown), &mine) ||
        !region(self, "own", self->rank, (WORDS + 3 * 64) * sizeof(uint64_t), &own))
        return false;
    memset(((struct shown *)mine)->put, 0x7e, sizeof work->mine->put);
    memset(((struct shown *)mine)->stored, 0x7e, sizeof work->mine->stored);
    if (!region(self, "ready", self->rank, LEAT_SIGNAL_BYTES, &theirs) ||
        !region(self, "ready", next, 0, &theirs) || !region(self, "shown", next, 0, &theirs) ||
        !region(self, "shown", last, 0, &before))
        return false;
    *work = (struct work){.mine = mine,
                          .theirs = theirs,
                          .before = before,
                          .outbox = own,
                          .wrong = (uint64_t *)own + WORDS,
                          .sums = (uint64_t *)own + WORDS + 64,
                          .rank = self->rank,
                          .from = last,
                          .to = next,
                          .dawdle = 1};
    return true;
}

static void swap_all(struct rank_thread *self)
{
    struct work work;
    if (!lay_out(self, &work))
        return;
    if (!rank_check(self, !leat_device_run(self->job, &swap, &work, sizeof work, NULL), "%s",
                    leat_error_detail()))
        return;
    rank_check(self, !leat_device_wait(self->job, -1), "%s", leat_error_detail());
    uint64_t wrong = 0;
    for (int b = 0; b < 64; b++)
        wrong += work.wrong[b];
    rank_check(self, wrong == 0, "%llu values are not the sender's of their step",
               (unsigned long long)wrong);
    rank_check(self, work.sums[0] == STEPS, "block 0 has made step %llu last, not %d",
               (unsigned long long)work.sums[0], STEPS);
}

/* ---- Failures ---- */

LEAT_KERNEL(wait_in_vain, struct work)
{
    if (work->rank == 0 && grid->block == grid->block_count - 1)
        if (leat_signal_wait(grid, LEAT_SIGNAL_AT(work->mine->arrived, 0), 5, work->from))
            return;
    // The other blocks have to hear of it.
    if (leat_grid_sync(grid))
        return;
    work->wrong[grid->block] = POISON;
}

static void fail_and_go_on(struct rank_thread *self)
{
    struct work work;
    if (!lay_out(self, &work))
        return;
    int error = leat_device_run(self->job, &wait_in_vain, &work, sizeof work, NULL);
    error = error ? error : leat_device_wait(self->job, -1);
    const char *detail = leat_error_detail();
    if (self->rank == 0) {
        rank_check(self, error == -ETIMEDOUT, "%d: %s", error, detail);
        rank_check(self,
                   strstr(detail, "wait_in_vain") && strstr(detail, "rank 1") &&
                       strstr(detail, "wanted 5, seen 0"),
                   "%s", detail);
        for (int b = 0; b < 3; b++)
            rank_check(self, work.wrong[b] == 0, "block %d went on after the failure", b);
    } else {
        rank_check(self, error == 0, "%d: %s", error, detail);
    }
    pthread_barrier_wait(self->user); // nobody begins the next one before
    // It is told once, and the next kernel finds everything as at the beginning.
    rank_check(self, !leat_device_wait(self->job, -1), "again: %s", leat_error_detail());
    memset(work.wrong, 0, 64 * sizeof *work.wrong);
    work.dawdle = 0;
    error = leat_device_run(self->job, &swap, &work, sizeof work, NULL);
    error = error ? error : leat_device_wait(self->job, -1);
    rank_check(self, !error, "afterwards: %s", leat_error_detail());
    for (int b = 0; b < 64; b++)
        rank_check(self, work.wrong[b] == 0, "afterwards %llu values are wrong in block %d",
                   (unsigned long long)work.wrong[b], b);
}

static void with_blocks(const char *blocks, int rank_count, void (*body)(struct rank_thread *))
{
    pthread_barrier_t met;
    pthread_barrier_init(&met, NULL, (unsigned int)rank_count);
    setenv("LEAT_BLOCKS", blocks, 1);
    ranks_run_for(body == fail_and_go_on ? 1 : 20, rank_count, body, &met);
    unsetenv("LEAT_BLOCKS");
    pthread_barrier_destroy(&met);
}

static void test_every_value_is_the_senders_of_its_step(void **state)
{
    (void)state;
    with_blocks("1", 1, swap_all);
    with_blocks("1", 3, swap_all);
    with_blocks("3", 2, swap_all);
    with_blocks("2", 4, swap_all);
}

static void test_a_wait_in_vain_ends_all_blocks_and_names_kernel_and_peer(void **state)
{
    (void)state;
    with_blocks("3", 2, fail_and_go_on);
}

static void leave_or_wait(struct rank_thread *self)
{
    struct work work;
    if (!lay_out(self, &work))
        return;
    pthread_barrier_wait(self->user); // each has found the other's regions
    if (self->rank == 1) {
        leat_close(self->job, "it has had enough");
        self->job = NULL;
        return;
    }
    int error = leat_device_run(self->job, &wait_in_vain, &work, sizeof work, NULL);
    const char *detail = leat_error_detail();
    rank_check(self,
               error == -ECONNRESET && strstr(detail, "rank 1") &&
                   strstr(detail, "it has had enough"),
               "%d: %s", error, detail);
}

static void test_a_peer_that_leaves_ends_the_wait(void **state)
{
    (void)state;
    with_blocks("2", 2, leave_or_wait);
}

static void refuse(struct rank_thread *self)
{
    struct work work = {0};
    const leat_run_options many = {.size = sizeof many, .block_count = 3};
    const leat_run_options wide = {.size = sizeof wide, .lane_count = 1025};
    const leat_run_options no_size = {.block_count = 1};
    const struct {
        leat_job *job;
        const leat_kernel *kernel;
        const struct work *work;
        size_t bytes;
        const leat_run_options *options;
        const char *word;
    } call[] = {{self->job, &swap, &work, sizeof work, &many, "LEAT_BLOCKS"},
                {self->job, &swap, &work, sizeof work, &wide, "1025"},
                {self->job, &swap, &work, sizeof work, &no_size, "size is 0"},
                {self->job, &swap, NULL, sizeof work, NULL, "work"},
                {self->job, NULL, &work, sizeof work, NULL, "kernel"},
                {NULL, &swap, &work, sizeof work, NULL, "job"},
                // The body would read beyond it.
                {self->job, &swap, &work, sizeof &work, NULL, "8 bytes of work"},
                {self->job, &swap, NULL, 0, NULL, "0 bytes of work"}};
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        int error = leat_device_run(call[i].job, call[i].kernel, call[i].work, call[i].bytes,
                                    call[i].options);
        rank_check(self, error == -EINVAL && strstr(leat_error_detail(), call[i].word),
                   "call %zu: %d: %s", i, error, leat_error_detail());
    }
}

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    with_blocks("2", 1, refuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_is_the_senders_of_its_step),
        cmocka_unit_test(test_a_wait_in_vain_ends_all_blocks_and_names_kernel_and_peer),
        cmocka_unit_test(test_a_peer_that_leaves_ends_the_wait),
        cmocka_unit_test(test_what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
