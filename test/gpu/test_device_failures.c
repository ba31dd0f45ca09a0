// SPDX-License-Identifier: Apache-2.0
// multi/test_device_failures.c on GPUs: on all there are, ranks dealt out over them.

#define _GNU_SOURCE
#define FAILURES_DEVICE "cuda"
#define TIMEOUT_S       2.0
#include "multi/test_device_failures.c"
