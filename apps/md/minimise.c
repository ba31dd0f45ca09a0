// SPDX-License-Identifier: Apache-2.0
// Steepest descent, with steps as GROMACS' manual has them ("Energy Minimization").
//
// Algorithm: every atom moves along its force, the one with the largest force by h. Where that
// lowers the potential, the step is kept and h grows by a fifth; else it is taken back and h falls
// to a fifth. Constraints hold at each point, and only what of the forces they leave counts, all
// atoms being equally heavy. The partition is made anew, at the lowest point so far, before an atom
// moves further than the list allows. Advantage: no force is too large, since only its direction
// counts beyond h, so overlaps come apart; and all ranks decide by the same sums. Disadvantage:
// slow near a minimum, where other methods are better.
//
// The force at the lowest point travels in the place of the velocities, of which there are none.

#include "core/error.h"
#include "core/log.h"
#include "md/md.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GROWTH = 1.2, SHRINKAGE = 0.2;

struct descent {
    struct md_rank *rank;
    double h_nm, most_h_nm, least_h_nm;
    double *best_nm; // positions of the lowest point so far, [3 * home atoms]
    int capacity;
    double potential, most_force;
    bool away; // coordinates and forces at hand are not those of the lowest point
};

static size_t values(const struct descent *descent)
{
    return 3 * (size_t)descent->rank->domain.atoms.count;
}

static int reserve(struct descent *descent)
{
    int count = descent->rank->domain.atoms.count;
    if (descent->best_nm && count <= descent->capacity)
        return 0;
    size_t wanted = (size_t)count + (size_t)count / 8 + 64;
    double *grown = realloc(descent->best_nm, 3 * wanted * sizeof *grown);
    if (!grown)
        return leat_fail(-ENOMEM, "no memory for the positions of %d atoms", count);
    descent->best_nm = grown;
    descent->capacity = (int)wanted;
    return 0;
}

static void remember(struct descent *descent)
{
    if (descent->best_nm)
        memcpy(descent->best_nm, descent->rank->domain.atoms.x_nm,
               values(descent) * sizeof *descent->best_nm);
}

// Molecules to their ranks; the coordinates at hand have to be the lowest point's.
static int partition(struct descent *descent)
{
    int error = md_domain_partition(descent->rank);
    if (!error)
        error = md_agree(descent->rank, reserve(descent));
    if (!error)
        remember(descent);
    return error;
}

static void go_back(struct descent *descent)
{
    memcpy(descent->rank->domain.atoms.x_nm, descent->best_nm,
           values(descent) * sizeof *descent->best_nm);
}

static double length2(const double *a)
{
    return a[0] * a[0] + a[1] * a[1] + a[2] * a[2];
}

// The largest force, infinite where one is no number; and the lowest number of an atom that has it.
static int find_most(struct md_rank *rank, const double *force, double *most, int64_t *atom)
{
    const struct md_atoms *atoms = &rank->domain.atoms;
    double square = 0.0, first = -HUGE_VAL;
    for (int64_t i = 0; i < atoms->count; i++) {
        double own = length2(force + 3 * i);
        square = own <= DBL_MAX ? fmax(square, own) : HUGE_VAL;
        if (square == HUGE_VAL)
            break;
    }
    double largest = square;
    int error = md_most(rank, &largest, 1);
    *most = sqrt(largest);
    if (error || !atom)
        return error;
    for (int64_t i = 0; i < atoms->count; i++) {
        double own = length2(force + 3 * i);
        if (largest == HUGE_VAL ? !(own <= DBL_MAX) : own >= largest)
            first = fmax(first, -(double)atoms->id[i]);
    }
    error = md_most(rank, &first, 1);
    *atom = (int64_t)-first;
    return error;
}

// What the constraints leave of the forces, into the domain's scratch.
static int project(struct descent *descent)
{
    struct md_domain *domain = &descent->rank->domain;
    memcpy(domain->scratch, domain->atoms.f, values(descent) * sizeof *domain->scratch);
    return md_rigid_velocities(&domain->rigid, domain->id, domain->atoms.x_nm, domain->scratch);
}

static void keep(struct descent *descent, double most_force)
{
    struct md_domain *domain = &descent->rank->domain;
    remember(descent);
    memcpy(domain->atoms.v_nm_ps, domain->scratch, values(descent) * sizeof *domain->scratch);
    descent->potential = descent->rank->energy.potential;
    descent->most_force = most_force;
    descent->away = false;
}

static int fail_infinite(struct md_rank *rank, int64_t atom)
{
    rank->alike = true;
    return leat_fail(-EBADMSG,
                     "the force on atom %lld is not finite at the start: it is on top of another; "
                     "move one of them%s",
                     (long long)atom + 1,
                     rank->options->precision == MD_DOUBLE
                         ? ""
                         : ", or use --precision double, which goes on where they only nearly are");
}

static int begin(struct descent *descent)
{
    struct md_rank *rank = descent->rank;
    struct md_terms terms;
    int64_t atom = 0;
    double most_force = 0.0;
    int error = partition(descent);
    if (!error)
        error = md_evaluate(rank, false, &terms);
    if (!error)
        error = find_most(rank, rank->domain.atoms.f, &most_force, &atom);
    if (!error && !(most_force < HUGE_VAL))
        return fail_infinite(rank, atom);
    if (!error)
        error = md_energy_sum(rank, &terms, 0.0);
    if (!error)
        error = md_agree(rank, project(descent));
    if (!error)
        error = find_most(rank, rank->domain.scratch, &most_force, NULL);
    if (!error)
        keep(descent, most_force);
    return error;
}

