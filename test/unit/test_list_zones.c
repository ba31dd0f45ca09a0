// SPDX-License-Identifier: Apache-2.0
// The pair list of several ranks: domains made by brute force, summed, against the whole system.
//
// Every domain gets its own molecules and, by the eighth shell, those of the up to seven domains
// above it, whole and shifted (lattices are a multiple of three long in x, so that molecules are
// whole, and domains wider than the list cut-off and a molecule). Each pair of atoms then has to be
// in one rank's list, once.

#include "core/error.h"
#include "leat/leat.h"
#include "pair_systems.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct domain {
    int home_count, atom_count;
    int *global; // [atom_count]
    double *x, *charge;
    int *type, *exclusion_start, *exclusion;
    uint8_t *zone;
};

static void domain_free(struct domain *domain)
{
    free(domain->global);
    free(domain->x);
    free(domain->charge);
    free(domain->type);
    free(domain->exclusion_start);
    free(domain->exclusion);
    free(domain->zone);
}

// Which domain the molecule of atom i is in, along dimension d.
static int place_of(const struct pair_system *system, const int grid[3], int i, int d)
{
    const double share = system->x[3 * (i / 3 * 3) + d] / system->box[d];
    return (int)((share - floor(share)) * grid[d]);
}

static void add_atoms(struct domain *domain, const struct pair_system *system, const int grid[3],
                      const int at[3], int zone)
{
    double shift[3];
    int from[3];
    for (int d = 0; d < 3; d++) {
        const int above = at[d] + (zone >> d & 1);
        from[d] = above % grid[d];
        shift[d] = above >= grid[d] ? system->box[d] : 0;
    }
    for (int i = 0; i < system->count; i++) {
        bool here = true;
        for (int d = 0; d < 3; d++)
            here &= place_of(system, grid, i, d) == from[d];
        if (!here)
            continue;
        const int k = domain->atom_count++;
        domain->global[k] = i;
        domain->charge[k] = system->charge[i];
        domain->type[k] = system->type[i];
        domain->zone[k] = (uint8_t)zone;
        for (int d = 0; d < 3; d++)
            domain->x[3 * k + d] = system->x[3 * i + d] + shift[d];
    }
}

static void domain_make(struct domain *domain, const struct pair_system *system, const int grid[3],
                        const int at[3])
{
    const size_t most = 8 * (size_t)system->count + 1;
    *domain = (struct domain){
        .global = calloc(most, sizeof(int)),
        .x = calloc(3 * most, sizeof(double)),
        .charge = calloc(most, sizeof(double)),
        .type = calloc(most, sizeof(int)),
        .exclusion_start = calloc(most, sizeof(int)),
        .exclusion = calloc(2 * most, sizeof(int)),
        .zone = calloc(most, 1),
    };
    add_atoms(domain, system, grid, at, 0);
    domain->home_count = domain->atom_count;
    int exclusions = 0;
    for (int k = 0; k < domain->home_count; k++) {
        const int i = domain->global[k];
        domain->exclusion_start[k] = exclusions;
        for (int e = system->exclusion_start[i]; e < system->exclusion_start[i + 1]; e++)
            domain->exclusion[exclusions++] = k + system->exclusion[e] - i; // molecules are whole
    }
    domain->exclusion_start[domain->home_count] = exclusions;
    for (int zone = 7; zone > 0; zone--) { // any order will do
        bool cut = true;
        for (int d = 0; d < 3; d++)
            cut &= grid[d] > 1 || (zone >> d & 1) == 0;
        if (cut)
            add_atoms(domain, system, grid, at, zone);
    }
}

struct whole {
    const struct pair_system *system;
    const struct domain *domain;
    const struct md_list *list;
    double list_nm;
    unsigned char *listed;
    int repeated;
    double *f;
    struct md_pair_output sum;
};

static void mark_pair(void *context, int i, int j, const double shift[3])
{
    struct whole *whole = context;
    const float *x = whole->list->wrapped.data;
    double r2 = 0;
    for (int d = 0; d < 3; d++) {
        const double gap = (double)x[3 * i + d] + shift[d] - (double)x[3 * j + d];
        r2 += gap * gap;
    }
    if (sqrt(r2) > whole->list_nm)
        return;
    const int a = whole->domain->global[i], b = whole->domain->global[j];
    whole->repeated += whole->listed[a * whole->system->count + b]++ != 0;
    whole->repeated += whole->listed[b * whole->system->count + a]++ != 0;
}

