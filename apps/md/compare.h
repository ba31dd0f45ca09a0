/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparison of the files of two runs: what differs most, where, and whether that is allowed.
 *
 *     compare.c       what kind of file it is; findings     compare_forces.c  forces as text
 *     compare_json.c  reports: energies, temperature        compare_frames.c  .gro, TRR
 *     compare_terms.c which term may differ by how much     compare_table.c   energies as CSV
 *     compare_statistics.c means of CSV columns             blocking.c        their errors
 *
 * The rule of tolerance t: a difference of at most t times |pairs| + |exclusions| + |self| for
 * Coulomb where the files say what that is, t times the value for other terms (1e-9 kJ/mol where
 * that is 0), and the sum of their terms' allowances for sums; forces and velocities by the root
 * mean square of differences, at most t times that of the values; positions by t times the box.
 * With `exact` the same bits. What is not a finite number differs from everything.
 */
#ifndef MD_COMPARE_H
#define MD_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct md_compare_options {
    double tolerance;
    bool exact;
    bool common;         /* steps, columns and terms that only one file has are passed over */
    const char *columns; /* "potential,pressure": of CSV files only these; NULL: all */
    bool statistics;     /* means of CSV columns instead of their values */
    double skip_ps;      /* left out at the beginning, with statistics */
    double sigma;        /* standard errors that two means may be apart */
};

/* One quantity, where it differs most; or, with `text`, something that cannot be told in numbers.
 */
struct md_compare_row {
    char what[64], where[80];
    char text[240];
    double deviation, allowed; /* NAN: not known */
    double value[2];           /* likewise: of A and B where they differ most; with statistics the
                                  means, and `error` their standard errors */
    double error[2];
    int64_t first_step; /* the first that differs by more than allowed, or -1 */
    bool differs;
};

struct md_compare {
    const struct md_compare_options *options;
    const char *path[2];
    const char *kind; /* "report", "forces", ... */
    struct md_compare_row *rows;
    int row_count, row_capacity;
    int64_t compared; /* steps, frames or atoms that both had */
    bool differs;
};

/*
 * Compares two files, B being the reference. 0 also where they differ: `result` says so. Frees
 * nothing on failure: md_compare_free takes what there is.
 *
 * -EINVAL a file is malformed (file and line), or the two are of different kinds; -ENOTSUP a file
 * of no known kind, or `statistics` of something else than CSV; what opening or reading gave;
 * -ENOMEM.
 */
int md_compare_files(const char *a, const char *b, const struct md_compare_options *options,
                     struct md_compare *result);
void md_compare_free(struct md_compare *result);

/* ---- Findings ---- */

/* The largest difference of one quantity over steps and atoms. Begun by {.what}. */
struct md_compare_worst {
    const char *what;
    double ratio; /* difference to allowance */
    struct md_compare_row row;
    bool any;
};

/* Takes a pair of values into account; `where` is printed only where it is the worst so far.
 * `step` < 0: none. */
void md_compare_values(const struct md_compare *result, struct md_compare_worst *worst, double a,
                       double b, double allowed, int64_t atom, int64_t step);
/* The same for a difference that has been found, as of vectors; `same`: all the same bits. True
 * where it is the worst so far. */
bool md_compare_difference(const struct md_compare *result, struct md_compare_worst *worst,
                           double difference, bool same, double allowed, int64_t atom,
                           int64_t step);
/* Makes a row of it, unless nothing has been compared. */
int md_compare_add(struct md_compare *result, const struct md_compare_worst *worst);
/* A row of words, which counts as a difference. */
int md_compare_tell(struct md_compare *result, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool md_compare_same_bits(double a, double b);

/* Vectors of all atoms: the root mean square of their differences against that of B, and where it
 * is largest. */
struct md_compare_vectors {
    double difference2, reference2, largest2;
    int64_t count, atom; /* the latter from 1 */
    bool same;
};
void md_compare_vector(struct md_compare_vectors *sum, const double a[3], const double b[3]);
/* `least`: what is always allowed, as the last digit of a text. */
void md_compare_vectors_end(const struct md_compare *result, struct md_compare_worst *worst,
                            const struct md_compare_vectors *sum, double least, int64_t step);

/* ---- compare_terms.c ---- */
/* Energies by name; `gross` is |pairs| + |exclusions| + |self|, NAN where not known. What each may
 * differ by, from the values of the reference. */
enum { MD_COMPARE_NAME = 32 };
struct md_compare_term {
    char name[MD_COMPARE_NAME];
    double value, allowed;
};
void md_compare_allow(struct md_compare_term *terms, int count, double tolerance, double gross);
/* The name without its unit of energy; of a term of GROMACS ("LJ (SR)") ours. Longer ones are cut.
 */
int md_compare_term_name(const char *name, char ours[MD_COMPARE_NAME]);

/* ---- compare_json.c, compare_forces.c, compare_frames.c, compare_table.c ---- */
int md_compare_reports(struct md_compare *result);
int md_compare_forces(struct md_compare *result, FILE *const stream[2]);
enum md_frames_format { MD_FRAMES_GRO, MD_FRAMES_TRR };
int md_compare_frames(struct md_compare *result, FILE *const stream[2],
                      const enum md_frames_format format[2]);
int md_compare_tables(struct md_compare *result, FILE *const stream[2]);
/* Tells of wanted columns that neither table has. */
struct md_csv;
int md_compare_listed(struct md_compare *result, const struct md_csv *a, const struct md_csv *b);

/* ---- compare_statistics.c ---- */
int md_compare_statistics(struct md_compare *result, FILE *const stream[2]);

/* ---- blocking.c ---- */
struct md_mean {
    double mean, error;   /* the latter is the mean's standard error */
    int64_t count, block; /* values, and how many of them were taken together */
    bool decided;         /* the error has stopped growing with the blocks */
};
/* Changes `values`. */
void md_blocking(double *values, int64_t count, struct md_mean *mean);

#endif
