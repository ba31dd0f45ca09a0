// SPDX-License-Identifier: Apache-2.0
// Coordinates and velocities at the start.
//
// As GROMACS does without `continuation`: the file's coordinates are put onto the constraints, the
// velocities are taken as those at the start, freed of what the constraints forbid, and then moved
// half a step back by looking at where the atoms would have come from. Advantage: the first step is
// like every other. Disadvantage: a run cut in two by a file differs from one that was not, by the
// file's digits and by half a step of the velocities.
//
// Generated velocities are scaled to the temperature after the constraints have taken their share,
// so the temperature is exact, where GROMACS hits it on average.

#include "core/error.h"
#include "md/md.h"

#include <math.h>
#include <string.h>

int md_stop_centre(struct md_rank *rank)
{
    double sum[4];
    md_momentum(&rank->domain.atoms, sum, sum + 3);
    int error = md_sum(rank, sum, 4);
    if (error || !(sum[3] > 0.0))
        return error;
    double velocity[3] = {sum[0] / sum[3], sum[1] / sum[3], sum[2] / sum[3]};
    md_remove_velocity(&rank->domain.atoms, velocity);
    md_kinetic(&rank->domain.atoms, rank->ekin_after);
    rank->ekin_half -= 0.5 * (sum[0] * velocity[0] + sum[1] * velocity[1] + sum[2] * velocity[2]);
    return 0;
}

static void scale(double *v, int atoms, double factor)
{
    for (int64_t i = 0; i < 3 * (int64_t)atoms; i++)
        v[i] *= factor;
}

static int generate(struct md_rank *rank)
{
    struct md_atoms *atoms = &rank->domain.atoms;
    const struct md_settings *settings = &rank->system.settings;
    md_generate_velocities(atoms, settings->gen_temp_k, settings->gen_seed);
    int error = md_agree(
        rank, md_rigid_velocities(&rank->domain.rigid, atoms->id, atoms->x_nm, atoms->v_nm_ps));
    if (!error && settings->remove_com)
        error = md_stop_centre(rank);
    if (error)
        return error;
    md_kinetic(atoms, rank->ekin_after);
    error = md_kinetic_sum(rank);
    if (error || !(rank->ekin_half > 0.0) || !(rank->system.degrees > 0.0))
        return error;
    double wanted = 0.5 * rank->system.degrees * MD_BOLTZMANN * settings->gen_temp_k;
    scale(atoms->v_nm_ps, atoms->count, sqrt(wanted / rank->ekin_half));
    return 0;
}

static int half_step_back(struct md_rank *rank)
{
    struct md_atoms *atoms = &rank->domain.atoms;
    scale(atoms->v_nm_ps, atoms->count, -1.0);
    int error = md_rigid_step(&rank->domain.rigid, atoms->id, atoms->x_nm, atoms->v_nm_ps,
                              rank->system.settings.dt_ps, NULL);
    scale(atoms->v_nm_ps, atoms->count, -1.0);
    return error;
}

static int constrain(struct md_rank *rank)
{
    struct md_atoms *atoms = &rank->domain.atoms;
    int error = md_rigid_positions(&rank->domain.rigid, atoms->id, atoms->x_nm, atoms->x_nm);
    if (error)
        return leat_fail_in(error, "the coordinates of %s", rank->options->gro);
    return md_rigid_velocities(&rank->domain.rigid, atoms->id, atoms->x_nm, atoms->v_nm_ps);
}

int md_start(struct md_rank *rank)
{
    const struct md_settings *settings = &rank->system.settings;
    bool moves = settings->steps > 0, fresh = moves && !settings->continuation;
    int error = fresh ? md_agree(rank, constrain(rank)) : 0;
    if (!error && settings->gen_vel)
        error = generate(rank);
    // Velocity Verlet wants them where they are.
    if (!error && fresh && settings->integrator == MD_LEAP_FROG)
        error = md_agree(rank, half_step_back(rank));
    if (!error && fresh && settings->remove_com)
        error = md_stop_centre(rank);
    if (error)
        return error;
    md_kinetic(&rank->domain.atoms, rank->ekin_after);
    memcpy(rank->ekin_before, rank->ekin_after, sizeof rank->ekin_before);
    return md_kinetic_sum(rank);
}

int md_go_on(struct md_rank *rank)
{
    if (!rank->files.other_ranks)
        return 0;
    md_kinetic(&rank->domain.atoms, rank->ekin_after);
    memcpy(rank->ekin_before, rank->ekin_after, sizeof rank->ekin_before);
    return 0;
}
