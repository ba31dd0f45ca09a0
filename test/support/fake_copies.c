// SPDX-License-Identifier: Apache-2.0
// See fake_copies.h.

#include "support/fake_copies.h"

#include "device/copies.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MARKS 64

struct late_copy {
    struct late_copy *next;
    char *to;
    const char *from; /* NULL: only a mark */
    uint64_t bytes;
    const struct copies_piece *pieces;
    uint32_t count;
    int mark;  /* or -1 */
    int looks; /* until it is carried out by itself */
};

struct copies_lane {
    struct late_copy *first, **last;
    unsigned seed;
    int error;
    int gpu;
};

static struct {
    pthread_mutex_t lock;
    char *begin, *end;
    const char *fails;
    unsigned seed;
    uint64_t count, lost;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int fake_find(struct device *unused, const void *address, uint64_t bytes,
                     struct copies_found *found)
{
    (void)unused;
    const char *at = address;
    bool inside = at >= device.begin && at < device.end;
    if (inside && bytes > (uint64_t)(device.end - at))
        return leat_fail(-ENOTSUP, "not all of one kind");
    *found = inside ? (struct copies_found){COPIES_DEVICE, 0, "cudaMalloc"}
                    : (struct copies_found){COPIES_HOST, -1, "the host"};
    return 0;
}

static int fake_open(struct device *unused, int gpu, int marks, unsigned flags,
                     struct copies_lane **lane)
{
    (void)flags;
    (void)unused;
    (void)marks;
    struct copies_lane *made = calloc(1, sizeof *made);
    if (!made)
        return -ENOMEM;
    pthread_mutex_lock(&device.lock);
    made->seed = device.seed++;
    pthread_mutex_unlock(&device.lock);
    made->last = &made->first;
    made->gpu = gpu;
    *lane = made;
    return 0;
}

static void count_one(uint64_t *counter)
{
    pthread_mutex_lock(&device.lock);
    (*counter)++;
    pthread_mutex_unlock(&device.lock);
}

static void fake_close(struct copies_lane *lane)
{
    if (lane->first)
        count_one(&device.lost);
    while (lane->first) {
        struct late_copy *gone = lane->first;
        lane->first = gone->next;
        free(gone);
    }
    free(lane);
}

static void enqueue(struct copies_lane *lane, struct late_copy copy)
{
    struct late_copy *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = copy;
    made->next = NULL;
    made->looks = rand_r(&lane->seed) % 6;
    *lane->last = made;
    lane->last = &made->next;
}

static int fake_copy(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    count_one(&device.count);
    enqueue(lane, (struct late_copy){.to = to, .from = from, .bytes = bytes, .mark = -1});
    return 0;
}

static int fake_scatter(struct copies_lane *lane, int mark, const void *slab, uint64_t bytes,
                        const struct copies_piece *pieces, uint32_t count)
{
    count_one(&device.count);
    enqueue(lane,
            (struct late_copy){
                .from = slab, .bytes = bytes, .pieces = pieces, .count = count, .mark = mark});
    return 0;
}

static int fake_mark(struct copies_lane *lane, int mark)
{
    enqueue(lane, (struct late_copy){.mark = mark});
    return 0;
}

static bool touches(const char *address, uint64_t bytes)
{
    pthread_mutex_lock(&device.lock);
    bool hit = device.fails && device.fails >= address && device.fails < address + bytes;
    pthread_mutex_unlock(&device.lock);
    return hit;
}

static void move(struct copies_lane *lane, void *to, const void *from, uint64_t bytes)
{
    if (touches(to, bytes) || touches(from, bytes))
        lane->error = -EIO;
    else
        memcpy(to, from, bytes);
}

static void carry_out_first(struct copies_lane *lane)
{
    struct late_copy *copy = lane->first;
    lane->first = copy->next;
    if (!lane->first)
        lane->last = &lane->first;
    if (copy->from && !copy->pieces)
        move(lane, copy->to, copy->from, copy->bytes);
    for (uint32_t i = 0; i < copy->count; i++)
        move(lane, (void *)(uintptr_t)copy->pieces[i].to, copy->from + copy->pieces[i].from,
             copy->pieces[i].bytes);
    free(copy);
}

static bool pending(const struct copies_lane *lane, int mark)
{
    for (const struct late_copy *copy = lane->first; copy; copy = copy->next)
        if (copy->mark == mark)
            return true;
    return false;
}

static int fake_passed(struct copies_lane *lane, int mark, bool wait)
{
    while (pending(lane, mark) && (wait || lane->first->looks-- <= 0))
        carry_out_first(lane);
    if (lane->error)
        return leat_fail(lane->error, "a copy has failed");
    return !pending(lane, mark);
}

static struct copies_ops table;

void fake_copies_begin(struct fake_copies *fake, struct leat_job *job, void *address,
                       uint64_t bytes, unsigned seed)
{
    device.begin = address;
    device.end = device.begin + bytes;
    device.seed = seed;
    device.count = device.lost = 0;
    device.fails = NULL;
    table = leat_copies_host;
    table.find = fake_find;
    table.open = fake_open;
    table.close = fake_close;
    table.copy = fake_copy;
    table.scatter = fake_scatter;
    table.mark = fake_mark;
    table.passed = fake_passed;
    fake->ops = *job->device->ops;
    fake->ops.copies = &table;
    job->device->ops = &fake->ops;
}

void fake_copies_forget(void)
{
    device.begin = device.end = NULL;
}

void fake_copies_fail_at(const void *address)
{
    pthread_mutex_lock(&device.lock);
    device.fails = address;
    pthread_mutex_unlock(&device.lock);
}

uint64_t fake_copies_count(void)
{
    pthread_mutex_lock(&device.lock);
    uint64_t count = device.count;
    pthread_mutex_unlock(&device.lock);
    return count;
}

uint64_t fake_copies_lost(void)
{
    pthread_mutex_lock(&device.lock);
    uint64_t lost = device.lost;
    pthread_mutex_unlock(&device.lock);
    return lost;
}
