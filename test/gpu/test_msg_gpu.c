// SPDX-License-Identifier: Apache-2.0
// multi/test_msg_gpu.c on GPUs: ranks as threads and as processes that may share one.

#ifdef LEAT_HAVE_CUDA
#define MSG_CUDA
#include "multi/test_msg_gpu.c"
#else
#include <stdio.h>

int main(void)
{
    puts("this build has no CUDA");
    return 77;
}
#endif
