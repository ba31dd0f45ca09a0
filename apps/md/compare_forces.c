// SPDX-License-Identifier: Apache-2.0
// Forces as text, an atom a line, as `leat md --forces` writes them.
//
// Two files are read line by line side by side. Advantage: no memory for the forces, so any number
// of atoms. Disadvantage: blank lines have to be nowhere or at the end.

#include "md/compare.h"

#include "core/error.h"
#include "format/line.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Three numbers and no more; those that are not finite are for the comparison to see.
static bool parse(const char *text, double force[3])
{
    for (int d = 0; d < 3; d++) {
        char *end;
        force[d] = strtod(text, &end);
        if (end == text || (*end && !strchr(" \t", *end)))
            return false;
        text = end;
    }
    return text[strspn(text, " \t")] == 0;
}

// 1: a force; 0: the end.
static int next_force(struct line_reader *line, const char *name, double force[3])
{
    int got = line_read(line);
    while (got > 0 && line->text[strspn(line->text, " \t")] == 0)
        got = line_read(line);
    if (got < 0)
        return leat_fail(got, "%s:%lld: %s", name, (long long)line->number, line_problem(got));
    if (got > 0 && !parse(line->text, force))
        return leat_fail(-EINVAL, "%s:%lld: expected three numbers, the force on an atom", name,
                         (long long)line->number);
    return got;
}

static int finish(struct md_compare *result, const struct md_compare_vectors *sum,
                  const int64_t count[2])
{
    struct md_compare_worst worst = {.what = "forces, kJ/mol/nm (RMS)"};
    struct md_compare_worst largest = {.what = "largest difference"};
    result->compared = sum->count;
    if (count[0] != count[1])
        return md_compare_tell(result, "forces", "%lld atoms in A, %lld in B", (long long)count[0],
                               (long long)count[1]);
    if (!sum->count)
        return md_compare_tell(result, "forces", "both files are empty");
    md_compare_vectors_end(result, &worst, sum, 0.0, -1);
    worst.row.where[0] = 0;
    int error = md_compare_add(result, &worst);
    // A single atom is shown, and judged with all others by the sum of squares.
    md_compare_difference(result, &largest, sqrt(sum->largest2), sum->same, HUGE_VAL, sum->atom,
                          -1);
    largest.row.allowed = NAN;
    return error ? error : md_compare_add(result, &largest);
}

int md_compare_forces(struct md_compare *result, FILE *const stream[2])
{
    struct line_reader line[2] = {{.file = stream[0]}, {.file = stream[1]}};
    struct md_compare_vectors sum = {0};
    int64_t count[2] = {0, 0};
    int got[2] = {1, 1};
    result->kind = "forces";
    while (got[0] > 0 || got[1] > 0) {
        double force[2][3];
        for (int side = 0; side < 2 && got[0] >= 0; side++)
            if (got[side] > 0)
                got[side] = next_force(&line[side], result->path[side], force[side]);
        if (got[0] < 0 || got[1] < 0)
            break;
        count[0] += got[0];
        count[1] += got[1];
        if (got[0] && got[1])
            md_compare_vector(&sum, force[0], force[1]);
    }
    line_reader_end(&line[0]);
    line_reader_end(&line[1]);
    if (got[0] < 0 || got[1] < 0)
        return got[0] < 0 ? got[0] : got[1];
    return finish(result, &sum, count);
}
