// SPDX-License-Identifier: Apache-2.0
// The kernels that `leat md` runs on a GPU, on the CPU: rows against all pairs, forces against the
// oracle, moves against the CPU's leap-frog and SETTLE, and faults.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_bench.h"

// Whether the row of i has to have j: in double, by what the header of the list says.
static bool is_near(const struct bench *b, uint32_t i, uint32_t j, double *distance)
{
    const struct md_rank *rank = &b->rank;
    const float *x = rank->domain.image[FIELD_X].data;
    const struct md_domain *domain = &rank->domain;
    uint32_t home = (uint32_t)domain->atoms.count;
    double r2 = 0.0;
    for (uint32_t d = 0; d < 3; d++) {
        double along = (double)x[3 * i + d] - (double)x[3 * j + d];
        if (domain->decomposition.grid[d] == 1 && !rank->system.images)
            along -= rank->system.box_nm[d][d] * rint(along / rank->system.box_nm[d][d]);
        r2 += along * along;
    }
    *distance = sqrt(r2);
    if (i == j || b->zone[i] & b->zone[j])
        return false;
    for (int k = domain->exclusion_start[i < home ? i : 0];
         i < home && k < domain->exclusion_start[i + 1]; k++)
        if ((uint32_t)domain->exclusion[k] == j)
            return false;
    return true;
}

// Every pair within the list cut-off is in both rows, once; what is not near is in none.
static void check_rows(const struct bench *b)
{
    const struct md_gpu_args *a = &b->rank.gpu->args;
    uint32_t count = a->element_count;
    int *seen = make((size_t)count * count, sizeof *seen);
    for (uint32_t slot = 0; slot < count; slot++)
        for (uint64_t k = a->row_start[slot]; k < a->row_start[slot + 1]; k++) {
            assert_in_range(a->partner[k], 0, count - 1);
            seen[a->slot_element[slot] * count + a->slot_element[a->partner[k]]]++;
        }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++) {
            double distance;
            bool wanted = is_near(b, i, j, &distance), there = seen[i * count + j] > 0;
            assert_in_range(seen[i * count + j], 0, wanted);
            assert_int_equal(seen[i * count + j], seen[j * count + i]);
            if (wanted && distance < b->rank.system.list_nm)
                assert_true(there);
            // Room for rounding lets in what is just beyond, as it was set.
            if (distance > 1.0001 * sqrt((double)a->radius2))
                assert_false(there);
        }
    for (uint32_t c = 0; c < a->cell_count; c++) {
        assert_int_equal(a->cell_size[c], 0);
        for (uint64_t k = a->cell_start[c] + 1; k < a->cell_start[c + 1]; k++)
            assert_true(a->slot_element[k - 1] < a->slot_element[k]);
    }
    assert_int_equal(a->cell_start[a->cell_count], count);
    free(seen);
}

static void test_rows_have_every_pair_once(void **state)
{
    static const struct {
        int lattice[3], ghosts, grid[3];
        double list_nm;
    } cases[] = {
        {{6, 6, 6}, 0, {1, 1, 1}, 0.75},   {{6, 6, 6}, 150, {2, 2, 2}, 0.75},
        {{6, 8, 7}, 90, {1, 2, 1}, 0.6},   {{9, 6, 6}, 60, {1, 1, 2}, 0.796},
        {{12, 4, 4}, 40, {2, 1, 1}, 0.53}, {{1, 1, 1}, 0, {1, 1, 1}, 0.1},
        {{1, 1, 1}, 200, {2, 2, 2}, 2.0},  {{7, 7, 7}, 0, {1, 1, 1}, 0.21},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int images = 0; images < 2; images++) {
            struct pair_system system;
            system_make(&system, c + 1, cases[c].lattice, 3, 0.1);
            struct bench *b = bench_open(&system, system.count + cases[c].ghosts, cases[c].list_nm);
            memcpy(b->rank.domain.decomposition.grid, cases[c].grid, sizeof cases[c].grid);
            b->rank.system.images = images;
            scatter(b, c + 1, 3.0);
            bench_send(b);
            assert_return_code(md_gpu_list(&b->rank), 0);
            assert_true(b->rank.gpu->args.radius2 < 1.001 * cases[c].list_nm * cases[c].list_nm);
            check_rows(b);
            bench_close(b);
            system_free(&system);
        }
}

