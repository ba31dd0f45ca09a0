// SPDX-License-Identifier: Apache-2.0
// multi/test_stamps.c on GPUs: on all there are, ranks dealt out over them.

#define _GNU_SOURCE
#define STAMPS_DEVICE   "cuda"
#define STAMPS_STEPS    2000
#define STAMPS_POINTS   3000
#define STAMPS_DELAY_NS 3000
#include "multi/test_stamps.c"
