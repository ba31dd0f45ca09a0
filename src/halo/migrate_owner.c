// SPDX-License-Identifier: Apache-2.0
// Who owns a group that may have left its domain.
//
// Algorithm: elements far outside the box are refused, since they show that the caller's numbers
// are wrong; a group is then moved by whole box vectors until its centre is inside, and the domain
// is looked up by the centre of the moved elements. Advantage: whoever computes the owner later
// from the same positions finds the same one. Disadvantage: every element is looked at twice.

#include "halo/migrate.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

// Rounding can take a centre that was just below 0 to the upper edge and back below 0; the owner is
// then the nearest domain.
#define WRAPS_MAX 4

// Elements may stick out further than centres, but never by more than a box.
static double element_limit_nm(const struct moving *m, int d)
{
    return leat_box_reach(&m->domains.box, d, m->migration->travel_limit_nm);
}

static int fail_jump(const struct moving *m, uint32_t element, const char *what)
{
    const double *x =
        (const double *)m->migration->fields[m->migration->x_field].data + 3 * (size_t)element;
    const double(*vector)[3] = m->domains.box.vector_nm;
    char name[48];
    if (m->migration->element_id)
        snprintf(name, sizeof name, "element %lld", (long long)m->migration->element_id[element]);
    else
        snprintf(name, sizeof name, "home element %u", element);
    return leat_fail(-ERANGE,
                     "step %lld, rank %d: %s is at (%.6g, %.6g, %.6g) nm, %s of %.6g x %.6g x %.6g "
                     "nm; the integration has blown up or the input is wrong",
                     (long long)m->migration->step, m->domains.rank, name, x[0], x[1], x[2], what,
                     vector[0][0], vector[1][1], vector[2][2]);
}

static double wrapped_height(const struct moving *m, int d, uint32_t element)
{
    return leat_box_height(&m->domains.box, d, m->wrapped_nm + 3 * (size_t)element);
}

static int check_elements(const struct moving *m, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++) {
        const double *x = m->wrapped_nm + 3 * (size_t)i;
        if (!(isfinite(x[0]) && isfinite(x[1]) && isfinite(x[2])))
            return fail_jump(m, i, "which is no point in the box");
        for (int d = 0; d < 3; d++) {
            double height = wrapped_height(m, d, i), limit = element_limit_nm(m, d);
            if (!(height >= -limit && height <= m->domains.box.width_nm[d] + limit))
                return fail_jump(m, i, "too far outside the box");
        }
    }
    return 0;
}

// Names the element of the group that is farthest out, as the likeliest culprit.
static int fail_centre(const struct moving *m, uint32_t first, uint32_t last, int d)
{
    uint32_t worst = first;
    double middle = m->domains.box.width_nm[d] / 2;
    for (uint32_t i = first; i < last; i++)
        if (fabs(wrapped_height(m, d, i) - middle) > fabs(wrapped_height(m, d, worst) - middle))
            worst = i;
    return fail_jump(m, worst, "and its group's centre is too far outside the box");
}

static int check_travel(const struct moving *m, uint32_t first, uint32_t last,
                        const double centre_nm[3])
{
    for (int d = 0; d < 3; d++) {
        double width = m->domains.box.width_nm[d];
        double limit = m->migration->travel_limit_nm > 0 ? m->migration->travel_limit_nm : width;
        double height = leat_box_height(&m->domains.box, d, centre_nm);
        if (height < -limit || height > width + limit)
            return fail_centre(m, first, last, d);
    }
    return 0;
}

static void shift_group(struct moving *m, uint32_t first, uint32_t last, int d, double boxes)
{
    const double *vector = m->domains.box.vector_nm[d];
    for (uint32_t i = first; i < last; i++)
        for (int e = 0; e <= d; e++)
            m->wrapped_nm[3 * (size_t)i + (size_t)e] -= boxes * vector[e];
}

// By whole vectors c, b, a: each changes its own height alone. The centre is taken from the moved
// elements each time, so that the owner found here is the one that anybody finds later from the
// same positions.
static void wrap_group(struct moving *m, uint32_t first, uint32_t last, double centre_nm[3])
{
    for (int wraps = 0; wraps < WRAPS_MAX; wraps++) {
        bool moved = false;
        for (int d = 2; d >= 0; d--) {
            double width = m->domains.box.width_nm[d];
            double height = leat_box_height(&m->domains.box, d, centre_nm);
            if (height >= 0 && height < width)
                continue;
            double boxes = floor(height / width);
            if (height < 0 && boxes > -1) // the quotient rounded to zero
                boxes = -1;
            shift_group(m, first, last, d, boxes);
            moved = true;
        }
        if (!moved)
            return;
        leat_group_centre(m->wrapped_nm, first, last, centre_nm);
    }
}

int migration_find_owners(struct moving *m)
{
    for (uint32_t g = 0; g < m->group_count; g++) {
        uint32_t first = m->start[g], last = m->start[g + 1];
        double centre_nm[3];
        int error = check_elements(m, first, last);
        if (error)
            return error;
        leat_group_centre(m->wrapped_nm, first, last, centre_nm);
        error = check_travel(m, first, last, centre_nm);
        if (error)
            return error;
        wrap_group(m, first, last, centre_nm);
        int cell[3];
        for (int d = 0; d < 3; d++)
            cell[d] =
                leat_domain_find(&m->domains, d, leat_box_height(&m->domains.box, d, centre_nm));
        m->owner[g] = (uint32_t)leat_domain_rank(&m->domains, cell);
    }
    return 0;
}
