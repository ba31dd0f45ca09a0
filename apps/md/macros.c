// SPDX-License-Identifier: Apache-2.0
// Definitions and their replacement; see macros.h.
//
// Algorithm: the line is cut into words and each is looked up; the definition that comes first in
// the order and has not had its turn is applied, until none is left. Advantage: a line costs its
// words, not the hundreds of definitions of a force field. Disadvantage: a line with many different
// names is scanned once for each.

#include "md/macros.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

size_t md_identifier_length(const char *text)
{
    size_t length = 0;
    while (is_word_byte(text[length]))
        length++;
    return length;
}

static struct md_macro *find(const struct md_macros *macros, const char *name, size_t length)
{
    int number = md_names_find(&macros->names, name, length);
    if (number < 0 || !macros->macros[number].text)
        return NULL;
    return &macros->macros[number];
}

int md_macros_define(struct md_macros *macros, const char *name, size_t length, const char *text)
{
    int number = md_names_find(&macros->names, name, length);
    if (number < 0) {
        struct md_macro *grown =
            md_reserve(macros->macros, macros->names.count, &macros->capacity, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        macros->macros = grown;
        number = md_names_add(&macros->names, name, length);
        if (number < 0)
            return number;
        grown[number] = (struct md_macro){0};
    }
    struct md_macro *macro = &macros->macros[number];
    char *copy = strdup(text);
    if (!copy)
        return leat_fail(-ENOMEM, "no memory for the definition of %.*s", (int)length, name);
    if (!macro->text)
        macro->order = macros->next_order++;
    free(macro->text);
    macro->text = copy;
    return 0;
}

bool md_macros_defined(const struct md_macros *macros, const char *name, size_t length)
{
    return find(macros, name, length) != NULL;
}

void md_macros_undefine(struct md_macros *macros, const char *name, size_t length)
{
    struct md_macro *macro = find(macros, name, length);
    if (!macro)
        return;
    free(macro->text);
    macro->text = NULL;
}

// The first macro after `order` whose name stands in the line as a word.
static const struct md_macro *next_macro(const struct md_macros *macros, const char *line,
                                         int order, const char **name, size_t *name_length)
{
    const struct md_macro *found = NULL;
    for (const char *at = line; *at;) {
        size_t length = md_identifier_length(at);
        if (length == 0) {
            at++;
            continue;
        }
        const struct md_macro *macro = find(macros, at, length);
        if (macro && macro->text[0] && macro->order > order &&
            (!found || macro->order < found->order)) {
            found = macro;
            *name = at;
            *name_length = length;
        }
        at += length;
    }
    return found;
}

static int replace_word(struct md_macros *macros, struct md_place place, const char *name,
                        size_t name_length, const char *text)
{
    size_t used = 0, text_length = strlen(text);
    for (const char *at = macros->line; *at;) {
        size_t length = md_identifier_length(at);
        bool hit = length == name_length && memcmp(at, name, length) == 0;
        size_t take = length ? length : 1, put = hit ? text_length : take;
        if (used + put >= MD_LINE_BYTES)
            return md_fail_at(place, -EINVAL,
                              "the line grows beyond %d bytes when '%.*s' is replaced by its "
                              "#define",
                              MD_LINE_BYTES, (int)name_length, name);
        memcpy(macros->other + used, hit ? text : at, put);
        used += put;
        at += take;
    }
    macros->other[used] = 0;
    char *line = macros->line;
    macros->line = macros->other;
    macros->other = line;
    return 0;
}

int md_macros_replace(struct md_macros *macros, struct md_place place)
{
    int order = -1;
    const char *name;
    size_t length;
    const struct md_macro *macro;
    while ((macro = next_macro(macros, macros->line, order, &name, &length)) != NULL) {
        order = macro->order;
        int error = replace_word(macros, place, name, length, macro->text);
        if (error)
            return error;
    }
    return 0;
}

int md_macros_options(struct md_macros *macros, const char *options)
{
    char *copy = strdup(options);
    if (!copy)
        return leat_fail(-ENOMEM, "no memory for the definitions");
    char *rest = copy, *option;
    int error = 0;
    while (!error && (option = md_next_word(&rest)) != NULL) {
        char *name = option + 2;
        size_t length = strncmp(option, "-D", 2) == 0 ? md_identifier_length(name) : 0;
        if (length == 0 || (name[length] != 0 && name[length] != '='))
            error = leat_fail(-EINVAL,
                              "define: expected -DNAME or -DNAME=TEXT with letters, digits and "
                              "'_' in the name, found '%s'",
                              option);
        else
            error = md_macros_define(macros, name, length, name[length] ? name + length + 1 : "");
    }
    free(copy);
    return error;
}

int md_macros_prepare(struct md_macros *macros)
{
    macros->line = malloc(MD_LINE_BYTES);
    macros->other = malloc(MD_LINE_BYTES);
    if (!macros->line || !macros->other)
        return leat_fail(-ENOMEM, "no memory to read a topology");
    return 0;
}

void md_macros_free(struct md_macros *macros)
{
    for (int i = 0; i < macros->names.count; i++)
        free(macros->macros[i].text);
    free(macros->macros);
    md_names_free(&macros->names);
    free(macros->line);
    free(macros->other);
}
