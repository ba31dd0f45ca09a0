// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds beside the atoms: numbers of the run, each under its name.
//
// Tables say where in a rank's memory each number is. Some tell whose checkpoint it is: they are
// compared, not taken over. Advantage: one line makes a number part of the state, and what differs
// is named. Disadvantage: a name that is dropped or added makes older files unusable, which is then
// said.

#include "core/error.h"
#include "format/crc32c.h"
#include "md/checkpoint.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum kind { REAL, WHOLE, WIDE, FLAG }; // double, int, 64 bits, bool

struct place {
    const char *name;
    enum kind kind;
    int count;
    size_t offset; // in struct md_rank
};

#define PLACE(name, kind, count, member)                                                           \
    {                                                                                              \
        name, kind, count, offsetof(struct md_rank, member)                                        \
    }
#define SETTING(kind, member) PLACE(#member, kind, 1, system.settings.member)

// Of these the run's forces or motion depend.
static const struct place same[] = {
    PLACE("atoms", WIDE, 1, system.atom_count),
    PLACE("box_nm", REAL, 9, system.box_nm),
    PLACE("units", WHOLE, 1, system.units),
    PLACE("skin_nm", REAL, 1, system.skin_nm),
    PLACE("degrees of freedom", REAL, 1, system.degrees),
    PLACE("couple_steps", WHOLE, 1, system.couple_steps),
    SETTING(REAL, dt_ps),
    SETTING(WHOLE, nstlist),
    SETTING(REAL, verlet_buffer_tolerance),
    SETTING(REAL, rlist_nm),
    SETTING(WHOLE, nstcomm),
    SETTING(FLAG, remove_com),
    SETTING(REAL, rcoulomb_nm),
    SETTING(REAL, rvdw_nm),
    SETTING(REAL, epsilon_r),
    SETTING(REAL, epsilon_rf),
    SETTING(WHOLE, vdw_modifier),
    SETTING(WHOLE, tcoupl),
    SETTING(WHOLE, integrator),
    SETTING(WHOLE, constraints),
    SETTING(WHOLE, group_count),
    PLACE("tau_t_ps", REAL, MD_GROUPS_MAX, system.settings.tau_t_ps),
    PLACE("ref_t_k", REAL, MD_GROUPS_MAX, system.settings.ref_t_k),
    PLACE("degrees of freedom of groups", REAL, MD_GROUPS_MAX, system.group_degrees),
    SETTING(WIDE, ld_seed),
};

static const struct place of_job[] = {
    PLACE("images", FLAG, 1, system.images),
    // What follows from the velocities and positions at the beginning.
    PLACE("list_nm", REAL, 1, system.list_nm),
    PLACE("inner_nm", REAL, 1, system.inner_nm),
    PLACE("inner_calls", WHOLE, 1, system.inner_calls),
    PLACE("radius_nm", REAL, 1, system.radius_nm),
    PLACE("heat", REAL, 1, heat),
    PLACE("ekin_half", REAL, 1, ekin_half),
    PLACE("ekin_group", REAL, MD_GROUPS_MAX, ekin_group),
    PLACE("slope.count", WIDE, 1, slope.count),
    PLACE("slope.t0", REAL, 1, slope.t0),
    PLACE("slope.y0", REAL, 1, slope.y0),
    PLACE("slope.st", REAL, 1, slope.st),
    PLACE("slope.sy", REAL, 1, slope.sy),
    PLACE("slope.stt", REAL, 1, slope.stt),
    PLACE("slope.sty", REAL, 1, slope.sty),
    PLACE("energies.bytes", WIDE, 1, files.energies_bytes),
    PLACE("trajectory.bytes", WIDE, 1, files.trajectory_bytes),
};

static const struct place of_rank[] = {
    PLACE("ekin_before", REAL, 9, ekin_before),
    PLACE("ekin_after", REAL, 9, ekin_after),
};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static double get(const struct md_rank *rank, const struct place *place, int i)
{
    const char *at = (const char *)rank + place->offset;
    double real;
    int whole;
    int64_t wide;
    switch (place->kind) {
    case REAL:
        memcpy(&real, at + (size_t)i * sizeof real, sizeof real);
        return real;
    case WHOLE:
        memcpy(&whole, at + (size_t)i * sizeof whole, sizeof whole);
        return whole;
    case WIDE:
        memcpy(&wide, at + (size_t)i * sizeof wide, sizeof wide);
        return (double)wide;
    default:
        return *(const bool *)at;
    }
}

static void set(struct md_rank *rank, const struct place *place, int i, double value)
{
    char *at = (char *)rank + place->offset;
    // A double beyond these is no number of anything.
    int64_t wide = value > -9e15 && value < 9e15 ? (int64_t)value : 0;
    int whole = (int)wide;
    if (place->kind == REAL)
        memcpy(at + (size_t)i * sizeof value, &value, sizeof value);
    else if (place->kind == FLAG)
        *(bool *)at = wide != 0;
    else if (place->kind == WHOLE)
        memcpy(at + (size_t)i * sizeof whole, &whole, sizeof whole);
    else
        memcpy(at + (size_t)i * sizeof wide, &wide, sizeof wide);
}

static void name_of(const struct place *place, int i, char name[MD_RECORD_NAME_BYTES])
{
    if (place->count > 1)
        snprintf(name, MD_RECORD_NAME_BYTES, "%s.%d", place->name, i);
    else
        snprintf(name, MD_RECORD_NAME_BYTES, "%s", place->name);
}

