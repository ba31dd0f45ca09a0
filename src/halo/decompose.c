// SPDX-License-Identifier: Apache-2.0
// The forwarded eighth-shell plan of a periodic box cut into equal domains.
//
// Algorithm: one dimension after the other, every rank sends what its lower neighbour may need and
// receives from the upper one; later dimensions forward what earlier ones brought, so diagonal
// neighbours need no message of their own. Where domains are thinner than the cut-off, a dimension
// takes several pulses, each handing on what the one before brought. A ghost carries a bit for each
// dimension it crossed, and two elements pair on the one rank where they share none, the lower
// corner of both. What such a partner can lie in is known, below the receiver's upper bound in
// every dimension the ghost crossed, so an element travels only when it is within the cut-off of
// that corner. Advantage: each pair on exactly one rank; 3 messages for 7 neighbours, and half the
// volume of a full shell. Disadvantage: pulses depend on earlier ones, and forces have to travel
// back.
//
// A group's elements may lie outside the domain of its centre. The most any does, agreed by all
// ranks, widens the corner by as much and the number of pulses by twice as much, since both
// partners of a pair may stick out towards each other.

#include "halo/domains.h"
#include "halo/plan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PLAN_RECV_ALIGNMENT == 1, "padding has no zone yet that pairs with nothing");

// Coordinates may have passed through single precision on their way here (a rounding of 6e-8 of the
// box edge), and pairs are often searched in it. Within this part of the longest edge, an element
// at the limit is sent and a centre at the bound of a domain counts as inside.
#define ROUNDING 1e-6

// ---- The grid ----

struct grid_cost {
    double volume; // of a domain's halo, nm^3
    int pulses;
};

// False where the cut-off forbids the grid.
static bool cost_grid(const int grid[3], const double edge_nm[3], double cutoff_nm,
                      struct grid_cost *cost)
{
    // A zone that crossed one dimension is a slab, one that crossed two a quarter of a cylinder,
    // one that crossed three an eighth of a sphere; what a dimension adds to them depends on
    // whether it was crossed.
    static const double rounded[] = {1, 1, 0.785398163397448310, 0.523598775598298873};
    cost->volume = 0;
    cost->pulses = 0;
    for (int d = 0; d < 3; d++) {
        if (grid[d] == 1)
            continue;
        int pulses = leat_pulses_needed(grid[d], edge_nm[d], cutoff_nm, 0);
        if (pulses >= grid[d] || 2 * cutoff_nm > edge_nm[d])
            return false;
        cost->pulses += pulses;
    }
    for (int zone = 1; zone < 8; zone++) {
        double volume = 1;
        int crossed = 0;
        for (int d = 0; d < 3; d++) {
            bool across = zone >> d & 1;
            if (across && grid[d] == 1)
                volume = 0;
            volume *= across ? cutoff_nm : edge_nm[d] / grid[d];
            crossed += across;
        }
        cost->volume += rounded[crossed] * volume;
    }
    return true;
}

// Less volume; then fewer pulses; then more domains in z, then in y. Neighbours in z have the
// nearest rank numbers, so they are likeliest to share a socket or a host.
static bool grid_better(const int a[3], const struct grid_cost *cost_a, const int b[3],
                        const struct grid_cost *cost_b)
{
    // Grids that are each other's mirror images must not be told apart by rounding.
    if (fabs(cost_a->volume - cost_b->volume) > 1e-9 * cost_b->volume)
        return cost_a->volume < cost_b->volume;
    if (cost_a->pulses != cost_b->pulses)
        return cost_a->pulses < cost_b->pulses;
    return a[2] != b[2] ? a[2] > b[2] : a[1] > b[1];
}

static bool best_grid(int rank_count, const double edge_nm[3], double cutoff_nm, int best[3])
{
    bool found = false;
    struct grid_cost best_cost = {0, 0};
    for (int x = 1; x <= rank_count; x++) {
        if (rank_count % x)
            continue;
        for (int y = 1; y <= rank_count / x; y++) {
            if (rank_count / x % y)
                continue;
            const int grid[3] = {x, y, rank_count / x / y};
            struct grid_cost cost;
            if (!cost_grid(grid, edge_nm, cutoff_nm, &cost))
                continue;
            if (found && !grid_better(grid, &cost, best, &best_cost))
                continue;
            found = true;
            best_cost = cost;
            memcpy(best, grid, sizeof grid);
        }
    }
    return found;
}

