/* SPDX-License-Identifier: MIT */
/*
 * time.h - units of time, clocks of the system, and waiting on a condition variable, or in ppoll,
 * until a deadline.
 *
 * Deadlines are on CLOCK_BOOTTIME, which counts suspended time. Condition variables and ppoll use
 * CLOCK_MONOTONIC, which does not. Therefore one sleep lasts a second at most: the caller sleeps in
 * a loop, and compares its deadline with its clock and tests its condition each time.
 */
#ifndef LIB_TIME_H
#define LIB_TIME_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define DL_NS_PER_US INT64_C(1000)
#define DL_NS_PER_MS INT64_C(1000000)
#define DL_NS_PER_S  INT64_C(1000000000)

/* The time of this clock. */
int64_t dl_time_now_ns(clockid_t clock);

/* ns, which is not negative, as the system wants it. */
struct timespec dl_time_spec(int64_t ns);

/* Makes a condition variable for dl_deadline_cond_wait. 0 or an errno. */
int dl_deadline_cond_init(pthread_cond_t *cond);

/* Sleeps until cond is signalled, for left_ns or for a second. left_ns <= 0: does not sleep. The
 * mutex is held. */
void dl_deadline_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t left_ns);

/* The timeout of a ppoll that has left_ns: at least 0, at most a second. */
struct timespec dl_deadline_cond_slice(int64_t left_ns);

#endif
