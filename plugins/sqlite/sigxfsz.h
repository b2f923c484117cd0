/* SPDX-License-Identifier: MIT */
/*
 * sigxfsz.h - a limit on the size of files (ulimit -f) is an error and does not end the program.
 *
 * A write past the limit raises SIGXFSZ, unless this thread guards itself while a slot runs. The
 * write then fails with EFBIG.
 */
#ifndef SQLITE_SIGXFSZ_H
#define SQLITE_SIGXFSZ_H

#include "lib/signal_guard.h"

struct sqlite_sigxfsz {
    bool limited; /* there is a limit: the guard is in force */
    struct dl_signal_guard guard;
};

/* Around everything that may write to files, in one thread. */
void sqlite_sigxfsz_block(struct sqlite_sigxfsz *sigxfsz);
void sqlite_sigxfsz_restore(struct sqlite_sigxfsz *sigxfsz);

#endif
