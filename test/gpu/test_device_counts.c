// SPDX-License-Identifier: Apache-2.0
// multi/test_device_counts.c on GPUs: on all there are, ranks dealt out over them.

#define _GNU_SOURCE
#define COUNTS_DEVICE "cuda"
#include "multi/test_device_counts.c"
