/* SPDX-License-Identifier: MIT */
#include "lib/thread.h"

#include <signal.h>
#include <stddef.h>

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
