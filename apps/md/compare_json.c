// SPDX-License-Identifier: Apache-2.0
// Reports of `leat md --json`: energies term by term, and what follows from them.
//
// B may also be a reference with GROMACS' names of terms, {"LJ (SR)": ...}: then the terms it has
// are compared. Advantage: terms are taken as they come, so new ones need no word here.
// Disadvantage: a number beside the energies (as step times) is not looked at.

#include "md/compare.h"

#include "core/error.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS_MAX = 64 };

struct report {
    const char *path;
    json_t *root, *energy; /* the latter borrowed from the former */
    bool reference;        /* names of GROMACS and no more */
    struct md_compare_term term[TERMS_MAX];
    int term_count;
    double gross;
};

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int read_terms(struct report *report)
{
    const char *key;
    json_t *value;
    json_object_foreach(report->energy, key, value)
    {
        // What is not finite has been written as null.
        if (!json_is_number(value) && !json_is_null(value))
            continue;
        if (report->term_count == TERMS_MAX)
            return leat_fail(-EINVAL, "%s: more than %d energies", report->path, TERMS_MAX);
        struct md_compare_term *term = &report->term[report->term_count++];
        md_compare_term_name(key, term->name);
        term->value = json_is_number(value) ? json_number_value(value) : NAN;
    }
    if (!report->term_count)
        return leat_fail(-EINVAL, "%s has no energies", report->path);
    return 0;
}

static int read_report(struct report *report)
{
    json_error_t where;
    report->root = json_load_file(report->path, JSON_REJECT_DUPLICATES, &where);
    if (!report->root)
        return leat_fail(-EINVAL, "%s:%d: %s", report->path, where.line, where.text);
    const char *schema = json_string_value(json_object_get(report->root, "schema"));
    report->reference = !schema;
    if (schema && strncmp(schema, "leat.md/", 8) != 0)
        return leat_fail(-EINVAL, "%s has the schema %s; reports of `leat md --json` are compared",
                         report->path, schema);
    report->energy = schema ? json_object_get(report->root, "energy") : report->root;
    report->gross = number(report->root, "coulomb_gross");
    return read_terms(report);
}

static const struct md_compare_term *find(const struct report *report, const char *name)
{
    for (int i = 0; i < report->term_count; i++)
        if (strcmp(report->term[i].name, name) == 0)
            return &report->term[i];
    return NULL;
}

static int compare_value(struct md_compare *result, const char *what, double a, double b,
                         double allowed)
{
    struct md_compare_worst worst = {.what = what};
    md_compare_values(result, &worst, a, b, allowed, 0, -1);
    return md_compare_add(result, &worst);
}

static int compare_terms(struct md_compare *result, const struct report report[2])
{
    const struct report *a = &report[0], *b = &report[1];
    bool some = result->options->common || a->reference || b->reference;
    int error = 0;
    for (int i = 0; i < b->term_count && !error; i++) {
        const struct md_compare_term *term = find(a, b->term[i].name);
        if (term)
            error = compare_value(result, term->name, term->value, b->term[i].value,
                                  b->term[i].allowed);
        else if (!some)
            error = md_compare_tell(result, b->term[i].name, "only in B");
        result->compared += term != NULL;
    }
    for (int i = 0; i < a->term_count && !error && !some; i++)
        if (!find(b, a->term[i].name))
            error = md_compare_tell(result, a->term[i].name, "only in A");
    if (!error && !result->compared)
        error = md_compare_tell(result, "energies", "no term is in both files");
    return error;
}

static double allowed_of(const struct report *report, const char *name)
{
    const struct md_compare_term *term = find(report, name);
    return term ? term->allowed : NAN;
}

// Both null: not defined in either run.
static bool is_undefined(const struct report report[2], const char *key)
{
    const json_t *a = json_object_get(report[0].root, key);
    const json_t *b = json_object_get(report[1].root, key);
    return (!a || json_is_null(a)) && (!b || json_is_null(b));
}

