/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are opened when they are first needed, and used by their headers alone.
 *
 * Advantage: a program that does not need them does not load them, nor what they bring.
 * Disadvantage: a function that a library lacks is found out at run time, all of them at once.
 */
#ifndef LEAT_CORE_LIBRARY_H
#define LEAT_CORE_LIBRARY_H

#include <stddef.h>

struct library_symbol {
    const char *name;
    void *at; /* address of a pointer to function */
};

/* Opens the library (dlopen's `flags`) and fills in all symbols. `absent` gets why it cannot be
 * used, or "". Stays open. */
void leat_library_open(const char *file, int flags, const struct library_symbol *symbols,
                       size_t count, char *absent, size_t bytes);

#endif
