/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the library keeps never take the numbers of standard input, output and error.
 *
 * A program that was started with one of those closed would print into the job's segment or its
 * sockets. Advantage: one call around whatever makes a descriptor. Disadvantage: a number below 3
 * is taken for the moment between the two.
 */
#ifndef LEAT_CORE_DESCRIPTOR_H
#define LEAT_CORE_DESCRIPTOR_H

/* The descriptor, or another number for it, from 3 on and closed on exec; passes on -1 with errno,
 * and is -1 with errno, and `fd` closed, where no other number is left. */
int leat_descriptor_keep(int fd);

/* The end of a sentence that says what to do against an errno that means no descriptor is left;
 * "" for any other. */
const char *leat_descriptor_remedy(int error);

#endif
