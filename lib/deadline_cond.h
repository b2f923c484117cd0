/* SPDX-License-Identifier: MIT */
/*
 * deadline_cond.h - waiting on a condition variable, or in ppoll, until a deadline.
 *
 * Deadlines are on CLOCK_BOOTTIME, which counts suspended time. Condition variables and ppoll use
 * CLOCK_MONOTONIC, which does not. Therefore one sleep lasts a second at most: the caller sleeps in
 * a loop, and compares its deadline with its clock and tests its condition each time.
 */
#ifndef LIB_DEADLINE_COND_H
#define LIB_DEADLINE_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Makes a condition variable for dl_deadline_cond_wait. 0 or an errno. */
int dl_deadline_cond_init(pthread_cond_t *cond);

/* Sleeps until cond is signalled, for left_ns or for a second. left_ns <= 0: does not sleep. The
 * mutex is held. */
void dl_deadline_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t left_ns);

/* The timeout of a ppoll that has left_ns: at least 0, at most a second. */
struct timespec dl_deadline_cond_slice(int64_t left_ns);

#endif
