// SPDX-License-Identifier: Apache-2.0
// Constraints: what they keep, against SETTLE, back in time, and in rings and long chains.

#include "constrained_molecules.h"
#include "md/dynamics.h"
#include <leat/leat.h>

#include <errno.h>

static const double dt_ps = 0.002;

static double largest_error(const struct molecule *m, const double *x)
{
    double most = 0.0;
    for (int k = 0; k < m->type.constraint_count; k++) {
        const struct md_constraint *bar = &m->bar[k];
        double off = fabs(apart(x, bar->a, bar->b) / bar->length_nm - 1.0);
        if (!(off <= most))
            most = off;
    }
    return most;
}

static double difference(const double *a, const double *b, int count)
{
    double most = 0.0;
    for (int k = 0; k < count; k++)
        if (!(fabs(a[k] - b[k]) <= most))
            most = fabs(a[k] - b[k]);
    return most;
}

static void advance(const struct molecule *m, double *x)
{
    for (int k = 0; k < 3 * m->type.atom_count; k++)
        x[k] = m->x[k] + dt_ps * m->v[k];
}

typedef struct molecule *(*maker)(void);

static struct molecule *decane_with_hydrogens_bonds(void)
{
    return alkane(10, false);
}

static struct molecule *decane(void)
{
    return alkane(10, true);
}

static struct molecule *long_alkane(void)
{
    return alkane(100, true);
}

static const maker makers[] = {
    water, ethanol, decane_with_hydrogens_bonds, decane, long_alkane, benzene, tetrahedron};

// Calls `each` with molecules of each kind that satisfy their constraints.
static void for_molecules(void (*each)(struct molecule *m))
{
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct molecule *m = makers[k]();
            scatter(m, seed);
            each(m);
            molecule_free(m);
        }
}

// ---- A step ----

static void check_step(struct molecule *m)
{
    double x[3 * MOLECULE_ATOMS];
    advance(m, x);
    assert_true(largest_error(m, x) > 1e-6);
    assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, NULL), 0);
    advance(m, x);
    double error = largest_error(m, x);
    // A place in a box of 10 nm takes that much from a bond of 0.1 nm.
    if (!(error < 1e-13))
        fail_msg("%s of %d: off by %g", m->type.name, m->type.atom_count, error);
}

static void test_a_step_satisfies_constraints(void **context)
{
    (void)context;
    for_molecules(check_step);
}

static void check_conserved(struct molecule *m)
{
    double before[3 * MOLECULE_ATOMS], virial[9] = {0.0}, expected[9] = {0.0};
    double force[3] = {0.0}, torque[3] = {0.0};
    memcpy(before, m->v, sizeof before);
    assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, virial), 0);
    for (int i = 0; i < m->type.atom_count; i++) {
        double x[3], f[3];
        for (int d = 0; d < 3; d++) {
            x[d] = m->x[3 * i + d] - m->x[d];
            f[d] = m->atom[i].mass_u * (m->v[3 * i + d] - before[3 * i + d]) / dt_ps;
        }
        for (int d = 0; d < 3; d++) {
            force[d] += f[d];
            torque[d] += x[(d + 1) % 3] * f[(d + 2) % 3] - x[(d + 2) % 3] * f[(d + 1) % 3];
        }
        for (int k = 0; k < 9; k++)
            expected[k] -= 0.5 * x[k / 3] * f[k % 3];
    }
    // Forces are thousands of kJ/mol/nm an atom.
    for (int d = 0; d < 3; d++)
        assert_true(fabs(force[d]) < 1e-9 && fabs(torque[d]) < 1e-9);
    for (int k = 0; k < 9; k++)
        assert_true(fabs(virial[k] - expected[k]) < 1e-9);
    assert_true(fabs(virial[0] + virial[4] + virial[8]) > 0.1);
}

static void test_momenta_are_kept_and_the_virial_is_that_of_the_forces(void **context)
{
    (void)context;
    for_molecules(check_conserved);
}

