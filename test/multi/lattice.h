/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements in a periodic box of any shape, and the pairs of their images by brute force.
 *
 * A pair of images is told by its two elements and the boxes between them. The main thread lists
 * all within the cut-off by going through all boxes around; the ranks follow their plans with
 * stamped elements and list what a consumer would find. Advantage: nothing of the library's
 * geometry is used, not even its fractional coordinates. Disadvantage: small boxes only.
 */
#ifndef LEAT_TEST_MULTI_LATTICE_H
#define LEAT_TEST_MULTI_LATTICE_H

#include "multi/ranks.h"

#include "core/job.h"
#include "halo/letter.h"
#include "halo/plan.h"

#include <errno.h>
#include <math.h>

#define LATTICE_RANKS 8
#define DOUBT_NM      1e-9 /* pairs so near the cut-off may be found or not */

struct lattice_share {
    uint64_t *pair; /* keys */
    size_t count, capacity;
};

struct lattice {
    leat_decomposition decomposition; /* its kind is set by the test's bodies */
    double inverse[3][3];             /* fractional coordinates are x times this */
    double width_nm[3];
    uint32_t group_count, element_count;
    uint32_t *start;
    double *x_nm;
    int (*cell)[3];
    double margin_nm;
    int expected[2]; /* results, by kind */
    struct lattice_share share[LATTICE_RANKS];
    struct lattice_share sure, doubtful; /* by brute force */
};

struct stamped {
    double x_nm[3];
    uint32_t id;
    int box[3]; /* from the element at home to this image, in box vectors */
};

struct lattice_view {
    leat_groups groups;
    uint32_t *start;
    double *x_nm;
    struct stamped *element; /* home and ghosts */
    uint32_t home_count;
    leat_plan *plan;
    leat_plan_info info;
};

static void *lattice_make(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (!memory)
        abort();
    return memory;
}

/* ---- The box ---- */

static double lattice_fraction(const struct lattice *lattice, const double x_nm[3], int d)
{
    double sum = 0;
    for (int e = 0; e < 3; e++)
        sum += x_nm[e] * lattice->inverse[e][d];
    return sum;
}

/* By cofactors; widths are the lengths of the inverse's columns, inverted. */
static void lattice_measure(struct lattice *lattice)
{
    double(*a)[3] = lattice->decomposition.box_nm, determinant = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int k = (i + 1) % 3, l = (i + 2) % 3, m = (j + 1) % 3, n = (j + 2) % 3;
            lattice->inverse[j][i] = a[k][m] * a[l][n] - a[k][n] * a[l][m];
        }
    for (int j = 0; j < 3; j++)
        determinant += a[0][j] * lattice->inverse[j][0];
    for (int d = 0; d < 3; d++) {
        double length = 0;
        for (int e = 0; e < 3; e++) {
            lattice->inverse[e][d] /= determinant;
            length += lattice->inverse[e][d] * lattice->inverse[e][d];
        }
        lattice->width_nm[d] = 1 / sqrt(length);
    }
}

static void lattice_place(struct lattice *lattice, uint32_t g, double radius_nm,
                          struct ranks_random *random)
{
    uint32_t first = lattice->start[g], last = lattice->start[g + 1];
    double fraction[3], mean[3] = {0, 0, 0};
    for (int d = 0; d < 3; d++) {
        int count = lattice->decomposition.grid[d];
        double u = ranks_random_real(random);
        // Some sit on the bounds of domains.
        fraction[d] = last - first == 1 && u < 0.2 ? floor(u * 5 * count) / count : u;
    }
    for (uint32_t i = first; i < last; i++)
        for (int e = 0; e < 3; e++) {
            double x = radius_nm * (last - first > 1) * (2 * ranks_random_real(random) - 1);
            for (int d = 0; d < 3; d++)
                x += fraction[d] * lattice->decomposition.box_nm[d][e];
            lattice->x_nm[3 * i + (uint32_t)e] = x;
            mean[e] += x / (last - first);
        }
    for (int d = 0; d < 3; d++) {
        int count = lattice->decomposition.grid[d];
        double where = lattice_fraction(lattice, mean, d);
        double boxes = floor(where + 1e-12);
        int cell = (int)floor((where - boxes + 1e-12) * count);
        for (uint32_t i = first; i < last; i++) {
            for (int e = 0; e < 3; e++)
                lattice->x_nm[3 * i + (uint32_t)e] -= boxes * lattice->decomposition.box_nm[d][e];
            lattice->cell[i][d] = cell < count ? cell : count - 1;
        }
    }
    for (uint32_t i = first; i < last; i++)
        for (int d = 0; d < 3; d++) {
            double here = lattice_fraction(lattice, lattice->x_nm + 3 * i, d);
            double where = lattice_fraction(lattice, mean, d);
            double off = fabs(here - (where - floor(where + 1e-12))) * lattice->width_nm[d];
            lattice->margin_nm = fmax(lattice->margin_nm, off);
        }
}

