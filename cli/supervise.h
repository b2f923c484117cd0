/* SPDX-License-Identifier: MIT */
/*
 * supervise.h - the time between the start of the command and its end: passes signals on, gives the
 * terminal to the command, and ends the command before its lease ends (watch.h). Descendants of the
 * command are ended with it, unless the command exits by itself.
 */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include "acquire.h"
#include "child.h"
#include "cli.h"
#include "outcome.h"
#include "signals.h"
#include "watch.h"

struct supervise {
    const struct cli *cli;
    struct outcome *outcome;
    struct dlock_client *client;
    const struct held *held;
    const char *name; /* printable */
    struct child *child;
    const struct signals *signals;
    const struct tty *tty;
    struct watch watch;
    int64_t hold_until_ms; /* of --max-hold, INT64_MAX: none */

    bool lost;                /* the lock was lost, or the command got a signal before the loss */
    enum dlock_reason reason; /* of the library's notice; 0: none yet */
    bool hold_ends_first;     /* --max-hold ends before the lease */
    bool stop_passed_on;      /* the command was stopped by a signal that we passed to it */
    int ending_signal;        /* one that ends programs was passed on to the command; 0: none */
    int64_t kill_all_ms; /* the command has ended after a signal: SIGKILL to descendants; 0: no */
    bool refusal_said;   /* a descendant cannot be ended, and a line says so */
    bool gives_up;       /* and another signal came: unlock although it runs on */
    int64_t next_ms;     /* when to check the lease again, or WATCH_NEVER */
    int timer;
};

/* The line "lost" (outcome.h). */
void supervise_loss_write(struct outcome *outcome, enum dlock_reason reason);

/* Returns when the command has ended; after a loss or a signal, when all its descendants have. The
 * caller reaps it. 0, or an errno: the command was killed. */
int supervise_child(struct supervise *s);

/*
 * The end of a run: unlocks. A run that is to keep its name repeats the unlock while
 * the store fails, until the lease ends: only a release keeps (C22).
 */

/* Of the lines "released" and "unreleased" (dlock(1), OUTCOME). */
enum release_keep {
    RELEASE_PLAIN,    /* nobody asked for it */
    RELEASE_NOT_KEPT, /* --keep or --once-per was given, and the command failed */
    RELEASE_KEEPS
};

struct release {
    const struct cli *cli;
    struct outcome *outcome;
    const struct held *held;
    const struct signals *signals; /* an ending one ends the repetition */
    const char *name;              /* printable */
    enum release_keep keep;
};

/* Returns the exit code of the run: exit_code, or CLI_EXIT_LOST. */
int release_run(const struct release *release, int exit_code);

#endif