// Two lists of other atoms in the same memory leave nothing of the first.
static void test_a_list_leaves_nothing_to_the_next(void **state)
{
    struct pair_system system;
    (void)state;
    system_make(&system, 5, (const int[]){6, 6, 6}, 3, 0.1);
    struct bench *b = bench_open(&system, system.count + 100, 0.7);
    memcpy(b->rank.domain.decomposition.grid, (const int[]){2, 2, 1}, 3 * sizeof(int));
    scatter(b, 3, 2.0);
    bench_send(b);
    assert_return_code(md_gpu_list(&b->rank), 0);
    for (int again = 0; again < 3; again++) {
        scatter(b, 10 + (uint64_t)again, again * 4.0);
        b->rank.domain.element_count -= 30;
        assert_return_code(md_gpu_reserve(&b->rank), 0);
        assert_return_code(md_gpu_send(&b->rank, b->zone), 0);
        assert_return_code(md_gpu_list(&b->rank), 0);
        check_rows(b);
    }
    bench_close(b);
    system_free(&system);
}

// A few atoms in a vast space do not ask for a vast grid.
static void test_empty_space_takes_no_cells(void **state)
{
    struct pair_system system;
    (void)state;
    system_make(&system, 9, (const int[]){5, 5, 4}, 2, 0.1);
    for (int d = 0; d < 3; d++)
        system.box[d] = 5000.0;
    struct bench *b = bench_open(&system, system.count, 1.0);
    b->rank.system.images = true;
    scatter(b, 4, 0.0);
    for (int i = 50; i < 100; i++) // half of them together
        for (int d = 0; d < 3; d++)
            b->rank.domain.atoms.x_nm[3 * i + d] = system.x[3 * i + d];
    bench_send(b);
    assert_return_code(md_gpu_list(&b->rank), 0);
    assert_in_range(b->rank.gpu->args.cell_count, 1, b->rank.gpu->cell_capacity);
    check_rows(b);
    assert_true(b->rank.gpu->args.row_start[100] > 100);
    bench_close(b);
    system_free(&system);
}

static void test_forces_energies_and_virial_are_the_oracles(void **state)
{
    (void)state;
    for (int shift = 0; shift < 2; shift++) {
        struct pair_system system;
        struct md_pair_output output = {0};
        struct md_terms terms = {0};
        double gross;
        system_make(&system, 21 + (uint64_t)shift, (const int[]){8, 9, 8}, 5, 0.9);
        system.interaction.shift = shift;
        struct bench *b = bench_open(&system, system.count, 1.0);
        double *wanted = make(3 * (size_t)system.count, sizeof *wanted);
        system_oracle(&system, wanted, &output);
        double corrections = md_exclusion_forces(
            &system.interaction, system.count, system.x, system.charge, system.exclusion_start,
            system.exclusion, system.box, wanted, output.virial, &gross);
        bench_send(b);
        assert_return_code(md_gpu_list(&b->rank), 0);
        assert_return_code(md_gpu_pair_forces(&b->rank, true), 0);
        assert_return_code(md_gpu_home_forces(&b->rank, true), 0);
        assert_return_code(md_gpu_terms(&b->rank, false, &terms), 0);
        assert_return_code(md_gpu_receive_forces(&b->rank), 0);
        assert_true(relative_rms(b->rank.domain.atoms.f, wanted, system.count) < 2e-6);
        double scale = fabs(output.energy.coulomb) + gross;
        assert_true(fabs(terms.lj - output.energy.lj) < 1e-6 * fabs(output.energy.lj));
        assert_true(fabs(terms.pairs - output.energy.coulomb) < 1e-6 * scale);
        assert_true(fabs(terms.coulomb - output.energy.coulomb - corrections) < 1e-6 * scale);
        assert_true(fabs(terms.corrections - gross) < 1e-10 * gross);
        for (int k = 0; k < 9; k++)
            assert_true(fabs(terms.virial[k] - output.virial[k]) < 2e-6 * scale);
        // Without terms the same forces, to the bit.
        double *first = make(3 * (size_t)system.count, sizeof *first);
        memcpy(first, b->rank.domain.atoms.f, 3 * (size_t)system.count * sizeof *first);
        assert_return_code(md_gpu_pair_forces(&b->rank, false), 0);
        assert_return_code(md_gpu_home_forces(&b->rank, false), 0);
        assert_return_code(md_gpu_receive_forces(&b->rank), 0);
        assert_memory_equal(first, b->rank.domain.atoms.f,
                            3 * (size_t)system.count * sizeof *first);
        free(first);
        free(wanted);
        bench_close(b);
        system_free(&system);
    }
}

enum { WATERS = 60, FREE = 7, ATOMS = 3 * WATERS + FREE };

