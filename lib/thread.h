/* SPDX-License-Identifier: MIT */
/* thread.h - threads of ours, which take no signal: signals are for the application's threads; and
 * a write that fails, which raises none. */
#ifndef LIB_THREAD_H
#define LIB_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* Starts a thread with all signals blocked. thread: NULL: it is detached. attr: may be NULL. 0 or
 * an errno. */
int dl_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

/*
 * A write that fails raises no signal.
 *
 * A write to a pipe without a reader raises SIGPIPE, and a write past `ulimit -f` SIGXFSZ, in the
 * thread that writes. A library may not change what the program does with a signal. So the thread
 * blocks it around the write, and takes the one that the write has raised.
 */

struct dl_signal_guard {
    int signal;
    bool blocked; /* by the guard: `before` is to be restored */
    bool pending; /* before the signal was blocked */
    sigset_t before;
};

/* In one thread. Guards of two signals are nested. */
void dl_signal_guard_begin(struct dl_signal_guard *guard, int signal);
void dl_signal_guard_end(struct dl_signal_guard *guard);

#endif
