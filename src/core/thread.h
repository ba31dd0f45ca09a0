/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library's own.
 *
 * Signals are for the program's threads: one that waits for a signal, having blocked it in all
 * threads that it knows of, must not be killed because a thread of ours takes it. What a thread
 * brings upon itself (a bad access) is left as it is.
 */
#ifndef LEAT_CORE_THREAD_H
#define LEAT_CORE_THREAD_H

#include <pthread.h>

/* As pthread_create, whose code it returns. */
int leat_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
