/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short topologies for tests, and how they are read. Include after <cmocka.h>.
 */
#ifndef TEST_TOPOLOGY_TEXTS_H
#define TEST_TOPOLOGY_TEXTS_H

#include "leat/leat.h"
#include "md/topology.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What outputs hold before a call, and after one that failed. */
static struct md_topology *const poison = (struct md_topology *)(uintptr_t)0x5a5a;

#define HEAD                                                                                       \
    "[ defaults ]\n1 2 no 0.5 0.5\n"                                                               \
    "[ atomtypes ]\n"                                                                              \
    "OW  8  15.9994 -0.8476 A 0.316557 0.650194\n"                                                 \
    "HW  1   1.008   0.4238 A 0 0\n"                                                               \
    "AR  39.948 0 A 0.3405 0.99774\n"                                                              \
    "VS  0 0 V 0 0\n"
#define WATER                                                                                      \
    "[ moleculetype ]\nSOL 2\n"                                                                    \
    "[ atoms ]\n1 OW 1 SOL OW 1\n2 HW 1 SOL HW1 1\n3 HW 1 SOL HW2 1\n"                             \
    "[ settles ]\n1 1 0.1 0.1633\n"
#define ARGON "[ moleculetype ]\nAr 1\n[ atoms ]\n1 AR 1 Ar Ar 1\n"
#define TAIL  "[ system ]\nstamped system\n[ molecules ]\n"

static inline int read_text(const char *text, struct md_topology **topology)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    int error = md_topology_read_stream(stream, "test.top", NULL, NULL, topology);
    fclose(stream);
    return error;
}

static inline struct md_topology *must_read(const char *text)
{
    struct md_topology *topology = poison;
    if (read_text(text, &topology))
        fail_msg("%s", leat_error_detail());
    return topology;
}

/* Refused with `error` and a detail that holds `word`, the output untouched. */
static inline void refuse(int error, const char *text, const char *word)
{
    struct md_topology *topology = poison;
    int got = read_text(text, &topology);
    if (got != error)
        fail_msg("%d instead of %d (%s) for: %s", got, error, leat_error_detail(), text);
    assert_ptr_equal(topology, poison);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
}

static inline void near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-13 * fabs(expected)))
        fail_msg("%.17g instead of %.17g", value, expected);
}

static inline void excluded(const struct md_molecule_type *type, int atom, int count,
                            const int *partners)
{
    int start = type->exclusion_start[atom];
    assert_int_equal(type->exclusion_start[atom + 1] - start, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(type->exclusion[start + i], partners[i]);
}

#endif
