// SPDX-License-Identifier: Apache-2.0
// Molecules that the box cuts, made whole.
//
// Advantage: a molecule longer than half the box, whose atoms stand in no order of their bonds.
// Disadvantage: one molecule; many of several kinds are runs of test/multi.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology_texts.h"

#include "md/box.h"
#include "md/system.h"

#include <errno.h>
#include <stdlib.h>

// A chain of seven atoms, bonded 4-1-6-2-7-3-5, of which 6-2 is a constraint and 7-3-5 a rigid
// water; nothing bonds atoms 8 and 9.
#define CHAIN                                                                                      \
    HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 AR 1 M A 1\n2 AR 1 M A 1\n3 OW 1 M A 1\n"            \
         "4 HW 1 M A 1\n5 HW 1 M A 1\n6 AR 1 M A 1\n7 AR 1 M A 1\n8 AR 1 M A 1\n9 AR 1 M A 1\n"    \
         "[ bonds ]\n7 1 1 1 1\n1 6 1 1 1\n2 3 1 1 1\n"                                            \
         "[ constraints ]\n6 2 1 0.1\n[ settles ]\n3 1 0.1 0.1633\n"
#define RING  "[ bonds ]\n5 7 1 1 1\n"
#define ATOMS 9

static const int bonds[][2] = {{6, 0}, {0, 5}, {5, 1}, {1, 2}, {2, 3}, {2, 4}};

// Every bond is a step of 0.45 nm along x in a box of 2 nm that is tilted in y and z.
static struct gro make_chain(double *x, const int *order, double step_nm)
{
    struct gro gro = {
        .atom_count = ATOMS, .x_nm = x, .box_nm = {{2, 0, 0}, {0.5, 2, 0}, {-0.75, 0.25, 2}}};
    for (int i = 0; i < ATOMS; i++) {
        double whole[3] = {step_nm * order[i], 1.9 + 0.1 * order[i], 1.0};
        double shift[3];
        md_box_outside(gro.box_nm, whole, shift);
        for (int d = 0; d < 3; d++)
            x[3 * i + d] = whole[d] - shift[d];
    }
    return gro;
}

// How far along the chain each atom is; the last two are anywhere.
static const int places[ATOMS] = {1, 3, 4, 5, 5, 2, 0, 2, 2};

static void test_a_chain_is_whole_along_its_bonds(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(CHAIN TAIL "M 1\n");
    double x[3 * ATOMS], radius_nm = NAN;
    struct gro gro = make_chain(x, places, 0.45);
    assert_int_equal(md_check_whole("in.gro", &gro, topology), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "the box cuts a M of in.gro between atoms"));
    assert_int_equal(md_make_whole("in.gro", &gro, topology, gro.box_nm, false, &radius_nm), 0);
    for (int i = 0; i < 6; i++) {
        int a = bonds[i][0], b = bonds[i][1];
        assert_true(fabs(x[3 * b] - x[3 * a] - 0.45 * (places[b] - places[a])) < 1e-12);
        assert_true(fabs(x[3 * b + 1] - x[3 * a + 1] - 0.1 * (places[b] - places[a])) < 1e-12);
        assert_true(fabs(x[3 * b + 2] - x[3 * a + 2]) < 1e-12);
    }
    // Those without a bond beside the atom before them.
    assert_true(fabs(x[3 * 7] - x[3 * 6]) <= 1.0 && fabs(x[3 * 8] - x[3 * 7]) <= 1.0);
    assert_int_equal(md_check_whole("in.gro", &gro, topology), 0);
    double centre = 0, furthest = 0;
    for (int i = 0; i < ATOMS; i++)
        centre += x[3 * i] / ATOMS;
    for (int i = 0; i < ATOMS; i++)
        furthest = fmax(furthest, fabs(x[3 * i] - centre));
    assert_true(radius_nm >= furthest && radius_nm < 3.0);
    md_topology_free(topology);
}

static void test_a_molecule_bonded_to_its_image_is_refused(void **state)
{
    (void)state;
    // Five steps of 0.4 nm are a box edge, so that the ends are beside each other across it.
    struct md_topology *topology = must_read(CHAIN RING TAIL "M 1\n");
    double x[3 * ATOMS], radius_nm = 0.125;
    struct gro gro = make_chain(x, places, 0.4);
    assert_int_equal(md_make_whole("in.gro", &gro, topology, gro.box_nm, false, &radius_nm),
                     -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "a M of in.gro is bonded to its own image"));
    assert_true(radius_nm > 0.12 && radius_nm < 0.13);
    md_topology_free(topology);
}

static void test_what_is_whole_already_is_only_put_into_the_box(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(CHAIN TAIL "M 1\n");
    double x[3 * ATOMS], radius_nm = NAN;
    struct gro gro = make_chain(x, places, 0.45);
    // An atom far outside, as a file with image numbers has it.
    for (int d = 0; d < 3; d++)
        x[d] += 3 * gro.box_nm[0][d];
    double step = x[3] - x[0];
    assert_int_equal(md_make_whole("in.gro", &gro, topology, gro.box_nm, true, &radius_nm), 0);
    assert_true(fabs(x[3] - x[0] - step) < 1e-12);
    assert_true(radius_nm > 4.0 && radius_nm < 9.0);
    md_topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_is_whole_along_its_bonds),
        cmocka_unit_test(test_what_is_whole_already_is_only_put_into_the_box),
        cmocka_unit_test(test_a_molecule_bonded_to_its_image_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
