// SPDX-License-Identifier: Apache-2.0
// Names of collectives and of their algorithms; see the header.

#include "bench_algorithm.h"

#include "msg/coll.h"

#include <stdio.h>
#include <string.h>

const char *const bench_operation_names[BENCH_OPERATION_COUNT] = {"barrier", "broadcast",
                                                                  "allreduce"};
const enum leat_collective_kind bench_operation_kinds[BENCH_OPERATION_COUNT] = {
    LEAT_BARRIER, LEAT_BROADCAST, LEAT_ALLREDUCE};

bool bench_algorithm_read(const char *text, struct bench_algorithm *algorithm)
{
    const char *name = strchr(text, '=');
    for (int i = 0; name && i < BENCH_OPERATION_COUNT; i++) {
        size_t length = strlen(bench_operation_names[i]);
        if (text + length != name || strncmp(text, bench_operation_names[i], length) != 0)
            continue;
        int count;
        const char *const *names = msg_algorithms(bench_operation_kinds[i], &count);
        for (int k = 0; k < count; k++)
            if (strcmp(names[k], name + 1) == 0) {
                *algorithm = (struct bench_algorithm){bench_operation_kinds[i], names[k]};
                return true;
            }
    }
    return false;
}

void bench_algorithm_list(char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        int count;
        const char *const *names = msg_algorithms((enum leat_collective_kind)kind, &count);
        for (int k = 0; k < count && used < bytes; k++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s",
                                     k == 0 && kind > 0 ? "; " : "",
                                     k == 0 ? coll_kind_name((enum leat_collective_kind)kind) : "",
                                     k == 0 ? ": " : ", ", names[k]);
    }
}
