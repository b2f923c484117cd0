/* SPDX-License-Identifier: MIT */
/*
 * kill_timer.h - a timer of the kernel that ends this process by SIGKILL, also while it is stopped.
 *
 * It counts on CLOCK_BOOTTIME. A forked child does not inherit it. A client carries a copy of the
 * table, so that a test can put its own timer there. One user at a time.
 */
#ifndef DL_KILL_TIMER_H
#define DL_KILL_TIMER_H

#include <stdint.h>
#include <time.h>

struct dl_kill_timer {
    /* 0, or an errno. EPERM: the kernel does not end this process by a signal: it is the first of
     * its PID namespace. */
    int (*open)(struct dl_kill_timer *timer);
    void (*set)(struct dl_kill_timer *timer, int64_t at_ns); /* DL_NEVER: it is not armed */
    void (*close)(struct dl_kill_timer *timer);
    void *ctx;
    timer_t id;
};

extern const struct dl_kill_timer dl_kill_timer_posix;

#endif
