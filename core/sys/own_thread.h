/* SPDX-License-Identifier: MIT */
/*
 * own_thread.h - threads of the library: their priority and their processors are those of the main
 * thread of the process, as far as the system allows, and not those of the thread that happened to
 * start them. They take no signal. And the priority of any thread.
 */
#ifndef DL_OWN_THREAD_H
#define DL_OWN_THREAD_H

#include <pthread.h>

/* 0 or an errno. */
int dl_own_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* The new thread calls it first: sets its nice value. */
void dl_own_thread_nice(void);

/* How soon the scheduler lets the calling thread run. The greater, the sooner: SCHED_IDLE, then by
 * nice value, then real time. */
int dl_own_thread_priority(void);

#endif
