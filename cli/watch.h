/* SPDX-License-Identifier: MIT */
/*
 * watch.h - decides when a command has to be ended because its lock is going or gone.
 *
 * Pure: time and lease come in as numbers, signals go out as answers. The rule: a command that may
 * be told to stop (WATCH_TERM) early enough to obey is told so; none runs on past the moment when
 * somebody else may hold the lock.
 *
 *   no renewal comes through   TERM at valid_until - min(kill_after, ttl/3), KILL before
 * valid_until taken away                 TERM at once, KILL after min(kill_after, 1 s) noticed too
 * late           KILL at once (this process was stopped, or the machine slept)
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum watch_action {
    WATCH_NONE,
    WATCH_WARN, /* lost; the user asked to be told only */
    WATCH_TERM,
    WATCH_KILL
};

enum watch_phase { WATCH_RUNNING, WATCH_WARNED, WATCH_TERMED, WATCH_KILLED };

struct watch {
    int64_t kill_after_ms;
    bool warn_only;
    int64_t ttl_ms; /* the longest validity seen so far */
    int64_t valid_until_ms;
    int64_t kill_at_ms; /* of a command that has been told to stop */
    enum watch_phase phase;
};

struct watch_view {
    int64_t now_ms;       /* on the clock of the leases, which counts suspend */
    int64_t remaining_ms; /* of the validity, or until the hold has to end; 0 when lost */
    bool lost;
};

#define WATCH_NEVER INT64_C(-1)

void watch_init(struct watch *watch, int64_t kill_after_ms, bool warn_only);

/* What to do now. *next_ms: look again at this time at the latest; WATCH_NEVER: nothing to come. */
enum watch_action watch_step(struct watch *watch, const struct watch_view *view, int64_t *next_ms);

#endif
