/* SPDX-License-Identifier: MIT */
/*
 * nap.h - waiting until a moment of the host's clock.
 *
 * Deadlines are on CLOCK_BOOTTIME, which counts suspended time; a condition variable and ppoll run
 * on CLOCK_MONOTONIC, which does not. Therefore no sleep lasts longer than a second: the caller
 * sleeps in a loop and compares its deadline with the host's clock each time.
 */
#ifndef NET_NAP_H
#define NET_NAP_H

#include <dlock/plugin.h>
#include <pthread.h>
#include <time.h>

/* Makes a condition variable that nap_until can wait on. */
void nap_cond_init(pthread_cond_t *cond);

/* Sleeps until cond is signalled, until deadline_ns, or for a second. The mutex is held. */
void nap_until(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct dlock_host *host,
               int64_t deadline_ns);

/* The timeout of a ppoll that has left_ns: at least 0, at most a second. */
struct timespec nap_slice(int64_t left_ns);

#endif
