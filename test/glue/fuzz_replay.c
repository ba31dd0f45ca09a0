// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over stored inputs without a fuzzer: usage: fuzz_NAME FILE|DIRECTORY...
// Every input is also replayed cut short at 32 places.
//
// Advantage: inputs that once broke a parser stay tests on any compiler and under any sanitizer.
// Disadvantage: finds nothing new; that is for libFuzzer (preset fuzz).

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CUTS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_bytes(const uint8_t *data, size_t size)
{
    for (size_t cut = 0; cut <= CUTS; cut++) {
        // An allocation of the exact size lets a sanitizer see the first byte read beyond it.
        size_t length = size / CUTS * cut + size % CUTS * cut / CUTS;
        uint8_t *exact = malloc(length ? length : 1);
        if (!exact)
            return -ENOMEM;
        memcpy(exact, data, length);
        LLVMFuzzerTestOneInput(exact, length);
        free(exact);
    }
    return 0;
}

static int replay_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return -errno;
    int error = -EIO;
    uint8_t *data = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size < 0)
        goto out;
    rewind(file);
    data = malloc((size_t)size + 1);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        goto out;
    error = replay_bytes(data, (size_t)size);
    *count += 1;
out:
    free(data);
    fclose(file);
    return error;
}

static int replay_directory(const char *path, size_t *count)
{
    struct dirent **entries;
    int entry_count = scandir(path, &entries, NULL, alphasort);
    if (entry_count < 0)
        return -errno;
    int error = 0;
    for (int i = 0; i < entry_count; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (error == 0 && entries[i]->d_name[0] != '.')
            error = length < (int)sizeof name ? replay_file(name, count) : -ENAMETOOLONG;
        free(entries[i]);
    }
    free(entries);
    return error;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat status;
        int error = stat(argv[i], &status) != 0 ? -errno
                    : S_ISDIR(status.st_mode)   ? replay_directory(argv[i], &count)
                                                : replay_file(argv[i], &count);
        if (error) {
            fprintf(stderr, "%s: %s\n", argv[i], strerror(-error));
            return 1;
        }
    }
    printf("replayed %zu inputs, each whole and cut at %d places\n", count, CUTS);
    if (count == 0)
        fprintf(stderr, "no input was found: a fuzz target needs test/fuzz/corpus/NAME/\n");
    return count == 0;
}