// Rigid waters and, behind them, single atoms, at rest where `still`.
struct motion {
    struct pair_system system;
    struct bench *bench;
    int oxygen[WATERS];
    double mass[ATOMS], scratch[3 * ATOMS];
    struct md_atoms twin; // the CPU's
    double x[3 * ATOMS], v[3 * ATOMS], f[3 * ATOMS];
};

static void place_waters(struct motion *m)
{
    struct md_domain *domain = &m->bench->rank.domain;
    double oh = 0.1, hh = 0.1633, height = sqrt(oh * oh - 0.25 * hh * hh);
    uint64_t seed = 8;
    for (int i = 0; i < ATOMS; i++) {
        int w = i / 3, site = i % 3;
        double *x = domain->atoms.x_nm + 3 * i;
        bool water = w < WATERS;
        x[w % 3] = 0.3 * w + (water && site ? (site - 1.5) * hh : 0.0);
        x[(w + 1) % 3] = 1.0 + (water && site ? height : 0.0);
        x[(w + 2) % 3] = 2.0 + (water ? 0.0 : 0.1 * site);
        m->mass[i] = m->bench->rank.system.sites[i].mass_u = water && site ? 1.008 : 15.9994;
        for (int d = 0; d < 3; d++) {
            domain->atoms.v_nm_ps[3 * i + d] = 3.0 * (random_unit(&seed) - 0.5);
            m->f[3 * i + d] = 2000.0 * (random_unit(&seed) - 0.5);
        }
    }
}

static struct motion *motion_open(void)
{
    struct motion *m = make(1, sizeof *m);
    system_make(&m->system, 2, (const int[]){ATOMS, 1, 1}, 2, 0.9);
    memset(m->system.exclusion_start, 0, (ATOMS + 1) * sizeof(int));
    m->bench = bench_open(&m->system, ATOMS, 1.0);
    struct md_domain *domain = &m->bench->rank.domain;
    domain->rigid.waters = m->bench->rank.system.water =
        (struct md_waters){WATERS, m->oxygen, 15.9994, 1.008, 0.1, 0.1633};
    m->bench->rank.system.water_count = WATERS;
    for (int w = 0; w < WATERS; w++)
        m->oxygen[w] = 3 * w;
    place_waters(m);
    memcpy(m->x, domain->atoms.x_nm, sizeof m->x);
    memcpy(m->v, domain->atoms.v_nm_ps, sizeof m->v);
    m->twin = (struct md_atoms){ATOMS, domain->id, NULL, m->x, m->v, m->f, m->mass, NULL};
    bench_send(m->bench);
    // The emulated device's memory is ordinary memory.
    memcpy(m->bench->rank.gpu->args.f, m->f, sizeof m->f);
    return m;
}

static void motion_close(struct motion *m)
{
    bench_close(m->bench);
    system_free(&m->system);
    free(m);
}

static void assert_close(const double *got, const double *wanted, int count, double tolerance)
{
    for (int k = 0; k < count; k++)
        if (!(fabs(got[k] - wanted[k]) <= tolerance))
            fail_msg("value %d: %.17g, expected %.17g", k, got[k], wanted[k]);
}

static void test_moves_are_the_cpus(void **state)
{
    struct motion *m = motion_open();
    struct md_rank *rank = &m->bench->rank;
    const double factor = 0.99;
    (void)state;
    for (int step = 0; step < 20; step++) {
        double before[9], after[9], virial[9] = {0};
        struct md_terms terms = {0};
        md_kinetic(&m->twin, before);
        assert_return_code(md_leapfrog(&m->twin, &rank->domain.rigid, 0.002, 0.002, &factor, 0.45,
                                       m->scratch, virial, after),
                           0);
        memset(rank->gpu->args.term, 0, MD_GPU_TERM_COUNT * ATOMS * sizeof(double));
        assert_return_code(md_gpu_move(rank, factor, MD_GPU_STEP_TERMS | MD_GPU_STEP_STORED), 0);
        assert_return_code(md_gpu_terms(rank, true, &terms), 0);
        assert_return_code(md_gpu_receive(rank), 0);
        assert_close(rank->domain.atoms.x_nm, m->x, 3 * ATOMS, 1e-12);
        assert_close(rank->domain.atoms.v_nm_ps, m->v, 3 * ATOMS, 1e-9);
        assert_close(terms.virial, virial, 9, 1e-8 * after[0]);
        double traces[2] = {md_trace(before), md_trace(after)};
        double got[2] = {md_trace(rank->ekin_before), md_trace(rank->ekin_after)};
        assert_close(got, traces, 2, 1e-9 * traces[0]);
        const float *image = rank->domain.image[FIELD_X].data;
        for (int k = 0; k < 3 * ATOMS; k++)
            assert_true(image[k] == (float)rank->domain.atoms.x_nm[k]);
    }
    motion_close(m);
}

