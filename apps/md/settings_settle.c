// SPDX-License-Identifier: Apache-2.0
// What several .mdp options say together: contradictions, derived values, GROMACS' corrections.
//
// Advantage: by the time settings are handed out they need no further thought. Disadvantage: the
// rules follow GROMACS' own checks, which are scattered and change with its releases.

#include "md/settings_table.h"

#include "core/error.h"
#include "md/macros.h"
#include "md/text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

// Beyond these, steps neither add up nor follow any motion of atoms.
static const double DT_LEAST_PS = 1e-9, DT_MOST_PS = 1;

struct context {
    struct md_raw_settings *raw;
    struct md_settings *out;
    const char *name;
    const int *line_of;
};

// Where a keyword was set; line 0 stands for "nowhere", that is, by default.
static struct md_place place(const struct context *context, const char *keyword)
{
    for (int i = 0; i < md_option_count; i++) {
        size_t length = strlen(keyword);
        const char *names = md_options[i].names;
        if (strncmp(names, keyword, length) == 0 && (names[length] == 0 || names[length] == ' '))
            return (struct md_place){context->name, context->line_of[i]};
    }
    return (struct md_place){context->name, 0};
}

// Where a keyword was set or, if nowhere, the one that makes it needed.
static struct md_place place_or(const struct context *context, const char *keyword,
                                const char *other)
{
    struct md_place here = place(context, keyword);
    return here.line ? here : place(context, other);
}

static void note(struct context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct context *context, const char *format, ...)
{
    char *notes = context->out->notes;
    size_t used = strlen(notes), size = sizeof context->out->notes;
    if (used && used + 1 < size)
        notes[used++] = '\n';
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notes + used, size - used, format, arguments);
    va_end(arguments);
}

static int settle_run(struct context *context)
{
    struct md_settings *out = context->out;
    if (!(out->dt_ps >= DT_LEAST_PS && out->dt_ps <= DT_MOST_PS))
        return md_fail_at(place(context, "dt"), -EINVAL,
                          "'dt' = %g ps has to be from %g to %g ps; 0.001 to 0.005 is usual",
                          out->dt_ps, DT_LEAST_PS, DT_MOST_PS);
    if (out->steps < 0)
        return md_fail_at(place(context, "nsteps"), -ENOTSUP,
                          "keyword 'nsteps' = '-1' (no limit) is not supported; give a number");
    if (context->raw->gen_vel && context->raw->continuation)
        return md_fail_at(place(context, "gen-vel"), -EINVAL,
                          "'gen-vel = yes' contradicts 'continuation = yes': a run that continues "
                          "has velocities; leave one out");
    out->integrator = (enum md_integrator)context->raw->integrator;
    out->constraints = (enum md_bonds_rigid)context->raw->constraints;
    out->gen_vel = context->raw->gen_vel;
    out->continuation = context->raw->continuation;
    out->remove_com = context->raw->comm_mode == MD_COMM_LINEAR && out->nstcomm > 0;
    if (!out->remove_com)
        out->nstcomm = 0;
    return 0;
}

// Energies are evaluated at least as often as they are written, and written on such steps only.
static int settle_energy_steps(struct context *context)
{
    struct md_settings *out = context->out;
    bool chosen = out->nstcalcenergy >= 0 && place(context, "nstcalcenergy").line;
    if (out->nstcalcenergy < 0)
        out->nstcalcenergy = 100;
    if (out->nstenergy > 0 && out->nstcalcenergy > out->nstenergy) {
        if (chosen)
            note(context, "nstcalcenergy = %d is set to nstenergy = %d", out->nstcalcenergy,
                 out->nstenergy);
        out->nstcalcenergy = out->nstenergy;
    }
    if (out->nstcalcenergy > 0 && out->nstenergy % out->nstcalcenergy != 0) {
        int64_t rounded =
            ((int64_t)out->nstenergy / out->nstcalcenergy + 1) * (int64_t)out->nstcalcenergy;
        if (rounded > INT_MAX)
            return md_fail_at(place(context, "nstenergy"), -EINVAL,
                              "'nstenergy' has to be a multiple of 'nstcalcenergy'");
        note(context, "nstenergy = %d is set to %d, a multiple of nstcalcenergy = %d",
             out->nstenergy, (int)rounded, out->nstcalcenergy);
        out->nstenergy = (int)rounded;
    }
    return 0;
}

