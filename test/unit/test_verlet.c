// SPDX-License-Identifier: Apache-2.0
// Velocity Verlet: the same positions as leap-frog, and velocities of the full step.

#include "md/dynamics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ATOMS = 6, VALUES = 3 * ATOMS };

static const double dt_ps = 0.002, unscaled = 1.0, oh = 0.1, hh = 0.1633;

// Two rigid waters, each atom on a spring to where it began.
struct box {
    int oxygen[2];
    int64_t id[ATOMS];
    double home[VALUES], x[VALUES], v[VALUES], f[VALUES], mass[ATOMS], scratch[VALUES];
    struct md_rigid rigid;
    struct md_atoms atoms;
};

static void fill(struct box *box)
{
    double height = sqrt(oh * oh - 0.25 * hh * hh);
    memset(box, 0, sizeof *box);
    box->rigid.waters = (struct md_waters){2, box->oxygen, 15.9994, 1.008, oh, hh};
    box->atoms = (struct md_atoms){.count = ATOMS,
                                   .id = box->id,
                                   .x_nm = box->x,
                                   .v_nm_ps = box->v,
                                   .f = box->f,
                                   .mass_u = box->mass};
    for (int i = 0; i < ATOMS; i++) {
        int part = i % 3;
        box->id[i] = i;
        box->oxygen[i / 3] = 3 * (i / 3);
        box->mass[i] = part == 0 ? 15.9994 : 1.008;
        int water = i / 3;
        box->x[3 * i] = 0.4 * water + (part == 0 ? 0.0 : (part - 1.5) * hh);
        box->x[3 * i + 1] = part == 0 ? 0.0 : height;
    }
    for (int k = 0; k < VALUES; k++)
        box->home[k] = box->x[k] + 0.01 * sin(k);
    md_generate_velocities(&box->atoms, 300.0, 5);
    md_settle_velocities(&box->rigid.waters, box->x, box->v);
}

static void pull(struct box *box)
{
    for (int k = 0; k < VALUES; k++)
        box->f[k] = 20000.0 * (box->home[k] - box->x[k]);
}

static void depart(struct box *box, double kick_ps)
{
    double ekin[9];
    assert_int_equal(md_leapfrog(&box->atoms, &box->rigid, kick_ps, dt_ps, &unscaled, 1.0,
                                 box->scratch, NULL, ekin),
                     0);
}

static void test_positions_are_those_of_leap_frog(void **state)
{
    (void)state;
    struct box verlet, leap;
    fill(&verlet);
    pull(&verlet);
    depart(&verlet, 0.5 * dt_ps);
    fill(&leap);
    memcpy(leap.x, verlet.x, sizeof leap.x);
    memcpy(leap.v, verlet.v, sizeof leap.v);
    for (int n = 0; n < 200; n++) {
        pull(&verlet);
        assert_int_equal(md_verlet_arrive(&verlet.atoms, &verlet.rigid, dt_ps), 0);
        depart(&verlet, 0.5 * dt_ps);
        pull(&leap);
        depart(&leap, dt_ps);
        for (int k = 0; k < VALUES; k++)
            assert_true(fabs(verlet.x[k] - leap.x[k]) < 1e-10);
    }
}

static void test_velocities_of_the_full_step_keep_bonds_and_energy(void **state)
{
    (void)state;
    struct box box;
    fill(&box);
    double first = 0.0, last = 0.0;
    for (int n = 0; n < 500; n++) {
        pull(&box);
        if (n > 0)
            assert_int_equal(md_verlet_arrive(&box.atoms, &box.rigid, dt_ps), 0);
        double ekin[9], along = 0.0;
        md_kinetic(&box.atoms, ekin);
        last = ekin[0] + ekin[4] + ekin[8];
        for (int k = 0; k < VALUES; k++)
            last += 10000.0 * (box.x[k] - box.home[k]) * (box.x[k] - box.home[k]);
        for (int d = 0; d < 3; d++)
            along += (box.x[3 + d] - box.x[d]) * (box.v[3 + d] - box.v[d]);
        assert_true(fabs(along) < 1e-12);
        if (n == 0)
            first = last;
        assert_true(fabs(last - first) < 0.01 * first);
        depart(&box, 0.5 * dt_ps);
    }
}

static void test_kinetic_energies_of_groups_add_up(void **state)
{
    (void)state;
    struct box box;
    fill(&box);
    const uint8_t group[ATOMS] = {0, 2, 2, 0, 1, 2};
    double ekin[9], groups[3] = {0.0}, doubled[3] = {1.0, 2.0, 0.0}, scaled[3] = {0.0};
    box.atoms.group = group;
    md_kinetic(&box.atoms, ekin);
    md_kinetic_groups(&box.atoms, groups);
    assert_true(fabs(groups[0] + groups[1] + groups[2] - ekin[0] - ekin[4] - ekin[8]) < 1e-12);
    // Each group by its own factor.
    double work[9];
    assert_int_equal(
        md_leapfrog(&box.atoms, NULL, dt_ps, dt_ps, doubled, 1.0, box.scratch, NULL, work), 0);
    md_kinetic_groups(&box.atoms, scaled);
    assert_true(fabs(scaled[0] - groups[0]) < 1e-12);
    assert_true(fabs(scaled[1] - 4.0 * groups[1]) < 1e-12);
    assert_true(scaled[2] == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_are_those_of_leap_frog),
        cmocka_unit_test(test_velocities_of_the_full_step_keep_bonds_and_energy),
        cmocka_unit_test(test_kinetic_energies_of_groups_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