int leat_grid_choose(int rank_count, const double box_nm[3][3], double cutoff_nm, int grid[3])
{
    if (!box_nm || !grid)
        return leat_fail(-EINVAL, "leat_grid_choose: %s is NULL", box_nm ? "grid" : "box_nm");
    if (rank_count < 1)
        return leat_fail(-EINVAL, "%d domains: expected at least 1", rank_count);
    if (!(isfinite(cutoff_nm) && cutoff_nm > 0))
        return leat_fail(-EINVAL, "cutoff_nm is %g, expected a length above 0", cutoff_nm);
    double edge_nm[3];
    int error = leat_box_edges(box_nm, edge_nm);
    if (error)
        return error;
    int best[3];
    if (!best_grid(rank_count, edge_nm, cutoff_nm, best))
        return leat_fail(-EDOM,
                         "no grid of %d domains: each would need its own atoms as ghosts, as the "
                         "cut-off of %g nm is more than half of every edge of the box of %g x %g x "
                         "%g nm; use 1 domain, a smaller cut-off or a larger box",
                         rank_count, cutoff_nm, edge_nm[0], edge_nm[1], edge_nm[2]);
    memcpy(grid, best, sizeof best);
    return 0;
}

// ---- The plan ----

// A letter: this, then count positions (3 doubles each, shifted already), then count zone bytes.
struct pulse_letter {
    uint64_t magic;
    int32_t pulse, failed; // failed: the sender has an error and takes part for the others' sake
    uint32_t count, unused;
};

#define PULSE_MAGIC   0x65736c7570746165ULL
#define ELEMENT_BYTES (3 * sizeof(double) + 1)

struct building {
    struct leat_job *job;
    struct domains domains;
    struct leat_plan *plan;
    double *x_nm; // [3 * element_capacity], of all elements there so far
    size_t element_capacity;
    size_t index_count, index_capacity;
    unsigned char *letter;
    size_t letter_capacity;
    double reach_nm; // distance from a receiver's corner up to which elements are sent
    // This rank's first failure. It goes on swapping letters, empty ones, so that nobody waits for
    // it in vain; the verdict is agreed on at the end.
    int error;
};

static int grow(void *array, size_t *capacity, size_t wanted, size_t bytes, const char *what)
{
    if (wanted <= *capacity)
        return 0;
    wanted += wanted / 4 + 64;
    void **pointer = array;
    void *grown = wanted > SIZE_MAX / bytes ? NULL : realloc(*pointer, wanted * bytes);
    if (!grown)
        return leat_fail(-ENOMEM, "no memory for %zu %s of a halo plan", wanted, what);
    *pointer = grown;
    *capacity = wanted;
    return 0;
}

static int grow_elements(struct building *b, size_t wanted)
{
    if (wanted > UINT32_MAX)
        return leat_fail(-EOVERFLOW,
                         "%zu elements with ghosts on one rank, but they are counted in 32 bits; "
                         "use more ranks",
                         wanted);
    size_t zones = b->element_capacity;
    int error = grow(&b->plan->zone, &zones, wanted, 1, "zones");
    if (!error)
        error = grow(&b->x_nm, &b->element_capacity, wanted, 3 * sizeof(double), "positions");
    return error;
}

// Squared distance of an element from the lower neighbour's corner: from what any partner there can
// be at most, in the dimensions crossed before and in d, which this pulse crosses.
static double corner_distance2(const struct building *b, uint32_t element, int d)
{
    const struct domains *domains = &b->domains;
    double sum = 0;
    for (int e = 0; e < 3; e++) {
        // In d the receiver ends where this domain begins; across d the two are alike otherwise.
        int above = e == d ? 0 : 1;
        if (e != d && !(b->plan->zone[element] >> e & 1))
            continue;
        double corner = leat_domain_bound(domains, e, domains->cell[e] + above);
        double beyond = b->x_nm[3 * (size_t)element + (size_t)e] - corner - b->plan->margin_nm;
        sum += beyond > 0 ? beyond * beyond : 0;
    }
    return sum;
}

static int select_elements(struct building *b, leat_pulse *pulse, uint32_t first, uint32_t last)
{
    int error = grow(&b->plan->index, &b->index_capacity, b->index_count + (last - first),
                     sizeof *b->plan->index, "indices");
    if (error)
        return error;
    uint32_t *index = b->plan->index + b->index_count;
    uint32_t count = 0;
    pulse->dependent_start = 0;
    for (uint32_t i = first; i < last; i++) {
        if (!(corner_distance2(b, i, pulse->dimension) < b->reach_nm * b->reach_nm))
            continue;
        index[count++] = i;
        pulse->dependent_start += i < b->plan->home_count;
    }
    pulse->send_count = count;
    b->index_count += count;
    return 0;
}