// Moves the coordinates at hand; 1 where an atom goes further than the list allows, 2 where a
// constraint cannot follow, on any rank.
static int move(struct descent *descent, double *verdict)
{
    struct md_domain *domain = &descent->rank->domain;
    double factor = descent->most_force > 0.0 ? descent->h_nm / descent->most_force : 0.0;
    double reach = 0.5 * descent->rank->system.skin_nm;
    for (size_t k = 0; k < values(descent); k++)
        domain->atoms.x_nm[k] = descent->best_nm[k] + factor * domain->atoms.v_nm_ps[k];
    *verdict = 0.0;
    if (md_rigid_positions(&domain->rigid, domain->id, descent->best_nm, domain->atoms.x_nm))
        *verdict = 2.0;
    for (int64_t i = 0; i < domain->atoms.count && *verdict < 1.0; i++) {
        const double *x = domain->atoms.x_nm + 3 * i, *from = domain->x_listed + 3 * i;
        const double d[3] = {x[0] - from[0], x[1] - from[1], x[2] - from[2]};
        if (!(length2(d) <= reach * reach))
            *verdict = 1.0;
    }
    descent->away = true;
    return md_most(descent->rank, verdict, 1);
}

// One step; `lower` where it has been kept.
static int try_step(struct descent *descent, bool *lower)
{
    struct md_rank *rank = descent->rank;
    struct md_terms terms;
    double verdict, most_force = 0.0;
    *lower = false;
    int error = move(descent, &verdict);
    if (!error && verdict == 1.0) {
        go_back(descent);
        error = partition(descent);
        if (!error)
            error = move(descent, &verdict);
    }
    // From where the list was made that is too long a step.
    if (error || verdict > 0.0)
        return error;
    md_domain_image(rank);
    error = md_evaluate(rank, true, &terms);
    if (!error)
        error = md_energy_add(rank, &terms, 0.0);
    if (error || !(rank->energy.potential < descent->potential))
        return error;
    error = md_agree(rank, project(descent));
    if (!error)
        error = find_most(rank, rank->domain.scratch, &most_force, NULL);
    if (error || !(most_force < HUGE_VAL))
        return error;
    *lower = true;
    keep(descent, most_force);
    error = md_energy_watch(rank);
    return error ? error : md_energies_add(rank);
}

// The lowest point is what is written and reported.
static int end(struct descent *descent)
{
    struct md_rank *rank = descent->rank;
    struct md_domain *domain = &rank->domain;
    struct md_terms terms;
    int error = 0;
    if (descent->away) {
        go_back(descent);
        error = partition(descent);
        if (!error)
            error = md_evaluate(rank, false, &terms);
        if (!error)
            error = md_energy_sum(rank, &terms, 0.0);
    }
    struct md_minimum *minimum = &rank->minimum;
    minimum->reached = descent->most_force < rank->system.settings.emtol_kj_mol_nm;
    if (!error)
        error = find_most(rank, domain->atoms.v_nm_ps, &minimum->most_force, &minimum->atom);
    memset(domain->atoms.v_nm_ps, 0, values(descent) * sizeof *domain->atoms.v_nm_ps);
    if (!error && !minimum->reached && rank->rank == 0)
        leat_log(
            LOG_WARN, LOG_WARN, -1,
            "the minimisation ends after %lld steps with a force of %g kJ/mol/nm on atom %lld; "
            "emtol = %g is not reached",
            (long long)rank->step, minimum->most_force, (long long)minimum->atom + 1,
            rank->system.settings.emtol_kj_mol_nm);
    return error ? error : md_collect(rank);
}

static int descend(struct descent *descent, struct md_progress *progress)
{
    struct md_rank *rank = descent->rank;
    const struct md_settings *settings = &rank->system.settings;
    int error = begin(descent);
    md_clock_start(&rank->clock);
    while (!error && rank->step < settings->steps &&
           descent->most_force >= settings->emtol_kj_mol_nm &&
           descent->h_nm > descent->least_h_nm) {
        bool lower;
        rank->step++;
        error = try_step(descent, &lower);
        descent->h_nm *= lower ? GROWTH : SHRINKAGE;
        descent->h_nm = fmin(descent->h_nm, descent->most_h_nm);
        md_clock_step(&rank->clock);
        md_progress_step(progress, rank->step);
    }
    if (!error)
        error = end(descent);
    return error ? leat_fail_in(error, "step %lld of the minimisation", (long long)rank->step) : 0;
}

int md_minimise(struct md_rank *rank, struct md_progress *progress)
{
    const struct md_settings *settings = &rank->system.settings;
    // Displacements below it are lost in coordinates of this precision.
    double least_nm = rank->options->precision == MD_DOUBLE ? 1e-12 : 1e-6;
    struct descent descent = {.rank = rank, .least_h_nm = least_nm};
    descent.most_h_nm = 0.45 * rank->system.skin_nm;
    descent.h_nm = fmin(settings->emstep_nm, descent.most_h_nm);
    memset(rank->domain.atoms.v_nm_ps, 0, values(&descent) * sizeof *rank->domain.atoms.v_nm_ps);
    memset(rank->ekin_before, 0, sizeof rank->ekin_before);
    memset(rank->ekin_after, 0, sizeof rank->ekin_after);
    rank->looping = true;
    int error = descend(&descent, progress);
    free(descent.best_nm);
    return error;
}
