/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a value into the settings file and leaves all else in it as it is.
 *
 * Algorithm: the file is copied line by line into a new one beside it, which then takes its place.
 * Advantage: whoever reads meanwhile sees the old file or the new one. Disadvantage: of two
 * writers at once the last one wins.
 */
#ifndef LEAT_CLI_BENCH_SETTINGS_H
#define LEAT_CLI_BENCH_SETTINGS_H

/*
 * Sets NAME (LEAT_...) to `value` in the file `path`: in the line that has it, whose comment stays,
 * else in a new one at the end. A missing file and its directory are made. 0, or the negative errno
 * of what failed, with detail; the file is unchanged then.
 */
int bench_settings_set(const char *path, const char *name, const char *value);

#endif
