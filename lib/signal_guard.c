/* SPDX-License-Identifier: MIT */
#include "lib/signal_guard.h"

#include <errno.h>
#include <time.h>

static sigset_t set_of(int signal)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal);
    return set;
}

void dl_signal_guard_begin(struct dl_signal_guard *guard, int signal)
{
    sigset_t set = set_of(signal), pending;

    guard->signal = signal;
    guard->blocked = pthread_sigmask(SIG_BLOCK, &set, &guard->before) == 0;
    guard->pending = sigpending(&pending) != 0 || sigismember(&pending, signal) != 0;
}

void dl_signal_guard_end(struct dl_signal_guard *guard)
{
    sigset_t set = set_of(guard->signal);

    if (!guard->blocked)
        return;
    if (!guard->pending) {
        while (sigtimedwait(&set, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
            ;
    }
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    guard->blocked = false;
}
