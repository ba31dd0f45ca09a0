// SPDX-License-Identifier: Apache-2.0
// What files can be read by here, for `leat info`; see info_machine.h.
//
// Algorithm: each is tried: a ring is opened, cuFile is looked up, a file without a name in the
// present directory is asked for its alignment. Advantage: what it says has just worked.
// Disadvantage: another directory can lie on another file system; `leat file check` tells of that.

#define _GNU_SOURCE
#include "file/cufile_abi.h"
#include "file/ring.h"
#include "info_machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add(json_t *list, const char *name, const char *what, const char *absent,
                const char *costs)
{
    json_array_append_new(list, json_pack("{s:s, s:b, s:s*, s:s*, s:s*}", "name", name, "present",
                                          absent == NULL, "what", absent ? NULL : what, "absent",
                                          absent, "costs", costs));
}

// A build without liburing says that the kernel has none; what the kernel says to nonsense tells.
static bool kernel_has_uring(void)
{
    return syscall(SYS_io_uring_setup, 0, NULL) >= 0 || errno != ENOSYS;
}

static void add_uring(json_t *list)
{
    struct uring *ring = NULL;
    char absent[128];
    int error = uring_open(1, &ring);
    uring_close(ring);
    if (error == -ENOSYS && kernel_has_uring())
        snprintf(absent, sizeof absent, "built without liburing");
    else
        snprintf(absent, sizeof absent, "the system refuses it: %s", strerror(-error));
    add(list, "io_uring", "direct requests of a thread are under way together",
        error ? absent : NULL,
        error ? "past the page cache a thread reads one request after the other" : NULL);
}

static void add_cufile(json_t *list)
{
    void *library = dlopen(CUFILE_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();
    bool nvfs = !access("/proc/driver/nvidia-fs/version", R_OK);
    add(list, "cuFile", nvfs ? CUFILE_LIBRARY ", and nvidia-fs" : CUFILE_LIBRARY ", no nvidia-fs",
        library ? NULL
        : why   ? why
                : CUFILE_LIBRARY " cannot be loaded",
        !library ? "files go to GPUs through memory of the host"
        : nvfs   ? NULL
               : "unless PCI peer-to-peer serves it, files go to GPUs through memory of the host");
    // It stays loaded: its threads may run by now.
}

static void add_direct(json_t *list)
{
    const char *costs = "files that are not in the page cache are read through it";
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char text[160];
    bool told = false;
    snprintf(text, sizeof text, "no file can be made in the present directory: %s",
             fd < 0 ? strerror(errno) : "");
#ifdef STATX_DIOALIGN
    struct statx status;
    if (fd >= 0 && !statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) &&
        (status.stx_mask & STATX_DIOALIGN) && status.stx_dio_offset_align) {
        told = true;
        snprintf(text, sizeof text, "present directory: memory at %u bytes, offsets at %u",
                 status.stx_dio_mem_align, status.stx_dio_offset_align);
    }
#endif
    if (fd >= 0) {
        if (!told)
            snprintf(text, sizeof text,
                     "the file system of the present directory, or a kernel "
                     "below 6.1, tells no alignment");
        close(fd);
    }
    add(list, "direct I/O", text, told ? NULL : text, told ? NULL : costs);
}

json_t *machine_files(void)
{
    json_t *list = json_array();
    add_uring(list);
    add_cufile(list);
    add_direct(list);
    return list;
}
