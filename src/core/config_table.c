// SPDX-License-Identifier: Apache-2.0
// The settings: names, kinds, defaults, ranges and help.
//
// Advantage: a setting is a row here and a member of struct config. Disadvantage: texts that are
// checked by more than a range need a line in config.c too.

#include "core/config.h"
#include "file/internal.h"

#include <stddef.h>

#define IN(member) offsetof(struct config, member)

const struct setting leat_settings[SETTING_COUNT] = {
    [SETTING_TIMEOUT] = {"LEAT_TIMEOUT", KIND_SECONDS, "30", 0.001, 86400,
                         "longest wait for a peer, in seconds", IN(timeout_s)},
    [SETTING_ARENA] = {"LEAT_ARENA", KIND_BYTES, "4G", 16777216.0, 1099511627776.0,
                       "address space a rank for regions, in bytes (K, M, G, T)", IN(arena_bytes)},
    [SETTING_PATHS] = {"LEAT_PATHS", KIND_TEXT, "auto", 0, 0,
                       "paths that may be taken: auto, require:NAME or forbid:NAME[,NAME]",
                       IN(paths)},
    [SETTING_FABRIC] = {"LEAT_FABRIC", KIND_TEXT, "auto", 0, 0,
                        "libfabric's provider between hosts (net, tcp, verbs;ofi_rxm, ...), also "
                        "NAME@ADDRESS, or auto",
                        IN(fabric)},
    [SETTING_DEVICE] = {"LEAT_DEVICE", KIND_TEXT, "cpu", 0, 0,
                        "where kernels run: cpu, cuda or cuda:0,1 (the GPUs for a job's threads)",
                        IN(device)},
    [SETTING_BLOCKS] =
        {"LEAT_BLOCKS", KIND_INTEGER, "1", 1, 256,
         "blocks of a kernel; unless it is set, a GPU takes as many as suit the size",
         IN(block_count)},
    [SETTING_PACKETS] = {"LEAT_HALO_PACKETS", KIND_INTEGER, "0", 0, 16777216,
                         "largest pulse, in elements, whose elements each say by themselves that "
                         "they are in; unless it is set, a GPU takes what suits it",
                         IN(packets)},
    [SETTING_BULK] =
        {"LEAT_HALO_BULK", KIND_INTEGER, "0", 0, 16777216,
         "smallest pulse, in elements, that a GPU sends by bulk copies from its shared "
         "memory, or 0; unless it is set, what suits the GPU",
         IN(bulk)},
    [SETTING_SPIN] = {"LEAT_SPIN", KIND_MICROSECONDS, "20", 0, 100000,
                      "how long a wait spins before it yields, in microseconds", IN(spin_ns)},
    [SETTING_LOG] = {"LEAT_LOG", KIND_TEXT, "warn", 0, 0,
                     "messages on stderr: error, warn, info or debug", IN(log_level)},
    [SETTING_TRACE] = {"LEAT_TRACE", KIND_TEXT, "off", 0, 0,
                       "file for a Chrome trace of all ranks, written as they close, or off",
                       IN(trace)},
    [SETTING_MSG_BUDGET] = {"LEAT_MSG_BUDGET", KIND_BYTES, "64M", 1048576.0, 1099511627776.0,
                            "most memory a rank's message layer may hold, in bytes",
                            IN(msg_budget_bytes)},
    [SETTING_MSG_PEERS] = {"LEAT_MSG_PEERS", KIND_INTEGER, "1024", 1, 32000,
                           "peers that may have a ring at a rank, as far as the budget allows",
                           IN(msg_peers)},
    [SETTING_MSG_EAGER] = {"LEAT_MSG_EAGER", KIND_BYTES, "32K", 0, 32768,
                           "largest message that a ring carries, in bytes", IN(msg_eager_bytes)},
    [SETTING_MSG_SHARE] = {"LEAT_MSG_SHARE", KIND_BYTES, "32K", 4096, 1099511627776.0,
                           "smallest message that sender and receiver copy together, in bytes",
                           IN(msg_share_bytes)},
    [SETTING_COMPAT] = {"LEAT_COMPAT", KIND_TEXT, "auto", 0, 0,
                        "cuFile for files: auto, on (never) or off (cuFile or an error)",
                        IN(compat)},
    [SETTING_CUFILE_MIN] = {"LEAT_CUFILE_MIN", KIND_BYTES, "16K", 0, 1099511627776.0,
                            "smallest call that asks cuFile, in bytes", IN(cufile_min_bytes)},
    [SETTING_FILE_THREADS] = {"LEAT_FILE_THREADS", KIND_INTEGER, "0", 0, 256,
                              "threads for files; 0: as many as there are cores, 8 at most",
                              IN(file_threads)},
    [SETTING_FILE_TASK] = {"LEAT_FILE_TASK", KIND_BYTES, "4M", 65536.0, 1099511627776.0,
                           "part of a call that one thread carries out, in bytes",
                           IN(file_task_bytes)},
    [SETTING_FILE_BUFFER] = {"LEAT_FILE_BUFFER", KIND_BYTES, "2M", 65536.0, 1073741824.0,
                             "size of a bounce buffer, in bytes", IN(file_buffer_bytes)},
    [SETTING_FILE_BUFFERS] = {"LEAT_FILE_BUFFERS", KIND_INTEGER, "4", 2, FILE_SLOTS_MAX - 1,
                              "bounce buffers a thread", IN(file_buffers)},
    [SETTING_FILE_DIRECT] = {"LEAT_FILE_DIRECT", KIND_TEXT, "auto", 0, 0,
                             "past the page cache: auto, on or off", IN(file_direct)},
    [SETTING_FILE_GAP] = {"LEAT_FILE_GAP", KIND_BYTES, "16K", 0, 1073741824.0,
                          "largest gap between ranges that is read over, in bytes",
                          IN(file_gap_bytes)},
    [SETTING_FILE_MAPPED_CHUNK] = {"LEAT_FILE_MAPPED_CHUNK", KIND_BYTES, "64M", 1048576.0,
                                   1099511627776.0,
                                   "pages of a file that are made known to a GPU at once, in bytes",
                                   IN(file_mapped_chunk_bytes)},
};
