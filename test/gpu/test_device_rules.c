// SPDX-License-Identifier: Apache-2.0
// multi/test_device_rules.c on GPUs: on all there are, ranks dealt out over them.

#define _GNU_SOURCE
#define RULES_DEVICE "cuda"
#define RULES_STEPS  10
#define RULES_CHAIN  200
#include "multi/test_device_rules.c"
