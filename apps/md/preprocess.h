/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line source with GROMACS' preprocessor: what a topology is read from.
 *
 * Known: #include "file" or <file>, #define NAME [text], #undef NAME, #ifdef NAME, #ifndef NAME,
 * #else, #endif, #error text; ';' begins a comment; a backslash at the end joins lines. As in
 * GROMACS, and unlike in C, a NAME is replaced only if it was given text, each definition is
 * applied once to a line, in the order of the definitions, and neither #if nor macros with
 * arguments exist. An #include is looked for beside the including file, in the directories given,
 * in those of GMXLIB (colon-separated, from the environment) and in /usr/share/gromacs/top; only
 * regular files are included, at most 32 deep.
 */
#ifndef MD_PREPROCESS_H
#define MD_PREPROCESS_H

#include "md/text.h"

#include <stdio.h>

struct md_source;

/*
 * Opens `path`, or reads `stream` under that name if it is not NULL (it stays open). `define` holds
 * "-DA -DB=1" and `include_dirs` colon-separated directories; both may be NULL. -EINVAL for a
 * malformed `define`, -ENOMEM, or the errno of the file.
 */
int md_source_open(const char *path, FILE *stream, const char *define, const char *include_dirs,
                   struct md_source **source);

/* Takes NULL. Every md_place of the source ends with it. */
void md_source_close(struct md_source *source);

/*
 * The next line that holds something: comments off, names replaced, lines joined, blanks cut off.
 * 1: *text is set, valid and open to changes until the next call; 0: the end; else an error, its
 * detail naming file and line.
 */
int md_source_next(struct md_source *source, char **text);

/* Where the line that md_source_next() gave last began. */
struct md_place md_source_place(const struct md_source *source);

/* Whether that line stands in the file that was opened, not in an included one. */
bool md_source_in_first_file(const struct md_source *source);

#endif
