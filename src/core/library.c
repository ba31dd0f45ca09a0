// SPDX-License-Identifier: Apache-2.0
// Opening a library and finding its functions; see library.h.
//
// Advantage: one place for what can go wrong. Disadvantage: pointers to functions go through void
// pointers, which POSIX allows and C does not.

#include "core/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void leat_library_open(const char *file, int flags, const struct library_symbol *symbols,
                       size_t count, char *absent, size_t bytes)
{
    void *handle = dlopen(file, flags);
    *absent = 0;
    if (!handle) {
        snprintf(absent, bytes, "%s cannot be opened: %s", file, dlerror());
        return;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol)
            snprintf(absent, bytes, "%s has no %s", file, symbols[i].name);
        memcpy(symbols[i].at, &symbol, sizeof symbol);
    }
}
