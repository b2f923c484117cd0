/* SPDX-License-Identifier: MIT */
/*
 * signals.h - signals as data, and the inherited state of signals, which the command gets again.
 *
 * After signals_start, this process blocks the signals that it handles, and reads them from a
 * descriptor. Signals that were ignored at the start (nohup, a background job of a plain shell)
 * stay ignored, here and in the command.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;           /* reads struct signalfd_siginfo; non-blocking */
    sigset_t mask;    /* as inherited */
    sigset_t ignored; /* as inherited */
    sigset_t waiting; /* read from fd during the wait for the lock: ending signals, SIGCHLD */
    sigset_t running; /* read from fd while the command runs: these and the passed on */
};

/* Before any other thread starts, so that all inherit the mask. 0 or an errno. */
int signals_start(struct signals *signals);

/* From now on fd delivers signals.running. 0 or an errno. */
int signals_run(struct signals *signals);

/* From now on fd delivers signals.waiting again. 0 or an errno. */
int signals_wait(struct signals *signals);

/* The next signal, 0: none is waiting. */
int signals_next(const struct signals *signals);

/* In a forked child, between fork and exec: restores the inherited state. */
void signals_restore(const struct signals *signals);

/* Stops our process group, the job of a shell, as Ctrl-Z does, and returns when it continues.
 * False: it did not stop, because there is no shell that could continue it. */
bool signals_stop_self(void);

/* Ends this process by signal n, as if n had never been blocked. */
void signals_die(int n);

#endif
