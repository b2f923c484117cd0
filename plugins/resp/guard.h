/* SPDX-License-Identifier: MIT */
/*
 * guard.h - the option restart_guard.
 *
 * A server that was restarted may have forgotten a lock whose holder still relies on it. Until the
 * server has been up for restart_guard, no new lock is taken there. No lease is longer than
 * restart_guard, so that all leases from before the restart have ended by then. 0: no guard.
 */
#ifndef RESP_GUARD_H
#define RESP_GUARD_H

#include <dlock/plugin.h>

/* The advice of doctor for restart_guard=0. */
#define RESP_UNGUARDED                                                                          \
    "a server that restarts forgets locks, and could grant a lock again while it is held: set " \
    "restart_guard to at least the longest ttl of any client"

/* How long a server that reports uptime_s takes no new lock; 0: it takes new locks. The server
 * counts whole seconds. */
int64_t resp_guard_left_ms(int64_t guard_ms, int64_t uptime_s);

/* "a lock from before may still be in use for 26 s (until 12:00:30Z); see restart_guard" */
#define RESP_GUARD_TEXT_SIZE 128
void resp_guard_rest(char *out, size_t size, int64_t left_ms);

/* The message of BUSY while left_ms of the failover guard of plugins/redis remain. */
#define RESP_FAILOVER_TEXT_SIZE 224
void resp_guard_failover_text(char *out, size_t size, int64_t age_ms, int64_t left_ms);

/* The message of BUSY while left_ms of the guard remain. */
void resp_guard_text(char *out, size_t size, int64_t guard_ms, int64_t left_ms);

/* CONFIG: a lease of ttl_ms is longer than the guard. */
enum dlock_status resp_guard_judge_ttl(const char *origin, int64_t guard_ms, int64_t ttl_ms,
                                       struct dlock_error *err);

/* The longest lease that a renewal or an adoption may ask for. */
int64_t resp_guard_ttl_ms(int64_t guard_ms, int64_t ttl_ms);

#endif
