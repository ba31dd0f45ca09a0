// SPDX-License-Identifier: Apache-2.0
// Two files of two runs: what kind they are of, and the list of what was found.
//
// A kind is told by how a file begins, so names do not matter; of a quantity only the worst place
// is kept. Advantage: files are read once, side by side, and a trajectory needs memory for two
// frames. Disadvantage: two files whose frames are out of order are not put into order.

#include "md/compare.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// ---- Findings ----

bool md_compare_same_bits(double a, double b)
{
    uint64_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    return bits[0] == bits[1];
}

static bool is_allowed(const struct md_compare *result, double difference, bool same,
                       double allowed)
{
    return isfinite(difference) && (result->options->exact ? same : difference <= allowed);
}

static double ratio_of(const struct md_compare *result, double difference, double allowed)
{
    if (!isfinite(difference))
        return HUGE_VAL;
    if (result->options->exact || difference == 0.0)
        return difference;
    return allowed > 0.0 ? difference / allowed : HUGE_VAL;
}

static void set_place(struct md_compare_row *row, int64_t atom, int64_t step)
{
    char atom_text[32] = "", step_text[32] = "";
    if (atom > 0)
        snprintf(atom_text, sizeof atom_text, "atom %lld", (long long)atom);
    if (step >= 0)
        snprintf(step_text, sizeof step_text, "step %lld", (long long)step);
    snprintf(row->where, sizeof row->where, "%s%s%s", atom_text,
             *atom_text && *step_text ? ", " : "", step_text);
}

bool md_compare_difference(const struct md_compare *result, struct md_compare_worst *worst,
                           double difference, bool same, double allowed, int64_t atom, int64_t step)
{
    struct md_compare_row *row = &worst->row;
    bool right = is_allowed(result, difference, same, allowed);
    double ratio = ratio_of(result, difference, allowed);
    bool first = !worst->any, begins = !right && !row->differs;
    int64_t first_step = first || begins ? (right ? -1 : step) : row->first_step;
    bool leads = first || begins || (ratio > worst->ratio && right == !row->differs);
    if (leads) {
        worst->ratio = ratio;
        worst->any = true;
        *row = (struct md_compare_row){.deviation = difference,
                                       .allowed = result->options->exact ? 0.0 : allowed,
                                       .value = {NAN, NAN},
                                       .error = {NAN, NAN},
                                       .differs = !right};
        snprintf(row->what, sizeof row->what, "%s", worst->what);
        set_place(row, atom, step);
    }
    row->first_step = first_step;
    return leads;
}

void md_compare_values(const struct md_compare *result, struct md_compare_worst *worst, double a,
                       double b, double allowed, int64_t atom, int64_t step)
{
    // Two infinities are no distance apart that could be judged.
    double difference = isfinite(a) && isfinite(b) ? fabs(a - b) : NAN;
    if (md_compare_difference(result, worst, difference, md_compare_same_bits(a, b), allowed, atom,
                              step)) {
        worst->row.value[0] = a;
        worst->row.value[1] = b;
    }
}

static struct md_compare_row *new_row(struct md_compare *result)
{
    if (result->row_count == result->row_capacity) {
        int capacity = 2 * result->row_capacity + 16;
        struct md_compare_row *rows =
            realloc(result->rows, (size_t)capacity * sizeof *result->rows);
        if (!rows) {
            leat_fail(-ENOMEM, "no memory for what was found");
            return NULL;
        }
        result->rows = rows;
        result->row_capacity = capacity;
    }
    return &result->rows[result->row_count++];
}

int md_compare_add(struct md_compare *result, const struct md_compare_worst *worst)
{
    if (!worst->any)
        return 0;
    struct md_compare_row *row = new_row(result);
    if (!row)
        return -ENOMEM;
    *row = worst->row;
    result->differs |= row->differs;
    return 0;
}

int md_compare_tell(struct md_compare *result, const char *what, const char *format, ...)
{
    struct md_compare_row *row = new_row(result);
    if (!row)
        return -ENOMEM;
    *row = (struct md_compare_row){.deviation = NAN,
                                   .allowed = NAN,
                                   .value = {NAN, NAN},
                                   .error = {NAN, NAN},
                                   .first_step = -1,
                                   .differs = true};
    snprintf(row->what, sizeof row->what, "%s", what);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->text, sizeof row->text, format, arguments);
    va_end(arguments);
    result->differs = true;
    return 0;
}

void md_compare_vector(struct md_compare_vectors *sum, const double a[3], const double b[3])
{
    double difference2 = 0.0;
    if (sum->count++ == 0)
        sum->same = true;
    for (int d = 0; d < 3; d++) {
        double difference = a[d] - b[d];
        difference2 += difference * difference;
        sum->reference2 += b[d] * b[d];
        sum->same &= md_compare_same_bits(a[d], b[d]);
    }
    sum->difference2 += difference2;
    // The first that is no number stays the one to name.
    if (difference2 > sum->largest2 || (!isfinite(difference2) && isfinite(sum->largest2))) {
        sum->largest2 = difference2;
        sum->atom = sum->count;
    }
}