static int compare_vector(struct md_compare *result, const struct report report[2], const char *key,
                          double allowed)
{
    const json_t *a = json_object_get(report[0].root, key);
    const json_t *b = json_object_get(report[1].root, key);
    struct md_compare_worst worst = {.what = key};
    size_t count = json_array_size(a);
    if (count != json_array_size(b) || !count)
        return md_compare_tell(result, key, "only in one of the files, or of another size");
    for (size_t i = 0; i < count; i++) {
        const json_t *va = json_array_get(a, i), *vb = json_array_get(b, i);
        size_t columns = json_is_array(va) ? json_array_size(va) : 1;
        for (size_t j = 0; j < columns; j++) {
            const json_t *na = json_is_array(va) ? json_array_get(va, j) : va;
            const json_t *nb = json_is_array(vb) ? json_array_get(vb, j) : vb;
            md_compare_values(result, &worst, json_is_number(na) ? json_number_value(na) : NAN,
                              json_is_number(nb) ? json_number_value(nb) : NAN, allowed, 0, -1);
        }
    }
    return md_compare_add(result, &worst);
}

// The virial is made of the same sums as the potential, and may differ by as much; the pressure is
// 2/(3V) (kinetic - trace of the virial), and V follows from these.
static double pressure_allowed(const struct report *report)
{
    const json_t *virial = json_object_get(report->root, "virial");
    const struct md_compare_term *kinetic = find(report, "kinetic");
    double pressure = number(report->root, "pressure_bar"), trace = 0.0;
    for (size_t d = 0; d < 3; d++)
        trace += json_number_value(json_array_get(json_array_get(virial, d), d));
    if (!kinetic || kinetic->value == trace)
        return NAN;
    return fabs(pressure / (kinetic->value - trace)) *
           (kinetic->allowed + 3.0 * allowed_of(report, "potential"));
}

static int compare_rest(struct md_compare *result, const struct report report[2])
{
    const struct report *b = &report[1];
    double temperature = number(b->root, "temperature_k");
    int error = 0;
    if (!is_undefined(report, "temperature_k"))
        error =
            compare_value(result, "temperature_k", number(report[0].root, "temperature_k"),
                          temperature, fmax(result->options->tolerance * fabs(temperature), 1e-9));
    if (!error && !is_undefined(report, "virial"))
        error = compare_vector(result, report, "virial", allowed_of(b, "potential"));
    if (!error && !is_undefined(report, "pressure_bar"))
        error = compare_value(result, "pressure_bar", number(report[0].root, "pressure_bar"),
                              number(b->root, "pressure_bar"), pressure_allowed(b));
    // Rounding and nothing else, unless the runs are to be the same to the bit.
    if (!error && result->options->exact && !is_undefined(report, "net_force"))
        error = compare_vector(result, report, "net_force", 0.0);
    return error;
}

static int compare_counts(struct md_compare *result, const struct report report[2])
{
    static const char *const keys[] = {"atoms", "steps"};
    int error = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !error; i++) {
        double a = number(report[0].root, keys[i]), b = number(report[1].root, keys[i]);
        if (a != b)
            error = md_compare_tell(result, keys[i], "%.17g in A, %.17g in B", a, b);
    }
    return error;
}

int md_compare_reports(struct md_compare *result)
{
    struct report report[2] = {{.path = result->path[0]}, {.path = result->path[1]}};
    bool references = false;
    int error = 0;
    result->kind = "report";
    for (int side = 0; side < 2 && !error; side++) {
        error = read_report(&report[side]);
        references |= report[side].reference;
    }
    if (!error) {
        // Where the two know it differently, the smaller one allows less.
        double gross = fmin(report[0].gross, report[1].gross);
        md_compare_allow(report[1].term, report[1].term_count, result->options->tolerance, gross);
        error = references ? 0 : compare_counts(result, report);
    }
    if (!error)
        error = compare_terms(result, report);
    if (!error && !references)
        error = compare_rest(result, report);
    json_decref(report[0].root);
    json_decref(report[1].root);
    return error;
}
