// SPDX-License-Identifier: Apache-2.0
// Writer of GROMACS .gro files.
//
// Algorithm: write everything to a new file in the target's directory, fsync, rename over the
// target, fsync the directory. Advantage: whoever reads sees the old file or the new one, also
// after a power cut. Disadvantage: it needs the room of both for a moment, and hard links to the
// old file keep the old text.

#include "format/gro.h"

#include "core/error.h"
#include "core/writable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DECIMALS_MAX = 15 };
#define BOX_MOST_NM 1e15

unsigned int gro_atom_bytes(int decimals, bool velocities)
{
    return (unsigned int)(20 + (velocities ? 6 : 3) * (decimals + 5) + 1);
}

// One number, which has to keep to its column: readers go by columns, not by blanks.
static int put_number(const struct gro_label *label, int64_t atom, const char *what, double value,
                      int decimals, int width, char *to)
{
    char text[400];
    int length = snprintf(text, sizeof text, "%*.*f", width, decimals, value);
    if (!isfinite(value) || length != width)
        return leat_fail(-ERANGE,
                         "atom %lld (%s %s): the %s %g does not fit a .gro column of %d "
                         "characters with %d decimals",
                         (long long)atom + 1, label->residue_name, label->atom_name, what, value,
                         width, decimals);
    memcpy(to, text, (size_t)width);
    return 0;
}

int gro_put_atom(const struct gro_label *label, int64_t atom, const double *x_nm,
                 const double *v_nm_ps, int decimals, char *to)
{
    int residue = (int)(((int64_t)label->residue % 100000 + 100000) % 100000);
    int width = decimals + 5, error = 0;
    char text[32];
    snprintf(text, sizeof text, "%5d%-5.5s%5.5s%5d", residue, label->residue_name, label->atom_name,
             (int)((atom + 1) % 100000));
    memcpy(to, text, 20);
    to += 20;
    for (int axis = 0; axis < 3 && !error; axis++, to += width)
        error = put_number(label, atom, "coordinate", x_nm[axis], decimals, width, to);
    for (int axis = 0; axis < 3 && !error && v_nm_ps; axis++, to += width)
        error = put_number(label, atom, "velocity", v_nm_ps[axis], decimals + 1, width, to);
    if (!error)
        *to = '\n';
    return error;
}

int gro_put_box(const double box_nm[3][3], int decimals, char *to)
{
    static const int row[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2};
    static const int column[9] = {0, 1, 2, 1, 2, 0, 2, 0, 1};
    int count = 3, used = 0;
    for (int i = 0; i < 9; i++) {
        double value = box_nm[row[i]][column[i]];
        if (!(fabs(value) < BOX_MOST_NM))
            return leat_fail(-ERANGE, "the box holds %g, which is not finite or too long", value);
        if (i >= 3 && value != 0)
            count = 9;
    }
    int precision = decimals > 5 ? decimals : 5;
    for (int i = 0; i < count; i++)
        used += snprintf(to + used, GRO_BOX_BYTES - (size_t)used, "%s%*.*f", i ? " " : "",
                         precision + 4 + !i, precision, box_nm[row[i]][column[i]]);
    to[used] = '\n';
    return used + 1;
}

static int print_atom(FILE *file, const struct gro *gro, int64_t atom, int decimals)
{
    char line[160];
    unsigned int bytes = gro_atom_bytes(decimals, gro->has_velocities);
    int error = gro_put_atom(&gro->labels[atom], atom, gro->x_nm + 3 * atom,
                             gro->has_velocities ? gro->v_nm_ps + 3 * atom : NULL, decimals, line);
    if (!error)
        fwrite(line, 1, bytes, file);
    return error;
}

static int print_box(FILE *file, const struct gro *gro, int decimals)
{
    char line[GRO_BOX_BYTES];
    int bytes = gro_put_box((const double(*)[3])gro->box_nm, decimals, line);
    if (bytes > 0)
        fwrite(line, 1, (size_t)bytes, file);
    return bytes < 0 ? bytes : 0;
}

static int print_frame(FILE *file, const struct gro *gro, int decimals)
{
    // The title is one line whatever it holds, or the count would not be on the second.
    fprintf(file, "%.*s\n%5lld\n", (int)strcspn(gro->title, "\r\n"), gro->title,
            (long long)gro->atom_count);
    int error = 0;
    for (int64_t atom = 0; atom < gro->atom_count && !error; atom++)
        error = print_atom(file, gro, atom, decimals);
    return error ? error : print_box(file, gro, decimals);
}

static int fail_file(const char *what, const char *path, int error)
{
    return leat_fail(error, "%s: %s: %s", path, what, strerror(-error));
}

// Writes and closes; `durable` where the file can be synced.
static int fill(int descriptor, const char *path, const struct gro *gro, int decimals, bool durable)
{
    FILE *file = fdopen(descriptor, "w");
    if (!file) {
        int error = -errno;
        close(descriptor);
        return fail_file("cannot write", path, error);
    }
    int error = print_frame(file, gro, decimals);
    if (error)
        leat_fail_in(error, "%s", path);
    if (!error && (fflush(file) || ferror(file) || (durable && fsync(fileno(file)))))
        error = fail_file("cannot write", path, errno ? -errno : -EIO);
    if (fclose(file) && !error)
        error = fail_file("cannot write", path, -errno);
    return error;
}

static int write_directly(const char *path, const struct gro *gro, int decimals)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fail_file("cannot open", path, -errno);
    return fill(descriptor, path, gro, decimals, false);
}

static int open_temporary(char *name, size_t size, const char *path, mode_t mode)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(name, size, "%s.%ld.%d.tmp", path, (long)getpid(), attempt);
        int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
    return -1;
}

static int write_beside(const char *path, const struct gro *gro, int decimals, mode_t mode,
                        bool keep_mode)
{
    size_t size = strlen(path) + 40;
    char *name = malloc(size);
    if (!name)
        return leat_fail(-ENOMEM, "%s: out of memory", path);
    int error;
    int descriptor = open_temporary(name, size, path, mode);
    if (descriptor < 0) {
        error = fail_file("cannot create a file beside it", path, -errno);
        free(name);
        return error;
    }
    if (keep_mode)
        (void)fchmod(descriptor, mode); // the umask has had its say when the old file was made
    error = fill(descriptor, path, gro, decimals, true);
    if (!error && rename(name, path))
        error = fail_file("cannot rename the new file to", path, -errno);
    if (error)
        unlink(name);
    free(name);
    return error ? error : leat_sync_directory(path);
}

int gro_write(const char *path, const struct gro *gro, int decimals)
{
    if (decimals < 1 || decimals > DECIMALS_MAX)
        return leat_fail(-EINVAL, "%s: %d decimals asked for; 1 to %d can be written", path,
                         decimals, DECIMALS_MAX);
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        return write_directly(path, gro, decimals);
    char *target = exists ? realpath(path, NULL) : strdup(path);
    if (!target)
        return fail_file("cannot resolve", path, -errno);
    int error = write_beside(target, gro, decimals, exists ? status.st_mode & 0777 : 0666, exists);
    free(target);
    return error;
}