void md_compare_vectors_end(const struct md_compare *result, struct md_compare_worst *worst,
                            const struct md_compare_vectors *sum, double least, int64_t step)
{
    double count = (double)sum->count;
    double allowed = result->options->tolerance * sqrt(sum->reference2 / count);
    md_compare_difference(result, worst, sqrt(sum->difference2 / count), sum->same,
                          fmax(allowed, fmax(least, 1e-9)), sum->atom, step);
}

// ---- Kinds ----

enum kind { KIND_NONE, KIND_REPORT, KIND_FORCES, KIND_GRO, KIND_TRR, KIND_TABLE, KIND_COUNT };

static const char *const kind_names[KIND_COUNT] = {"of no known kind", "a report (JSON)",
                                                   "forces (text)",    "a .gro",
                                                   "a TRR trajectory", "a table (CSV)"};

static bool has_letters(const char *text)
{
    for (; *text; text++)
        if (isalpha((unsigned char)*text) && !strchr("eE", *text) && strncmp(text, "nan", 3) != 0 &&
            strncmp(text, "inf", 3) != 0)
            return true;
    return false;
}

// The line that holds nothing but a number without a point.
static bool is_count(const char *line)
{
    line += strspn(line, " \t");
    size_t digits = strspn(line, "0123456789");
    line += digits + strspn(line + digits, " \t\r");
    return digits && (*line == '\n' || *line == 0);
}

static enum kind kind_of(char *head, size_t length)
{
    static const unsigned char trr[4] = {0, 0, 7, 0xc9};
    if (length >= sizeof trr && memcmp(head, trr, sizeof trr) == 0)
        return KIND_TRR;
    if (memchr(head, 0, length))
        return KIND_NONE;
    if (head[strspn(head, " \t\r\n")] == '{')
        return KIND_REPORT;
    // A .gro's title may be anything, empty too; the number of atoms follows.
    const char *title_end = strchr(head, '\n');
    if (title_end && is_count(title_end + 1))
        return KIND_GRO;
    char *line = head + strspn(head, " \t\r\n");
    line[strcspn(line, "\n")] = 0;
    if (*line == '#' || *line == '@') // an .xvg
        return KIND_TABLE;
    bool has_comma = strchr(line, ',') != NULL;
    if (*line && has_comma == has_letters(line))
        return has_comma ? KIND_TABLE : KIND_FORCES;
    return KIND_NONE;
}

static int look(const char *path, FILE **stream, enum kind *kind)
{
    char head[4096];
    *stream = fopen(path, "re");
    if (!*stream)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    errno = 0;
    size_t length = fread(head, 1, sizeof head - 1, *stream);
    if (ferror(*stream))
        return leat_fail(errno ? -errno : -EIO, "%s: %s", path, strerror(errno ? errno : EIO));
    head[length] = 0;
    *kind = kind_of(head, length);
    if (*kind == KIND_NONE)
        return leat_fail(-ENOTSUP,
                         "%s is neither a report of `leat md --json`, nor forces, a .gro, a TRR "
                         "trajectory or energies as CSV",
                         path);
    // What is read here is read again; a pipe has it no more.
    if (fseek(*stream, 0, SEEK_SET))
        return leat_fail(-errno, "%s: %s; comparing takes files", path, strerror(errno));
    return 0;
}

static int compare_kinds(struct md_compare *result, FILE *const stream[2], const enum kind kind[2])
{
    bool frames = (kind[0] == KIND_GRO || kind[0] == KIND_TRR) &&
                  (kind[1] == KIND_GRO || kind[1] == KIND_TRR);
    if (kind[0] != kind[1] && !frames)
        return leat_fail(-EINVAL, "%s is %s, but %s is %s: nothing to compare", result->path[0],
                         kind_names[kind[0]], result->path[1], kind_names[kind[1]]);
    if (result->options->statistics && kind[0] != KIND_TABLE)
        return leat_fail(-ENOTSUP, "%s is %s; --statistics is of energies as CSV", result->path[0],
                         kind_names[kind[0]]);
    if (frames) {
        const enum md_frames_format format[2] = {
            kind[0] == KIND_TRR ? MD_FRAMES_TRR : MD_FRAMES_GRO,
            kind[1] == KIND_TRR ? MD_FRAMES_TRR : MD_FRAMES_GRO};
        return md_compare_frames(result, stream, format);
    }
    if (kind[0] == KIND_REPORT)
        return md_compare_reports(result);
    if (kind[0] == KIND_FORCES)
        return md_compare_forces(result, stream);
    return result->options->statistics ? md_compare_statistics(result, stream)
                                       : md_compare_tables(result, stream);
}

int md_compare_files(const char *a, const char *b, const struct md_compare_options *options,
                     struct md_compare *result)
{
    FILE *stream[2] = {NULL, NULL};
    enum kind kind[2] = {KIND_NONE, KIND_NONE};
    *result = (struct md_compare){.options = options, .path = {a, b}};
    int error = 0;
    for (int side = 0; side < 2 && !error; side++)
        error = look(result->path[side], &stream[side], &kind[side]);
    if (!error)
        error = compare_kinds(result, stream, kind);
    for (int side = 0; side < 2; side++)
        if (stream[side])
            fclose(stream[side]);
    return error;
}

void md_compare_free(struct md_compare *result)
{
    free(result->rows);
    *result = (struct md_compare){0};
}
