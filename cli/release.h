/* SPDX-License-Identifier: MIT */
/*
 * release.h - the end of a run: unlocks. A run that is to keep its name repeats the unlock while
 * the store fails, until the lease ends: only a release keeps (C22).
 */
#ifndef CLI_RELEASE_H
#define CLI_RELEASE_H

#include "cli.h"
#include "held.h"
#include "outcome.h"
#include "signals.h"

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