static void test_a_water_is_as_settle_has_it(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct molecule *m = water();
        scatter(m, seed);
        double v[9], virial[2][9] = {{0.0}};
        int oxygen = 0;
        struct md_waters waters = {1, &oxygen, 15.9994, 1.008, 0.1, 0.1633};
        memcpy(v, m->v, sizeof v);
        assert_int_equal(md_settle_step(&waters, m->id, m->x, v, dt_ps, virial[0]), 0);
        assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, virial[1]), 0);
        assert_true(difference(v, m->v, 9) < 1e-12);
        for (int k = 0; k < 9; k++)
            assert_true(fabs(virial[0][k] - virial[1][k]) < 1e-8);
        molecule_free(m);
    }
}

// Springs to where the atoms began, and between neighbours in number.
static void add_forces(const struct molecule *m, const double *home, double *v)
{
    for (int k = 0; k < 3 * m->type.atom_count; k++) {
        double f = -300.0 * (m->x[k] - home[k]);
        if (k >= 3)
            f -= 50.0 * (m->x[k] - m->x[k - 3]);
        if (k + 3 < 3 * m->type.atom_count)
            f -= 50.0 * (m->x[k] - m->x[k + 3]);
        v[k] += dt_ps * f / m->atom[k / 3].mass_u;
    }
}

static void march(struct molecule *m, const double *home, int steps)
{
    for (int step = 0; step < steps; step++) {
        add_forces(m, home, m->v);
        assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, NULL), 0);
        for (int k = 0; k < 3 * m->type.atom_count; k++)
            m->x[k] += dt_ps * m->v[k];
    }
}

static void test_a_run_goes_back_to_where_it_began(void **context)
{
    (void)context;
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) {
        struct molecule *m = makers[k]();
        double home[3 * MOLECULE_ATOMS], x[3 * MOLECULE_ATOMS];
        scatter(m, 5);
        memcpy(home, m->x, sizeof home);
        march(m, home, 1);
        memcpy(x, m->x, sizeof x);
        march(m, home, 60);
        assert_true(difference(m->x, x, 3 * m->type.atom_count) > 0.01);
        for (int j = 0; j < 3 * m->type.atom_count; j++) {
            m->x[j] -= dt_ps * m->v[j]; // half-step velocities belong to the interval, not its end
            m->v[j] = -m->v[j];
        }
        march(m, home, 59);
        double off = difference(m->x, x, 3 * m->type.atom_count);
        if (!(off < 1e-10))
            fail_msg("%s of %d: off by %g nm", m->type.name, m->type.atom_count, off);
        molecule_free(m);
    }
}

static void test_a_molecule_does_not_depend_on_its_place(void **context)
{
    (void)context;
    enum { COPIES = 3 };
    struct molecule *m = ethanol();
    int values = 3 * m->type.atom_count;
    double x[COPIES * 27], v[COPIES * 27];
    scatter(m, 9);
    for (int copy = 0; copy < COPIES; copy++) {
        memcpy(x + copy * values, m->x, (size_t)values * sizeof *x);
        memcpy(v + copy * values, m->v, (size_t)values * sizeof *v);
        v[copy * values] += copy == 1 ? 1.0 : 0.0;
    }
    for (int copy = COPIES - 1; copy >= 0; copy--)
        assert_int_equal(md_constrain_step(m->constrainer, m->id, x + copy * values,
                                           v + copy * values, dt_ps, NULL),
                         0);
    assert_memory_equal(v, v + 2 * (size_t)values, (size_t)values * sizeof *v);
    assert_memory_not_equal(v, v + values, (size_t)values * sizeof *v);
    molecule_free(m);
}

static void test_the_order_of_constraints_changes_rounding_only(void **context)
{
    (void)context;
    struct molecule *m = decane(), *other = decane();
    scatter(m, 4);
    scatter(other, 4);
    int count = m->type.constraint_count;
    for (int k = 0; k < count; k++) {
        const struct md_constraint *bar = &m->bar[(7 * k + 3) % count]; // 31 of them
        other->bar[k] = k % 2 ? *bar : (struct md_constraint){bar->b, bar->a, bar->length_nm};
    }
    md_constrainer_free(other->constrainer);
    prepare(other);
    assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, NULL), 0);
    assert_int_equal(
        md_constrain_step(other->constrainer, other->id, other->x, other->v, dt_ps, NULL), 0);
    assert_true(difference(m->v, other->v, 3 * m->type.atom_count) < 1e-12);
    molecule_free(m);
    molecule_free(other);
}

