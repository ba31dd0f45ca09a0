// SPDX-License-Identifier: Apache-2.0
// One pulse of a plan that is being built.
//
// Algorithm: a ghost pairs with elements that crossed none of its dimensions, so its partner lies
// below the receiver's upper bound in each of them: in a cone with as many faces, whose corner is
// the receiver's. An element travels when its distance from that cone is within the cut-off. The
// distance is that from the best of all the cone's faces, edges and its corner, which in a tilted
// box are not at right angles. The cone of a rank on the way holds the cones of all behind it, so
// what is forwarded is never stopped before where it is needed. Advantage: exact in boxes of every
// shape, and the same rule whether forwarded or sent directly. Disadvantage: in a tilted box up to
// seven candidates an element.

#include "halo/decompose.h"
#include "halo/letter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A letter: this, then count positions (3 doubles each, shifted already), then count zone bytes.
struct pulse_letter {
    uint64_t magic;
    int32_t pulse, failed; // failed: the sender has an error and takes part for the others' sake
    uint32_t count, unused;
};

#define PULSE_MAGIC   0x65736c7570746165ULL
#define ELEMENT_BYTES (3 * sizeof(double) + 1)

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

int building_grow(struct building *b, size_t elements)
{
    if (elements > UINT32_MAX)
        return leat_fail(-EOVERFLOW,
                         "%zu elements with ghosts on one rank, but they are counted in 32 bits; "
                         "use more ranks",
                         elements);
    size_t zones = b->element_capacity;
    int error = grow(&b->plan->zone, &zones, elements, 1, "zones");
    if (!error)
        error = grow(&b->x_nm, &b->element_capacity, elements, 3 * sizeof(double), "positions");
    return error;
}

// ---- What travels ----

static unsigned crossed_dimensions(const int displacement[3])
{
    unsigned crossed = 0;
    for (int d = 0; d < 3; d++)
        crossed |= (unsigned)(displacement[d] > 0) << d;
    return crossed;
}

// The corner where three faces meet: weights of the normals whose sum leads there.
static double corner_distance2(const struct box_shape *box, const double beyond[3])
{
    const double(*c)[3] = box->cosine;
    double sum = 0;
    for (int d = 0; d < 3; d++) {
        int e = (d + 1) % 3, f = (d + 2) % 3;
        double weight = beyond[d] * (1 - c[e][f] * c[e][f]) +
                        beyond[e] * (c[d][f] * c[e][f] - c[d][e]) +
                        beyond[f] * (c[d][e] * c[e][f] - c[d][f]);
        if (!(weight > 0))
            return 0;
        sum += weight * beyond[d];
    }
    return sum / box->independence;
}

// Squared distance from a cone of a point that lies so far beyond each of its faces, those of the
// dimensions in `crossed`. Each candidate with no negative weight is a lower bound, and one of them
// is it.
static double cone_distance2(const struct box_shape *box, unsigned crossed, const double beyond[3])
{
    double largest = 0;
    for (int d = 0; d < 3; d++) {
        if (!(crossed >> d & 1))
            continue;
        if (beyond[d] > 0)
            largest = fmax(largest, beyond[d] * beyond[d]);
        for (int e = 0; e < d; e++) {
            double cosine = box->cosine[d][e];
            if (!(crossed >> e & 1) || !(beyond[d] - cosine * beyond[e] > 0) ||
                !(beyond[e] - cosine * beyond[d] > 0))
                continue;
            double edge =
                beyond[e] * beyond[e] + beyond[d] * beyond[d] - 2 * cosine * beyond[d] * beyond[e];
            largest = fmax(largest, edge / (1 - cosine * cosine));
        }
    }
    return crossed == 7 ? fmax(largest, corner_distance2(box, beyond)) : largest;
}

// Of an element from the cone of what any partner at the receiver can be in; its faces lie at these
// heights, for this rank's coordinates.
static double partner_distance2(const struct building *b, uint32_t element, unsigned crossed,
                                const double face[3])
{
    double beyond[3] = {0, 0, 0};
    for (int d = 0; d < 3; d++)
        if (crossed >> d & 1)
            beyond[d] =
                leat_box_height(&b->domains.box, d, b->x_nm + 3 * (size_t)element) - face[d];
    return cone_distance2(&b->domains.box, crossed, beyond);
}

