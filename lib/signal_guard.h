/* SPDX-License-Identifier: MIT */
/*
 * signal_guard.h - a write that fails raises no signal.
 *
 * A write to a pipe without a reader raises SIGPIPE, and a write past `ulimit -f` SIGXFSZ, in the
 * thread that writes. A library may not change what the program does with a signal. So the thread
 * blocks it around the write, and takes the one that the write has raised.
 */
#ifndef LIB_SIGNAL_GUARD_H
#define LIB_SIGNAL_GUARD_H

#include <signal.h>
#include <stdbool.h>

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
