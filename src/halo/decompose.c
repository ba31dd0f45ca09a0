// SPDX-License-Identifier: Apache-2.0
// The eighth-shell plan of a periodic box cut into equal domains.
//
// Algorithm: every rank sends what lower neighbours may need and receives from upper ones. A ghost
// carries a bit for each dimension it crossed, and two elements pair on the one rank where they
// share none, the lower corner of both. Forwarded, this goes one dimension after the other between
// nearest neighbours, and later dimensions hand on what earlier ones brought, so diagonal
// neighbours need no message of their own; where domains are thinner than the cut-off, a dimension
// takes several pulses, each handing on what the one before brought. Onehop, every domain within
// the cut-off has a message of its own. What travels is the same. Advantage: each pair on exactly
// one rank, half the volume of a full shell; 3 messages for 7 neighbours forwarded, none that waits
// for another onehop. Disadvantage: forces have to travel back; and what forwarding saves in
// messages onehop saves in waiting.
//
// With images, dimensions that are not cut are crossed as well, and a rank sends to itself what it
// would look for across the boundary. Counting domains on across it, the lower corner of two
// domains is one place whatever the number of boxes between them, so each image pair is found once
// however far the cut-off goes.
//
// A group's elements may lie outside the domain of its centre. The most any does, agreed by all
// ranks, widens the corner by as much and the number of pulses by twice as much, since both
// partners of a pair may stick out towards each other.

#include "halo/decompose.h"
#include "halo/halo_internal.h"
#include "halo/letter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PLAN_RECV_ALIGNMENT == 1, "padding has no zone yet that pairs with nothing");

// ---- Pulses ----

static int run_forwarded(struct building *b, const int pulses_of[3])
{
    int p = 0;
    for (int c = 0; c < b->domains.crossed_count; c++) {
        int d = b->domains.crossed[c];
        struct hop hop = {.displacement = {d == 0, d == 1, d == 2}};
        for (int k = 0; k < pulses_of[d]; k++, p++) {
            hop.last = b->plan->element_count;
            int lost = building_pulse(b, p, &hop);
            if (lost)
                return lost;
            // The next pulse hands on what this one brought.
            hop.first = hop.last;
        }
    }
    return 0;
}

// Displacements count up like the digits of a number, the first dimension's fastest.
static int run_onehop(struct building *b, const int pulses_of[3])
{
    const int *crossed = b->domains.crossed;
    struct hop hop = {.last = b->plan->home_count};
    for (int p = 0; p < b->plan->pulse_count; p++) {
        int c = 0;
        while (hop.displacement[crossed[c]] == pulses_of[crossed[c]])
            hop.displacement[crossed[c++]] = 0;
        hop.displacement[crossed[c]]++;
        int lost = building_pulse(b, p, &hop);
        if (lost)
            return lost;
    }
    return 0;
}

static int refuse_dimension(const struct domains *domains, int d, double margin_nm)
{
    char axis = DIMENSION_NAMES[d];
    int count = domains->grid[d];
    double width = domains->box.width_nm[d], cutoff = domains->cutoff_nm;
    if (2 * cutoff > width)
        return leat_fail(
            -EDOM,
            "dimension %c: %d domains of %g nm, but the cut-off of %g nm is more than half of the "
            "box edge of %g nm, so two images of one pair could both lie within it; use 1 domain "
            "in %c, a cut-off of at most %g nm, a larger box or images",
            axis, count, width / count, cutoff, width, axis, width / 2);
    double reach = cutoff + 2 * margin_nm;
    char more[48] = "";
    int enough = count;
    while (enough < 64 && leat_pulses_needed(enough, width, cutoff, margin_nm) >= enough)
        enough++;
    if (enough < 64)
        snprintf(more, sizeof more, " or at least %d", enough);
    return leat_fail(
        -EDOM,
        "dimension %c: %d domains of %g nm need %.0f pulses for the cut-off of %g nm "
        "and twice the %g nm that elements lie from their group's centre, so a rank "
        "would receive its own elements; use 1 domain in %c%s, a smaller cut-off, a "
        "larger box, smaller groups or images; where that distance is no molecule's size, an "
        "element has jumped",
        axis, count, width / count, ceil(reach / width * count), cutoff, margin_nm, axis, more);
}