static void run_domain(struct whole *whole, const int grid[3], enum md_precision precision)
{
    const struct domain *domain = whole->domain;
    const struct pair_system *system = whole->system;
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&system->interaction, precision, &list), 0);
    const struct md_list_input input = {
        .home_count = domain->home_count,
        .atom_count = domain->atom_count,
        .x_nm = domain->x,
        .type = domain->type,
        .charge = domain->charge,
        .zone = domain->zone,
        .exclusion_start = domain->exclusion_start,
        .exclusion = domain->exclusion,
        .box_nm = {system->box[0], system->box[1], system->box[2]},
        .periodic = {grid[0] == 1, grid[1] == 1, grid[2] == 1},
        .list_nm = whole->list_nm,
    };
    if (md_list_build(list, &input))
        fail_msg("%s", leat_error_detail());
    whole->list = list;
    double *f = calloc(3 * (size_t)domain->atom_count + 1, sizeof *f);
    for (int part = 0; part < 2; part++) {
        struct md_pair_output output;
        visit_pairs(list, (enum md_part)part, mark_pair, whole);
        part_forces(list, (enum md_part)part, domain->atom_count, domain->x, f, &output);
        whole->sum.energy.lj += output.energy.lj;
        whole->sum.energy.coulomb += output.energy.coulomb;
        for (int d = 0; d < 9; d++)
            whole->sum.virial[d] += output.virial[d];
    }
    for (int k = 0; k < domain->atom_count; k++)
        for (int d = 0; d < 3; d++)
            whole->f[3 * domain->global[k] + d] += f[3 * k + d];
    free(f);
    md_list_free(list);
}

static void expect_every_pair(const struct whole *whole)
{
    const struct pair_system *s = whole->system;
    assert_int_equal(whole->repeated, 0);
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < s->count; j++) {
            double r2 = 0;
            for (int d = 0; d < 3; d++) {
                double gap = s->x[3 * i + d] - s->x[3 * j + d];
                gap -= s->box[d] * rint(gap / s->box[d]);
                r2 += gap * gap;
            }
            const bool same_molecule = i / 3 == j / 3;
            if (fabs(sqrt(r2) - whole->list_nm) > 1e-5 &&
                whole->listed[i * s->count + j] != (sqrt(r2) < whole->list_nm && !same_molecule))
                fail_msg("pair %d %d at %g nm is listed %d times", i, j, sqrt(r2),
                         whole->listed[i * s->count + j]);
        }
}

static void expect_whole(struct pair_system *system, const int grid[3], double list_nm,
                         enum md_precision precision)
{
    const size_t count = (size_t)system->count;
    struct whole whole = {.system = system,
                          .list_nm = list_nm,
                          .listed = calloc(count * count, 1),
                          .f = calloc(3 * count, sizeof(double))};
    for (int rank = 0; rank < grid[0] * grid[1] * grid[2]; rank++) {
        const int at[3] = {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]};
        struct domain domain;
        domain_make(&domain, system, grid, at);
        whole.domain = &domain;
        run_domain(&whole, grid, precision);
        domain_free(&domain);
    }
    expect_every_pair(&whole);
    const double tolerance = precision == MD_MIXED ? 1e-5 : 1e-12;
    double *wanted = malloc(3 * count * sizeof *wanted);
    struct md_pair_output expected;
    system_oracle(system, wanted, &expected);
    const double error = relative_rms(whole.f, wanted, system->count);
    if (!(error <= tolerance))
        fail_msg("%d x %d x %d: RMS error %g", grid[0], grid[1], grid[2], error);
    const double size = fabs(expected.energy.coulomb) + fabs(expected.energy.lj);
    assert_true(fabs(whole.sum.energy.lj - expected.energy.lj) <= tolerance * size);
    assert_true(fabs(whole.sum.energy.coulomb - expected.energy.coulomb) <= tolerance * size);
    const double trace = fabs(expected.virial[0]) + fabs(expected.virial[4]);
    for (int d = 0; d < 9; d++)
        assert_true(fabs(whole.sum.virial[d] - expected.virial[d]) <= tolerance * trace);
    free(wanted);
    free(whole.listed);
    free(whole.f);
}

static void test_domains_in_three_dimensions(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 51, (const int[]){12, 10, 9}, 3, 0.75);
    expect_whole(&system, (const int[]){2, 2, 2}, 0.85, MD_DOUBLE);
    expect_whole(&system, (const int[]){2, 2, 2}, 0.8, MD_MIXED);
    system_free(&system);
}

static void test_domains_in_one_and_two_dimensions(void **state)
{
    (void)state;
    const int grids[][3] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 3}, {2, 1, 2}, {3, 2, 1}, {1, 1, 1}};
    struct pair_system system;
    system_make(&system, 52, (const int[]){18, 9, 12}, 3, 0.7);
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++)
        expect_whole(&system, grids[k], 0.78, MD_DOUBLE);
    system_free(&system);
}

static void test_domains_without_atoms(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 53, (const int[]){9, 8, 7}, 3, 0.8);
    for (int d = 0; d < 3; d++) // atoms in one corner and a few across the boundary
        system.box[d] = 5;
    for (int i = 0; i < system.count; i++)
        system.x[3 * i + 1] -= 0.25;
    expect_whole(&system, (const int[]){2, 2, 2}, 0.9, MD_DOUBLE);
    expect_whole(&system, (const int[]){4, 1, 2}, 0.9, MD_DOUBLE);
    system_free(&system);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains_in_three_dimensions),
        cmocka_unit_test(test_domains_in_one_and_two_dimensions),
        cmocka_unit_test(test_domains_without_atoms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
