// SPDX-License-Identifier: Apache-2.0
// Comparison of two runs' files: each kind agrees where it should, and each way of differing shows.
//
// Files are written as text here. Advantage: a case is its input. Disadvantage: none of them was
// written by a run; test/multi/test_md_compare.py has those.

#include "md/compare.h"

#include "leat/leat.h"
#include "format/trr.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After the headers that it needs. */
#include <cmocka.h>

struct pair {
    char path[2][64];
    struct md_compare result;
    int error;
};

static void put(char path[64], const void *bytes, size_t count)
{
    snprintf(path, 64, "compare-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    close(fd);
}

static void compare_bytes(struct pair *pair, const struct md_compare_options *options,
                          const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    put(pair->path[0], a, a_bytes);
    put(pair->path[1], b, b_bytes);
    memset(&pair->result, 0xee, sizeof pair->result);
    pair->error = md_compare_files(pair->path[0], pair->path[1], options, &pair->result);
    unlink(pair->path[0]);
    unlink(pair->path[1]);
}

static const struct md_compare_options standard = {.tolerance = 1e-5, .sigma = 3.0};
static const struct md_compare_options bits = {.tolerance = 1e-5, .exact = true};
static const struct md_compare_options common = {.tolerance = 1e-5, .common = true};

// The row of that name in a comparison that has to succeed, and whether the files differ in all.
static struct md_compare_row look(const struct md_compare_options *options, const char *a,
                                  const char *b, const char *what, bool *differs)
{
    struct pair pair;
    struct md_compare_row row = {.what = "none"};
    compare_bytes(&pair, options, a, strlen(a), b, strlen(b));
    if (pair.error)
        fail_msg("%s", leat_error_detail());
    for (int i = 0; i < pair.result.row_count; i++)
        if (strncmp(pair.result.rows[i].what, what, strlen(what)) == 0 &&
            (strcmp(row.what, "none") == 0 || !row.differs))
            row = pair.result.rows[i];
    *differs = pair.result.differs;
    md_compare_free(&pair.result);
    return row;
}

static void agree(const struct md_compare_options *options, const char *a, const char *b,
                  const char *what)
{
    bool differs = true;
    struct md_compare_row row = look(options, a, b, what, &differs);
    if (differs || row.differs || strcmp(row.what, "none") == 0)
        fail_msg("%s: %s (differs: %d, by %g of %g)", what, row.what, differs, row.deviation,
                 row.allowed);
}

// `words` stand in the row's place or text.
static void differ(const struct md_compare_options *options, const char *a, const char *b,
                   const char *what, const char *words)
{
    bool differs = false;
    struct md_compare_row row = look(options, a, b, what, &differs);
    if (!differs || !row.differs || (!strstr(row.where, words) && !strstr(row.text, words)))
        fail_msg("%s: %s at \"%s\", \"%s\" (differs: %d)", what, row.what, row.where, row.text,
                 differs);
}

static void refuse(const char *a, const char *b, const struct md_compare_options *options,
                   int error, const char *words)
{
    struct pair pair;
    compare_bytes(&pair, options, a, strlen(a), b, strlen(b));
    md_compare_free(&pair.result);
    assert_int_equal(pair.error, error);
    if (!strstr(leat_error_detail(), words))
        fail_msg("\"%s\" is not in: %s", words, leat_error_detail());
}

// ---- Reports ----

#define REPORT(lj, coulomb, potential, kinetic, total)                                             \
    "{\"schema\": \"leat.md/1\", \"atoms\": 6, \"steps\": 10, \"energy\": {\"lj\": " lj            \
    ", \"coulomb\": " coulomb ", \"potential\": " potential ", \"kinetic\": " kinetic              \
    ", \"total\": " total "}, \"coulomb_gross\": 500, \"temperature_k\": 300, "                    \
    "\"virial\": [[1,0,0],[0,1,0],[0,0,1]], \"pressure_bar\": 40}"

static const char report[] = REPORT("10.0", "-2.0", "8.0", "100.0", "108.0");

static void test_reports_within_the_tolerance_of_each_term_agree(void **state)
{
    (void)state;
    agree(&bits, report, report, "lj");
    agree(&bits, report, report, "pressure_bar");
    // Coulomb by its gross value, sums by their terms: lj 1e-4, coulomb 5e-3, kinetic 1e-3.
    agree(&standard, REPORT("10.00009", "-2.0", "8.0", "100.0", "108.0"), report, "lj");
    agree(&standard, REPORT("10.0", "-2.0049", "8.0", "100.0", "108.0"), report, "coulomb");
    agree(&standard, REPORT("10.0", "-2.0", "8.005", "100.0", "108.0"), report, "potential");
    agree(&standard, REPORT("10.0", "-2.0", "8.0", "100.0", "108.006"), report, "total");
}

static void test_each_term_of_a_report_can_differ(void **state)
{
    (void)state;
    differ(&standard, REPORT("10.00011", "-2.0", "8.0", "100.0", "108.0"), report, "lj", "");
    differ(&standard, REPORT("10.0", "-2.0051", "8.0", "100.0", "108.0"), report, "coulomb", "");
    differ(&standard, REPORT("10.0", "-2.0", "8.0052", "100.0", "108.0"), report, "potential", "");
    differ(&standard, REPORT("10.0", "-2.0", "8.0", "100.0011", "108.0"), report, "kinetic", "");
    differ(&standard, REPORT("10.0", "-2.0", "8.0", "100.0", "108.0062"), report, "total", "");
    differ(&bits, REPORT("10.000000000000002", "-2.0", "8.0", "100.0", "108.0"), report, "lj", "");
}

static void test_an_energy_that_is_not_finite_never_agrees(void **state)
{
    (void)state;
    const char *none = REPORT("null", "-2.0", "8.0", "100.0", "108.0");
    differ(&standard, none, report, "lj", "");
    differ(&standard, report, none, "lj", "");
    differ(&standard, none, none, "lj", "");
    differ(&bits, none, none, "lj", "");
}

static void test_reports_of_other_runs_are_named(void **state)
{
    (void)state;
    static const char other[] = "{\"schema\": \"leat.md/1\", \"atoms\": 7, \"steps\": 10, "
                                "\"energy\": {\"lj\": 10.0, \"bond\": 1.0}}";
    differ(&standard, other, report, "atoms", "7 in A, 6 in B");
    differ(&standard, other, report, "bond", "only in A");
    differ(&standard, other, report, "coulomb", "only in B");
    differ(&standard, other, report, "virial", "only in one");
}

static void test_references_have_the_names_of_gromacs(void **state)
{
    (void)state;
    agree(&standard, report, "{\"LJ (SR)\": 10.0, \"Coulomb (SR)\": -2.004}", "coulomb");
    differ(&standard, report, "{\"LJ (SR)\": 11.0}", "lj", "");
    differ(&standard, report, "{\"Disper. corr.\": 11.0}", "energies", "no term");
}

static void test_what_is_no_report_is_refused(void **state)
{
    (void)state;
    refuse("{\"schema\": \"leat.path/1\"}", report, &standard, -EINVAL, "leat.path/1");
    refuse("{\"schema\": ", report, &standard, -EINVAL, ":1:");
    refuse("{\"schema\": \"leat.md/1\"}", report, &standard, -EINVAL, "no energies");
    refuse("text", report, &standard, -ENOTSUP, "neither a report");
    refuse("", report, &standard, -ENOTSUP, "neither a report");
    refuse("1 2 3\n", report, &standard, -EINVAL, "is a report");
    refuse(report, report, &(struct md_compare_options){.statistics = true}, -ENOTSUP,
           "--statistics");
}

// ---- Forces ----

static void test_forces_are_judged_by_the_root_mean_square(void **state)
{
    (void)state;
    agree(&bits, "1 2 3\n4 5 6\n", "1 2 3\n4 5 6\n", "forces");
    // RMS of B is 5.39, so 5.4e-5 is allowed, and one atom may be off by sqrt(2) of it.
    agree(&standard, "1 2 3\n4 5.00005 6\n", "1 2 3\n4 5 6\n", "forces");
    differ(&standard, "1 2 3\n4 5.0001 6\n", "1 2 3\n4 5 6\n", "forces", "");
    bool differs;
    struct md_compare_row row =
        look(&standard, "1 2 3\n4 5.1 6\n7 8 9\n", "1 2 3\n4 5 6\n7 8 9", "largest", &differs);
    assert_string_equal(row.where, "atom 2");
    assert_true(fabs(row.deviation - 0.1) < 1e-12);
    differ(&bits, "0 2 3\n", "-0 2 3\n", "forces", "");
}

static void test_forces_of_other_atoms_or_no_numbers_never_agree(void **state)
{
    (void)state;
    differ(&standard, "1 2 3\n4 5 6\n", "1 2 3\n", "forces", "2 atoms in A, 1 in B");
    differ(&standard, "1 2 3\n4 nan 6\n", "1 2 3\n4 nan 6\n", "largest", "atom 2");
    differ(&bits, "1 2 3\n4 nan 6\n7 8 9\n", "1 2 3\n4 nan 6\n7 8 9\n", "largest", "atom 2");
    differ(&standard, "1 2 3\ninf 5 6\n", "1 2 3\ninf 5 6\n", "forces", "");
    refuse("1 2 3\n4 5\n", "1 2 3\n", &standard, -EINVAL, ":2: expected three numbers");
    refuse("1 2 3\n4 5 6 7\n", "1 2 3\n", &standard, -EINVAL, ":2: expected three numbers");
    refuse("1 2 3\n4 5 6x\n", "1 2 3\n", &standard, -EINVAL, ":2: expected three numbers");
}

// ---- .gro ----

#define ATOM(name, x, v) "    1SOL    " name "    1" x "   1.000   1.000" v "\n"
#define GRO(title, x, v)                                                                           \
    title "\n2\n" ATOM(" OW", "   0.100", "  0.1000  0.2000  0.3000")                              \
        ATOM("HW1", x, v) "   2.00000   2.00000   2.00000\n"
#define V "  0.4000  0.5000  0.6000"

static void test_positions_are_compared_between_nearest_images(void **state)
{
    (void)state;
    const char *gro = GRO("t", "   0.200", V);
    agree(&bits, gro, gro, "positions");
    agree(&standard, GRO("t", "   2.200", V), gro, "positions");
    agree(&standard, GRO("t", "  -1.800", V), gro, "positions");
    agree(&standard, GRO("t", "   0.201", V), gro, "positions"); // the last digit
    differ(&standard, GRO("t", "   0.203", V), gro, "positions", "atom 2");
    differ(&standard, GRO("t", "   1.200", V), gro, "positions", "atom 2");
    differ(&bits, GRO("t", "   2.200", V), gro, "positions", "atom 2");
}

static void test_velocities_and_boxes_of_gro_files_can_differ(void **state)
{
    (void)state;
    const char *gro = GRO("t", "   0.200", V);
    differ(&standard, GRO("t", "   0.200", "  0.4000  0.5000  0.6010"), gro, "velocities",
           "atom 2");
    differ(&standard, "t\n1\n" ATOM(" OW", "   0.100", "") "   2.0 2.0 2.1\n",
           "t\n1\n" ATOM(" OW", "   0.100", "") "   2.0 2.0 2.0\n", "box", "step 0");
    differ(&standard, "t\n1\n" ATOM(" OW", "   0.100", V) "   2.0 2.0 2.0\n",
           "t\n1\n" ATOM(" OW", "   0.100", "") "   2.0 2.0 2.0\n", "velocities", "only A");
    differ(&standard, "t\n1\n" ATOM(" OW", "   0.100", V) "   2.0 2.0 2.0\n", gro, "atoms",
           "1 in A, 2 in B");
}

#define FRAME(step, x) GRO("water t= 1 step= " step, x, V)

static void test_frames_are_matched_by_step(void **state)
{
    (void)state;
    const char *b = FRAME("0", "   0.200") FRAME("20", "   0.300");
    const char *a = FRAME("0", "   0.200") FRAME("10", "   0.700") FRAME("20", "   0.300");
    agree(&standard, b, b, "positions");
    agree(&common, a, b, "positions");
    differ(&standard, a, b, "steps", "1 only in A, the first is step 10");
    differ(&standard, b, a, "steps", "1 only in B, the first is step 10");
    differ(&common, FRAME("5", "   0.200"), b, "steps", "none is in both");
    bool differs;
    struct md_compare_row row =
        look(&standard, FRAME("0", "   0.202") FRAME("20", "   0.310"), b, "positions", &differs);
    assert_string_equal(row.where, "atom 2, step 20");
    assert_int_equal(row.first_step, 0);
    refuse(FRAME("20", "   0.200") FRAME("0", "   0.300"), b, &standard, -EINVAL, "ascending");
    // Without steps frames match one by one.
    agree(&standard, GRO("t", "   0.200", V) GRO("t", "   0.300", V) "\n", b, "positions");
}

static void test_a_torn_frame_is_refused(void **state)
{
    (void)state;
    refuse(FRAME("0", "   0.200") "water\n2\n", FRAME("0", "   0.200"), &standard, -EINVAL,
           "frame 2");
}

// ---- TRR ----

struct small {
    unsigned char bytes[4096];
    size_t count;
};

static void add_frame(struct small *trr, int64_t step, double x, double f)
{
    struct trr_frame frame = {.atom_count = 1,
                              .step = step,
                              .is_double = true,
                              .has_box = true,
                              .has_x = true,
                              .has_f = true,
                              .box_nm = {{2, 0, 0}, {0, 2, 0}, {0, 0, 2}}};
    struct trr_layout layout;
    assert_int_equal(trr_lay_out(&frame, &layout), 0);
    assert_true(trr->count + layout.bytes <= sizeof trr->bytes);
    unsigned char *to = trr->bytes + trr->count;
    trr_put_head(&frame, to);
    trr_put_vector(&frame, (double[3]){x, 1, 1}, to + layout.x);
    trr_put_vector(&frame, (double[3]){f, 1, 1}, to + layout.f);
    trr->count += layout.bytes;
}

static struct md_compare_row look_at_trr(const struct small *a, const struct small *b,
                                         const char *what)
{
    struct pair pair;
    struct md_compare_row row = {.what = "none"};
    compare_bytes(&pair, &standard, a->bytes, a->count, b->bytes, b->count);
    if (pair.error)
        fail_msg("%s", leat_error_detail());
    for (int i = 0; i < pair.result.row_count; i++)
        if (strncmp(pair.result.rows[i].what, what, strlen(what)) == 0)
            row = pair.result.rows[i];
    md_compare_free(&pair.result);
    return row;
}

static void test_trajectories_differ_at_an_atom_and_a_step(void **state)
{
    (void)state;
    struct small a = {.count = 0}, b = {.count = 0};
    add_frame(&b, 0, 0.5, 3.0);
    add_frame(&b, 10, 0.5, 3.0);
    add_frame(&a, 0, 0.5, 3.0);
    add_frame(&a, 10, 2.500001, 3.001);
    struct md_compare_row x = look_at_trr(&a, &b, "positions");
    assert_false(x.differs);
    assert_string_equal(x.where, "atom 1, step 10");
    struct md_compare_row f = look_at_trr(&a, &b, "forces");
    assert_true(f.differs);
    assert_int_equal(f.first_step, 10);
    add_frame(&b, 20, 0.5, 3.0);
    assert_true(look_at_trr(&a, &b, "steps").differs);
    struct small none = {.count = 0};
    add_frame(&none, 0, NAN, 3.0);
    assert_true(look_at_trr(&none, &none, "positions").differs);
}

// ---- Tables ----

static void test_tables_are_compared_by_column_and_step(void **state)
{
    (void)state;
    const char *b = "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,11,-20,-9\n";
    agree(&bits, b, b, "potential");
    agree(&standard, "step,lj,time,potential,coulomb\n0,10,0,-10,-20\n5,11.0001,0.1,-9,-20\n", b,
          "lj");
    // A sum may differ by what its terms may, here by 3.1e-4.
    agree(&standard, "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,11,-20,-9.0003\n", b,
          "potential");
    differ(&standard, "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,11,-20,-9.0004\n", b,
           "potential", "step 5");
    differ(&standard, "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n", b, "steps",
           "1 only in B, the first is step 5");
    differ(&standard, "step,time,lj,coulomb\n0,0,10,-20\n5,0.1,11,-20\n", b, "potential",
           "only in B");
    differ(&standard, b, "step,time,lj,coulomb\n0,0,10,-20\n5,0.1,11,-20\n", "potential",
           "only in A");
    agree(&common, "step,time,lj,coulomb\n0,0,10,-20\n5,0.1,11,-20\n7,1,1,1\n", b, "lj");
    differ(&standard, "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,nan,-20,-9\n",
           "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,nan,-20,-9\n", "lj", "step 5");
    differ(&standard, "step,time,lj,coulomb,potential\n0,0,10,-20,-10\n5,0.1,,-20,-9\n", b, "lj",
           "1 values");
}

static void test_chosen_columns_are_compared_alone(void **state)
{
    (void)state;
    const struct md_compare_options one = {.tolerance = 1e-5, .columns = "lj"};
    const struct md_compare_options absent = {.tolerance = 1e-5, .columns = "lj,bond"};
    const char *a = "step,lj,coulomb\n0,1,2\n", *b = "step,lj,coulomb\n0,1,3\n";
    agree(&one, a, b, "lj");
    differ(&standard, a, b, "coulomb", "step 0");
    differ(&absent, a, b, "bond", "neither");
}

static void test_coulomb_in_a_table_is_allowed_by_its_gross_value(void **state)
{
    (void)state;
    const char *b = "step,coulomb,coulomb_gross\n0,2,1000\n";
    agree(&standard, "step,coulomb,coulomb_gross\n0,2.009,1000\n", b, "coulomb");
    differ(&standard, "step,coulomb,coulomb_gross\n0,2.011,1000\n", b, "coulomb", "step 0");
}

static void test_pressure_in_a_table_is_allowed_by_what_it_is_made_of(void **state)
{
    (void)state;
    // 2 / (3 V) of the kinetic energy's 1e-3 and three times the potential's 1e-2, in bar: 0.0107.
    const char *b = "step,lj,potential,kinetic,pressure_bar,volume_nm3\n0,1000,1000,100,3,32\n";
    agree(&standard,
          "step,lj,potential,kinetic,pressure_bar,volume_nm3\n0,1000,1000,100,3.0106,32\n", b,
          "pressure_bar");
    differ(&standard,
           "step,lj,potential,kinetic,pressure_bar,volume_nm3\n0,1000,1000,100,3.0108,32\n", b,
           "pressure_bar", "step 0");
}

static void test_malformed_tables_are_refused_by_line(void **state)
{
    (void)state;
    const char *b = "step,lj\n0,1\n";
    refuse("step,lj\n0,1\n1\n", b, &standard, -EINVAL, ":3: 1 numbers under 2 names");
    refuse("step,lj\n0,1,2\n", b, &standard, -EINVAL, ":2: more than the 2");
    refuse("step,lj\n0,x\n", b, &standard, -EINVAL, ":2: \"x\" is no number");
    refuse("step,lj\n1,1\n0,1\n", b, &standard, -EINVAL, ":3: step 0 behind step 1");
    refuse("step,lj\n0.5,1\n", b, &standard, -EINVAL, ":2: 0.5 is no step");
    refuse("step,lj,lj\n0,1,1\n", b, &standard, -EINVAL, ":1: two columns");
    refuse("step,,lj\n0,1,1\n", b, &standard, -EINVAL, ":1: a column has no name");
}

// ---- Statistics ----

// A series whose neighbours are alike: an autoregressive process from a fixed generator.
static char *series(const char *head, double mean, double memory, int count, uint64_t seed)
{
    char *text = malloc((size_t)count * 48 + 64);
    size_t used = (size_t)sprintf(text, "%s", head);
    double value = 0.0;
    for (int i = 0; i < count; i++) {
        double noise = 0.0;
        for (int k = 0; k < 12; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            noise += (double)(seed >> 11) * 0x1p-53 - 0.5;
        }
        value = memory * value + sqrt(1.0 - memory * memory) * noise;
        used += (size_t)sprintf(text + used, "%d,%g,%.9g\n", i, 0.1 * i, mean + value);
    }
    return text;
}

#define HEAD "step,time,potential\n"
static const struct md_compare_options means = {
    .tolerance = 1e-5, .statistics = true, .sigma = 3.0};

static void test_means_agree_within_their_errors(void **state)
{
    (void)state;
    char *a = series(HEAD, 5.0, 0.9, 20000, 1), *b = series(HEAD, 5.0, 0.9, 20000, 2);
    bool differs;
    struct md_compare_row row = look(&means, a, b, "potential", &differs);
    assert_false(differs);
    // The standard error of such a series is sqrt((1 + memory) / (1 - memory) / count) = 0.0308,
    // over four times what independent values would have.
    assert_true(row.error[0] > 0.022 && row.error[0] < 0.042);
    char *c = series(HEAD, 5.3, 0.9, 20000, 3);
    differ(&means, c, b, "potential", "sigma");
    free(a);
    free(b);
    free(c);
}

static void test_the_beginning_can_be_left_out(void **state)
{
    (void)state;
    const struct md_compare_options late = {
        .tolerance = 1e-5, .statistics = true, .sigma = 3.0, .skip_ps = 100.0};
    char *b = series(HEAD, 5.0, 0.0, 3000, 2), *a = series(HEAD, 5.0, 0.0, 3000, 1);
    char *bad = strstr(a, "\n500,");
    assert_non_null(bad);
    memcpy(bad, "\n500,50,1e6", 11); // at 50 ps
    memset(bad + 11, ' ', strcspn(bad + 11, "\n"));
    bool differs = false;
    look(&means, a, b, "potential", &differs);
    assert_true(look(&means, a, b, "potential", &differs).error[0] > 100.0);
    agree(&late, a, b, "potential");
    free(a);
    free(b);
}

static void test_too_few_values_never_agree(void **state)
{
    (void)state;
    char *few = series(HEAD, 5.0, 0.0, 10, 1), *slow = series(HEAD, 5.0, 0.9999, 400, 1);
    differ(&means, few, few, "potential", "has 10 values");
    differ(&means, slow, slow, "potential", "A, B: too few values");
    char *none = series(HEAD, NAN, 0.0, 400, 1);
    differ(&means, none, none, "potential", "not a finite number");
    free(none);
    free(few);
    free(slow);
}

static void test_tables_of_gmx_energy_are_read(void **state)
{
    (void)state;
    const char *xvg = "# made by gmx energy\n@    title \"GROMACS Energies\"\n"
                      "@ s0 legend \"Potential\"\n@ s1 legend \"Pressure\"\n"
                      "    0.000000  -10.0   1.5\n    0.100000  -11.0  2.5\n";
    const char *csv = "time,potential,pressure_bar\n0,-10,1.5\n0.1,-11,2.5\n";
    agree(&standard, csv, xvg, "potential");
    agree(&standard, csv, xvg, "pressure_bar");
    differ(&standard, "time,potential,pressure_bar\n0,-10,1.5\n0.1,-11,2.6\n", xvg, "pressure_bar",
           "step 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_within_the_tolerance_of_each_term_agree),
        cmocka_unit_test(test_each_term_of_a_report_can_differ),
        cmocka_unit_test(test_an_energy_that_is_not_finite_never_agrees),
        cmocka_unit_test(test_reports_of_other_runs_are_named),
        cmocka_unit_test(test_references_have_the_names_of_gromacs),
        cmocka_unit_test(test_what_is_no_report_is_refused),
        cmocka_unit_test(test_forces_are_judged_by_the_root_mean_square),
        cmocka_unit_test(test_forces_of_other_atoms_or_no_numbers_never_agree),
        cmocka_unit_test(test_positions_are_compared_between_nearest_images),
        cmocka_unit_test(test_velocities_and_boxes_of_gro_files_can_differ),
        cmocka_unit_test(test_frames_are_matched_by_step),
        cmocka_unit_test(test_a_torn_frame_is_refused),
        cmocka_unit_test(test_trajectories_differ_at_an_atom_and_a_step),
        cmocka_unit_test(test_tables_are_compared_by_column_and_step),
        cmocka_unit_test(test_chosen_columns_are_compared_alone),
        cmocka_unit_test(test_coulomb_in_a_table_is_allowed_by_its_gross_value),
        cmocka_unit_test(test_pressure_in_a_table_is_allowed_by_what_it_is_made_of),
        cmocka_unit_test(test_malformed_tables_are_refused_by_line),
        cmocka_unit_test(test_means_agree_within_their_errors),
        cmocka_unit_test(test_the_beginning_can_be_left_out),
        cmocka_unit_test(test_too_few_values_never_agree),
        cmocka_unit_test(test_tables_of_gmx_energy_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