static int refuse_number(const struct domains *domains, const int pulses_of[3], double margin_nm)
{
    return leat_fail(-E2BIG,
                     "the cut-off of %g nm and twice the %g nm that elements lie from their "
                     "group's centre reach over %d x %d x %d domains of %d x %d x %d, which makes "
                     "more than %d %s pulses; use %sfewer domains, a smaller cut-off or a larger "
                     "box; where that distance is no molecule's size, an element has jumped",
                     domains->cutoff_nm, margin_nm, pulses_of[0], pulses_of[1], pulses_of[2],
                     domains->grid[0], domains->grid[1], domains->grid[2], HALO_PULSES_MAX,
                     domains->kind == LEAT_PLAN_ONEHOP ? "onehop" : "forwarded",
                     domains->kind == LEAT_PLAN_ONEHOP ? "a forwarded plan, " : "");
}

// The same inputs and so the same verdict on all ranks.
static int count_pulses(const struct domains *domains, double margin_nm, int pulses_of[3],
                        int *pulse_count)
{
    double in_turn = 0, at_once = 1; // no integers, lest a product overflows
    for (int c = 0; c < domains->crossed_count; c++) {
        int d = domains->crossed[c];
        double width = domains->box.width_nm[d];
        pulses_of[d] = leat_pulses_needed(domains->grid[d], width, domains->cutoff_nm, margin_nm);
        // Without images, a pair must have one image within the cut-off, and no rank itself above.
        if (!domains->images &&
            (pulses_of[d] >= domains->grid[d] || 2 * domains->cutoff_nm > width))
            return refuse_dimension(domains, d, margin_nm);
        in_turn += pulses_of[d];
        at_once *= pulses_of[d] + 1;
    }
    double count = domains->kind == LEAT_PLAN_ONEHOP ? at_once - 1 : in_turn;
    if (count > HALO_PULSES_MAX)
        return refuse_number(domains, pulses_of, margin_nm);
    *pulse_count = (int)count;
    return 0;
}

// ---- Input ----

static int check_group(const struct domains *domains, const leat_groups *groups, uint32_t g,
                       const double *x_nm, double *margin_nm)
{
    uint32_t first = groups->start[g], last = groups->start[g + 1];
    for (uint32_t i = first; i < last; i++)
        for (int d = 0; d < 3; d++)
            if (!isfinite(x_nm[3 * (size_t)i + (size_t)d]))
                return leat_fail(
                    -ERANGE,
                    "rank %d: home element %u has %c = %g nm; the integration has blown "
                    "up or the input is wrong",
                    domains->rank, i, DIMENSION_NAMES[d], x_nm[3 * (size_t)i + (size_t)d]);
    double centre_nm[3];
    leat_group_centre(x_nm, first, last, centre_nm);
    for (int d = 0; d < 3; d++) {
        double slack = ROUNDING * domains->box.scale_nm[d];
        double lower = leat_domain_bound(domains, d, domains->cell[d]);
        double upper = leat_domain_bound(domains, d, domains->cell[d] + 1);
        double centre = leat_box_height(&domains->box, d, centre_nm);
        if (!(centre >= lower - slack && centre <= upper + slack))
            return leat_fail(
                -EINVAL,
                "rank %d: group %u (elements %u to %u) has its centre at %c = %.9g nm, "
                "expected it in this rank's domain from %.9g to %.9g nm; call "
                "leat_halo_migrate first",
                domains->rank, g, first, last - 1, DIMENSION_NAMES[d], centre, lower, upper);
        for (uint32_t i = first; i < last; i++) {
            double height = leat_box_height(&domains->box, d, x_nm + 3 * (size_t)i);
            *margin_nm = fmax(*margin_nm, fabs(height - centre));
        }
    }
    return 0;
}

