// SPDX-License-Identifier: Apache-2.0
// Constraints of all home atoms: waters in closed form, then other molecules in order.
//
// Advantage: who integrates asks once, and needs not know what holds a molecule together.
// Disadvantage: two passes over the atoms.

#include "md/rigid.h"

#include "core/error.h"
#include "md/dynamics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_alike(const struct md_molecule_type *type, struct md_constrainer **constrainer)
{
    struct md_molecule_type copy = *type;
    copy.atoms = malloc((size_t)type->atom_count * sizeof *copy.atoms);
    if (!copy.atoms)
        return leat_fail(-ENOMEM, "no memory for the constraints of molecule type %s", type->name);
    memcpy(copy.atoms, type->atoms, (size_t)type->atom_count * sizeof *copy.atoms);
    for (int i = 0; i < type->atom_count; i++)
        copy.atoms[i].mass_u = 1.0;
    int error = md_constrainer_make(&copy, MD_RIGID_TOLERANCE, constrainer);
    free(copy.atoms);
    return error;
}

int md_rigid_make(const struct md_topology *topology, bool alike,
                  struct md_constrainer ***constrainers)
{
    int count = topology->molecule_type_count, error = 0;
    struct md_constrainer **made = calloc((size_t)count + 1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for constraints");
    bool any = false;
    for (int t = 0; !error && t < count; t++) {
        const struct md_molecule_type *type = &topology->molecule_types[t];
        if (type->constraint_count == 0)
            continue;
        any = true;
        error = alike ? make_alike(type, &made[t])
                      : md_constrainer_make(type, MD_RIGID_TOLERANCE, &made[t]);
    }
    if (error || !any) {
        md_rigid_free(made, count);
        made = NULL;
    }
    if (!error)
        *constrainers = made;
    return error;
}

void md_rigid_free(struct md_constrainer **constrainers, int molecule_type_count)
{
    for (int t = 0; constrainers && t < molecule_type_count; t++)
        md_constrainer_free(constrainers[t]);
    free(constrainers);
}

bool md_rigid_any(const struct md_rigid *rigid)
{
    return rigid->waters.count > 0 || rigid->constrainer;
}

// One of the three things that are done to a molecule.
struct task {
    enum { STEP, POSITIONS, VELOCITIES } kind;
    const int64_t *id;
    const double *x;
    double *to;
    double dt_ps, *virial;
};

static int apply(const struct task *task, const struct md_constrainer *constrainer, int64_t first)
{
    const int64_t *id = task->id + first;
    const double *x = task->x + 3 * first;
    double *to = task->to + 3 * first;
    if (task->kind == STEP)
        return md_constrain_step(constrainer, id, x, to, task->dt_ps, task->virial);
    if (task->kind == POSITIONS)
        return md_constrain_positions(constrainer, id, x, to);
    return md_constrain_velocities(constrainer, id, x, to, task->dt_ps, task->virial);
}

static int for_molecules(const struct md_rigid *rigid, const struct task *task)
{
    for (uint32_t s = 0; rigid->constrainer && s < rigid->stretch_count; s++) {
        const struct md_stretch *stretch = &rigid->stretch[s];
        const struct md_constrainer *constrainer = rigid->constrainer[stretch->molecule_type];
        for (int m = 0; constrainer && m < stretch->count; m++) {
            int error =
                apply(task, constrainer, stretch->first_atom + (int64_t)m * stretch->atoms_each);
            if (error)
                return error;
        }
    }
    return 0;
}

int md_rigid_step(const struct md_rigid *rigid, const int64_t *id, const double *x, double *v,
                  double dt_ps, double *virial)
{
    const struct task task = {STEP, id, x, v, dt_ps, virial};
    int error = md_settle_step(&rigid->waters, id, x, v, dt_ps, virial);
    return error ? error : for_molecules(rigid, &task);
}

int md_rigid_positions(const struct md_rigid *rigid, const int64_t *id, const double *x_old,
                       double *x)
{
    const struct task task = {POSITIONS, id, x_old, x, 0.0, NULL};
    int error = md_settle(&rigid->waters, id, x_old, x, NULL, 0.0, NULL);
    return error ? error : for_molecules(rigid, &task);
}

int md_rigid_velocities(const struct md_rigid *rigid, const int64_t *id, const double *x, double *v)
{
    const struct task task = {VELOCITIES, id, x, v, 0.0, NULL};
    md_settle_velocities(&rigid->waters, x, v);
    return for_molecules(rigid, &task);
}