/* Groups of one to three elements. */
__attribute__((unused)) static void lattice_open(struct lattice *lattice, const int grid[3],
                                                 const double box_nm[3][3], uint32_t groups,
                                                 double radius_nm, uint64_t seed)
{
    struct ranks_random random = {.state = seed};
    *lattice = (struct lattice){.decomposition = {.size = sizeof lattice->decomposition},
                                .group_count = groups};
    memcpy(lattice->decomposition.grid, grid, sizeof lattice->decomposition.grid);
    memcpy(lattice->decomposition.box_nm, box_nm, sizeof lattice->decomposition.box_nm);
    lattice_measure(lattice);
    lattice->start = lattice_make(groups + 1, sizeof *lattice->start);
    for (uint32_t g = 0; g < groups; g++)
        lattice->start[g + 1] = lattice->start[g] + 1 + (uint32_t)(ranks_random_word(&random) % 3);
    lattice->element_count = lattice->start[groups];
    lattice->x_nm = lattice_make(lattice->element_count, 3 * sizeof *lattice->x_nm);
    lattice->cell = lattice_make(lattice->element_count, sizeof *lattice->cell);
    for (uint32_t g = 0; g < groups; g++)
        lattice_place(lattice, g, radius_nm, &random);
}

static void lattice_forget(struct lattice *lattice)
{
    for (int r = 0; r < LATTICE_RANKS; r++) {
        free(lattice->share[r].pair);
        lattice->share[r] = (struct lattice_share){0};
    }
    free(lattice->sure.pair);
    free(lattice->doubtful.pair);
    lattice->sure = lattice->doubtful = (struct lattice_share){0};
}

__attribute__((unused)) static void lattice_close(struct lattice *lattice)
{
    lattice_forget(lattice);
    free(lattice->start);
    free(lattice->x_nm);
    free(lattice->cell);
}

/* ---- Pairs ---- */

/* The boxes lead from the image of a to that of b; a pair seen from its other end is the same. */
static uint64_t lattice_key(uint32_t a, uint32_t b, const int box[3])
{
    int sign = a < b ? 1 : -1;
    if (a == b)
        sign = box[0]   ? (box[0] > 0) - (box[0] < 0)
               : box[1] ? (box[1] > 0) - (box[1] < 0)
                        : (box[2] > 0) - (box[2] < 0);
    uint64_t key = (uint64_t)(a < b ? a : b) << 16 | (a < b ? b : a);
    for (int d = 0; d < 3; d++)
        key = key << 8 | (uint64_t)(sign * box[d] + 128);
    return key;
}

static void lattice_note(struct lattice_share *share, uint64_t key)
{
    if (share->count == share->capacity) {
        share->capacity = 2 * share->capacity + 1024;
        share->pair = realloc(share->pair, share->capacity * sizeof *share->pair);
        if (!share->pair)
            abort();
    }
    share->pair[share->count++] = key;
}

/* Of b, moved by so many boxes, from a. */
static double lattice_distance(const struct lattice *lattice, const double a[3], const double b[3],
                               const int box[3])
{
    const double(*vector)[3] = (const double(*)[3])lattice->decomposition.box_nm;
    double sum = 0;
    for (int e = 0; e < 3; e++) {
        double difference =
            b[e] - a[e] + box[0] * vector[0][e] + box[1] * vector[1][e] + box[2] * vector[2][e];
        sum += difference * difference;
    }
    return sqrt(sum);
}

/* How many boxes off an image within the cut-off may be, of elements at most `boxes` apart. */
static int lattice_range(const struct lattice *lattice, int d, double boxes)
{
    double reach = lattice->decomposition.cutoff_nm + 2 * lattice->margin_nm;
    return (int)ceil(reach / lattice->width_nm[d] + boxes + 1e-6);
}

