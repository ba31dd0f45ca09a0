// SPDX-License-Identifier: Apache-2.0
// Machine files: finding and reading; see machine.h.
//
// A path is a path. A bare name that is no file here is looked for in LEAT_MACHINES and then in
// ../share/leat/machines, seen from the program, which is where both an installation and a build
// folder have the shipped ones: so an installation may be moved.
//
// Advantage: `leat torus k` works from any folder. Disadvantage: a program of somebody else that
// links the library has its own folder, and has to give a path or set LEAT_MACHINES.

#include "sim/machine.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1 << 20)

// Opens FOLDER/NAME or FOLDER/NAME.machine.
static FILE *open_in(const char *folder, size_t folder_length, const char *name, char *path)
{
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, PATH_MAX, "%.*s/%s%s", (int)folder_length, folder, name,
                              i ? ".machine" : "");
        FILE *file = length < PATH_MAX ? fopen(path, "re") : NULL;
        if (file)
            return file;
    }
    return NULL;
}

static FILE *open_in_list(const char *folders, const char *name, char *path)
{
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        FILE *file = length < PATH_MAX ? open_in(folders, length, name, path) : NULL;
        if (file)
            return file;
        folders += length;
        folders += *folders == ':';
    }
    return NULL;
}

static FILE *open_beside_program(const char *name, char *path)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return NULL;
    program[length] = 0;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(program, '/');
        if (!slash)
            return NULL;
        *slash = 0;
    }
    static const char below[] = "/share/leat/machines";
    size_t end = strlen(program);
    if (end + sizeof below > sizeof program)
        return NULL;
    memcpy(program + end, below, sizeof below);
    return open_in(program, strlen(program), name, path);
}

static FILE *find(const char *name, char *path)
{
    int length = snprintf(path, PATH_MAX, "%s", name);
    FILE *file = length < PATH_MAX ? fopen(name, "re") : NULL;
    if (file || strchr(name, '/'))
        return file;
    file = open_in_list(getenv("LEAT_MACHINES"), name, path);
    return file ? file : open_beside_program(name, path);
}

static int read_file(FILE *file, const char *path, struct sim_machine *machine)
{
    char *text = malloc(FILE_BYTES_MAX + 1);
    if (!text)
        return leat_fail(-ENOMEM, "%s: no memory to read it", path);
    errno = 0;
    size_t bytes = fread(text, 1, FILE_BYTES_MAX + 1, file);
    int error;
    if (ferror(file))
        error = leat_fail(errno ? -errno : -EIO, "%s: %s", path, strerror(errno ? errno : EIO));
    else if (bytes > FILE_BYTES_MAX)
        error = leat_fail(-EFBIG, "%s: it has more than %d bytes, so this is no machine file", path,
                          FILE_BYTES_MAX);
    else
        error = sim_machine_parse(text, bytes, path, machine);
    free(text);
    return error;
}

int sim_machine_read(const char *path, struct sim_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    char found[PATH_MAX];
    errno = 0;
    FILE *file = find(path, found);
    if (!file)
        return leat_fail(errno ? -errno : -ENOENT,
                         "machine '%s': %s; give the path of a machine file, or a name in the "
                         "folders of LEAT_MACHINES or of the installation, such as k",
                         path, strerror(errno ? errno : ENOENT));
    int error = read_file(file, found, machine);
    fclose(file);
    return error;
}