// ---- Positions and velocities ----

static void check_positions(struct molecule *m)
{
    // As a .gro rounds them, and as coarse as some are.
    for (double digit = 1e-3; digit <= 0.011; digit *= 10.0) {
        double x[3 * MOLECULE_ATOMS];
        for (int k = 0; k < 3 * m->type.atom_count; k++)
            x[k] = rint(m->x[k] / digit) * digit;
        assert_true(largest_error(m, x) > 1e-4);
        assert_int_equal(md_constrain_positions(m->constrainer, m->id, x, x), 0);
        assert_true(largest_error(m, x) < 1e-13);
        assert_true(difference(x, m->x, 3 * m->type.atom_count) < 4.0 * digit);
    }
}

static void test_positions_of_a_file_are_constrained(void **context)
{
    (void)context;
    for_molecules(check_positions);
}

static void check_velocities(struct molecule *m)
{
    double before[3 * MOLECULE_ATOMS], virial[9] = {0.0}, momentum[3] = {0.0};
    double expected[9] = {0.0}, most = 0.0;
    memcpy(before, m->v, sizeof before);
    assert_int_equal(md_constrain_velocities(m->constrainer, m->id, m->x, m->v, dt_ps, virial), 0);
    for (int k = 0; k < m->type.constraint_count; k++) {
        int a = m->bar[k].a, b = m->bar[k].b;
        double along = 0.0;
        for (int d = 0; d < 3; d++)
            along += (m->x[3 * a + d] - m->x[3 * b + d]) * (m->v[3 * a + d] - m->v[3 * b + d]);
        most = fmax(most, fabs(along));
    }
    assert_true(most < 1e-14);
    for (int i = 0; i < m->type.atom_count; i++)
        for (int k = 0; k < 9; k++) {
            double push = m->atom[i].mass_u * (m->v[3 * i + k % 3] - before[3 * i + k % 3]);
            momentum[k % 3] += push;
            expected[k] -= 0.5 * (m->x[3 * i + k / 3] - m->x[k / 3]) * push / (0.5 * dt_ps);
        }
    for (int k = 0; k < 9; k++)
        assert_true(fabs(virial[k] - expected[k]) < 1e-9);
    for (int d = 0; d < 3; d++)
        assert_true(fabs(momentum[d]) < 1e-12);
    memcpy(before, m->v, sizeof before);
    assert_int_equal(md_constrain_velocities(m->constrainer, m->id, m->x, m->v, 0.0, NULL), 0);
    assert_true(difference(before, m->v, 3 * m->type.atom_count) < 1e-14);
}

static void test_velocities_lose_what_is_along_the_bonds(void **context)
{
    (void)context;
    for_molecules(check_velocities);
}

static void test_the_velocities_of_a_water_are_as_settle_has_them(void **context)
{
    (void)context;
    struct molecule *m = water();
    scatter(m, 21);
    double v[9];
    int oxygen = 0;
    struct md_waters waters = {1, &oxygen, 15.9994, 1.008, 0.1, 0.1633};
    memcpy(v, m->v, sizeof v);
    md_settle_velocities(&waters, m->x, v);
    assert_int_equal(md_constrain_velocities(m->constrainer, m->id, m->x, m->v, 0.0, NULL), 0);
    assert_true(difference(v, m->v, 9) < 1e-14);
    molecule_free(m);
}

// ---- What is refused ----

