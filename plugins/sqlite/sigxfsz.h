/* SPDX-License-Identifier: MIT */
/*
 * sigxfsz.h - a limit on the size of files (ulimit -f) is an error and does not end the program.
 *
 * A write past the limit raises SIGXFSZ. A library may not change what a program does with the
 * signal, so this thread blocks it while a slot runs, and takes a signal that came meanwhile. The
 * write then fails with EFBIG.
 */
#ifndef SQLITE_SIGXFSZ_H
#define SQLITE_SIGXFSZ_H

#include <signal.h>
#include <stdbool.h>

struct sqlite_sigxfsz {
    bool blocked; /* by this plugin: `before` is to be restored */
    bool pending; /* before the signal was blocked */
    sigset_t before;
};

/* Around everything that may write to files, in one thread. */
void sqlite_sigxfsz_block(struct sqlite_sigxfsz *sigxfsz);
void sqlite_sigxfsz_restore(struct sqlite_sigxfsz *sigxfsz);

#endif
