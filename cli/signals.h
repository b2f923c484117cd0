/* SPDX-License-Identifier: MIT */
/*
 * signals.h - signals as data, and the state of signals that the command has to find again.
 *
 * From start on the signals that matter are blocked in this process and read from a descriptor.
 * Those that were ignored when we were started (nohup, a background job of a plain shell) stay
 * ignored, by us and by the command.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;           /* reads struct signalfd_siginfo; non-blocking */
    sigset_t mask;    /* as inherited */
    sigset_t ignored; /* as inherited */
    sigset_t waiting; /* what fd tells of while the lock is waited for: what ends us, and SIGCHLD */
    sigset_t running; /* ... while the command runs: what is handed on to it as well */
};

/* Before any other thread starts, so that all inherit the mask. 0 or an errno. */
int signals_start(struct signals *signals);

/* From now on fd tells of signals.running. 0 or an errno. */
int signals_run(struct signals *signals);

/* The next signal, 0: none is waiting. */
int signals_next(const struct signals *signals);

/* In a forked child, between fork and exec: everything as it was inherited. */
void signals_restore(const struct signals *signals);

/*
 * Stops our process group, the job of a shell, as Ctrl-Z would, and returns when it goes on. False:
 * it did not stop, because no shell is there that could ever continue it.
 */
bool signals_stop_self(void);

/* Ends this process by signal n, as if n had never been blocked. */
void signals_die(int n);

#endif
