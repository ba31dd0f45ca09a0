/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words, numbers, places and names: what the readers of settings and topologies share.
 */
#ifndef MD_TEXT_H
#define MD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of an input file, for messages; the text of `file` belongs to whoever reads the file. */
struct md_place {
    const char *file;
    int line;
};

/* leat_fail() with "file:line: " in front. */
int md_fail_at(struct md_place place, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Cuts white space off both ends, in place; returns the first character that stays. */
char *md_trim(char *text);

/*
 * Cuts the next word of white-space separated text off *rest and returns it, NULL when there is
 * none. Changes the text in place.
 */
char *md_next_word(char **rest);

/* Splits text into words in place; returns their number, at most `limit` + 1 (then the last is the
 * first one that found no room, and is not stored). */
int md_split(char *text, char **words, int limit);

/* Same word as GROMACS compares keywords: case-blind, with '-' and '_' left out. */
bool md_same_word(const char *a, const char *b);

/* Same with '*' at the end of `pattern` standing for anything, "-*" for anything that begins with
 * '-' or '_'. */
bool md_word_matches(const char *word, const char *pattern);

/* A finite plain decimal number, nothing after it. */
bool md_parse_real(const char *text, double *value);

/* A decimal integer that fits, nothing after it. */
bool md_parse_integer(const char *text, int64_t *value);
bool md_parse_int(const char *text, int *value);

/* Edits (insert, delete, replace) between two words as md_same_word() sees them; words beyond 63
 * characters are cut. */
int md_word_distance(const char *a, const char *b);

/*
 * Makes room for one more element in an array that grows by doubling: returns the array, moved or
 * not, or NULL with the error detail set (the old array then stays the caller's). -ENOMEM is what
 * callers return.
 */
void *md_reserve(void *array, int count, int *capacity, size_t element_bytes);

/*
 * Names numbered in order of arrival; the reader's symbol table. Starts as {0}.
 * Advantage: a look-up costs one hash, whatever the size of the force field. Disadvantage: no name
 * is ever taken out.
 */
struct md_names {
    char **name; /* [count], owned */
    int count, capacity;
    int *slot; /* open addressing: number + 1, or 0 */
    int slot_count;
};

/* The number of a name, -1 if there is none. `length` bytes of `name` count. */
int md_names_find(const struct md_names *names, const char *name, size_t length);

/* Adds a name that is not there yet; its number, or -ENOMEM. */
int md_names_add(struct md_names *names, const char *name, size_t length);
void md_names_free(struct md_names *names);

#endif
