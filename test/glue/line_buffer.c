// SPDX-License-Identifier: Apache-2.0
// Linked into every test program: one line is written at a time.
//
// Advantage: under ctest, where the output is a pipe, cmocka's lines (standard output) and error
// text keep their order, so the summary can tell which test a reason belongs to. Disadvantage: a
// constructor, which the library itself never uses; it works because this is linked as an object.

#include <stdio.h>

__attribute__((constructor)) static void write_line_by_line(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
}
