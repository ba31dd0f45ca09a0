/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leat needs of the binary interface of libcufile.so.0, written from NVIDIA's public cuFile
 * API reference. Nothing links against the library, and its header is not needed to build.
 *
 * Advantage: one build runs with and without it. Disadvantage: what the library changes has to be
 * followed here; only the layout of the level-3 counters has changed so far (with cuFileReadv).
 */
#ifndef LEAT_FILE_CUFILE_ABI_H
#define LEAT_FILE_CUFILE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CUFILE_LIBRARY "libcufile.so.0"

/* Errors that leat looks at by number; the rest is in the table of words. */
enum cufile_error_number {
    CUFILE_ERROR_FIRST = 5000, /* beyond it a result is cuFile's own error */
    CUFILE_NOT_SUPPORTED = 5008,
    CUFILE_PIN_LIMIT = 5016,
    CUFILE_NOT_DIRECT = 5020,
    CUFILE_ALREADY_OPEN = 5026,
    CUFILE_NOT_REGISTERED = 5027,
    CUFILE_INTERNAL = 5030,
    CUFILE_PINNING_FAILED = 5036
};

/* Returned by value. */
struct cufile_status {
    int error;      /* 0, or one of the above */
    int cuda_error; /* the driver's, where error is 5011 */
};

struct cufile_properties {
    struct {
        unsigned major, minor;  /* of the kernel module nvidia-fs; 0: it is not there */
        size_t poll_threshold;  /* KiB, as all sizes here */
        size_t max_direct_io;   /* largest request */
        unsigned status_flags;  /* what it supports */
        unsigned control_flags; /* what is switched on */
    } nvfs;
    unsigned feature_flags;
    unsigned max_device_cache, per_buffer_cache, max_device_pinned;
    unsigned max_batch_entries, max_batch_timeout_ms;
};
#define CUFILE_FEATURE_P2P (1u << 4) /* in feature_flags: PCI P2PDMA */

#define CUFILE_HANDLE_FD 1
struct cufile_description {
    int type; /* CUFILE_HANDLE_FD */
    union {
        int fd;
        void *other;
    } handle;
    const void *operations; /* of file systems in user space: NULL */
};

/* Parameters, by the numbers that the library gives them. */
enum cufile_size {
    CUFILE_SIZE_QUEUE_DEPTH = 1,
    CUFILE_SIZE_IO_THREADS = 2,
    CUFILE_SIZE_MIN_IO_KIB = 3,
    CUFILE_SIZE_PARALLELISM = 4,
    CUFILE_SIZE_MAX_DIRECT_IO_KIB = 5
};
enum cufile_switch {
    CUFILE_SWITCH_ALLOW_COMPAT = 1,
    CUFILE_SWITCH_FORCE_COMPAT = 2,
    CUFILE_SWITCH_PARALLEL_IO = 4,
    CUFILE_SWITCH_P2PDMA = 7
};

/* Level-3 counters of a GPU, from `CUFILE_GPUS_AT` on; before them are counters of lower levels. */
struct cufile_gpu_counts {
    char uuid[16];
    uint64_t read_bytes, read_speed, read_use, read_us;
    uint64_t reads, p2p_reads, nvfs_reads, posix_reads;
    uint64_t unaligned_reads, routed_reads, sparse_regions, inline_regions, failed_reads;
    uint64_t write_bytes, write_speed, write_use, write_us;
    uint64_t writes, p2p_writes, nvfs_writes, posix_writes;
    uint64_t unaligned_writes, routed_writes, failed_writes;
    uint64_t maps, maps_done, maps_failed, maps_freed, registered_bytes;
};
#define CUFILE_GPUS             16
#define CUFILE_COUNTS_BYTES     16384 /* room for versions to come */
#define CUFILE_GPUS_AT          1136  /* a 32-bit number of GPUs, then the GPUs, 8 bytes on */
#define CUFILE_GPUS_AT_NO_READV 1024  /* in libraries without cuFileReadv */

/* name, whether leat can do without, result, arguments */
#define CUFILE_FUNCTIONS(X)                                                                        \
    X(cuFileDriverOpen, false, struct cufile_status, (void))                                       \
    X(cuFileDriverClose_v2, true, struct cufile_status, (void))                                    \
    X(cuFileHandleRegister, false, struct cufile_status,                                           \
      (void **handle, const struct cufile_description *description))                               \
    X(cuFileHandleDeregister, false, void, (void *handle))                                         \
    X(cuFileBufRegister, false, struct cufile_status, (const void *base, size_t bytes, int flags)) \
    X(cuFileBufDeregister, false, struct cufile_status, (const void *base))                        \
    X(cuFileRead, false, ssize_t,                                                                  \
      (void *handle, void *base, size_t bytes, off_t file_offset, off_t base_offset))              \
    X(cuFileWrite, false, ssize_t,                                                                 \
      (void *handle, const void *base, size_t bytes, off_t file_offset, off_t base_offset))        \
    X(cuFileGetVersion, true, struct cufile_status, (int *version))                                \
    X(cuFileUseCount, true, long, (void))                                                          \
    X(cuFileDriverGetProperties, true, struct cufile_status,                                       \
      (struct cufile_properties * properties))                                                     \
    X(cuFileGetParameterSizeT, true, struct cufile_status, (int parameter, size_t *value))         \
    X(cuFileGetParameterBool, true, struct cufile_status, (int parameter, bool *value))            \
    X(cuFileGetBARSizeInKB, true, struct cufile_status, (int gpu, size_t *kib))                    \
    X(cuFileSetStatsLevel, true, struct cufile_status, (int level))                                \
    X(cuFileStatsStart, true, struct cufile_status, (void))                                        \
    X(cuFileGetStatsL3, true, struct cufile_status, (void *counts))                                \
    X(cuFileReadv, true, ssize_t,                                                                  \
      (void *handle, const void *vector, size_t count, off_t offset, unsigned flags))

struct cufile_functions {
#define CUFILE_MEMBER(name, optional, result, arguments) result(*name) arguments;
    CUFILE_FUNCTIONS(CUFILE_MEMBER)
#undef CUFILE_MEMBER
};

#endif
