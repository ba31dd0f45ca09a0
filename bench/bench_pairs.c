// SPDX-License-Identifier: Apache-2.0
// Time of non-bonded forces: every loop that this processor has, in both precisions, on water.
//
// A slice is one life of a list: a build, and 20 calls, of which every fourth makes a new inner
// list. The loops take turns slice by slice, so that a machine whose speed wanders slows all of
// them alike. Medians are of the thread's processor time: a step waits for nothing, and others may
// use the machine. Pairs are those within the cut-off, so that a loop that evaluates many in vain
// gains nothing by it.
// Advantage: no input needed, and nothing but the pairs is timed. Disadvantage: atoms stand still,
// so lists are built again and again from the same coordinates.

#include "core/error.h"
#include "format/gro.h"
#include "leat/leat.h"
#include "md/list_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICES = 15, CALLS = 20, INNER_CALLS = 4, LOOPS = 4, PRECISIONS = 2 };

static const char *const loop_name[LOOPS] = {"avx512", "avx2", "sse2", "plain"};
static const char *const precision_name[PRECISIONS] = {"mixed", "double"};
static const double list_nm = 1.066, inner_nm = 0.914, cutoff_nm = 0.9; // for 300 K and 2 fs
static const double c6[4] = {2.6171e-3, 0, 0, 0}, c12[4] = {2.6336e-6, 0, 0, 0};

struct water {
    int count;
    double box[3], *x, *charge;
    float *x_mixed;
    int *type, *exclusion_start, *exclusion;
};

struct bench {
    struct md_list *list;
    void *f;
    double build[SLICES], call[SLICES], step[SLICES]; // ns
};

static void stop(const char *why)
{
    fprintf(stderr, "bench_pairs: %s\n", why);
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        stop("out of memory");
    return memory;
}

// A lattice of waters at their density, each turned about z by its number.
static struct gro *lattice(int edge)
{
    struct gro *gro = allocate(1, sizeof *gro);
    const double spacing = 3.72412 / 12;
    gro->atom_count = 3 * (int64_t)edge * edge * edge;
    gro->x_nm = allocate(3 * (size_t)gro->atom_count, sizeof *gro->x_nm);
    for (int w = 0; w < edge * edge * edge; w++) {
        const int cell[3] = {w % edge, w / edge % edge, w / edge / edge};
        const double angle = 2.4 * w; // no period of the lattice
        double *site = gro->x_nm + 9 * (size_t)w;
        for (int a = 0; a < 3; a++) {
            const double turn = angle + (a == 2 ? 1.911 : 0), reach = a == 0 ? 0 : 0.1;
            site[3 * a] = (cell[0] + 0.5) * spacing + reach * cos(turn);
            site[3 * a + 1] = (cell[1] + 0.5) * spacing + reach * sin(turn);
            site[3 * a + 2] = (cell[2] + 0.5) * spacing;
        }
    }
    for (int d = 0; d < 3; d++)
        gro->box_nm[d][d] = edge * spacing;
    return gro;
}

static void make(struct water *water, const struct gro *gro, int tile)
{
    const size_t once = (size_t)gro->atom_count, times = (size_t)tile * (size_t)tile * (size_t)tile;
    const size_t count = once * times;
    water->count = (int)count;
    water->x = allocate(3 * count, sizeof(double));
    water->x_mixed = allocate(3 * count, sizeof(float));
    water->charge = allocate(count, sizeof(double));
    water->type = allocate(count, sizeof(int));
    water->exclusion_start = allocate(count + 1, sizeof(int));
    water->exclusion = allocate(2 * count, sizeof(int));
    for (size_t i = 0; i < count; i++) {
        const size_t box = i / once, edge = (size_t)tile;
        const size_t at[3] = {box % edge, box / edge % edge, box / edge / edge};
        for (size_t d = 0; d < 3; d++) {
            water->x[3 * i + d] = gro->x_nm[3 * (i % once) + d] + (double)at[d] * gro->box_nm[d][d];
            water->x_mixed[3 * i + d] = (float)water->x[3 * i + d];
        }
        const size_t molecule = i / 3 * 3;
        water->charge[i] = i % 3 == 0 ? -0.8476 : 0.4238;
        water->type[i] = i % 3 == 0 ? 0 : 1;
        water->exclusion[2 * i] = (int)(molecule + (i % 3 == 0 ? 1 : 0));
        water->exclusion[2 * i + 1] = (int)(molecule + (i % 3 == 2 ? 1 : 2));
        water->exclusion_start[i + 1] = (int)(2 * i + 2);
    }
    for (int d = 0; d < 3; d++)
        water->box[d] = tile * gro->box_nm[d][d];
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void run_slice(struct bench *bench, const struct water *water, int slice)
{
    const struct md_list_input input = {
        .home_count = water->count,
        .atom_count = water->count,
        .x_nm = water->x,
        .type = water->type,
        .charge = water->charge,
        .exclusion_start = water->exclusion_start,
        .exclusion = water->exclusion,
        .box_nm = {water->box[0], water->box[1], water->box[2]},
        .periodic = {true, true, true},
        .list_nm = list_nm,
        .inner_nm = inner_nm,
        .inner_calls = INNER_CALLS,
    };
    const void *x = bench->list->precision == MD_MIXED ? (void *)water->x_mixed : (void *)water->x;
    struct md_pair_output output;
    const double start = now_ns();
    if (md_list_build(bench->list, &input))
        stop(leat_error_detail());
    const double built = now_ns();
    for (int call = 0; call < CALLS; call++)
        md_list_forces(bench->list, MD_LOCAL, x, bench->f, false, false, &output);
    const double end = now_ns();
    bench->build[slice] = built - start;
    bench->call[slice] = (end - built) / CALLS;
    bench->step[slice] = (end - start) / CALLS;
}

// Pairs within the cut-off, from the neighbours of some atoms.
static double count_pairs(const struct water *water)
{
    double pairs = 0;
    const int probes = 300;
    for (int k = 0; k < probes; k++) {
        const size_t i = (size_t)((double)k / probes * water->count);
        for (size_t j = 0; j < (size_t)water->count; j++) {
            double r2 = 0;
            for (size_t d = 0; d < 3; d++) {
                double gap = water->x[3 * i + d] - water->x[3 * j + d];
                gap -= water->box[d] * rint(gap / water->box[d]);
                r2 += gap * gap;
            }
            pairs += j != i && r2 < cutoff_nm * cutoff_nm;
        }
    }
    return 0.5 * pairs / probes * water->count;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, SLICES, sizeof *values, ascending);
    return values[SLICES / 2];
}

