// SPDX-License-Identifier: Apache-2.0
// The report as one JSON object, schema leat.md/1.
//
// Advantage: numbers in 17 digits, so that tools can compare runs to the bit. Disadvantage: what is
// not known is null, and every reader has to expect that.

#include "core/error.h"
#include "md/report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *vector(const double *values, int count)
{
    json_t *array = json_array();
    for (int i = 0; array && i < count; i++)
        json_array_append_new(array, number(values[i]));
    return array;
}

static json_t *matrix(const double values[9])
{
    json_t *array = json_array();
    for (int row = 0; array && row < 3; row++)
        json_array_append_new(array, vector(values + 3 * (size_t)row, 3));
    return array;
}

static json_t *energies(const struct md_energy *energy, double times)
{
    json_t *object = json_object();
    const struct {
        const char *name;
        double value;
    } rows[] = {
        {"lj", energy->lj},
        {"coulomb", energy->coulomb},
        {"bond", energy->bond},
        {"angle", energy->angle},
        {"dihedral", energy->dihedral},
        {"ryckaert_bellemans", energy->ryckaert_bellemans},
        {"improper", energy->improper},
        {"lj14", energy->lj14},
        {"coulomb14", energy->coulomb14},
        {"potential", energy->potential},
        {"kinetic", energy->kinetic},
        {"total", energy->total},
        {"conserved", energy->conserved},
    };
    for (size_t i = 0; object && i < sizeof rows / sizeof *rows; i++)
        json_object_set_new(object, rows[i].name, number(rows[i].value * times));
    return object;
}

static json_t *times(const struct md_report *report)
{
    json_t *object = json_object();
    if (!object)
        return NULL;
    json_object_set_new(object, "median", number(report->median_us));
    for (int p = 0; p < PHASE_COUNT; p++)
        json_object_set_new(object, md_phase_names[p], number(report->phase_us[p]));
    return object;
}

static json_t *paths(const struct md_report *report)
{
    json_t *array = json_array();
    for (int p = 0; array && p < report->path_count; p++) {
        const struct md_path *path = &report->path[p];
        json_t *row = json_pack("{s:s, s:I, s:I, s:b, s:s}", "path", path->name, "bytes",
                                (json_int_t)path->bytes, "ops", (json_int_t)path->operations,
                                "chosen", path->chosen ? 1 : 0, "reason", path->reason);
        if (row)
            json_array_append_new(array, row);
    }
    return array;
}

static json_t *counts(const struct md_counts *counts)
{
    return json_pack(
        "{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "launches", (json_int_t)counts->launches,
        "blocking_waits", (json_int_t)counts->blocking_waits, "signal_waits",
        (json_int_t)counts->signal_waits, "wait_s", counts->wait_s, "arena_peak_bytes",
        (json_int_t)counts->arena_peak_bytes, "proxy_orders", (json_int_t)counts->proxy_orders,
        "proxy_bytes", (json_int_t)counts->proxy_bytes, "msg_provider_bytes",
        (json_int_t)counts->provider_bytes);
}

static void add_setting(json_t *root, const struct md_report *report)
{
    json_object_set_new(root, "schema", json_string("leat.md/1"));
    json_object_set_new(root, "atoms", json_integer((json_int_t)report->atoms));
    json_object_set_new(root, "ranks", json_integer(report->rank_count));
    json_object_set_new(root, "grid",
                        json_pack("[i,i,i]", report->grid[0], report->grid[1], report->grid[2]));
    json_object_set_new(root, "order", json_string(report->order));
    json_object_set_new(root, "mode", json_string(report->mode));
    json_object_set_new(root, "plan", json_string(report->plan));
    json_object_set_new(root, "device", json_string(report->device));
    json_object_set_new(root, "precision", json_string(report->precision));
    json_object_set_new(root, "kernel", report->kernel ? json_string(report->kernel) : json_null());
    json_object_set_new(root, "steps", json_integer((json_int_t)report->steps));
}

// Names of the driver's own units say them; those of other units do not.
static void add_in_units(json_t *root, const struct md_report *report)
{
    const struct md_energy *energy = &report->energy;
    const struct md_units *units = report->units;
    bool own = units == md_units(MD_UNITS_GROMACS);
    json_object_set_new(root, "units", json_string(units->name));
    json_object_set_new(root, own ? "list_nm" : "list",
                        number(report->list_nm * units->length_out));
    json_object_set_new(root, own ? "temperature_k" : "temperature", number(energy->temperature_k));
    json_object_set_new(root, own ? "pressure_bar" : "pressure",
                        energy->has_pressure ? number(energy->pressure_bar) : json_null());
    json_object_set_new(root, own ? "drift_kj_mol_ps_atom" : "drift_per_atom",
                        report->has_drift ? number(report->drift) : json_null());
    if (!own)
        json_object_set_new(root, "energy_per_atom", energies(energy, 1.0 / (double)report->atoms));
}

static json_t *checked(const struct md_halo_checked *checked)
{
    if (!checked->steps)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I}", "steps", (json_int_t)checked->steps, "ghosts",
                     (json_int_t)checked->ghosts, "pairs", (json_int_t)checked->pairs,
                     "unseen_pairs", (json_int_t)checked->unseen);
}

static void add_results(json_t *root, const struct md_report *report)
{
    const struct md_energy *energy = &report->energy;
    json_object_set_new(root, "energy", energies(energy, 1.0));
    json_object_set_new(root, "coulomb_gross", number(energy->coulomb_gross));
    add_in_units(root, report);
    json_object_set_new(root, "virial",
                        energy->has_pressure ? matrix(energy->virial) : json_null());
    json_object_set_new(root, "checked", checked(&report->checked));
    json_object_set_new(root, "net_force", vector(energy->net_force, 3));
    if (report->has_minimum)
        json_object_set_new(root, "minimisation",
                            json_pack("{s:f, s:I, s:b}", "max_force", report->minimum.most_force,
                                      "atom", (json_int_t)report->minimum.atom + 1, "converged",
                                      report->minimum.reached ? 1 : 0));
    json_object_set_new(root, "us_per_step", times(report));
    json_object_set_new(root, "ns_per_day",
                        report->ns_per_day > 0.0 ? number(report->ns_per_day) : json_null());
    json_object_set_new(root, "paths", paths(report));
    if (report->has_counts)
        json_object_set_new(root, "stats", counts(&report->counts));
}

int md_report_json(const struct md_report *report, FILE *stream)
{
    json_t *root = json_object();
    if (!root)
        return leat_fail(-ENOMEM, "no memory for the JSON report");
    add_setting(root, report);
    add_results(root, report);
    int failed = json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (failed || fputc('\n', stream) == EOF || fflush(stream))
        return leat_fail(-EIO, "the JSON report could not be written");
    return 0;
}