static int write_letter(struct building *b, const leat_pulse *pulse, size_t *bytes)
{
    uint32_t count = pulse->send_count;
    *bytes = sizeof(struct pulse_letter) + (size_t)count * ELEMENT_BYTES;
    int error = grow(&b->letter, &b->letter_capacity, *bytes, 1, "bytes of letters");
    if (error)
        return error;
    const uint32_t *index = b->plan->index + (b->index_count - count);
    unsigned char *to = b->letter + sizeof(struct pulse_letter);
    unsigned char *zone = to + (size_t)count * 3 * sizeof(double);
    for (uint32_t i = 0; i < count; i++) {
        double x[3];
        for (int d = 0; d < 3; d++)
            x[d] = b->x_nm[3 * (size_t)index[i] + (size_t)d] + pulse->shift_nm[d];
        memcpy(to + i * sizeof x, x, sizeof x);
        zone[i] = b->plan->zone[index[i]];
    }
    return 0;
}

static int read_letter(struct building *b, leat_pulse *pulse, int p, const void *data,
                       uint64_t bytes)
{
    struct pulse_letter head = {.magic = 0};
    if (bytes >= sizeof head)
        memcpy(&head, data, sizeof head);
    if (head.magic != PULSE_MAGIC || head.pulse != p ||
        bytes != sizeof head + (uint64_t)head.count * ELEMENT_BYTES)
        return leat_fail(
            -EPROTO,
            "pulse %d: expected rank %d's elements, got a letter of %llu bytes for "
            "pulse %d with %u elements; do all ranks build this plan at the same time?",
            p, pulse->recv_rank, (unsigned long long)bytes, head.pulse, head.count);
    if (head.failed)
        return 0;
    struct leat_plan *plan = b->plan;
    int error = grow_elements(b, (size_t)plan->element_count + head.count);
    if (error)
        return error;
    const unsigned char *x = (const unsigned char *)data + sizeof head;
    const unsigned char *zone = x + (size_t)head.count * 3 * sizeof(double);
    memcpy(b->x_nm + 3 * (size_t)plan->element_count, x, (size_t)head.count * 3 * sizeof(double));
    for (uint32_t i = 0; i < head.count; i++)
        plan->zone[plan->element_count + i] = (uint8_t)(zone[i] | 1u << pulse->dimension);
    pulse->recv_count = head.count;
    plan->element_count += head.count;
    return 0;
}

// Returns only what makes going on pointless: a peer that cannot be reached any more.
static int run_pulse(struct building *b, int p, uint32_t first, uint32_t last)
{
    leat_pulse *pulse = &b->plan->pulse[p];
    struct pulse_letter empty = {.magic = PULSE_MAGIC, .pulse = p, .failed = 1};
    const void *letter = &empty;
    size_t bytes = 0;
    pulse->recv_offset = b->plan->element_count;
    if (!b->error)
        b->error = select_elements(b, pulse, first, last);
    if (!b->error)
        b->error = write_letter(b, pulse, &bytes);
    if (!b->error) {
        struct pulse_letter head = {.magic = PULSE_MAGIC, .pulse = p, .count = pulse->send_count};
        memcpy(b->letter, &head, sizeof head);
        letter = b->letter;
    } else {
        bytes = sizeof empty;
    }
    const void *data;
    uint64_t received;
    int lost =
        leat_mail_swap(b->job, pulse->send_rank, letter, bytes, pulse->recv_rank, &data, &received);
    if (lost)
        return leat_fail_in(lost, "building a plan, pulse %d to rank %d and from rank %d", p,
                            pulse->send_rank, pulse->recv_rank);
    if (!b->error)
        b->error = read_letter(b, pulse, p, data, received);
    return 0;
}

static void frame_pulse(const struct domains *domains, int d, leat_pulse *pulse)
{
    int below[3], above[3];
    memcpy(below, domains->cell, sizeof below);
    memcpy(above, domains->cell, sizeof above);
    below[d] = (domains->cell[d] + domains->grid[d] - 1) % domains->grid[d];
    above[d] = (domains->cell[d] + 1) % domains->grid[d];
    *pulse = (leat_pulse){.dimension = d,
                          .direction = -1,
                          .send_rank = leat_domain_rank(domains, below),
                          .recv_rank = leat_domain_rank(domains, above)};
    // What crosses the box's boundary arrives above its receiver, not at the other end.
    pulse->shift_nm[d] = domains->cell[d] == 0 ? domains->edge_nm[d] : 0;
}

static int run_pulses(struct building *b, const int pulses_of[3])
{
    int p = 0;
    for (int c = 0; c < b->domains.cut_count; c++) {
        int d = b->domains.cut[c];
        uint32_t first = 0;
        for (int k = 0; k < pulses_of[d]; k++, p++) {
            uint32_t last = b->plan->element_count;
            frame_pulse(&b->domains, d, &b->plan->pulse[p]);
            int lost = run_pulse(b, p, first, last);
            if (lost)
                return lost;
            // The next pulse hands on what this one brought.
            first = last;
        }
    }
    return 0;
}

