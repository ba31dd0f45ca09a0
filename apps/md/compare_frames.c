// SPDX-License-Identifier: Apache-2.0
// Trajectories: frames of two files, matched by step.
//
// Both are read forwards, and whose step is behind goes on. Advantage: memory for two frames.
// Disadvantage: frames have to be in ascending order of steps. Positions are compared between
// nearest images, so that runs which wrap differently compare equal; in a .gro the last digit
// written may differ by one.

#include "md/compare.h"

#include "core/error.h"
#include "format/gro.h"
#include "format/trr.h"
#include "md/box.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct frames {
    enum md_frames_format format;
    const char *path;
    FILE *stream;
    struct gro *gro;
    struct trr_reader trr;
    int64_t number; /* of frames read */
    bool counted;   /* frames have no steps: their numbers stand for them */
    /* The frame at hand. */
    bool there;
    int64_t step, step_before, atom_count;
    double box_nm[3][3];
    const double *x_nm, *v_nm_ps, *f; /* NULL: none */
    double digit_nm;                  /* one of the last digit of a text, or 0 */
};

struct judged {
    struct md_compare_worst box, x, v, f;
    bool told[4]; // of what only one of two frames has, atoms last
};

// As GROMACS writes it: "... step= 100".
static bool step_of_title(const char *title, int64_t *step)
{
    const char *word = NULL;
    for (const char *at = title; (at = strstr(at, "step=")); at++)
        word = at + 5;
    if (!word)
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (end == word || errno || value < 0)
        return false;
    *step = value;
    return true;
}

// Titles that do not say a step, in either file, make frames match one by one.
static bool are_counted(const struct frames frames[2])
{
    bool counted = false;
    for (int side = 0; side < 2; side++) {
        char title[256] = "";
        int64_t step;
        long here = ftell(frames[side].stream);
        if (frames[side].format != MD_FRAMES_GRO)
            return false;
        counted |= fgets(title, sizeof title, frames[side].stream) && !step_of_title(title, &step);
        fseek(frames[side].stream, here, SEEK_SET);
    }
    return counted;
}

// The decimals of a position are the distance of decimal points less five.
static double digit_of(FILE *stream)
{
    char line[256] = "";
    long here = ftell(stream);
    for (int i = 0; i < 3; i++)
        if (!fgets(line, sizeof line, stream))
            line[0] = 0;
    fseek(stream, here, SEEK_SET);
    const char *first = strlen(line) > 20 ? strchr(line + 20, '.') : NULL;
    const char *second = first ? strchr(first + 1, '.') : NULL;
    return second ? pow(10.0, 5.0 - (double)(second - first)) : 0.0;
}

static int next_gro(struct frames *frames)
{
    gro_free(frames->gro);
    frames->gro = NULL;
    // A title may be blank, so only the end of the file is the end; a blank last line is not one.
    int first = getc(frames->stream);
    if (first == '\n' && frames->number > 0) {
        int second = getc(frames->stream);
        if (second == EOF)
            first = EOF;
        else
            fseek(frames->stream, -1, SEEK_CUR);
    }
    if (first == EOF)
        return 0;
    fseek(frames->stream, -1, SEEK_CUR);
    if (frames->number == 0)
        frames->digit_nm = digit_of(frames->stream);
    int error = gro_read_stream(frames->stream, frames->path, &frames->gro);
    if (error)
        return leat_fail_in(error, "frame %lld", (long long)frames->number + 1);
    const struct gro *gro = frames->gro;
    frames->step = frames->number;
    if (!frames->counted)
        step_of_title(gro->title, &frames->step);
    frames->atom_count = gro->atom_count;
    memcpy(frames->box_nm, gro->box_nm, sizeof frames->box_nm);
    frames->x_nm = gro->x_nm;
    frames->v_nm_ps = gro->has_velocities ? gro->v_nm_ps : NULL;
    return 1;
}

static int next_trr(struct frames *frames)
{
    struct trr_reader *reader = &frames->trr;
    int got = trr_read(reader);
    if (got <= 0)
        return got;
    frames->step = reader->frame.step;
    frames->atom_count = reader->frame.atom_count;
    memcpy(frames->box_nm, reader->frame.box_nm, sizeof frames->box_nm);
    frames->x_nm = reader->frame.has_x ? reader->x_nm : NULL;
    frames->v_nm_ps = reader->frame.has_v ? reader->v_nm_ps : NULL;
    frames->f = reader->frame.has_f ? reader->f : NULL;
    return 1;
}