// Kinds whose constraints cannot be: the first two atoms of the message's constraint, and a word.
static void refuse_kind(struct molecule *m, int error, const char *atoms, const char *word)
{
    struct md_constrainer *constrainer = (struct md_constrainer *)m;
    assert_int_equal(md_constrainer_make(&m->type, 1e-10, &constrainer), error);
    assert_ptr_equal(constrainer, m); // outputs only on success
    if (!strstr(leat_error_detail(), atoms) || !strstr(leat_error_detail(), word) ||
        !strstr(leat_error_detail(), m->type.name))
        fail_msg("'%s' says neither '%s' nor '%s'", leat_error_detail(), atoms, word);
    molecule_free(m);
}

static void test_an_impossible_constraint_is_refused(void **context)
{
    (void)context;
    struct molecule *m = decane();
    m->bar[4].b = m->bar[4].a;
    refuse_kind(m, -EINVAL, "atoms ", "itself");
    static const double lengths[] = {0.0, -0.1, (double)NAN, (double)INFINITY, 1e-300};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        m = decane();
        m->bar[0].length_nm = lengths[k];
        refuse_kind(m, -EINVAL, "atoms 1 and 2 ", "length");
    }
    for (int turn = 0; turn < 2; turn++) {
        m = decane();
        m->bar[9].a = turn ? m->bar[2].b : m->bar[2].a;
        m->bar[9].b = turn ? m->bar[2].a : m->bar[2].b;
        refuse_kind(m, -EINVAL, turn ? "atoms 4 and 1 " : "atoms 1 and 4 ", "twice");
    }
    m = decane();
    m->bar[3].b = m->type.atom_count;
    refuse_kind(m, -EINVAL, "atoms 1 and 33 ", "does not have");
    m = decane();
    m->bar[3].a = -1;
    refuse_kind(m, -EINVAL, "atoms 0 and ", "does not have");
    m = decane();
    m->atom[1].mass_u = 0.0;
    refuse_kind(m, -EINVAL, "atoms 1 and 2 ", "mass");
}

static void test_a_group_that_is_more_than_rigid_is_refused(void **context)
{
    (void)context;
    struct molecule *m = tetrahedron();
    add_atom(m, 14.0, 0.0, 0.0, 0.0);
    for (int k = 0; k < 4; k++)
        add_bar(m, k, 4);
    refuse_kind(m, -EINVAL, "10 constraints for 5 atoms", "9 degrees");
}

static void test_a_hub_of_hundreds_is_refused(void **context)
{
    (void)context;
    struct molecule *m = molecule_new("hub");
    add_atom(m, 12.0, 0.0, 0.0, 0.0);
    for (int k = 1; k < 300; k++)
        add_bar(m, 0, add_atom(m, 1.0, 0.001 * k, 0.1, 0.0));
    refuse_kind(m, -ENOTSUP, "atom 1 ", "299 constraints");
}

static void test_a_tolerance_has_to_be_one(void **context)
{
    (void)context;
    static const double tolerances[] = {0.0, -1e-10, 1.0, (double)NAN};
    struct molecule *m = water();
    for (size_t k = 0; k < sizeof tolerances / sizeof *tolerances; k++) {
        struct md_constrainer *constrainer;
        assert_int_equal(md_constrainer_make(&m->type, tolerances[k], &constrainer), -EINVAL);
    }
    molecule_free(m);
}

static void test_nothing_to_constrain_is_no_constrainer(void **context)
{
    (void)context;
    struct molecule *m = water();
    struct md_constrainer *constrainer = m->constrainer;
    m->type.constraint_count = 0;
    assert_int_equal(md_constrainer_make(&m->type, 1e-10, &constrainer), 0);
    assert_null(constrainer);
    md_constrainer_free(NULL);
    molecule_free(m);
}

