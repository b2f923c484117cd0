/* SPDX-License-Identifier: MIT */
/* host.h - builds the table of services that plugins are given. */
#ifndef DL_HOST_H
#define DL_HOST_H

#include "sys/clock.h"
#include "sys/kill_timer.h"
#include "sys/log.h"

#include <dlock/plugin.h>

/* What a test may replace, and the plugin's view of it. */
struct dl_host {
    struct dl_clock clock;
    struct dl_kill_timer kill_timer;
    int (*random)(void *buf, size_t len);
    struct dl_log log;
    void (*session_caps)(void *arg, void *self, uint64_t caps); /* may be NULL */
    void (*session_made)(void *arg);                            /* may be NULL */
    void (*session_wanted)(void *arg); /* a call waits for a session that is lent to a wait; NULL */
    void (*connection)(void *arg, enum dlock_connection_event event); /* may be NULL */
    void *session_arg;
    struct dlock_host table; /* table.ctx is this struct: it must not move */
};

/* Real clock and random bytes; log: the application's. */
void dl_host_init(struct dl_host *host, struct dl_log log);

#endif