static int check_input(struct leat_job *job, const leat_decomposition *decomposition,
                       const leat_groups *groups, const double *x_nm, struct domains *domains,
                       double *margin_nm)
{
    int error = leat_domains_fill(decomposition, job->rank, job->rank_count, domains);
    if (!error)
        error = leat_groups_check(groups);
    if (error)
        return error;
    if (!x_nm && groups->group_count)
        return leat_fail(-EINVAL, "%u groups, but x_nm is NULL", groups->group_count);
    *margin_nm = 0;
    for (uint32_t g = 0; g < groups->group_count && !error; g++)
        error = check_group(domains, groups, g, x_nm, margin_nm);
    return error;
}

// Before anything is agreed, with room for as many pulses as there can be: so that a lack of memory
// is part of the first verdict.
static int start_building(struct building *b, const leat_groups *groups, const double *x_nm)
{
    const struct domains *domains = &b->domains;
    uint32_t home_count = leat_groups_elements(groups);
    struct leat_plan *plan = calloc(1, sizeof *plan);
    leat_pulse *pulse = calloc(HALO_PULSES_MAX, sizeof *pulse);
    if (!plan || !pulse) {
        free(plan);
        free(pulse);
        return leat_fail(-ENOMEM, "no memory for a halo plan of %d pulses", HALO_PULSES_MAX);
    }
    plan->rank = domains->rank;
    plan->rank_count = domains->rank_count;
    plan->pulse = pulse;
    b->plan = plan;
    const double *scale = domains->box.scale_nm;
    double longest = fmax(scale[0], fmax(scale[1], scale[2]));
    // Where faces meet at a sharp angle, heights that are off move a corner by more.
    b->reach_nm = domains->cutoff_nm + ROUNDING * longest / domains->box.independence;
    int error = building_grow(b, (size_t)home_count + 1);
    if (error)
        return error;
    if (home_count) {
        memcpy(b->x_nm, x_nm, (size_t)home_count * 3 * sizeof(double));
        memset(plan->zone, 0, home_count);
    }
    plan->home_count = home_count;
    plan->element_count = home_count;
    return 0;
}

// ---- The whole ----

// Indices are one array that moved while it grew; only now does it lie still.
static void point_indices(struct leat_plan *plan)
{
    const uint32_t *index = plan->index;
    for (int p = 0; p < plan->pulse_count; p++) {
        plan->pulse[p].index = index;
        index += plan->pulse[p].send_count;
    }
}

static void finish_building(struct building *b)
{
    free(b->x_nm);
    free(b->letter);
    leat_plan_free(b->plan);
}

int leat_plan_build(leat_job *job, const leat_decomposition *decomposition,
                    const leat_groups *groups, const double *x_nm, leat_plan **plan)
{
    if (!job || !plan)
        return leat_fail(-EINVAL, "leat_plan_build: %s is NULL", job ? "plan" : "job");
    struct building b = {.job = job};
    double margin_nm = 0;
    int pulses_of[3] = {0, 0, 0}, pulse_count = 0;
    int error = check_input(job, decomposition, groups, x_nm, &b.domains, &margin_nm);
    if (!error)
        error = start_building(&b, groups, x_nm);
    if (!error)
        error = leat_letters_open(job);
    error = leat_agree(job, error);
    if (!error)
        error = leat_domains_agree(job, &b.domains, &margin_nm);
    if (!error)
        error = count_pulses(&b.domains, margin_nm, pulses_of, &pulse_count);
    if (!error) {
        b.plan->margin_nm = margin_nm;
        b.plan->pulse_count = pulse_count;
        error = b.domains.kind == LEAT_PLAN_ONEHOP ? run_onehop(&b, pulses_of)
                                                   : run_forwarded(&b, pulses_of);
    }
    // A rank that lost a peer has nobody left to agree with.
    if (!error)
        error = leat_agree(job, b.error);
    if (!error) {
        point_indices(b.plan);
        *plan = b.plan;
        b.plan = NULL;
    }
    finish_building(&b);
    return error;
}