static int select_elements(struct building *b, leat_pulse *pulse, const struct hop *hop)
{
    int error = grow(&b->plan->index, &b->index_capacity, b->index_count + (hop->last - hop->first),
                     sizeof *b->plan->index, "indices");
    if (error)
        return error;
    double face[3];
    for (int d = 0; d < 3; d++)
        face[d] = leat_domain_bound(&b->domains, d, b->domains.cell[d] + 1 - hop->displacement[d]) +
                  b->plan->margin_nm;
    unsigned crossed = crossed_dimensions(hop->displacement);
    uint32_t *index = b->plan->index + b->index_count;
    uint32_t count = 0;
    pulse->dependent_start = 0;
    for (uint32_t i = hop->first; i < hop->last; i++) {
        if (!(partner_distance2(b, i, crossed | b->plan->zone[i], face) <
              b->reach_nm * b->reach_nm))
            continue;
        index[count++] = i;
        pulse->dependent_start += i < b->plan->home_count;
    }
    pulse->send_count = count;
    b->index_count += count;
    return 0;
}

// ---- Letters ----

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

static int read_letter(struct building *b, int p, const struct hop *hop, const void *data,
                       uint64_t bytes)
{
    leat_pulse *pulse = &b->plan->pulse[p];
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
    int error = building_grow(b, (size_t)plan->element_count + head.count);
    if (error)
        return error;
    const unsigned char *x = (const unsigned char *)data + sizeof head;
    const unsigned char *zone = x + (size_t)head.count * 3 * sizeof(double);
    memcpy(b->x_nm + 3 * (size_t)plan->element_count, x, (size_t)head.count * 3 * sizeof(double));
    for (uint32_t i = 0; i < head.count; i++)
        plan->zone[plan->element_count + i] =
            (uint8_t)(zone[i] | crossed_dimensions(hop->displacement));
    pulse->recv_count = head.count;
    plan->element_count += head.count;
    return 0;
}

// ---- The whole ----

static void frame_pulse(const struct domains *domains, const int displacement[3], leat_pulse *pulse)
{
    int below[3], above[3];
    *pulse = (leat_pulse){.direction = -1};
    for (int c = domains->crossed_count - 1; c >= 0; c--)
        if (displacement[domains->crossed[c]] > 0)
            pulse->dimension = domains->crossed[c];
    for (int d = 0; d < 3; d++) {
        below[d] = domains->cell[d] - displacement[d];
        above[d] = domains->cell[d] + displacement[d];
        leat_domain_wrap(domains, d, &above[d]);
        // What crosses the box's boundary arrives above its receiver, not at the other end.
        int boxes = -leat_domain_wrap(domains, d, &below[d]);
        for (int e = 0; e <= d; e++)
            pulse->shift_nm[e] += boxes * domains->box.vector_nm[d][e];
    }
    pulse->send_rank = leat_domain_rank(domains, below);
    pulse->recv_rank = leat_domain_rank(domains, above);
}

int building_pulse(struct building *b, int p, const struct hop *hop)
{
    leat_pulse *pulse = &b->plan->pulse[p];
    struct pulse_letter empty = {.magic = PULSE_MAGIC, .pulse = p, .failed = 1};
    const void *letter = &empty;
    size_t bytes = 0;
    frame_pulse(&b->domains, hop->displacement, pulse);
    pulse->recv_offset = b->plan->element_count;
    if (!b->error)
        b->error = select_elements(b, pulse, hop);
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
    int lost = leat_letter_swap(b->job, pulse->send_rank, letter, bytes, pulse->recv_rank, &data,
                                &received);
    if (lost)
        leat_fail_in(lost, "building a plan, pulse %d to rank %d and from rank %d", p,
                     pulse->send_rank, pulse->recv_rank);
    if (leat_letter_is_lost(lost))
        return lost;
    if (!b->error)
        b->error = lost;
    if (!b->error)
        b->error = read_letter(b, p, hop, data, received);
    return 0;
}
