// SPDX-License-Identifier: Apache-2.0
// Constraints of one molecule, cluster by cluster.
//
// Algorithm: that of constrain_cluster.inc, on bonds and differences of velocities, never on places
// in the box. Advantage: a molecule's result depends on nothing else, and a large box takes no
// digits from it. Disadvantage: no vector instructions; a cluster too large for the stack asks for
// memory at each call.

#include "md/constrain.h"

#include "core/error.h"
#include "md/constrain_plan.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define G_FN static inline
#include "md/constrain_cluster.inc"

enum { STACK_SCRATCH = 2048 };

enum task { TASK_STEP, TASK_POSITIONS, TASK_VELOCITIES };

struct call {
    const struct md_constrainer *constrainer;
    const int64_t *id;
    enum task task;
    const double *x_old;
    double *to; // what is corrected
    double dt_ps, *virial;
};

static double length(const double *a)
{
    return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
}

static int refuse(const struct call *call, const struct g_cluster *c, int32_t bar)
{
    long long a = (long long)call->id[c->atom[c->bars[bar].a]] + 1;
    long long b = (long long)call->id[c->atom[c->bars[bar].b]] + 1;
    return leat_fail(-EDOM,
                     "atoms %lld and %lld of a molecule of '%s' cannot be kept %.6g nm apart, from "
                     "%.6g nm and last tried at %.6g nm: expected a whole molecule whose bonds "
                     "turn less than a quarter, and constraints of which none follows from the "
                     "others; minimise the start's energy, shorten dt, make the input's molecules "
                     "whole or leave a constraint out",
                     a, b, call->constrainer->name, sqrt(c->bars[bar].length2),
                     length(c->old + 3 * (ptrdiff_t)bar), length(c->now + 3 * (ptrdiff_t)bar));
}

static void gather(const struct call *call, const struct g_cluster *c)
{
    for (int32_t k = 0; k < c->plan->bar_count; k++) {
        struct g_vector old = g_bar_of(c, k, call->x_old), given = g_bar_of(c, k, call->to);
        if (call->task == TASK_STEP)
            given = g_combine(1.0, old, call->dt_ps, given);
        g_put(c->old + 3 * (ptrdiff_t)k, old);
        g_put(c->given + 3 * (ptrdiff_t)k, given);
        g_put(c->now + 3 * (ptrdiff_t)k, old);
    }
}

static int constrain_cluster(const struct call *call, int32_t number, double *scratch)
{
    struct g_cluster c;
    g_cluster_set(&call->constrainer->tables, number, scratch, &c);
    gather(call, &c);
    int32_t fault = call->task == TASK_VELOCITIES ? g_cluster_project(&c) : g_cluster_newton(&c);
    if (fault != G_CONSTRAINED)
        return refuse(call, &c, fault);
    double dt = call->dt_ps;
    g_cluster_push(&c, call->task == TASK_STEP ? 1.0 / dt : 1.0, call->to);
    if (call->virial)
        g_cluster_virial(&c, call->task == TASK_STEP ? 1.0 / (dt * dt) : 2.0 / dt, call->virial);
    return 0;
}

static int constrain_all(const struct call *call)
{
    const struct md_constraint_tables *tables = &call->constrainer->tables;
    double stack[STACK_SCRATCH], *scratch = stack;
    if (tables->scratch_count > STACK_SCRATCH) {
        scratch = malloc((size_t)tables->scratch_count * sizeof *scratch);
        if (!scratch)
            return leat_fail(-ENOMEM, "no memory for the constraints of a molecule of '%s'",
                             call->constrainer->name);
    }
    int error = 0;
    for (int32_t number = 0; !error && number < tables->cluster_count; number++)
        error = constrain_cluster(call, number, scratch);
    if (scratch != stack)
        free(scratch);
    return error;
}

static int check_step(double dt_ps)
{
    if (!(dt_ps > 0.0) || !isfinite(dt_ps))
        return leat_fail(-EINVAL, "time step %g ps: expected a positive number", dt_ps);
    return 0;
}

int md_constrain_step(const struct md_constrainer *constrainer, const int64_t *id, const double *x,
                      double *v, double dt_ps, double *virial)
{
    struct call call = {constrainer, id, TASK_STEP, x, v, dt_ps, virial};
    int error = check_step(dt_ps);
    return error ? error : constrain_all(&call);
}

int md_constrain_positions(const struct md_constrainer *constrainer, const int64_t *id,
                           const double *x_old, double *x)
{
    struct call call = {constrainer, id, TASK_POSITIONS, x_old, x, 1.0, NULL};
    return constrain_all(&call);
}

int md_constrain_velocities(const struct md_constrainer *constrainer, const int64_t *id,
                            const double *x, double *v, double dt_ps, double *virial)
{
    struct call call = {constrainer, id, TASK_VELOCITIES, x, v, dt_ps, virial};
    int error = virial ? check_step(dt_ps) : 0;
    return error ? error : constrain_all(&call);
}
