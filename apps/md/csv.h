/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of numbers with named columns: CSV with a line of names first, and the .xvg files of
 * `gmx energy`.
 *
 *     struct md_csv table = {.stream = file, .name = path};
 *     error = md_csv_open(&table);
 *     while (!error && (error = md_csv_next(&table)) == 1)
 *         ... table.value[i], where table.has[i] ...
 *     md_csv_close(&table);
 */
#ifndef MD_CSV_H
#define MD_CSV_H

#include "format/line.h"
#include "md/compare.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MD_CSV_COLUMNS = 128 };

/* Begun by {.stream, .name}, which stay the caller's; the rest is the table's. */
struct md_csv {
    FILE *stream;
    const char *name; /* for messages */
    struct line_reader line;
    bool spaced; /* an .xvg: columns are words */
    int column_count;
    char column[MD_CSV_COLUMNS][MD_COMPARE_NAME]; /* see md_compare_term_name */
    int step, time;                               /* columns of these names, or -1 */
    int64_t row;                                  /* read so far */
    double value[MD_CSV_COLUMNS];
    bool has[MD_CSV_COLUMNS]; /* false: nothing stands between the commas */
};

/* Reads the names. -EINVAL names file and line; what reading gave. */
int md_csv_open(struct md_csv *table);
/* The next row. 1: there it is; 0: the end; errors likewise. Numbers may be not finite. */
int md_csv_next(struct md_csv *table);
void md_csv_close(struct md_csv *table);
/* The column of that name, or -1. */
int md_csv_find(const struct md_csv *table, const char *name);
/* Whether a list with commas has the name. */
bool md_csv_listed(const char *list, const char *name);

#endif