static void lattice_brute_pair(struct lattice *lattice, uint32_t a, uint32_t b, const int n[3])
{
    static const int nowhere[3] = {0, 0, 0};
    double cutoff = lattice->decomposition.cutoff_nm;
    int box[3];
    for (box[0] = -n[0]; box[0] <= n[0]; box[0]++)
        for (box[1] = -n[1]; box[1] <= n[1]; box[1]++)
            for (box[2] = -n[2]; box[2] <= n[2]; box[2]++) {
                // Of an element's own images, the two of opposite sign are one pair.
                if (a == b && memcmp(box, nowhere, sizeof box) == 0)
                    continue;
                double distance =
                    lattice_distance(lattice, lattice->x_nm + 3 * a, lattice->x_nm + 3 * b, box);
                bool mirrored =
                    a == b && (box[0] < 0 || (!box[0] && (box[1] < 0 || (!box[1] && box[2] < 0))));
                if (distance >= cutoff + 2 * DOUBT_NM || mirrored)
                    continue;
                lattice_note(distance < cutoff - DOUBT_NM ? &lattice->sure : &lattice->doubtful,
                             lattice_key(a, b, box));
            }
}

static int lattice_compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool lattice_has(const struct lattice_share *share, uint64_t key)
{
    return share->count &&
           bsearch(&key, share->pair, share->count, sizeof key, lattice_compare_keys);
}

static void lattice_sort(struct lattice_share *share)
{
    if (share->count)
        qsort(share->pair, share->count, sizeof *share->pair, lattice_compare_keys);
}

__attribute__((unused)) static void lattice_brute_force(struct lattice *lattice)
{
    int n[3];
    for (int d = 0; d < 3; d++)
        n[d] = lattice_range(lattice, d, 1);
    for (uint32_t a = 0; a < lattice->element_count; a++)
        for (uint32_t b = a; b < lattice->element_count; b++)
            lattice_brute_pair(lattice, a, b, n);
    lattice_sort(&lattice->sure);
    lattice_sort(&lattice->doubtful);
}

/* Every pair that there is, on one rank, once; and no other. */
__attribute__((unused)) static void lattice_check_pairs(struct lattice *lattice, int rank_count)
{
    struct lattice_share all = {0};
    for (int r = 0; r < rank_count; r++)
        for (size_t i = 0; i < lattice->share[r].count; i++)
            lattice_note(&all, lattice->share[r].pair[i]);
    lattice_sort(&all);
    for (size_t i = 0; i < all.count; i++) {
        if (i && all.pair[i] == all.pair[i - 1])
            fail_msg("pair %llx is found twice", (unsigned long long)all.pair[i]);
        if (!lattice_has(&lattice->sure, all.pair[i]) &&
            !lattice_has(&lattice->doubtful, all.pair[i]))
            fail_msg("pair %llx is none", (unsigned long long)all.pair[i]);
    }
    for (size_t i = 0; i < lattice->sure.count; i++)
        if (!lattice_has(&all, lattice->sure.pair[i]))
            fail_msg("pair %llx of %zu is not found", (unsigned long long)lattice->sure.pair[i],
                     lattice->sure.count);
    free(all.pair);
}

/* ---- One rank ---- */

static void lattice_cell(const struct lattice *lattice, int rank, int cell[3])
{
    const int *grid = lattice->decomposition.grid;
    cell[0] = rank / (grid[1] * grid[2]);
    cell[1] = rank / grid[2] % grid[1];
    cell[2] = rank % grid[2];
}

static void lattice_take(struct lattice_view *view, const struct lattice *lattice, int rank)
{
    int cell[3];
    lattice_cell(lattice, rank, cell);
    *view = (struct lattice_view){.info = {.size = sizeof view->info}};
    view->start = lattice_make(lattice->group_count + 1, sizeof *view->start);
    view->x_nm = lattice_make(lattice->element_count, 3 * sizeof *view->x_nm);
    for (uint32_t g = 0; g < lattice->group_count; g++) {
        uint32_t first = lattice->start[g], last = lattice->start[g + 1];
        if (memcmp(lattice->cell[first], cell, sizeof cell) != 0)
            continue;
        memcpy(view->x_nm + 3 * view->home_count, lattice->x_nm + 3 * first,
               (last - first) * 3 * sizeof *view->x_nm);
        view->home_count += last - first;
        view->start[++view->groups.group_count] = view->home_count;
    }
    view->groups.start = view->start;
}

