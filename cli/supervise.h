/* SPDX-License-Identifier: MIT */
/*
 * supervise.h - the time between the start of the command and its end: hands signals on, keeps the
 * terminal with whom it belongs to, and ends the command when its lock is going (watch.h).
 */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include "child.h"
#include "cli.h"
#include "outcome.h"
#include "watch.h"

struct supervise {
    const struct cli *cli;
    struct outcome *outcome;
    struct dlock_client *client;
    struct dlock *lock;
    const char *name; /* printable */
    struct child *child;
    const struct signals *signals;
    const struct tty *tty;
    struct watch watch;
    int64_t hold_until_ms; /* of --max-hold, INT64_MAX: none */

    bool lost;                /* the lock was lost, or the command was told to end before it was */
    enum dlock_reason reason; /* as the library told; 0: not yet */
    bool hold_ends_first;     /* at the last look --max-hold was nearer than the end of the lease */
    bool stop_passed_on;      /* the command was stopped by a signal that we passed to it */
    int64_t next_ms;          /* look at the lease again then, or WATCH_NEVER */
    int timer;
};

/* The line "lost" (outcome.h). */
void supervise_loss_write(struct outcome *outcome, enum dlock_reason reason);

/* Now, on the clock of the leases. */
int64_t supervise_now_ms(void);

/* Returns when the command has ended; if it was told to, when its whole group has. It still has to
 * be reaped. 0, or an errno: the command was killed. */
int supervise_child(struct supervise *s);

#endif
