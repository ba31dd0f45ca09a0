/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions of GROMACS' preprocessor and their replacement in a line. Names are C identifiers; a
 * name is replaced only if it was given text; each definition is applied once to a line, in the
 * order of the definitions.
 */
#ifndef MD_MACROS_H
#define MD_MACROS_H

#include "md/text.h"

enum { MD_LINE_BYTES = 1 << 16 }; /* a line after replacement, with its NUL */

/* Redefinition keeps the place in the order; after an #undef a name comes last again. */
struct md_macro {
    char *text; /* NULL: not defined any more */
    int order;
};

/* Starts as {0}; ends with md_macros_free(). */
struct md_macros {
    struct md_names names;
    struct md_macro *macros; /* one a name */
    int capacity, next_order;
    char *line;  /* [MD_LINE_BYTES]: what md_macros_replace() works on */
    char *other; /* likewise, its other half */
};

int md_macros_prepare(struct md_macros *macros);
void md_macros_free(struct md_macros *macros);

/* Bytes of the identifier (or number) that the text begins with; 0 if it begins with neither. */
size_t md_identifier_length(const char *text);

bool md_macros_defined(const struct md_macros *macros, const char *name, size_t length);
int md_macros_define(struct md_macros *macros, const char *name, size_t length, const char *text);
void md_macros_undefine(struct md_macros *macros, const char *name, size_t length);

/* Takes "-DA -DB=1"; -EINVAL for anything else. */
int md_macros_options(struct md_macros *macros, const char *options);

/* Replaces in macros->line; -EINVAL (at `place`) when the line outgrows MD_LINE_BYTES. */
int md_macros_replace(struct md_macros *macros, struct md_place place);

#endif
