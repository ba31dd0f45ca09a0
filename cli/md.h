/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `leat md` share: the request, and the ways to run it.
 */
#ifndef CLI_MD_H
#define CLI_MD_H

#include "md/lammps.h"
#include "md/options.h"

#include <stdbool.h>

struct md_request {
    struct md_options options;
    bool rank_threads;
    int rank_count, steps, checkpoint_every, check_every;
    const char *cuda; /* as leat_open takes it */
    char *define, *include_dirs;
    struct md_lammps lammps;
    int lammps_option; /* one that only a data file has, or 0 */
};

/* ---- md_ranks.c: each gives the exit status ---- */
/* Starts the ranks as processes: this program again, with the arguments it was given. */
int md_launch(int argc, char *const *argv, const struct md_request *request);
/* All ranks as threads of this process. */
int md_run_threads(const struct md_request *request);
/* This process is a rank. */
int md_run_process(const struct md_request *request);

#endif
