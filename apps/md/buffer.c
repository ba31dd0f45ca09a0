// SPDX-License-Identifier: Apache-2.0
// Buffer of the pair list from the tolerance on the energy error.
//
// Pairs that are beyond the list cut-off when the list is built may be within the interaction
// cut-off before the next. With u, by how much a pair has come nearer, and the potential expanded
// at the cut-off, the error of a pair of kinds is
//     4 pi (r_list + sigma)^2 density  sum over n of (-1)^n V^(n)(r_c) J_{n+1}(r_list - r_c),
//     J_n(b) = integral over u > b of (u - b)^n / n! p(u) du,
// which for a Gaussian p is the formula of the GROMACS manual. Atoms on rigid bonds get p from
// their motion instead of an approximation: turned by a Rayleigh angle about the centre of mass,
// they are displaced by a chord of random direction, so its part along the line between the pair is
// uniform up to the chord's length. Advantage: no fitted constant, and displacements end where the
// bond ends them. Disadvantage: free flight overestimates how far atoms in a liquid get, so lists
// are longer than need be.

#include "md/nonbonded.h"
#include "md/settings.h" // Boltzmann's constant

#include <math.h>

#define PI 3.14159265358979323846

enum {
    ROTOR_BINS = 40,
    TERMS = 4,
    HALVINGS_MAX = 64, // LONGEST_NM takes 34
};

static const double LONGEST_NM = 1e6; // beyond any box

// How an atom moves: with the centre of mass of its bond, and around it.
struct motion {
    double variance;          // of the first, along a line
    double reach_nm;          // twice the arm; 0 without a bond
    double share[ROTOR_BINS]; // probability that the second is within a bin of [0, reach_nm]
    double rotor_variance;
};

static struct motion motion_of(const struct md_kind *kind, double kt, double time_ps)
{
    struct motion motion = {0};
    const double m = kind->mass_u, partner = kind->partner_mass_u;
    if (!(kind->bond_nm > 0) || !(partner > 0)) {
        motion.variance = kt / m * time_ps * time_ps;
        return motion;
    }
    const double arm = kind->bond_nm * partner / (m + partner);
    const double angle = sqrt(kt * partner / (m * (m + partner))) * time_ps / arm;
    const double bin = 2 * arm / ROTOR_BINS, step = 0.02;
    motion.variance = kt / (m + partner) * time_ps * time_ps;
    motion.reach_nm = 2 * arm;
    double total = 0;
    for (double r = 0.5 * step; r < 8; r += step) {
        const double weight = r * exp(-0.5 * r * r);
        const double chord = fabs(2 * arm * sin(0.5 * angle * r));
        total += weight;
        motion.rotor_variance += weight * chord * chord / 3;
        for (int k = 0; k < ROTOR_BINS && k * bin <= chord; k++)
            motion.share[k] += weight * (chord > bin ? fmin(1, chord / bin - k) * bin / chord : 1);
    }
    motion.rotor_variance /= total;
    for (int k = 0; k < ROTOR_BINS; k++)
        motion.share[k] /= total;
    return motion;
}

// Adds weight * J_1..J_TERMS of a Gaussian; J_n = (variance J_{n-2} - b J_{n-1}) / n.
static void add_tail(double variance, double b, double weight, double tail[TERMS])
{
    double before = exp(-0.5 * b * b / variance) / sqrt(2 * PI * variance);
    double last = 0.5 * erfc(b / sqrt(2 * variance));
    for (int n = 1; n <= TERMS; n++) {
        const double next = (variance * before - b * last) / n;
        before = last;
        last = next;
        tail[n - 1] += weight * fmax(next, 0); // the difference may round below zero
    }
}

// The same with the rotation of up to two atoms: b is moved by their displacements.
static void add_rotor_tail(const struct motion *a, const struct motion *b, double variance,
                           double buffer, double weight, double tail[TERMS])
{
    if (a->reach_nm == 0) {
        if (b && b->reach_nm > 0)
            add_rotor_tail(b, NULL, variance, buffer, weight, tail);
        else
            add_tail(variance, buffer, weight, tail);
        return;
    }
    const double bin = a->reach_nm / ROTOR_BINS;
    for (int k = 0; k < ROTOR_BINS; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double moved = buffer - sign * (k + 0.5) * bin;
            const double part = 0.5 * weight * a->share[k];
            if (part < 1e-12 * weight)
                continue;
            if (b && b->reach_nm > 0)
                add_rotor_tail(b, NULL, variance, moved, part, tail);
            else
                add_tail(variance, moved, part, tail);
        }
}

