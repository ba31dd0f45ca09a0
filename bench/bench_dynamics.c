// SPDX-License-Identifier: Apache-2.0
// Time of one leap-frog step, ns an atom, with SETTLE, with the usual iterative SHAKE in its place,
// and without constraints, on boxes of 5,184 and 41,472 atoms of water.
//
// The three take turns in slices of a few steps, so that a machine whose speed wanders slows all of
// them alike; medians and the spread of the slices are printed. It is the thread's processor time
// that is shown (the JSON has both): a step waits for nothing, and others may use the machine.
// Advantage: no input, no forces; only the motion itself is timed. Disadvantage: free rotors at
// room temperature in one cache state, where a real step comes after the forces have emptied it.

#include "md/dynamics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICES = 101, KINDS = 3 };

static const char *const kind_name[KINDS] = {"settle", "shake", "unconstrained"};
static const double dt_ps = 0.002;

struct bench {
    struct md_atoms atoms;
    struct md_waters waters;
    double *start, *scratch;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        fputs("bench_dynamics: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

static void make(struct bench *bench, int waters)
{
    size_t atoms = 3 * (size_t)waters;
    int *oxygen = allocate((size_t)waters, sizeof *oxygen);
    int64_t *id = allocate(atoms, sizeof *id);
    double *mass = allocate(atoms, sizeof *mass);
    double *x = allocate(3 * atoms, sizeof *x);
    const double height = sqrt(0.1 * 0.1 - 0.25 * 0.1633 * 0.1633);
    int edge = (int)ceil(cbrt(waters));
    for (int w = 0; w < waters; w++) {
        double *site = x + 9 * (size_t)w;
        const int cell[3] = {w % edge, w / edge % edge, w / edge / edge};
        oxygen[w] = 3 * w;
        for (int i = 0; i < 3; i++) {
            id[3 * w + i] = 3 * w + i;
            mass[3 * w + i] = i == 0 ? 15.9994 : 1.008;
            site[3 * i] = 0.31 * cell[0] + (i == 0 ? 0.0 : (i - 1.5) * 0.1633);
            site[3 * i + 1] = 0.31 * cell[1] + (i == 0 ? 0.0 : height);
            site[3 * i + 2] = 0.31 * cell[2];
        }
    }
    bench->waters = (struct md_waters){waters, oxygen, 15.9994, 1.008, 0.1, 0.1633};
    bench->atoms = (struct md_atoms){.count = (int)atoms,
                                     .id = id,
                                     .x_nm = x,
                                     .v_nm_ps = allocate(3 * atoms, sizeof(double)),
                                     .f = allocate(3 * atoms, sizeof(double)),
                                     .mass_u = mass};
    bench->start = allocate(6 * atoms, sizeof(double));
    bench->scratch = allocate(3 * atoms, sizeof(double));
    md_generate_velocities(&bench->atoms, 300.0, 1);
    md_settle_velocities(&bench->waters, x, bench->atoms.v_nm_ps);
    memcpy(bench->start, x, 3 * atoms * sizeof *x);
    memcpy(bench->start + 3 * atoms, bench->atoms.v_nm_ps, 3 * atoms * sizeof *x);
}

static void drop(struct bench *bench)
{
    free((void *)(uintptr_t)bench->waters.oxygen);
    free((void *)(uintptr_t)bench->atoms.id);
    free((void *)(uintptr_t)bench->atoms.mass_u);
    free(bench->atoms.x_nm);
    free(bench->atoms.v_nm_ps);
    free(bench->atoms.f);
    free(bench->start);
    free(bench->scratch);
}

static void rewind_state(struct bench *bench)
{
    size_t values = 3 * (size_t)bench->atoms.count;
    memcpy(bench->atoms.x_nm, bench->start, values * sizeof(double));
    memcpy(bench->atoms.v_nm_ps, bench->start + values, values * sizeof(double));
}

// One water by SHAKE (Ryckaert, Ciccotti & Berendsen 1977) to a relative tolerance of 1e-6, on
// velocities as md_settle_step works on them.
static void shake(const struct md_waters *waters, const double *x, double *v, int water)
{
    static const int first[3] = {0, 0, 1}, second[3] = {1, 2, 2};
    const double inverse[3] = {1.0 / waters->mass_o_u, 1.0 / waters->mass_h_u,
                               1.0 / waters->mass_h_u};
    int64_t o = 3 * (int64_t)waters->oxygen[water];
    for (int sweep = 0, done = 0; !done && sweep < 200; sweep++) {
        done = 1;
        for (int bond = 0; bond < 3; bond++) {
            int i = first[bond], j = second[bond];
            double length = bond == 2 ? waters->d_hh_nm : waters->d_oh_nm;
            double old[3], now2 = 0.0, across = 0.0;
            for (int k = 0; k < 3; k++) {
                old[k] = x[o + 3 * j + k] - x[o + 3 * i + k];
                double now = old[k] + (v[o + 3 * j + k] - v[o + 3 * i + k]) * dt_ps;
                now2 += now * now;
                across += now * old[k];
            }
            double off = length * length - now2;
            if (fabs(off) < 2e-6 * length * length)
                continue;
            done = 0;
            double g = off / (2.0 * across * (inverse[i] + inverse[j]) * dt_ps);
            for (int k = 0; k < 3; k++) {
                v[o + 3 * i + k] -= g * inverse[i] * old[k];
                v[o + 3 * j + k] += g * inverse[j] * old[k];
            }
        }
    }
}

static void step(struct bench *bench, int kind)
{
    double virial[9] = {0.0}, ekin[9];
    struct md_atoms *atoms = &bench->atoms;
    int error = 0;
    if (kind == 1) {
        for (int64_t k = 0; k < 3 * (int64_t)atoms->count; k++)
            bench->scratch[k] = atoms->v_nm_ps[k] + atoms->f[k] * dt_ps / atoms->mass_u[k / 3];
        for (int water = 0; water < bench->waters.count; water++)
            shake(&bench->waters, atoms->x_nm, bench->scratch, water);
        for (int64_t k = 0; k < 3 * (int64_t)atoms->count; k++) {
            atoms->v_nm_ps[k] = bench->scratch[k];
            atoms->x_nm[k] += bench->scratch[k] * dt_ps;
        }
        md_kinetic(atoms, ekin);
    } else {
        const struct md_rigid rigid = {.waters = bench->waters};
        const double scale = 1.0;
        error = md_leapfrog(atoms, kind == 0 ? &rigid : NULL, dt_ps, dt_ps, &scale, 1.0,
                            bench->scratch, virial, ekin);
    }
    if (error) {
        fprintf(stderr, "bench_dynamics: step failed with %d\n", error);
        exit(1);
    }
}

struct times {
    double real[KINDS][SLICES], cpu[KINDS][SLICES]; // ns an atom; ascending once measured
};

static double now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct bench *bench, struct times *times)
{
    int steps = 1 + 15000 / bench->atoms.count;
    for (int slice = 0; slice < SLICES; slice++)
        for (int kind = 0; kind < KINDS; kind++) {
            rewind_state(bench);
            step(bench, kind);
            double real = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
            for (int n = 0; n < steps; n++)
                step(bench, kind);
            cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
            real = now_ns(CLOCK_MONOTONIC) - real;
            times->cpu[kind][slice] = cpu / steps / bench->atoms.count;
            times->real[kind][slice] = real / steps / bench->atoms.count;
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(times->cpu[kind], SLICES, sizeof(double), ascending);
        qsort(times->real[kind], SLICES, sizeof(double), ascending);
    }
}

static void print_json(int atoms, const struct times *times, int *count)
{
    for (int kind = 0; kind < KINDS; kind++)
        printf("%s\n    {\"name\": \"leapfrog/%s/%d\", \"run_type\": \"aggregate\", "
               "\"aggregate_name\": \"median\", \"iterations\": %d, \"real_time\": %.4f, "
               "\"cpu_time\": %.4f, \"time_unit\": \"ns\", \"per\": \"atom\"}",
               (*count)++ ? "," : "", kind_name[kind], atoms, SLICES, times->real[kind][SLICES / 2],
               times->cpu[kind][SLICES / 2]);
}

static void print_text(int atoms, const struct times *times)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const double *cpu = times->cpu[kind];
        double median = cpu[SLICES / 2];
        printf("%8d  %-14s %8.2f %8.2f %8.2f %10.1f %8.2f\n", atoms, kind_name[kind], median,
               cpu[SLICES / 10], cpu[SLICES - 1 - SLICES / 10], median * atoms / 1000.0,
               median / times->cpu[0][SLICES / 2]);
    }
}

int main(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: %s [--json]\n", argv[0]);
        return 2;
    }
    static const int waters[2] = {1728, 13824};
    int count = 0;
    if (json)
        printf("{\n  \"schema\": \"leat.bench/1\",\n  \"context\": {\"executable\": "
               "\"bench_dynamics\"},\n  \"benchmarks\": [");
    else
        printf("# %6s  %-14s %8s %8s %8s %10s %8s\n", "Atoms", "Constraints", "ns/atom", "10%",
               "90%", "us/step", "ratio");
    for (int size = 0; size < 2; size++) {
        struct times times;
        struct bench bench;
        make(&bench, waters[size]);
        measure(&bench, &times);
        if (json)
            print_json(bench.atoms.count, &times, &count);
        else
            print_text(bench.atoms.count, &times);
        drop(&bench);
    }
    if (json)
        puts("\n  ]\n}");
    return 0;
}