static void test_the_centre_is_stopped(void **state)
{
    struct motion *m = motion_open();
    struct md_rank *rank = &m->bench->rank;
    double momentum[3], mass, ekin[9];
    (void)state;
    md_kinetic(&m->twin, ekin);
    rank->ekin_half = md_trace(ekin);
    assert_return_code(md_gpu_stop_centre(rank), 0);
    assert_return_code(md_gpu_receive(rank), 0);
    memcpy(m->v, rank->domain.atoms.v_nm_ps, sizeof m->v);
    md_momentum(&m->twin, momentum, &mass);
    md_kinetic(&m->twin, ekin);
    for (int d = 0; d < 3; d++)
        assert_true(fabs(momentum[d]) < 1e-9);
    assert_true(fabs(rank->ekin_half - md_trace(ekin)) < 1e-9 * rank->ekin_half);
    motion_close(m);
}

// The fault is told by the next call that waits, and what could not move has stayed.
static void test_an_atom_that_would_go_too_far_is_named(void **state)
{
    (void)state;
    const int atoms[] = {0, 41, ATOMS - 1};
    for (int k = 0; k < 3; k++) {
        struct motion *m = motion_open();
        struct md_rank *rank = &m->bench->rank;
        double before[3];
        memcpy(before, m->x + 3 * atoms[k], sizeof before);
        rank->gpu->args.f[3 * atoms[k]] = 1e9;
        assert_return_code(md_gpu_move(rank, 1.0, MD_GPU_STEP_STORED), 0);
        assert_int_equal(md_gpu_wait(rank), 0);
        assert_int_equal(md_gpu_receive(rank), -ERANGE);
        char name[32];
        snprintf(name, sizeof name, "atom %d would move", atoms[k] + 1);
        assert_non_null(strstr(leat_error_detail(), name));
        assert_memory_equal(before, rank->gpu->args.x + 3 * atoms[k], sizeof before);
        motion_close(m);
    }
}

static void test_a_water_that_cannot_be_constrained_is_named(void **state)
{
    struct motion *m = motion_open();
    struct md_rank *rank = &m->bench->rank;
    (void)state;
    for (int d = 0; d < 3; d++) // all three sites of the sixth water in one place
        rank->gpu->args.x[3 * 16 + d] = rank->gpu->args.x[3 * 17 + d] =
            rank->gpu->args.x[3 * 15 + d];
    assert_return_code(md_gpu_move(rank, 1.0, MD_GPU_STEP_STORED), 0);
    assert_int_equal(md_gpu_receive(rank), -EDOM);
    assert_non_null(strstr(leat_error_detail(), "whose oxygen is atom 16 "));
    motion_close(m);
}

static void test_elements_that_are_nowhere_or_nothing_are_told(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct pair_system system;
        system_make(&system, 3, (const int[]){6, 6, 6}, 3, 0.5);
        struct bench *b = bench_open(&system, system.count, 0.6);
        bench_send(b);
        float *x = b->rank.domain.image[FIELD_X].data;
        int32_t *site = b->rank.domain.image[FIELD_SITE].data;
        if (what == 0)
            x[3 * 77 + 1] = NAN;
        else if (what == 1)
            x[3 * 77 + 1] = 1e9F;
        else
            site[77] = what == 2 ? -1 : system.count;
        assert_int_equal(md_gpu_list(&b->rank), what < 2 ? -ERANGE : -EBADMSG);
        assert_non_null(strstr(leat_error_detail(), what < 2 ? "local atom 77 " : "ghost 77 "));
        bench_close(b);
        system_free(&system);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_have_every_pair_once),
        cmocka_unit_test(test_a_list_leaves_nothing_to_the_next),
        cmocka_unit_test(test_empty_space_takes_no_cells),
        cmocka_unit_test(test_forces_energies_and_virial_are_the_oracles),
        cmocka_unit_test(test_moves_are_the_cpus),
        cmocka_unit_test(test_the_centre_is_stopped),
        cmocka_unit_test(test_an_atom_that_would_go_too_far_is_named),
        cmocka_unit_test(test_a_water_that_cannot_be_constrained_is_named),
        cmocka_unit_test(test_elements_that_are_nowhere_or_nothing_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
