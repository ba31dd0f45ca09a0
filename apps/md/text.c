// SPDX-License-Identifier: Apache-2.0
// Words, numbers, places and names for the input readers.
//
// Advantage: one strict number parser and one keyword comparison, so .mdp and .top agree on what is
// malformed. Disadvantage: stricter than sscanf, so "0.1abc", which GROMACS reads as 0.1 in places,
// is refused.

#include "md/text.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n\v\f";

int md_fail_at(struct md_place place, int error, const char *format, ...)
{
    char text[LEAT_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return leat_fail(error, "%s:%d: %s", place.file, place.line, text);
}

char *md_trim(char *text)
{
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length && strchr(blanks, text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

char *md_next_word(char **rest)
{
    char *word = *rest + strspn(*rest, blanks);
    if (*word == 0)
        return NULL;
    char *end = word + strcspn(word, blanks);
    *rest = *end ? end + 1 : end;
    *end = 0;
    return word;
}

int md_split(char *text, char **words, int limit)
{
    int count = 0;
    char *word;
    while ((word = md_next_word(&text)) != NULL) {
        if (count == limit)
            return limit + 1;
        words[count++] = word;
    }
    return count;
}

static bool skipped(char c)
{
    return c == '-' || c == '_';
}

static int next_letter(const char **text)
{
    while (skipped(**text))
        (*text)++;
    unsigned char c = (unsigned char)**text;
    if (c)
        (*text)++;
    return tolower(c);
}

bool md_same_word(const char *a, const char *b)
{
    for (;;) {
        int left = next_letter(&a), right = next_letter(&b);
        if (left != right)
            return false;
        if (left == 0)
            return true;
    }
}

bool md_word_matches(const char *word, const char *pattern)
{
    for (;;) {
        // Without the separator a misspelt "rotaton" would pass for one of "rot-*".
        if (strcmp(pattern, "-*") == 0)
            return skipped(*word);
        int right = next_letter(&pattern);
        if (right == '*' && *pattern == 0)
            return true;
        int left = next_letter(&word);
        if (left != right)
            return false;
        if (left == 0)
            return true;
    }
}

bool md_parse_real(const char *text, double *value)
{
    // The character set keeps out "nan", "inf" and hexadecimal, which strtod would take.
    if (*text == 0 || text[strspn(text, "0123456789+-.eE")] != 0)
        return false;
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != 0 || !isfinite(number))
        return false;
    *value = number;
    return true;
}

bool md_parse_integer(const char *text, int64_t *value)
{
    if (*text == 0 || text[strspn(text, "0123456789+-")] != 0)
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno)
        return false;
    *value = number;
    return true;
}

bool md_parse_int(const char *text, int *value)
{
    int64_t number;
    if (!md_parse_integer(text, &number) || number < INT_MIN || number > INT_MAX)
        return false;
    *value = (int)number;
    return true;
}

int md_word_distance(const char *a, const char *b)
{
    enum { LIMIT = 63 };
    char letters[LIMIT];
    int row[LIMIT + 1], length = 0, letter;
    while (length < LIMIT && (letter = next_letter(&b)) != 0)
        letters[length++] = (char)letter;
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; i <= LIMIT && (letter = next_letter(&a)) != 0; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int replaced = diagonal + (letters[j - 1] != (char)letter);
            int shifted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[length];
}

void *md_reserve(void *array, int count, int *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return array;
    if (*capacity > INT_MAX / 2) {
        leat_fail(-ENOMEM, "more than %d entries of one kind in an input", *capacity);
        return NULL;
    }
    int wanted = *capacity ? 2 * *capacity : 16;
    // Below 2^31 entries of at most a few hundred bytes: no overflow in 64 bits.
    void *grown = realloc(array, (size_t)wanted * element_bytes);
    if (!grown)
        leat_fail(-ENOMEM, "no memory for %d entries of %zu bytes", wanted, element_bytes);
    else
        *capacity = wanted;
    return grown;
}

// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
static uint64_t hash(const char *name, size_t length)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char)name[i]) * 0x100000001b3u;
    return value;
}

static void insert(struct md_names *names, int number)
{
    const char *name = names->name[number];
    size_t mask = (size_t)names->slot_count - 1;
    size_t slot = (size_t)hash(name, strlen(name)) & mask;
    while (names->slot[slot])
        slot = (slot + 1) & mask;
    names->slot[slot] = number + 1;
}

static int grow_slots(struct md_names *names)
{
    if (2 * ((int64_t)names->count + 1) <= names->slot_count)
        return 0;
    if (names->slot_count > INT_MAX / 4)
        return leat_fail(-ENOMEM, "too many names in an input");
    int wanted = names->slot_count ? 2 * names->slot_count : 64;
    int *slot = calloc((size_t)wanted, sizeof *slot);
    if (!slot)
        return leat_fail(-ENOMEM, "no memory for a table of %d names", wanted);
    free(names->slot);
    names->slot = slot;
    names->slot_count = wanted;
    for (int i = 0; i < names->count; i++)
        insert(names, i);
    return 0;
}

int md_names_find(const struct md_names *names, const char *name, size_t length)
{
    if (names->slot_count == 0)
        return -1;
    size_t mask = (size_t)names->slot_count - 1;
    size_t slot = (size_t)hash(name, length) & mask;
    for (; names->slot[slot]; slot = (slot + 1) & mask) {
        const char *other = names->name[names->slot[slot] - 1];
        if (strncmp(other, name, length) == 0 && other[length] == 0)
            return names->slot[slot] - 1;
    }
    return -1;
}

int md_names_add(struct md_names *names, const char *name, size_t length)
{
    char **grown = md_reserve(names->name, names->count, &names->capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    names->name = grown;
    int error = grow_slots(names);
    if (error)
        return error;
    char *copy = strndup(name, length);
    if (!copy)
        return leat_fail(-ENOMEM, "no memory for a name of %zu bytes", length);
    names->name[names->count] = copy;
    insert(names, names->count);
    return names->count++;
}

void md_names_free(struct md_names *names)
{
    for (int i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    free(names->slot);
    *names = (struct md_names){0};
}