static void measure(const struct water *water, bool json, int *printed)
{
    const struct md_interaction interaction = {
        cutoff_nm, 138.935457644, 0.5 / pow(cutoff_nm, 3), 1.5 / cutoff_nm, 2, c6, c12, true};
    struct bench benches[LOOPS * PRECISIONS] = {{0}};
    for (int k = 0; k < LOOPS * PRECISIONS; k++) {
        struct bench *bench = &benches[k];
        const int error = md_list_create_with(&interaction, (enum md_precision)(k % PRECISIONS),
                                              loop_name[k / PRECISIONS], &bench->list);
        if (error && error != -ENOTSUP)
            stop(leat_error_detail());
        bench->f = allocate(3 * (size_t)water->count, sizeof(double));
    }
    for (int slice = -1; slice < SLICES; slice++) // the first warms up
        for (int k = 0; k < LOOPS * PRECISIONS; k++)
            if (benches[k].list)
                run_slice(&benches[k], water, slice < 0 ? 0 : slice);
    const double pairs = count_pairs(water);
    for (int k = 0; k < LOOPS * PRECISIONS; k++) {
        struct bench *bench = &benches[k];
        if (bench->list) {
            const char *loop = loop_name[k / PRECISIONS],
                       *precision = precision_name[k % PRECISIONS];
            const double step = median(bench->step), call = median(bench->call);
            if (json)
                printf("%s\n    {\"name\": \"pairs/%s/%s/%d\", \"run_type\": \"aggregate\", "
                       "\"aggregate_name\": \"median\", \"iterations\": %d, \"real_time\": %.0f, "
                       "\"cpu_time\": %.0f, \"time_unit\": \"ns\", \"pairs_per_ns\": %.4f}",
                       (*printed)++ ? "," : "", loop, precision, water->count, SLICES, step, step,
                       pairs / call);
            else
                printf("%8d  %-7s %-7s %12.0f %12.0f %12.0f %10.3f\n", water->count, loop,
                       precision, step, call, median(bench->build), pairs / call);
        }
        md_list_free(bench->list);
        free(bench->f);
    }
}

int main(int argc, char **argv)
{
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const int files = json ? 2 : 1;
    if (argc > files + 2 || (argc > files && argv[files][0] == '-')) {
        fprintf(stderr, "usage: %s [--json] [WATER.gro [TILE]]\n", argv[0]);
        return 2;
    }
    struct gro *gro = NULL;
    if (argc <= files)
        gro = lattice(12);
    else if (gro_read(argv[files], &gro))
        stop(leat_error_detail());
    const int last = argc > files + 1 ? atoi(argv[files + 1]) : 2;
    int printed = 0;
    if (json)
        printf("{\n  \"schema\": \"leat.bench/1\",\n  \"context\": {\"executable\": "
               "\"bench_pairs\"},\n  \"benchmarks\": [");
    else
        printf("# %6s  %-7s %-7s %12s %12s %12s %10s\n", "Atoms", "Loop", "Mode", "ns/step",
               "ns/call", "ns/build", "pairs/ns");
    for (int tile = 1; tile <= last; tile++) {
        struct water water;
        make(&water, gro, tile);
        measure(&water, json, &printed);
        free(water.x);
        free(water.x_mixed);
        free(water.charge);
        free(water.type);
        free(water.exclusion_start);
        free(water.exclusion);
    }
    gro_free(gro);
    if (json)
        puts("\n  ]\n}");
    return 0;
}