static void lattice_stamp_home(struct lattice_view *view, const struct lattice *lattice, int rank)
{
    int cell[3];
    lattice_cell(lattice, rank, cell);
    view->element = lattice_make(view->info.element_count, sizeof *view->element);
    uint32_t at = 0;
    for (uint32_t i = 0; i < lattice->element_count; i++) {
        if (memcmp(lattice->cell[i], cell, sizeof cell) != 0)
            continue;
        view->element[at].id = i;
        memcpy(view->element[at++].x_nm, lattice->x_nm + 3 * i, sizeof view->element->x_nm);
    }
}

static void lattice_drop(struct lattice_view *view)
{
    leat_plan_free(view->plan);
    free(view->start);
    free(view->x_nm);
    free(view->element);
}

/* The whole box vectors that a shift is made of. */
static void lattice_decode(struct rank_thread *self, const struct lattice *lattice,
                           const leat_pulse *pulse, int box[3])
{
    for (int d = 0; d < 3; d++)
        box[d] = (int)nearbyint(lattice_fraction(lattice, pulse->shift_nm, d));
    const double home[3] = {0, 0, 0};
    const int back[3] = {-box[0], -box[1], -box[2]};
    rank_check(self, lattice_distance(lattice, home, pulse->shift_nm, back) < 1e-12,
               "shift (%g, %g, %g)", pulse->shift_nm[0], pulse->shift_nm[1], pulse->shift_nm[2]);
}

static bool lattice_follow_pulse(struct rank_thread *self, const struct lattice *lattice,
                                 struct lattice_view *view, int p)
{
    const leat_pulse *pulse = &view->info.pulses[p];
    struct stamped *letter = lattice_make(pulse->send_count, sizeof *letter);
    int box[3];
    lattice_decode(self, lattice, pulse, box);
    for (uint32_t i = 0; i < pulse->send_count; i++) {
        letter[i] = view->element[pulse->index[i]];
        for (int d = 0; d < 3; d++) {
            letter[i].x_nm[d] += pulse->shift_nm[d];
            letter[i].box[d] += box[d];
        }
    }
    const void *data;
    uint64_t bytes;
    int error =
        leat_letter_swap(self->job, pulse->send_rank, letter, pulse->send_count * sizeof *letter,
                         pulse->recv_rank, &data, &bytes);
    bool good = rank_check(self, !error, "%s", leat_error_detail()) &&
                rank_check(self, bytes == pulse->recv_count * sizeof *letter,
                           "pulse %d: %llu bytes for %u elements", p, (unsigned long long)bytes,
                           pulse->recv_count);
    if (good && bytes)
        memcpy(view->element + pulse->recv_offset, data, bytes);
    free(letter);
    return good;
}

static int lattice_compare_stamps(const void *a, const void *b)
{
    const struct stamped *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return memcmp(x->box, y->box, sizeof x->box);
}

/* Every element is what its stamp says, an image above, with its zone, once. */
static void lattice_check_elements(struct rank_thread *self, const struct lattice *lattice,
                                   const struct lattice_view *view)
{
    int cell[3];
    lattice_cell(lattice, self->rank, cell);
    uint32_t count = view->info.element_count;
    struct stamped *sorted = lattice_make(count, sizeof *sorted);
    memcpy(sorted, view->element, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, lattice_compare_stamps);
    for (uint32_t i = 1; i < count; i++)
        rank_check(self, lattice_compare_stamps(&sorted[i - 1], &sorted[i]) != 0,
                   "element %u is there twice", sorted[i].id);
    free(sorted);
    for (uint32_t i = 0; i < count; i++) {
        const struct stamped *element = &view->element[i];
        unsigned zone = 0;
        for (int d = 0; d < 3; d++) {
            int theirs =
                lattice->cell[element->id][d] + element->box[d] * lattice->decomposition.grid[d];
            rank_check(self, theirs >= cell[d], "element %u came from below", element->id);
            zone |= (unsigned)(theirs > cell[d]) << d;
        }
        rank_check(self, view->info.zone[i] == zone, "element %u: zone %u, expected %u",
                   element->id, view->info.zone[i], zone);
        double off =
            lattice_distance(lattice, element->x_nm, lattice->x_nm + 3 * element->id, element->box);
        rank_check(self, off < 1e-12, "element %u is off by %g nm", element->id, off);
    }
}

/*
 * Distance of a point from everything that lies below the planes at these heights, by Dykstra's
 * alternating projections.
 */
