/* SPDX-License-Identifier: MIT */
/* thread.h - threads of ours, which take no signal: signals are for the application's threads. */
#ifndef LIB_THREAD_H
#define LIB_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked. thread: NULL: it is detached. attr: may be NULL. 0 or
 * an errno. */
int dl_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

#endif
