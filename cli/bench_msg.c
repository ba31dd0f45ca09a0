// SPDX-License-Identifier: Apache-2.0
// A rank of leat's side of `leat bench p2p`, `coll`, `memory` and `flood`. Refuses as long as the
// message layer is not there.

#include "bench.h"
#include "commands.h"

#include <stdio.h>

int bench_msg_serve(int argc, char **argv)
{
    (void)argc, (void)argv;
    fprintf(stderr, "leat bench: this build has no message layer\n");
    return EXIT_UNSUPPORTED;
}