static int collect(const struct md_rank *rank, const struct place *table, int count,
                   struct md_records *records)
{
    int error = 0;
    for (const struct place *place = table; place < table + count; place++)
        for (int i = 0; i < place->count && !error; i++) {
            char name[MD_RECORD_NAME_BYTES];
            name_of(place, i, name);
            error = md_records_add(records, name, get(rank, place, i));
        }
    return error;
}

static int fail_unknown(const char *file, const char *name)
{
    return leat_fail(-ENOTSUP, "%s does not say %s; it was written by another version of leat",
                     file, name);
}

static int restore(struct md_rank *rank, const struct place *table, int count, const char *file,
                   const struct md_records *records)
{
    for (const struct place *place = table; place < table + count; place++)
        for (int i = 0; i < place->count; i++) {
            char name[MD_RECORD_NAME_BYTES];
            name_of(place, i, name);
            const struct md_record *record = md_records_find(records, name);
            if (!record)
                return fail_unknown(file, name);
            set(rank, place, i, record->value);
        }
    return 0;
}

// ---- Whose it is ----

static void add_double(struct crc32c *crc, double value)
{
    crc32c_add(crc, &value, sizeof value);
}

static void add_int(struct crc32c *crc, int64_t value)
{
    crc32c_add(crc, &value, sizeof value);
}

static void add_molecule_type(struct crc32c *crc, const struct md_molecule_type *type)
{
    add_int(crc, type->atom_count);
    for (int i = 0; i < type->atom_count; i++) {
        add_int(crc, type->atoms[i].type);
        add_double(crc, type->atoms[i].charge_e);
        add_double(crc, type->atoms[i].mass_u);
        for (int e = type->exclusion_start[i]; e < type->exclusion_start[i + 1]; e++)
            add_int(crc, type->exclusion[e]);
    }
    for (int k = 0; k <= MD_TERM_KINDS; k++)
        add_int(crc, type->term_start[k]);
    for (int t = 0; t < type->term_start[MD_TERM_KINDS]; t++) {
        for (int i = 0; i < MD_TERM_ATOMS; i++)
            add_int(crc, type->terms[t].atom[i]);
        for (int i = 0; i < MD_TERM_PARAMETERS; i++)
            add_double(crc, type->terms[t].parameter[i]);
    }
    for (int c = 0; c < type->constraint_count; c++) {
        add_int(crc, type->constraints[c].a);
        add_int(crc, type->constraints[c].b);
        add_double(crc, type->constraints[c].length_nm);
    }
    for (int s = 0; s < type->settle_count; s++) {
        add_int(crc, type->settles[s].oxygen);
        add_double(crc, type->settles[s].d_oh_nm);
        add_double(crc, type->settles[s].d_hh_nm);
    }
}

static uint32_t topology_checksum(const struct md_topology *topology)
{
    struct crc32c crc;
    crc32c_begin(&crc);
    for (int b = 0; b < topology->block_count; b++) {
        add_int(&crc, topology->blocks[b].type);
        add_int(&crc, topology->blocks[b].count);
    }
    for (int t = 0; t < topology->molecule_type_count; t++)
        add_molecule_type(&crc, &topology->molecule_types[t]);
    for (int i = 0; i < topology->type_count * topology->type_count; i++) {
        add_double(&crc, topology->c6[i]);
        add_double(&crc, topology->c12[i]);
    }
    return crc32c_value(&crc);
}

static int add_identity(const struct md_rank *rank, struct md_records *records)
{
    int error = md_records_add(records, "topology", topology_checksum(rank->system.topology));
    if (!error)
        error = md_records_add(records, "double precision", rank->options->precision == MD_DOUBLE);
    return error ? error : collect(rank, same, COUNT(same), records);
}

int md_state_of_job(const struct md_rank *rank, struct md_records *records)
{
    int error = add_identity(rank, records);
    return error ? error : collect(rank, of_job, COUNT(of_job), records);
}

int md_state_of_rank(const struct md_rank *rank, struct md_records *records)
{
    return collect(rank, of_rank, COUNT(of_rank), records);
}

static int compare(const char *file, const struct md_records *own, const struct md_records *theirs)
{
    for (uint32_t i = 0; i < own->count; i++) {
        const struct md_record *mine = &own->record[i];
        const struct md_record *other = md_records_find(theirs, mine->name);
        if (!other)
            return fail_unknown(file, mine->name);
        if (mine->value != other->value)
            return leat_fail(-EINVAL,
                             "%s is the checkpoint of another input: %s is %.17g there and %.17g "
                             "here; give the input of that run, or begin anew from coordinates",
                             file, mine->name, other->value, mine->value);
    }
    return 0;
}

int md_state_check(const struct md_rank *rank, const char *file, const struct md_records *records)
{
    struct md_records own = {0}, all = {0};
    int error = add_identity(rank, &own);
    if (!error)
        error = md_state_of_job(rank, &all);
    if (!error)
        error = compare(file, &own, records);
    for (uint32_t i = 0; !error && i < records->count; i++)
        if (!md_records_find(&all, records->record[i].name))
            error = leat_fail(-ENOTSUP, "%s says %s, which this version of leat does not know",
                              file, records->record[i].name);
    md_records_free(&own);
    md_records_free(&all);
    return error;
}

int md_state_set_job(struct md_rank *rank, const char *file, const struct md_records *records)
{
    return restore(rank, of_job, COUNT(of_job), file, records);
}

int md_state_set_rank(struct md_rank *rank, const char *file, const struct md_records *records)
{
    return restore(rank, of_rank, COUNT(of_rank), file, records);
}
