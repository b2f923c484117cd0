/* SPDX-License-Identifier: MIT */
/* SIGXFSZ, which ends a program that writes past its limit (ulimit -f), unless it asked for it. A
 * library may not ask for it in its place: while a slot runs, this thread blocks the signal, and
 * takes one that came. The write fails then, with EFBIG. */
#include "sqlite.h"

#include <signal.h>
#include <sys/resource.h>

static sigset_t xfsz(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGXFSZ);
    return set;
}

void sqlite_signals_block(struct sqlite_signals *signals)
{
    struct rlimit limit;
    sigset_t set = xfsz(), pending;

    signals->blocked = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                       pthread_sigmask(SIG_BLOCK, &set, &signals->before) == 0;
    if (signals->blocked)
        signals->pending = sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ) != 0;
}

void sqlite_signals_restore(struct sqlite_signals *signals)
{
    sigset_t set = xfsz();

    if (!signals->blocked)
        return;
    if (!signals->pending)
        (void)sigtimedwait(&set, NULL, &(struct timespec){0});
    (void)pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
    signals->blocked = 0;
}