// Runs all three on a molecule that has no solution; the message has to name `atoms`.
static void refuse_all(struct molecule *m, const char *atoms)
{
    double x[3 * MOLECULE_ATOMS], v[3 * MOLECULE_ATOMS];
    for (int which = 0; which < 3; which++) {
        int error;
        advance(m, x);
        memcpy(v, m->v, sizeof v);
        if (which == 0)
            error = md_constrain_step(m->constrainer, m->id, m->x, v, dt_ps, NULL);
        else if (which == 1)
            error = md_constrain_positions(m->constrainer, m->id, m->x, x);
        else
            error = md_constrain_velocities(m->constrainer, m->id, m->x, v, dt_ps, NULL);
        assert_int_equal(error, -EDOM);
        if (!strstr(leat_error_detail(), atoms))
            fail_msg("'%s' does not name %s", leat_error_detail(), atoms);
        for (int k = 0; k < 3 * m->type.atom_count; k++)
            assert_true(isfinite(x[k]) && isfinite(v[k]));
    }
    molecule_free(m);
}

static void test_a_rigid_line_of_three_is_refused(void **context)
{
    (void)context;
    struct molecule *m = molecule_new("line");
    for (int k = 0; k < 3; k++)
        add_atom(m, 12.0, 0.1 * k, 0.2 * k, 0.03 * k);
    for (int k = 0; k < 3; k++)
        add_bar(m, k, (k + 1) % 3);
    prepare(m);
    for (int k = 0; k < 9; k++)
        m->v[k] = 0.5 * sin(k);
    refuse_all(m, "'line'");
}

static void test_atoms_in_one_place_are_refused(void **context)
{
    (void)context;
    struct molecule *m = ethanol();
    memcpy(m->x + 3 * 8, m->x + 3 * 7, 3 * sizeof *m->x);
    refuse_all(m, "atoms 908 and 909 ");
}

static void test_a_move_that_is_too_far_is_refused(void **context)
{
    (void)context;
    static const double speeds[] = {100.0, 1e6, 1e200, (double)NAN, (double)INFINITY};
    for (size_t k = 0; k < sizeof speeds / sizeof *speeds; k++) {
        struct molecule *m = ethanol();
        double v[27];
        m->v[3 * 8] = -speeds[k]; // of the hydroxyl's hydrogen, through its oxygen
        memcpy(v, m->v, sizeof v);
        assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, dt_ps, NULL), -EDOM);
        assert_non_null(strstr(leat_error_detail(), "atoms 908 and 909 "));
        assert_memory_equal(v + 21, m->v + 21, 6 * sizeof *v);
        molecule_free(m);
    }
}

static void test_a_step_of_no_length_is_refused(void **context)
{
    (void)context;
    static const double steps[] = {0.0, -0.002, (double)NAN, (double)INFINITY};
    struct molecule *m = water();
    double virial[9] = {0.0};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        assert_int_equal(md_constrain_step(m->constrainer, m->id, m->x, m->v, steps[k], NULL),
                         -EINVAL);
        assert_int_equal(
            md_constrain_velocities(m->constrainer, m->id, m->x, m->v, steps[k], virial), -EINVAL);
    }
    molecule_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_satisfies_constraints),
        cmocka_unit_test(test_momenta_are_kept_and_the_virial_is_that_of_the_forces),
        cmocka_unit_test(test_a_water_is_as_settle_has_it),
        cmocka_unit_test(test_a_run_goes_back_to_where_it_began),
        cmocka_unit_test(test_a_molecule_does_not_depend_on_its_place),
        cmocka_unit_test(test_the_order_of_constraints_changes_rounding_only),
        cmocka_unit_test(test_positions_of_a_file_are_constrained),
        cmocka_unit_test(test_velocities_lose_what_is_along_the_bonds),
        cmocka_unit_test(test_the_velocities_of_a_water_are_as_settle_has_them),
        cmocka_unit_test(test_an_impossible_constraint_is_refused),
        cmocka_unit_test(test_a_group_that_is_more_than_rigid_is_refused),
        cmocka_unit_test(test_a_hub_of_hundreds_is_refused),
        cmocka_unit_test(test_a_tolerance_has_to_be_one),
        cmocka_unit_test(test_nothing_to_constrain_is_no_constrainer),
        cmocka_unit_test(test_a_rigid_line_of_three_is_refused),
        cmocka_unit_test(test_atoms_in_one_place_are_refused),
        cmocka_unit_test(test_a_move_that_is_too_far_is_refused),
        cmocka_unit_test(test_a_step_of_no_length_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
