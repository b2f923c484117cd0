/* SPDX-License-Identifier: MIT */
#include "lib/thread.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

int dl_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_t id;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&id, attr, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return rc;
    if (thread == NULL)
        return pthread_detach(id);
    *thread = id;
    return 0;
}

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