static int settle_list(struct context *context)
{
    struct md_settings *out = context->out;
    if (!(out->rcoulomb_nm > 0))
        return md_fail_at(place(context, "rcoulomb"), -EINVAL, "'rcoulomb' has to be above 0");
    if (out->rcoulomb_nm < out->rvdw_nm || out->rcoulomb_nm > out->rvdw_nm)
        return md_fail_at(place(context, place(context, "rvdw").line ? "rvdw" : "rcoulomb"),
                          -ENOTSUP,
                          "keyword 'rvdw' = '%g' is not supported with 'rcoulomb' = '%g'; the two "
                          "have to be equal",
                          out->rvdw_nm, out->rcoulomb_nm);
    if (!(out->verlet_buffer_tolerance < 0) && !(out->verlet_buffer_tolerance > 0))
        return md_fail_at(place(context, "verlet-buffer-tolerance"), -EINVAL,
                          "'verlet-buffer-tolerance' cannot be 0; -1 leaves the list to 'rlist'");
    if (out->verlet_buffer_tolerance < 0 && out->rlist_nm < out->rvdw_nm)
        return md_fail_at(place(context, "rlist"), -EINVAL,
                          "'rlist' = %g is shorter than the cut-off of %g nm, and "
                          "verlet-buffer-tolerance is negative, so it counts",
                          out->rlist_nm, out->rvdw_nm);
    return 0;
}

static int settle_reaction_field(struct context *context)
{
    const struct md_settings *out = context->out;
    if (!(out->epsilon_r > 0))
        return md_fail_at(place(context, "epsilon-r"), -EINVAL,
                          "'epsilon-r' = 0 (infinite) leaves nothing of a reaction field");
    bool one = !(out->epsilon_rf < 1) && !(out->epsilon_rf > 1);
    bool unequal = out->epsilon_r < 1 || out->epsilon_r > 1;
    if (one && unequal)
        return md_fail_at(place(context, "epsilon-rf"), -EINVAL,
                          "'epsilon-rf' = 1 with 'epsilon-r' = %g is the order of old files, which "
                          "GROMACS exchanges; write epsilon-r = 1 and epsilon-rf = %g if that is "
                          "meant",
                          out->epsilon_r, out->epsilon_r);
    if (out->epsilon_rf > 0 && out->epsilon_rf < out->epsilon_r)
        return md_fail_at(place(context, "epsilon-rf"), -EINVAL,
                          "'epsilon-rf' = %g has to be 0 (infinite) or at least epsilon-r = %g",
                          out->epsilon_rf, out->epsilon_r);
    return 0;
}

// Under the Verlet scheme a plain cut-off is shifted to zero there, which is a reaction field of
// the medium itself.
static int settle_cut_off(struct context *context)
{
    struct md_settings *out = context->out;
    if (context->raw->coulomb_modifier == MD_COULOMB_UNSHIFTED)
        return md_fail_at(place(context, "coulomb-modifier"), -ENOTSUP,
                          "keyword 'coulomb-modifier' = 'none' is not supported with coulombtype = "
                          "cut-off; write potential-shift or coulombtype = reaction-field");
    if (!(out->epsilon_r > 0))
        return md_fail_at(place(context, "epsilon-r"), -ENOTSUP,
                          "keyword 'epsilon-r' = '0' (infinite) is not supported");
    out->epsilon_rf = out->epsilon_r;
    note(context, "coulombtype = cut-off is evaluated as a reaction field with epsilon-rf = %g",
         out->epsilon_rf);
    return 0;
}

// One number a group.
static int parse_numbers(struct context *context, const char *keyword, const char *text,
                         double value[MD_GROUPS_MAX])
{
    char copy[sizeof context->raw->tau_t], *words[MD_GROUPS_MAX];
    memcpy(copy, text, sizeof copy);
    int count = md_split(copy, words, MD_GROUPS_MAX), wanted = context->out->group_count;
    struct md_place here = place_or(context, keyword, "tcoupl");
    if (count != wanted)
        return md_fail_at(here, -EINVAL,
                          "'%s' has to be %d number%s, one a group of tc-grps; "
                          "found '%.80s'",
                          keyword, wanted, wanted == 1 ? "" : "s", text);
    for (int g = 0; g < count; g++) {
        if (!md_parse_real(words[g], &value[g]))
            return md_fail_at(here, -EINVAL, "'%s' wants a finite number, found '%.80s'", keyword,
                              words[g]);
        if (value[g] < 0)
            return md_fail_at(here, -EINVAL,
                              "'%s' = %g is negative; 'tcoupl = no' switches the thermostat off",
                              keyword, value[g]);
    }
    return 0;
}

static int settle_groups(struct context *context)
{
    struct md_settings *out = context->out;
    char copy[sizeof context->raw->tc_groups], *words[MD_GROUPS_MAX];
    memcpy(copy, context->raw->tc_groups, sizeof copy);
    int count = md_split(copy, words, MD_GROUPS_MAX);
    struct md_place here = place_or(context, "tc-grps", "tcoupl");
    if (count == 0)
        return md_fail_at(here, -EINVAL,
                          "'tcoupl = v-rescale' needs 'tc-grps', for instance "
                          "tc-grps = System");
    if (count > MD_GROUPS_MAX)
        return md_fail_at(here, -ENOTSUP, "'tc-grps' has more than %d groups", MD_GROUPS_MAX);
    for (int g = 0; g < count; g++) {
        if (strlen(words[g]) >= MD_GROUP_NAME)
            return md_fail_at(here, -EINVAL, "a name in 'tc-grps' is longer than %d characters",
                              MD_GROUP_NAME - 1);
        memcpy(out->group_name[g], words[g], strlen(words[g]) + 1);
    }
    out->group_count = count;
    return 0;
}

