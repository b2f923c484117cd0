/* SPDX-License-Identifier: MIT */
/*
 * watch.h - decides when to end a command because its lease ends or the lock is lost.
 *
 * Pure: time and lease come in as numbers, signals go out as answers. The rule: a
 * command gets SIGTERM early enough to end by itself, and no command runs after the moment when
 * another owner may hold the lock.
 *
 *   no renewal comes through   TERM at valid_until - min(kill_after, ttl/3),
 *                              KILL at valid_until - min(ttl/10, 500 ms): time to unlock before the
 *                              timer ends this process (C25)
 *   taken away                 TERM at once, KILL after min(kill_after, 1 s)
 *   noticed too late           KILL at once (without the timer: this process was stopped, or the
 *                              machine slept)
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum watch_action {
    WATCH_NONE,
    WATCH_WARN, /* lost; print a line only */
    WATCH_TERM,
    WATCH_KILL
};

enum watch_phase { WATCH_RUNNING, WATCH_WARNED, WATCH_TERMED, WATCH_KILLED };

struct watch {
    int64_t kill_after_ms;
    bool warn_only;
    int64_t ttl_ms; /* the longest validity so far */
    int64_t valid_until_ms;
    int64_t kill_at_ms; /* after WATCH_TERM */
    enum watch_phase phase;
};

struct watch_view {
    int64_t now_ms;       /* on the clock of the leases, which counts suspend */
    int64_t remaining_ms; /* of the validity or of max_hold; 0 when lost */
    bool lost;
};

#define WATCH_NEVER INT64_C(-1)

void watch_init(struct watch *watch, int64_t kill_after_ms, bool warn_only);

/* The action for now. *next_ms: call again at this time at the latest; WATCH_NEVER: never. */
enum watch_action watch_step(struct watch *watch, const struct watch_view *view, int64_t *next_ms);

#endif
