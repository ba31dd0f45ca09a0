// SPDX-License-Identifier: Apache-2.0
// Reader of GROMACS .gro files.
//
// Algorithm: one pass over the lines. The distance of the decimal points of the first atom line is
// the width of every coordinate and velocity column; arrays double as atoms arrive. Advantage: any
// precision, streams as well as files, and a false atom count costs no memory. Disadvantage: the
// columns of a hand-edited file have to be exact, since text may touch from column to column.

#include "format/gro.h"

#include "core/error.h"
#include "format/line.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_COLUMNS = 20, // residue number and name, atom name and number, five columns each
    WIDTH_MAX = 40,     // far beyond what double can hold
};

struct reader {
    const char *name;
    struct line_reader line;
    struct gro *gro;
    int64_t capacity;
    size_t width;
};

static int fail_at_line(const struct reader *reader, const char *what)
{
    return leat_fail(-EINVAL, "%s:%lld: %s", reader->name, (long long)reader->line.number, what);
}

static int next_line(struct reader *reader, const char *wanted)
{
    int result = line_read(&reader->line);
    if (result > 0)
        return 0;
    if (result < 0)
        return leat_fail(result, "%s:%lld: %s", reader->name, (long long)reader->line.number,
                         line_problem(result));
    return leat_fail(-EINVAL, "%s:%lld: the file ends where %s was expected", reader->name,
                     (long long)reader->line.number, wanted);
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t")] == 0;
}

// Plain decimal numbers only: strtod alone would take "nan", "inf" and hexadecimal.
static bool parse_real(const char *text, double *value)
{
    text += strspn(text, " \t");
    size_t length = strspn(text, "0123456789+-.eE");
    if (length == 0 || !is_blank(text + length))
        return false;
    char *end;
    double number = strtod(text, &end);
    if (end != text + length || !isfinite(number))
        return false;
    *value = number;
    return true;
}

static bool parse_integer(const char *text, int64_t *value)
{
    text += strspn(text, " \t");
    if (*text == 0)
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno || !is_blank(end))
        return false;
    *value = number;
    return true;
}

static void copy_trimmed(char *target, const char *text, size_t length)
{
    while (length && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    memcpy(target, text, length);
    target[length] = 0;
}

static int grow(struct reader *reader)
{
    struct gro *gro = reader->gro;
    if (gro->atom_count < reader->capacity)
        return 0;
    int64_t capacity = reader->capacity ? 2 * reader->capacity : 256;
    size_t count = (size_t)capacity;
    if (count > SIZE_MAX / (3 * sizeof(double)))
        return leat_fail(-ENOMEM, "%s: more atoms than memory can address", reader->name);
    void *labels = realloc(gro->labels, count * sizeof *gro->labels);
    gro->labels = labels ? labels : gro->labels;
    void *x = realloc(gro->x_nm, 3 * count * sizeof(double));
    gro->x_nm = x ? x : gro->x_nm;
    void *v = realloc(gro->v_nm_ps, 3 * count * sizeof(double));
    gro->v_nm_ps = v ? v : gro->v_nm_ps;
    if (!labels || !x || !v)
        return leat_fail(-ENOMEM, "%s: no memory for %lld atoms", reader->name,
                         (long long)capacity);
    reader->capacity = capacity;
    return 0;
}

// The width of a column is the distance of two decimal points, the same from x to y and y to z.
static int find_width(struct reader *reader)
{
    const char *text = reader->line.text + LABEL_COLUMNS;
    const char *x = strchr(text, '.');
    const char *y = x ? strchr(x + 1, '.') : NULL;
    const char *z = y ? strchr(y + 1, '.') : NULL;
    if (!z)
        return fail_at_line(reader, "expected three coordinates with decimal points from column "
                                    "21 on; .gro columns are fixed, see the GROMACS manual");
    if (z - y != y - x)
        return fail_at_line(reader, "the decimal points of x, y and z are not equally far apart, "
                                    "so the width of the columns is unknown");
    reader->width = (size_t)(y - x);
    if (reader->width < 2 || reader->width > WIDTH_MAX)
        return fail_at_line(reader, "the distance of the decimal points is not between 2 and 40");
    return 0;
}

// Reads three columns that begin at `text`; lines may end early within the last one.
static bool parse_columns(const char *text, size_t width, double *values)
{
    size_t length = strlen(text);
    for (int axis = 0; axis < 3; axis++) {
        char field[WIDTH_MAX + 1];
        size_t offset = (size_t)axis * width;
        if (offset >= length)
            return false;
        size_t bytes = length - offset < width ? length - offset : width;
        memcpy(field, text + offset, bytes);
        field[bytes] = 0;
        // Two points are two numbers; none, and the column has been cut out of a number.
        const char *point = strchr(field, '.');
        if (!point || strchr(point + 1, '.') || !parse_real(field, &values[axis]))
            return false;
    }
    return true;
}

static int parse_label(struct reader *reader)
{
    const char *text = reader->line.text;
    char number[6];
    int64_t residue;
    copy_trimmed(number, text, 5);
    if (!parse_integer(number, &residue))
        return fail_at_line(reader, "expected a residue number in columns 1 to 5");
    struct gro_label *label = &reader->gro->labels[reader->gro->atom_count];
    label->residue = (int)residue;
    copy_trimmed(label->residue_name, text + 5, 5);
    copy_trimmed(label->atom_name, text + 10, 5);
    return 0;
}

static int read_atom(struct reader *reader, int64_t promised)
{
    struct gro *gro = reader->gro;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "atom %lld of %lld", (long long)gro->atom_count + 1,
             (long long)promised);
    int error = next_line(reader, wanted);
    if (!error)
        error = grow(reader);
    if (error)
        return error;
    if (reader->line.length <= LABEL_COLUMNS)
        return leat_fail(-EINVAL,
                         "%s:%lld: expected %s, but the line ends before its coordinates "
                         "(column 21); is the count on line 2 right?",
                         reader->name, (long long)reader->line.number, wanted);
    if (reader->width == 0)
        error = find_width(reader);
    if (!error)
        error = parse_label(reader);
    if (error)
        return error;
    const char *text = reader->line.text + LABEL_COLUMNS;
    double *x = gro->x_nm + 3 * gro->atom_count, *v = gro->v_nm_ps + 3 * gro->atom_count;
    if (!parse_columns(text, reader->width, x))
        return leat_fail(-EINVAL,
                         "%s:%lld: expected three finite coordinates in columns of %zu "
                         "from column 21 on, for %s",
                         reader->name, (long long)reader->line.number, reader->width, wanted);
    v[0] = v[1] = v[2] = 0;
    bool more = strlen(text) > 3 * reader->width && !is_blank(text + 3 * reader->width);
    if (more && !parse_columns(text + 3 * reader->width, reader->width, v))
        return leat_fail(-EINVAL,
                         "%s:%lld: expected nothing or three finite velocities in columns "
                         "of %zu from column %zu on, for %s",
                         reader->name, (long long)reader->line.number, reader->width,
                         LABEL_COLUMNS + 3 * reader->width + 1, wanted);
    gro->has_velocities |= more;
    gro->atom_count++;
    return 0;
}

