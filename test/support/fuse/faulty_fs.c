// SPDX-License-Identifier: Apache-2.0
// A file system that does less than it is asked: faulty_fs BACKING MOUNTPOINT
//
// Algorithm: files are those of the folder BACKING. Reads and writes move a third of what was asked
// for; the block at 1 MiB of files whose names begin with "bad" cannot be read (EIO); those whose
// names begin with "full" have no room behind 1 MiB (ENOSPC). The page cache is left out, since the
// kernel would take a short read for the end of the file. Advantage: what drivers and networks do
// once in a year, at every call. Disadvantage: one thread, and slow.

#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT       (1 << 20)
#define FAULT_BYTES 4096

static int root; // descriptor of the folder behind

// Paths of the file system begin with a slash.
static const char *behind(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int result(int code)
{
    return code < 0 ? -errno : 0;
}

static int do_getattr(const char *path, struct stat *status, struct fuse_file_info *file)
{
    (void)file;
    return result(fstatat(root, behind(path), status, AT_SYMLINK_NOFOLLOW));
}

static int do_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)offset;
    (void)file;
    (void)flags;
    int fd = openat(root, behind(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory)
        return -errno;
    for (struct dirent *entry; (entry = readdir(directory));)
        fill(buffer, entry->d_name, NULL, 0, (enum fuse_fill_dir_flags)0);
    closedir(directory);
    return 0;
}

static int keep(int fd, struct fuse_file_info *file)
{
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    file->direct_io = 1;
    return 0;
}

static int do_open(const char *path, struct fuse_file_info *file)
{
    return keep(openat(root, behind(path), (file->flags & ~O_DIRECT) | O_CLOEXEC), file);
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
    int flags = (file->flags & ~O_DIRECT) | O_CREAT | O_CLOEXEC;
    return keep(openat(root, behind(path), flags, mode), file);
}

static int do_release(const char *path, struct fuse_file_info *file)
{
    (void)path;
    return result(close((int)file->fh));
}

static int do_read(const char *path, char *to, size_t bytes, off_t offset,
                   struct fuse_file_info *file)
{
    size_t part = bytes / 3 + 1;
    if (!strncmp(path, "/bad", 4) && offset < FAULT + FAULT_BYTES && offset + (off_t)part > FAULT) {
        if (offset >= FAULT)
            return -EIO;
        part = (size_t)(FAULT - offset);
    }
    ssize_t got = pread((int)file->fh, to, part < bytes ? part : bytes, offset);
    return got < 0 ? -errno : (int)got;
}

static int do_write(const char *path, const char *from, size_t bytes, off_t offset,
                    struct fuse_file_info *file)
{
    // Of a short write past its page cache the kernel makes EIO, whatever came of it.
    size_t part = file->flags & O_DIRECT ? bytes : bytes / 3 + 1;
    if (!strncmp(path, "/full", 5) && offset + (off_t)part > FAULT) {
        if (offset >= FAULT)
            return -ENOSPC;
        part = (size_t)(FAULT - offset);
    }
    ssize_t put = pwrite((int)file->fh, from, part < bytes ? part : bytes, offset);
    return put < 0 ? -errno : (int)put;
}

static int do_truncate(const char *path, off_t bytes, struct fuse_file_info *file)
{
    if (file)
        return result(ftruncate((int)file->fh, bytes));
    int fd = openat(root, behind(path), O_WRONLY | O_CLOEXEC);
    int code = fd < 0 ? -errno : result(ftruncate(fd, bytes));
    if (fd >= 0)
        close(fd);
    return code;
}

static int do_fsync(const char *path, int only_data, struct fuse_file_info *file)
{
    (void)path;
    return result(only_data ? fdatasync((int)file->fh) : fsync((int)file->fh));
}

static int do_unlink(const char *path)
{
    return result(unlinkat(root, behind(path), 0));
}

static int do_rename(const char *from, const char *to, unsigned flags)
{
    return result(renameat2(root, behind(from), root, behind(to), flags));
}

static const struct fuse_operations operations = {
    .getattr = do_getattr,
    .readdir = do_readdir,
    .open = do_open,
    .create = do_create,
    .release = do_release,
    .read = do_read,
    .write = do_write,
    .truncate = do_truncate,
    .fsync = do_fsync,
    .unlink = do_unlink,
    .rename = do_rename,
};

// Returns once it is mounted and its process works behind.
int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: faulty_fs BACKING MOUNTPOINT\n");
        return 2;
    }
    root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        fprintf(stderr, "faulty_fs: cannot open %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    char *arguments[] = {argv[0], "-s", argv[2], NULL};
    return fuse_main(3, arguments, &operations, NULL);
}
