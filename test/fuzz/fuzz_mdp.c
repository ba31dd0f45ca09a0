// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as an .mdp file; accepted settings have to be ones a run can start from.
//
// Advantage: every rule of the table is a short text away. Disadvantage: says nothing about whether
// GROMACS reads the same from it.

#include "md/settings.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!stream)
        return 0;
    struct md_settings settings;
    if (md_settings_read_stream(stream, "fuzz.mdp", &settings) == 0) {
        demand(isfinite(settings.dt_ps) && settings.dt_ps > 0);
        demand(settings.steps >= 0 && settings.nstlist >= 0 && settings.nstcomm >= 0);
        demand(isfinite(settings.rvdw_nm) && settings.rvdw_nm > 0);
        demand(!(settings.rvdw_nm < settings.rcoulomb_nm) &&
               !(settings.rvdw_nm > settings.rcoulomb_nm));
        demand(settings.epsilon_r > 0 && settings.epsilon_rf >= 0);
        demand(settings.gen_temp_k >= 0 && settings.group_count <= MD_GROUPS_MAX);
        demand((settings.group_count > 0) == (settings.tcoupl != MD_TCOUPL_NO));
        for (int g = 0; g < settings.group_count; g++)
            demand(settings.tau_t_ps[g] >= 0 && settings.ref_t_k[g] >= 0);
        demand(settings.tcoupl == MD_TCOUPL_NO || settings.nsttcouple > 0);
        demand(settings.nstcalcenergy <= 0 || settings.nstenergy % settings.nstcalcenergy == 0);
        demand(memchr(settings.define, 0, sizeof settings.define) != NULL);
        demand(memchr(settings.notes, 0, sizeof settings.notes) != NULL);
    }
    fclose(stream);
    return 0;
}