static double lattice_below(const struct lattice *lattice, const double x_nm[3], unsigned planes,
                            const double height_nm[3])
{
    double y[3], moved[3] = {0, 0, 0}, sum = 0, change = 0;
    memcpy(y, x_nm, sizeof y);
    for (int turn = 0; turn < 3000; turn++) {
        int d = turn % 3;
        if (d == 0 && turn && change < 1e-7)
            break;
        change = d == 0 ? 0 : change;
        if (!(planes >> d & 1))
            continue;
        double above =
            lattice_fraction(lattice, y, d) * lattice->width_nm[d] + moved[d] - height_nm[d];
        double back = above > 0 ? above : 0;
        change = fmax(change, fabs(back - moved[d]));
        for (int e = 0; e < 3; e++)
            y[e] += (moved[d] - back) * lattice->inverse[e][d] * lattice->width_nm[d];
        moved[d] = back;
    }
    for (int e = 0; e < 3; e++)
        sum += (x_nm[e] - y[e]) * (x_nm[e] - y[e]);
    return sqrt(sum);
}

/* No ghost is farther from what it can pair with than the cut-off. */
__attribute__((unused)) static void lattice_check_need(struct rank_thread *self,
                                                       const struct lattice *lattice,
                                                       const struct lattice_view *view)
{
    int cell[3];
    double height_nm[3];
    lattice_cell(lattice, self->rank, cell);
    for (int d = 0; d < 3; d++)
        height_nm[d] = lattice->width_nm[d] * (cell[d] + 1) / lattice->decomposition.grid[d] +
                       lattice->margin_nm;
    for (uint32_t i = view->info.home_count; i < view->info.element_count; i++) {
        double off = lattice_below(lattice, view->element[i].x_nm, view->info.zone[i], height_nm);
        rank_check(self, off < lattice->decomposition.cutoff_nm * (1 + 1e-4),
                   "element %u came from %g nm away", view->element[i].id, off);
    }
}

/* A consumer looks across boundaries only where nothing came over them. */
static void lattice_list_pairs(const struct lattice *lattice, const struct lattice_view *view,
                               struct lattice_share *share)
{
    const leat_decomposition *decomposition = &lattice->decomposition;
    int n[3], box[3];
    for (int d = 0; d < 3; d++)
        n[d] =
            decomposition->images || decomposition->grid[d] > 1 ? 0 : lattice_range(lattice, d, 1);
    for (uint32_t i = 0; i < view->info.element_count; i++)
        for (uint32_t j = 0; j <= i; j++)
            for (box[0] = -n[0]; box[0] <= n[0]; box[0]++)
                for (box[1] = -n[1]; box[1] <= n[1]; box[1]++)
                    for (box[2] = -n[2]; box[2] <= n[2]; box[2]++) {
                        const struct stamped *a = &view->element[i], *b = &view->element[j];
                        if (view->info.zone[i] & view->info.zone[j])
                            continue;
                        int between[3];
                        for (int d = 0; d < 3; d++)
                            between[d] = b->box[d] - a->box[d] + box[d];
                        int first = between[0] ? between[0] : between[1] ? between[1] : between[2];
                        if (i == j && first <= 0)
                            continue;
                        if (lattice_distance(lattice, a->x_nm, b->x_nm, box) <
                            decomposition->cutoff_nm + DOUBT_NM)
                            lattice_note(share, lattice_key(a->id, b->id, between));
                    }
}

/* Builds a plan of this kind and follows it; false when it was refused, or went wrong. */
static bool lattice_build(struct rank_thread *self, const struct lattice *lattice,
                          enum leat_plan_kind kind, struct lattice_view *view)
{
    leat_decomposition decomposition = lattice->decomposition;
    decomposition.kind = kind;
    lattice_take(view, lattice, self->rank);
    int error = leat_plan_build(self->job, &decomposition, &view->groups, view->x_nm, &view->plan);
    if (!rank_check(self, error == lattice->expected[kind], "%d, expected %d: %s", error,
                    lattice->expected[kind], leat_error_detail()) ||
        error)
        return false;
    leat_plan_info_get(view->plan, &view->info);
    bool good = rank_check(self, leat_plan_check(view->plan) == 0, "%s", leat_error_detail()) &&
                rank_check(self, view->info.home_count == view->home_count, "%u at home of %u",
                           view->info.home_count, view->home_count);
    lattice_stamp_home(view, lattice, self->rank);
    for (int p = 0; p < view->info.pulse_count && good; p++)
        good = lattice_follow_pulse(self, lattice, view, p);
    if (good)
        lattice_check_elements(self, lattice, view);
    return good;
}

#endif