static int refuse_dimension(const struct domains *domains, int d, double margin_nm)
{
    char axis = DIMENSION_NAMES[d];
    int count = domains->grid[d];
    double edge = domains->edge_nm[d], cutoff = domains->cutoff_nm;
    if (2 * cutoff > edge)
        return leat_fail(
            -EDOM,
            "dimension %c: %d domains of %g nm, but the cut-off of %g nm is more than "
            "half of the box edge of %g nm, so two images of one pair could both lie "
            "within it; use 1 domain in %c, a cut-off of at most %g nm or a larger box",
            axis, count, edge / count, cutoff, edge, axis, edge / 2);
    double reach = cutoff + 2 * margin_nm;
    char more[48] = "";
    int enough = count;
    while (enough < 64 && leat_pulses_needed(enough, edge, cutoff, margin_nm) >= enough)
        enough++;
    if (enough < 64)
        snprintf(more, sizeof more, " or at least %d", enough);
    return leat_fail(-EDOM,
                     "dimension %c: %d domains of %g nm need %.0f pulses for the cut-off of %g nm "
                     "and twice the %g nm that elements lie from their group's centre, so a rank "
                     "would receive its own elements; use 1 domain in %c%s, a smaller cut-off, a "
                     "larger box or smaller groups; where that distance is no molecule's size, an "
                     "element has jumped",
                     axis, count, edge / count, ceil(reach / edge * count), cutoff, margin_nm, axis,
                     more);
}

// The same inputs and so the same verdict on all ranks.
static int count_pulses(const struct domains *domains, double margin_nm, int pulses_of[3],
                        int *pulse_count)
{
    *pulse_count = 0;
    for (int c = 0; c < domains->cut_count; c++) {
        int d = domains->cut[c];
        pulses_of[d] = leat_pulses_needed(domains->grid[d], domains->edge_nm[d], domains->cutoff_nm,
                                          margin_nm);
        if (pulses_of[d] >= domains->grid[d] || 2 * domains->cutoff_nm > domains->edge_nm[d])
            return refuse_dimension(domains, d, margin_nm);
        *pulse_count += pulses_of[d];
    }
    return 0;
}

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
    double centre[3];
    leat_group_centre(x_nm, first, last, centre);
    for (int d = 0; d < 3; d++) {
        double slack = ROUNDING * domains->edge_nm[d];
        double lower = leat_domain_bound(domains, d, domains->cell[d]);
        double upper = leat_domain_bound(domains, d, domains->cell[d] + 1);
        if (centre[d] < lower - slack || centre[d] > upper + slack)
            return leat_fail(
                -EINVAL,
                "rank %d: group %u (elements %u to %u) has its centre at %c = %.9g nm, "
                "expected it in this rank's domain from %.9g to %.9g nm; call "
                "leat_halo_migrate first",
                domains->rank, g, first, last - 1, DIMENSION_NAMES[d], centre[d], lower, upper);
        for (uint32_t i = first; i < last; i++)
            *margin_nm = fmax(*margin_nm, fabs(x_nm[3 * (size_t)i + (size_t)d] - centre[d]));
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

// Before anything is agreed, with room for as many pulses as the grid can need: so that a lack of
// memory is part of the first verdict.
static int start_building(struct building *b, const leat_groups *groups, const double *x_nm)
{
    const struct domains *domains = &b->domains;
    uint32_t home_count = leat_groups_elements(groups);
    size_t most_pulses = 1;
    for (int c = 0; c < domains->cut_count; c++)
        most_pulses += (size_t)domains->grid[domains->cut[c]] - 1;
    struct leat_plan *plan = calloc(1, sizeof *plan);
    leat_pulse *pulse = calloc(most_pulses, sizeof *pulse);
    if (!plan || !pulse) {
        free(plan);
        free(pulse);
        return leat_fail(-ENOMEM, "no memory for a halo plan of %zu pulses", most_pulses);
    }
    plan->rank = domains->rank;
    plan->rank_count = domains->rank_count;
    plan->pulse = pulse;
    b->plan = plan;
    double longest = fmax(domains->edge_nm[0], fmax(domains->edge_nm[1], domains->edge_nm[2]));
    b->reach_nm = domains->cutoff_nm + ROUNDING * longest;
    int error = grow_elements(b, (size_t)home_count + 1);
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
    error = leat_agree(job, error);
    if (!error)
        error = leat_domains_agree(job, &b.domains, &margin_nm);
    if (!error)
        error = count_pulses(&b.domains, margin_nm, pulses_of, &pulse_count);
    if (!error) {
        b.plan->margin_nm = margin_nm;
        b.plan->pulse_count = pulse_count;
        error = run_pulses(&b, pulses_of);
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