static int settle_thermostat(struct context *context)
{
    struct md_settings *out = context->out;
    out->tcoupl = (enum md_thermostat)context->raw->tcoupl;
    if (out->nsttcouple < 0)
        out->nsttcouple = 10;
    if (out->tcoupl == MD_TCOUPL_NO)
        return 0;
    if (out->nsttcouple == 0)
        return md_fail_at(place(context, "nsttcouple"), -EINVAL,
                          "'nsttcouple' has to be above 0, or -1 for its default");
    int error = settle_groups(context);
    if (!error)
        error = parse_numbers(context, "tau-t", context->raw->tau_t, out->tau_t_ps);
    if (!error)
        error = parse_numbers(context, "ref-t", context->raw->ref_t, out->ref_t_k);
    return error;
}

// A search for a minimum knows no time.
static int settle_minimisation(struct context *context)
{
    struct md_settings *out = context->out;
    if (out->integrator != MD_STEEPEST_DESCENT)
        return 0;
    if (!(out->emtol_kj_mol_nm > 0))
        return md_fail_at(place(context, "emtol"), -EINVAL, "'emtol' has to be above 0");
    if (!(out->emstep_nm > 0))
        return md_fail_at(place(context, "emstep"), -EINVAL, "'emstep' has to be above 0");
    out->tcoupl = MD_TCOUPL_NO;
    out->group_count = 0;
    out->gen_vel = out->remove_com = false;
    out->nstcomm = 0;
    return 0;
}

static void settle_seeds(struct context *context)
{
    struct md_settings *out = context->out;
    if (out->ld_seed == -1) {
        out->ld_seed = 1;
        if (out->tcoupl == MD_TCOUPL_V_RESCALE)
            note(context, "ld-seed = -1 is taken as 1, so that runs can be repeated");
    }
    if (out->gen_seed == -1) {
        out->gen_seed = 1;
        if (out->gen_vel)
            note(context, "gen-seed = -1 is taken as 1, so that runs can be repeated");
    }
}

static void settle_output(struct context *context)
{
    const struct md_raw_settings *raw = context->raw;
    if (raw->nstxout_compressed > 0)
        note(context, "no compressed trajectory is written, whatever nstxout-compressed says; "
                      "--trajectory has frames of nstxout, nstvout and nstfout");
}

// "-Ia -I b" becomes "a:b".
static int settle_include(struct context *context)
{
    char *directories = context->out->include_dirs;
    size_t used = 0, size = sizeof context->out->include_dirs;
    char *rest = context->raw->include, *word;
    while ((word = md_next_word(&rest)) != NULL) {
        const char *directory = strcmp(word, "-I") == 0 ? md_next_word(&rest) : word + 2;
        if (strncmp(word, "-I", 2) != 0 || !directory || *directory == 0)
            return md_fail_at(place(context, "include"), -EINVAL,
                              "'include' wants -Idirectory ..., found '%.80s'", word);
        int length = snprintf(directories + used, size - used, "%s%s", used ? ":" : "", directory);
        used += (size_t)length;
        if (used >= size)
            return md_fail_at(place(context, "include"), -EINVAL, "'include' is too long");
    }
    return 0;
}

// The topology reader takes the definitions, but only here is it known where they stand.
static int settle_define(struct context *context)
{
    struct md_macros macros = {0};
    int error = md_macros_prepare(&macros);
    if (!error)
        error = md_macros_options(&macros, context->out->define);
    md_macros_free(&macros);
    struct md_place here = place(context, "define");
    return error ? leat_fail_in(error, "%s:%d", here.file, here.line) : 0;
}

int md_settings_settle(struct md_raw_settings *raw, const char *name, const int *line_of)
{
    struct context context = {raw, &raw->out, name, line_of};
    raw->out.vdw_modifier =
        raw->vdw_modifier == MD_VDW_UNSHIFTED ? MD_VDW_NONE : MD_VDW_POTENTIAL_SHIFT;
    int error = settle_run(&context);
    if (!error)
        error = settle_energy_steps(&context);
    if (!error)
        error = settle_list(&context);
    if (!error)
        error = raw->coulombtype == MD_COULOMB_CUT_OFF ? settle_cut_off(&context)
                                                       : settle_reaction_field(&context);
    if (!error)
        error = settle_thermostat(&context);
    if (!error)
        error = settle_minimisation(&context);
    if (!error)
        error = settle_include(&context);
    if (!error)
        error = settle_define(&context);
    if (!error) {
        settle_seeds(&context);
        settle_output(&context);
    }
    return error;
}
