// SPDX-License-Identifier: Apache-2.0
// Two thresholds out of measured times; the algorithm is told in the header.

#include "bench_fit.h"

#include <math.h>

enum { CANDIDATES_MAX = 40 }; // a size each, the present value, and one beyond all of them

#define SAME 1e-9 // losses are sums of logarithms

struct candidates {
    uint64_t value[CANDIDATES_MAX];
    int count;
};

struct table {
    const struct bench_fit_size *size;
    int count;
};

enum bench_way bench_fit_fastest(const struct bench_fit_size *size)
{
    enum bench_way best = WAY_ALONE;
    for (int way = 0; way < WAY_COUNT; way++)
        if (size->ns[way].median > 0 && size->ns[way].median < size->ns[best].median)
            best = (enum bench_way)way;
    return best;
}

bool bench_fit_slower(const struct bench_fit_size *size, enum bench_way way)
{
    return size->ns[way].quarter > size->ns[bench_fit_fastest(size)].three_quarters;
}

static double loss_of(const struct bench_fit_size *size, uint64_t eager, uint64_t share)
{
    enum bench_way way = WAY_ALONE;
    if (size->bytes <= eager && size->ns[WAY_RING].median > 0)
        way = WAY_RING;
    else if (size->bytes >= share && size->ns[WAY_SHARED].median > 0)
        way = WAY_SHARED;
    if (!bench_fit_slower(size, way))
        return 0;
    return log(size->ns[way].median / size->ns[bench_fit_fastest(size)].median);
}

static double loss(const struct table *table, uint64_t eager, uint64_t share)
{
    double sum = 0;
    for (int i = 0; i < table->count; i++)
        sum += loss_of(&table->size[i], eager, share);
    return sum;
}

static void add(struct candidates *list, uint64_t value)
{
    if (list->count < CANDIDATES_MAX)
        list->value[list->count++] = value;
}

// How far a setting would move, in powers of two.
static double distance(uint64_t from, uint64_t to)
{
    return fabs(log2((double)from + 1) - log2((double)to + 1));
}

static struct candidates eager_candidates(const struct table *table, uint64_t present)
{
    struct candidates list = {{present}, 1};
    if (table->size[0].bytes / 2 <= BENCH_RING_MOST)
        add(&list, table->size[0].bytes / 2);
    for (int i = 0; i < table->count; i++)
        if (table->size[i].ns[WAY_RING].median > 0)
            add(&list, table->size[i].bytes);
    return list;
}

static struct candidates share_candidates(const struct table *table, uint64_t present)
{
    struct candidates list = {{present}, 1};
    for (int i = 0; i < table->count; i++)
        if (table->size[i].ns[WAY_SHARED].median > 0)
            add(&list, table->size[i].bytes);
    if (table->size[table->count - 1].bytes * 2 >= BENCH_SHARE_LEAST)
        add(&list, table->size[table->count - 1].bytes * 2);
    return list;
}

static void find_range(const struct table *table, const struct candidates *list, bool of_eager,
                       struct bench_thresholds *found)
{
    struct bench_threshold *threshold = of_eager ? &found->eager : &found->share;
    double least = loss(table, found->eager.value, found->share.value);
    threshold->lowest = threshold->highest = threshold->value;
    threshold->told = false;
    for (int i = 0; i < list->count; i++) {
        uint64_t value = list->value[i];
        double lost = of_eager ? loss(table, value, found->share.value)
                               : loss(table, found->eager.value, value);
        if (lost > least + SAME)
            threshold->told = true;
        else if (value < threshold->lowest)
            threshold->lowest = value;
        else if (value > threshold->highest)
            threshold->highest = value;
    }
}

struct bench_thresholds bench_fit(const struct bench_fit_size *sizes, int count, uint64_t eager,
                                  uint64_t share)
{
    struct bench_thresholds found = {{.value = eager}, {.value = share}};
    struct table table = {sizes, count};
    if (count < 1)
        return found;
    struct candidates eagers = eager_candidates(&table, eager);
    struct candidates shares = share_candidates(&table, share);
    double least = loss(&table, eager, share), moved = 0;
    for (int i = 0; i < eagers.count; i++)
        for (int k = 0; k < shares.count; k++) {
            double lost = loss(&table, eagers.value[i], shares.value[k]);
            double far = distance(eager, eagers.value[i]) + distance(share, shares.value[k]);
            if (lost < least - SAME || (lost < least + SAME && far < moved)) {
                least = lost;
                moved = far;
                found.eager.value = eagers.value[i];
                found.share.value = shares.value[k];
            }
        }
    find_range(&table, &eagers, true, &found);
    find_range(&table, &shares, false, &found);
    return found;
}