static int next_frame(struct frames *frames)
{
    int got = frames->format == MD_FRAMES_TRR ? next_trr(frames) : next_gro(frames);
    frames->there = got > 0;
    if (got < 0)
        return got;
    if (frames->there && frames->number > 0 && frames->step <= frames->step_before)
        return leat_fail(-EINVAL,
                         "%s: frame %lld is of step %lld, behind one of step %lld; frames have to "
                         "be in ascending order",
                         frames->path, (long long)frames->number + 1, (long long)frames->step,
                         (long long)frames->step_before);
    frames->step_before = frames->step;
    frames->number += frames->there;
    return 0;
}

static double longest_edge(const double box_nm[3][3])
{
    double longest = 0.0;
    for (int v = 0; v < 3; v++)
        longest = fmax(longest, sqrt(box_nm[v][0] * box_nm[v][0] + box_nm[v][1] * box_nm[v][1] +
                                     box_nm[v][2] * box_nm[v][2]));
    return longest;
}

// The nearest image is asked for boxes that have one: row vectors of a lower triangle.
static bool is_periodic(const double box_nm[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (box_nm[i][j] != 0.0)
                return false;
    return box_nm[0][0] > 0.0 && box_nm[1][1] > 0.0 && box_nm[2][2] > 0.0;
}

static void compare_box(const struct md_compare *result, struct judged *judged,
                        const struct frames frames[2])
{
    const struct frames *b = &frames[1];
    double allowed = fmax(result->options->tolerance * longest_edge(b->box_nm), 1e-12);
    // Boxes are written with two digits more than positions.
    allowed = fmax(allowed, 0.011 * fmax(frames[0].digit_nm, b->digit_nm));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            md_compare_values(result, &judged->box, frames[0].box_nm[i][j], b->box_nm[i][j],
                              allowed, 0, b->step);
}

static void compare_positions(const struct md_compare *result, struct judged *judged,
                              const struct frames frames[2])
{
    const struct frames *a = &frames[0], *b = &frames[1];
    bool periodic = is_periodic(b->box_nm);
    double edge = longest_edge(b->box_nm);
    double digit = fmax(a->digit_nm, b->digit_nm) * 1.01; // of the decimal, which is not exact
    double allowed = fmax(result->options->tolerance * (edge > 0.0 ? edge : 1.0), digit);
    for (int64_t i = 0; i < b->atom_count; i++) {
        double d[3], square = 0.0;
        bool same = true;
        for (int k = 0; k < 3; k++) {
            d[k] = a->x_nm[3 * i + k] - b->x_nm[3 * i + k];
            same &= md_compare_same_bits(a->x_nm[3 * i + k], b->x_nm[3 * i + k]);
        }
        if (periodic && !result->options->exact)
            md_box_nearest(b->box_nm, a->x_nm + 3 * i, b->x_nm + 3 * i, d);
        for (int k = 0; k < 3; k++)
            square += d[k] * d[k];
        // Each of three digits may be off.
        md_compare_difference(result, &judged->x, sqrt(square), same,
                              fmax(allowed, sqrt(3.0) * digit), i + 1, b->step);
    }
}

static void compare_arrays(const struct md_compare *result, struct md_compare_worst *worst,
                           const double *a, const double *b, const struct frames frames[2],
                           double digit)
{
    struct md_compare_vectors sum = {0};
    for (int64_t i = 0; i < frames[1].atom_count; i++)
        md_compare_vector(&sum, a + 3 * i, b + 3 * i);
    if (sum.count)
        md_compare_vectors_end(result, worst, &sum, digit, frames[1].step);
}

static int tell_missing(struct md_compare *result, struct judged *judged,
                        const struct frames frames[2])
{
    static const char *const names[] = {"positions", "velocities", "forces"};
    const struct frames *a = &frames[0], *b = &frames[1];
    const double *const has[3][2] = {{a->x_nm, b->x_nm}, {a->v_nm_ps, b->v_nm_ps}, {a->f, b->f}};
    int error = 0;
    for (int i = 0; i < 3 && !error; i++) {
        if (!has[i][0] == !has[i][1] || judged->told[i] || result->options->common)
            continue;
        judged->told[i] = true;
        error = md_compare_tell(result, names[i], "only %s has them, first at step %lld",
                                has[i][0] ? "A" : "B", (long long)b->step);
    }
    return error;
}

static int tell_atoms(struct md_compare *result, struct judged *judged,
                      const struct frames frames[2])
{
    if (judged->told[3])
        return 0;
    judged->told[3] = true;
    return md_compare_tell(result, "atoms", "%lld in A, %lld in B, first at step %lld",
                           (long long)frames[0].atom_count, (long long)frames[1].atom_count,
                           (long long)frames[1].step);
}

static int compare_frame(struct md_compare *result, struct judged *judged,
                         const struct frames frames[2])
{
    const struct frames *a = &frames[0], *b = &frames[1];
    result->compared++;
    if (a->atom_count != b->atom_count)
        return tell_atoms(result, judged, frames);
    compare_box(result, judged, frames);
    if (a->x_nm && b->x_nm)
        compare_positions(result, judged, frames);
    if (a->v_nm_ps && b->v_nm_ps)
        compare_arrays(result, &judged->v, a->v_nm_ps, b->v_nm_ps, frames,
                       0.1 * fmax(a->digit_nm, b->digit_nm));
    if (a->f && b->f)
        compare_arrays(result, &judged->f, a->f, b->f, frames, 0.0);
    return tell_missing(result, judged, frames);
}

// Walks through both; what only one has is counted.
static int walk(struct md_compare *result, struct judged *judged, struct frames frames[2],
                int64_t only[2], int64_t first_only[2])
{
    int error = next_frame(&frames[0]);
    if (!error)
        error = next_frame(&frames[1]);
    while (!error && (frames[0].there || frames[1].there)) {
        int behind = !frames[0].there || (frames[1].there && frames[1].step < frames[0].step);
        if (frames[0].there && frames[1].there && frames[0].step == frames[1].step) {
            error = compare_frame(result, judged, frames);
            if (!error)
                error = next_frame(&frames[0]);
            behind = 1;
        } else if (only[behind]++ == 0) {
            first_only[behind] = frames[behind].step;
        }
        if (!error)
            error = next_frame(&frames[behind]);
    }
    return error;
}

static int report(struct md_compare *result, const struct judged *judged, const int64_t only[2],
                  const int64_t first_only[2])
{
    int error = 0;
    for (int side = 0; side < 2 && !error; side++)
        if (only[side] && !result->options->common)
            error = md_compare_tell(result, "steps", "%lld only in %s, the first is step %lld",
                                    (long long)only[side], side ? "B" : "A",
                                    (long long)first_only[side]);
    if (!error && !result->compared)
        error = md_compare_tell(result, "steps", "none is in both files");
    if (!error)
        error = md_compare_add(result, &judged->box);
    if (!error)
        error = md_compare_add(result, &judged->x);
    if (!error)
        error = md_compare_add(result, &judged->v);
    return error ? error : md_compare_add(result, &judged->f);
}

int md_compare_frames(struct md_compare *result, FILE *const stream[2],
                      const enum md_frames_format format[2])
{
    struct frames frames[2] = {{0}};
    struct judged judged = {.box = {.what = "box, nm"},
                            .x = {.what = "positions, nm"},
                            .v = {.what = "velocities, nm/ps (RMS)"},
                            .f = {.what = "forces, kJ/mol/nm (RMS)"}};
    int64_t only[2] = {0, 0}, first_only[2] = {0, 0};
    result->kind = "trajectory";
    for (int side = 0; side < 2; side++)
        frames[side] = (struct frames){.format = format[side],
                                       .path = result->path[side],
                                       .stream = stream[side],
                                       .trr = {.stream = stream[side], .name = result->path[side]}};
    frames[0].counted = frames[1].counted = are_counted(frames);
    int error = walk(result, &judged, frames, only, first_only);
    if (!error)
        error = report(result, &judged, only, first_only);
    for (int side = 0; side < 2; side++) {
        gro_free(frames[side].gro);
        trr_reader_end(&frames[side].trr);
    }
    return error;
}