static int read_box(struct reader *reader)
{
    int error = next_line(reader, "the box line");
    if (error)
        return error;
    reader->gro->box_line = reader->line.number;
    double numbers[9] = {0};
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(reader->line.text, " \t", &rest); word;
         word = strtok_r(NULL, " \t", &rest)) {
        if (count == 9 || !parse_real(word, &numbers[count]))
            return fail_at_line(reader, "expected the box as 3 or 9 finite numbers; is the atom "
                                        "count on line 2 right?");
        count++;
    }
    if (count != 3 && count != 9)
        return leat_fail(-EINVAL, "%s:%lld: expected the box as 3 or 9 numbers, found %d",
                         reader->name, (long long)reader->line.number, count);
    // The order in the file: the diagonal, then a_y a_z b_x b_z c_x c_y.
    static const int row[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2};
    static const int column[9] = {0, 1, 2, 1, 2, 0, 2, 0, 1};
    for (int i = 0; i < 9; i++)
        reader->gro->box_nm[row[i]][column[i]] = numbers[i];
    for (int i = 0; i < 3; i++) {
        if (numbers[i] < 0)
            return fail_at_line(reader, "a box edge is negative");
    }
    return 0;
}

static int read_frame(struct reader *reader)
{
    int error = next_line(reader, "the title");
    if (error)
        return error;
    snprintf(reader->gro->title, sizeof reader->gro->title, "%.*s",
             (int)(sizeof reader->gro->title - 1), reader->line.text);
    error = next_line(reader, "the number of atoms");
    if (error)
        return error;
    int64_t promised;
    if (!parse_integer(reader->line.text, &promised) || promised < 0)
        return fail_at_line(reader,
                            "expected the number of atoms, 0 or more, on a line of its own");
    error = grow(reader); // so that an empty system has arrays too
    while (!error && reader->gro->atom_count < promised)
        error = read_atom(reader, promised);
    return error ? error : read_box(reader);
}

int gro_read_stream(FILE *stream, const char *name, struct gro **gro)
{
    struct reader reader = {.name = name, .line = {.file = stream}};
    reader.gro = calloc(1, sizeof *reader.gro);
    if (!reader.gro)
        return leat_fail(-ENOMEM, "%s: out of memory", name);
    int error = read_frame(&reader);
    line_reader_end(&reader.line);
    if (error) {
        gro_free(reader.gro);
        return error;
    }
    *gro = reader.gro;
    return 0;
}

int gro_read(const char *path, struct gro **gro)
{
    FILE *stream = fopen(path, "re");
    if (!stream) {
        int error = -errno;
        return leat_fail(error, "%s: %s", path, strerror(-error));
    }
    int error = gro_read_stream(stream, path, gro);
    fclose(stream);
    return error;
}

void gro_free(struct gro *gro)
{
    if (!gro)
        return;
    free(gro->labels);
    free(gro->x_nm);
    free(gro->v_nm_ps);
    free(gro);
}
