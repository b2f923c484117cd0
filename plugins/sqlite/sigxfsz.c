/* SPDX-License-Identifier: MIT */
#include "sigxfsz.h"

#include <sys/resource.h>

static sigset_t set_of_it(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGXFSZ);
    return set;
}

void sqlite_sigxfsz_block(struct sqlite_sigxfsz *sigxfsz)
{
    struct rlimit limit;
    sigset_t set = set_of_it(), pending;

    sigxfsz->blocked = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                       pthread_sigmask(SIG_BLOCK, &set, &sigxfsz->before) == 0;
    if (sigxfsz->blocked)
        sigxfsz->pending = sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ) != 0;
}

void sqlite_sigxfsz_restore(struct sqlite_sigxfsz *sigxfsz)
{
    sigset_t set = set_of_it();

    if (!sigxfsz->blocked)
        return;
    if (!sigxfsz->pending)
        (void)sigtimedwait(&set, NULL, &(struct timespec){0});
    (void)pthread_sigmask(SIG_SETMASK, &sigxfsz->before, NULL);
    sigxfsz->blocked = false;
}
