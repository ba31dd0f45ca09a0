// SPDX-License-Identifier: Apache-2.0
// This machine, as files of the kernel show it; see info_machine.h.
//
// Algorithm: a few lines of /proc and /sys are read, and what is not there is left out. Advantage:
// no library (hwloc reads the same files). Disadvantage: Linux only, and no distances between
// devices.

#define _GNU_SOURCE
#include "info_machine.h"

#include "core/bootstrap.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool read_line(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "re");
    bool good = file && fgets(text, (int)bytes, file);
    if (file)
        fclose(file);
    if (good)
        text[strcspn(text, "\n")] = 0;
    return good;
}

// The value behind "name" and a colon, from the first line of a file that begins so.
static bool find_line(const char *path, const char *name, char *value, size_t bytes)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *at = strstr(line, name);
        if (!at)
            continue;
        at += strlen(name);
        at += strspn(at, " \t:");
        at[strcspn(at, "\n")] = 0;
        snprintf(value, bytes, "%s", at);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

static json_int_t kib_of(const char *path, const char *name)
{
    char value[64];
    long long kib = 0;
    if (!find_line(path, name, value, sizeof value) || sscanf(value, "%lld", &kib) != 1)
        return 0;
    return (json_int_t)kib * 1024;
}

static int usable_cores(void)
{
    cpu_set_t set;
    // Hosts with more cores than the set holds make the call fail.
    return sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                  : CPU_COUNT(&set);
}

static int package_count(void)
{
    unsigned seen = 0;
    for (long core = 0; core < sysconf(_SC_NPROCESSORS_CONF); core++) {
        char path[96], text[16];
        unsigned package;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/topology/physical_package_id",
                 core);
        if (read_line(path, text, sizeof text) && sscanf(text, "%u", &package) == 1 && package < 32)
            seen |= 1u << package;
    }
    return seen ? __builtin_popcount(seen) : 1;
}

static json_t *numa_nodes(void)
{
    json_t *list = json_array();
    for (int node = 0; node < 1024; node++) {
        char path[96], cores[256];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        if (!read_line(path, cores, sizeof cores))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
        json_array_append_new(list, json_pack("{s:i, s:s, s:I}", "node", node, "cores", cores,
                                              "memory_bytes", kib_of(path, "MemTotal")));
    }
    return list;
}

// What a container may use, 0 where there is no limit.
static json_int_t memory_limit(void)
{
    static const char *const paths[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char text[64];
        long long bytes;
        // Without a limit the older file has a number near 2^63.
        if (read_line(paths[i], text, sizeof text) && sscanf(text, "%lld", &bytes) == 1 &&
            bytes < 1LL << 60)
            return (json_int_t)bytes;
    }
    return 0;
}

json_t *machine_describe(void)
{
    char model[128] = "unknown processor", name[64] = "";
    find_line("/proc/cpuinfo", "model name", model, sizeof model);
    gethostname(name, sizeof name - 1);
    json_t *machine =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:o}", "name", name, "model", model, "cores",
                  (int)sysconf(_SC_NPROCESSORS_ONLN), "usable_cores", usable_cores(), "packages",
                  package_count(), "memory_bytes", kib_of("/proc/meminfo", "MemTotal"),
                  "available_bytes", kib_of("/proc/meminfo", "MemAvailable"), "numa", numa_nodes());
    json_int_t limit = memory_limit();
    if (machine && limit)
        json_object_set_new(machine, "limit_bytes", json_integer(limit));
    return machine;
}

static void add(json_t *list, const char *name, const char *state, const char *costs)
{
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:s*}", "name", name, "state", state, "costs", costs));
}

static void add_attach(json_t *list)
{
    char text[16];
    int scope = 0;
    if (!read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) ||
        sscanf(text, "%d", &scope) != 1)
        scope = 0;
    if (scope == 0)
        add(list, "attach", "processes of a user may copy from each other's memory", NULL);
    else if (scope == 1)
        add(list, "attach", "only between ranks of one `leat run` (kernel.yama.ptrace_scope is 1)",
            "under mpirun, srun and LEAT_ROOT large messages are copied twice, and registered "
            "memory of other processes is not reached");
    else
        add(list, "attach", "forbidden (kernel.yama.ptrace_scope is 2 or 3)",
            "large messages between processes are copied twice, and registered memory of other "
            "processes is not reached");
}

static void add_limit(json_t *list, const char *name, int resource, const char *what, rlim_t enough,
                      const char *costs)
{
    struct rlimit limit;
    char state[96];
    if (getrlimit((__rlimit_resource_t)resource, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(state, sizeof state, "no limit on %s", what);
    else
        snprintf(state, sizeof state, "%llu %s at most", (unsigned long long)limit.rlim_cur, what);
    add(list, name, state,
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= enough ? NULL : costs);
}

json_t *machine_permissions(void)
{
    json_t *list = json_array();
    add_attach(list);
    if (access("/proc/thread-self/children", R_OK) == 0)
        add(list, "children", "the kernel lists them, so what ranks leave behind is ended", NULL);
    else
        add(list, "children", "the kernel does not list them",
            "processes that ranks have started may outlive their job");
    add_limit(list, "ulimit -v", RLIMIT_AS, "bytes of address space", RLIM_INFINITY,
              "a job needs LEAT_ARENA (4 GiB) a rank: set it smaller");
    add_limit(list, "ulimit -u", RLIMIT_NPROC, "processes of this user", 1024,
              "fewer ranks can be started");
    add_limit(list, "ulimit -n", RLIMIT_NOFILE, "open files a process", 1024,
              "with LEAT_ROOT rank 0 needs one a rank");
    return list;
}

json_t *machine_launchers(void)
{
    const char *absent = leat_pmix_absent();
    json_t *list = json_pack("[{s:s, s:b, s:s}, {s:s, s:b, s:s}]", "name", "leat run", "present", 1,
                             "what", "ranks of this host", "name", "root", "present", 1, "what",
                             "ranks started by hand, with LEAT_ROOT=HOST:PORT and LEAT_JOB_KEY");
    if (list && absent)
        json_array_append_new(
            list, json_pack("{s:s, s:b, s:s, s:s}", "name", "pmix", "present", 0, "absent", absent,
                            "costs", "ranks that mpirun or srun has started cannot open a job"));
    else if (list)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", "pmix", "present", 1,
                                              "what", "Open MPI's mpirun, srun --mpi=pmix"));
    return list;
}