// Potential of a pair of kinds and its first derivatives at the cut-off.
static void derivatives(const struct md_interaction *interaction, const struct md_kind *a,
                        const struct md_kind *b, double v[TERMS])
{
    const int pair = a->type * interaction->type_count + b->type;
    const double r = interaction->cutoff_nm, c6 = interaction->c6[pair],
                 c12 = interaction->c12[pair];
    const double qq = interaction->coulomb * a->charge_e * b->charge_e;
    const double r6 = c6 * pow(r, -6), r12 = c12 * pow(r, -12);
    v[0] = interaction->shift ? 0 : r12 - r6;
    v[0] += qq * (1 / r + interaction->krf * r * r - interaction->crf);
    v[1] = (6 * r6 - 12 * r12) / r + qq * (-1 / (r * r) + 2 * interaction->krf * r);
    v[2] = (156 * r12 - 42 * r6) / (r * r) + qq * (2 / (r * r * r) + 2 * interaction->krf);
    v[3] = (336 * r6 - 2184 * r12) / (r * r * r) - 6 * qq / (r * r * r * r);
}

/*
 * Share of pairs at the list cut-off that a list of clusters of four lacks on one side. Four atoms
 * on a tetrahedron: directions from one of them, as seen from which no other atom of the cluster
 * lies further out. `ratio` is half the edge over the list cut-off; integrated around the
 * tetrahedron's axis in closed form and over the cosine with it by the midpoint rule.
 */
static double uncovered_share(double ratio)
{
    enum { POINTS = 400 };
    const double axis_cos = sqrt(2.0 / 3), axis_sin = sqrt(1.0 / 3);
    double sum = 0;
    for (int k = 0; k < POINTS; k++) {
        const double c = -1 + (k + 0.5) * 2 / POINTS, s = sqrt(1 - c * c);
        const double limit = (ratio - axis_cos * c) / (axis_sin * s);
        const double covered = limit >= 1 ? 0 : limit <= 0.5 ? PI / 3 : acos(limit);
        sum += 1 - covered / (PI / 3);
    }
    return sum / POINTS;
}

struct estimate {
    const struct md_interaction *interaction;
    int kind_count;
    const struct md_kind *kinds;
    double kt, time_ps, life_ps, volume_nm3, atom_count;
};

static double pair_error(const struct estimate *e, int i, int j, double buffer)
{
    const struct md_kind *a = &e->kinds[i], *b = &e->kinds[j];
    const struct motion of_a = motion_of(a, e->kt, e->time_ps);
    const struct motion of_b = motion_of(b, e->kt, e->time_ps);
    const double variance = of_a.variance + of_b.variance;
    const double sigma = sqrt(variance + of_a.rotor_variance + of_b.rotor_variance);
    double tail[TERMS] = {0}, v[TERMS], sum = 0;
    add_rotor_tail(&of_a, &of_b, variance, buffer, 1, tail);
    derivatives(e->interaction, a, b, v);
    for (int n = 0; n < TERMS; n++)
        sum += (n % 2 ? -1 : 1) * v[n] * tail[n];
    const double pairs = i == j ? 0.5 * a->number * fmax(a->number - 1, 0) : a->number * b->number;
    const double shell = e->interaction->cutoff_nm + buffer + sigma;
    return fabs(sum) * pairs * 4 * PI * shell * shell / e->volume_nm3;
}

// Error per atom and time with this buffer.
static double error_rate(const struct estimate *e, double buffer)
{
    double sum = 0;
    for (int i = 0; i < e->kind_count; i++)
        for (int j = i; j < e->kind_count; j++)
            sum += pair_error(e, i, j, buffer);
    const double spacing = cbrt(sqrt(2) * e->volume_nm3 / e->atom_count); // closest packing
    const double share = uncovered_share(0.5 * spacing / (e->interaction->cutoff_nm + buffer));
    return sum * share * share / (e->life_ps * e->atom_count);
}

double md_list_cutoff(const struct md_interaction *interaction, double tolerance, int nstlist,
                      double dt_ps, double temperature_k, int kind_count,
                      const struct md_kind *kinds, double volume_nm3)
{
    struct estimate e = {
        .interaction = interaction,
        .kind_count = kind_count,
        .kinds = kinds,
        .kt = MD_BOLTZMANN * temperature_k,
        .time_ps = (nstlist - 1) * dt_ps, // the last step that uses the list
        .life_ps = nstlist * dt_ps,
        .volume_nm3 = volume_nm3,
    };
    double high = 0;
    for (int k = 0; k < kind_count; k++) {
        e.atom_count += kinds[k].number;
        if (nstlist > 1 && kinds[k].number > 0)
            high = fmax(high, 12 * sqrt(e.kt / kinds[k].mass_u) * e.time_ps);
    }
    if (high > 0 && !isfinite(high))
        return HUGE_VAL;
    if (!(high > 0) || !(e.atom_count > 0) || error_rate(&e, 0) <= tolerance)
        return interaction->cutoff_nm;
    // Also what has overflowed, and what halving could not bring down to the accuracy below.
    if (!(high < LONGEST_NM))
        return HUGE_VAL;
    double low = 0;
    for (int halving = 0; halving < HALVINGS_MAX && high - low > 1e-4; halving++) {
        const double middle = 0.5 * (low + high);
        if (error_rate(&e, middle) > tolerance)
            low = middle;
        else
            high = middle;
    }
    return interaction->cutoff_nm + high;
}
