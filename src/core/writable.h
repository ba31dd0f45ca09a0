/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file can be written later on, so that a run can be refused before it begins; and what
 * makes one that was written and renamed stay.
 *
 * Advantage: nothing is created or changed by asking. Disadvantage: it is an answer about now; the
 * disk may be full, or the directory gone, by the time of writing.
 */
#ifndef CORE_WRITABLE_H
#define CORE_WRITABLE_H

/* Makes a rename in the directory of `path` durable. 0, also on file systems that cannot sync a
 * directory; else the errno of open or fsync, with a detail that names the directory. */
int leat_sync_directory(const char *path);

/* 0, or a negative errno without a detail text: what opening the path would fail with, or, when
 * nothing is there yet, creating a file in its directory. */
int leat_check_writable(const char *path);

#endif
