// SPDX-License-Identifier: Apache-2.0
// Reader of tables; see csv.h.
//
// A row at a time. Advantage: a file of any length needs memory for a line. Disadvantage: quotes,
// which CSV knows, are not understood, and no file of energies has them.

#include "md/csv.h"

#include "core/error.h"
#include "md/compare.h"
#include "md/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int fail_at(const struct md_csv *table, const char *what)
{
    return leat_fail(-EINVAL, "%s:%lld: %s", table->name, (long long)table->line.number, what);
}

static int next_line(struct md_csv *table)
{
    int got = line_read(&table->line);
    if (got < 0)
        return leat_fail(got, "%s:%lld: %s", table->name, (long long)table->line.number,
                         line_problem(got));
    return got;
}

static int add_column(struct md_csv *table, const char *name)
{
    if (table->column_count == MD_CSV_COLUMNS)
        return fail_at(table, "more than 128 columns");
    if (!*name)
        return fail_at(table, "a column has no name");
    char(*column)[MD_COMPARE_NAME] = &table->column[table->column_count];
    md_compare_term_name(name, *column);
    if (md_csv_find(table, *column) >= 0)
        return leat_fail(-EINVAL, "%s:%lld: two columns are called %s", table->name,
                         (long long)table->line.number, *column);
    table->column_count++;
    return 0;
}

// The next of the words that commas part, trimmed; NULL after the last.
static char *next_cell(char **rest)
{
    char *cell = *rest;
    if (!cell)
        return NULL;
    char *comma = strchr(cell, ',');
    *rest = comma ? comma + 1 : NULL;
    if (comma)
        *comma = 0;
    return md_trim(cell);
}

static int read_names(struct md_csv *table, char *text)
{
    int error = 0;
    for (char *cell; !error && (cell = next_cell(&text));)
        error = add_column(table, cell);
    return error;
}

// @ s0 legend "Potential": column 1, behind the time.
static int read_legend(struct md_csv *table)
{
    char *text = table->line.text;
    if (strncmp(text, "@ s", 3) != 0 || !strstr(text, " legend \""))
        return 0;
    char *name = strchr(text, '"') + 1;
    name[strcspn(name, "\"")] = 0;
    if (atoi(text + 3) != table->column_count - 1)
        return fail_at(table, "the legends are not in order");
    return add_column(table, name);
}

// What stands before the first row of numbers.
static int read_head(struct md_csv *table, bool *first)
{
    table->spaced = true;
    int error = add_column(table, "time"), got = 1;
    do {
        error = error ? error : read_legend(table);
        got = error ? error : next_line(table);
    } while (got > 0 && (*table->line.text == '@' || *table->line.text == '#'));
    *first = got > 0;
    return got < 0 ? got : 0;
}

int md_csv_open(struct md_csv *table)
{
    table->line = (struct line_reader){.file = table->stream};
    table->step = table->time = -1;
    int got = next_line(table);
    while (got > 0 && !*md_trim(table->line.text))
        got = next_line(table);
    if (got <= 0)
        return got ? got : leat_fail(-EINVAL, "%s is empty", table->name);
    bool spaced = *table->line.text == '#' || *table->line.text == '@', first = false;
    int error = spaced ? read_head(table, &first) : read_names(table, table->line.text);
    table->row = first ? -1 : 0; // the line at hand is the first row
    table->step = md_csv_find(table, "step");
    table->time = md_csv_find(table, "time");
    return error;
}

static int read_cell(struct md_csv *table, int column, const char *cell)
{
    if (column >= table->column_count)
        return leat_fail(-EINVAL, "%s:%lld: more than the %d numbers that there are names for",
                         table->name, (long long)table->line.number, table->column_count);
    char *end;
    table->has[column] = *cell != 0;
    table->value[column] = strtod(cell, &end);
    if (*cell && *end)
        return leat_fail(-EINVAL, "%s:%lld: \"%.40s\" is no number, under %s", table->name,
                         (long long)table->line.number, cell, table->column[column]);
    return 0;
}

static int read_row(struct md_csv *table)
{
    char *text = table->line.text;
    int error = 0, column = 0;
    for (char *cell; !error; column++) {
        cell = table->spaced ? md_next_word(&text) : next_cell(&text);
        if (!cell)
            break;
        error = read_cell(table, column, cell);
    }
    if (!error && column != table->column_count)
        return leat_fail(-EINVAL, "%s:%lld: %d numbers under %d names", table->name,
                         (long long)table->line.number, column, table->column_count);
    return error;
}

int md_csv_next(struct md_csv *table)
{
    int got = table->row < 0 ? 1 : next_line(table);
    table->row += table->row < 0;
    while (got > 0 && !*md_trim(table->line.text))
        got = next_line(table);
    if (got <= 0)
        return got;
    int error = read_row(table);
    table->row++;
    return error ? error : 1;
}

void md_csv_close(struct md_csv *table)
{
    line_reader_end(&table->line);
}

int md_csv_find(const struct md_csv *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (strcmp(table->column[i], name) == 0)
            return i;
    return -1;
}

bool md_csv_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}
