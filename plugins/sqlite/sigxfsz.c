/* SPDX-License-Identifier: MIT */
#include "sigxfsz.h"

#include <sys/resource.h>

void sqlite_sigxfsz_block(struct sqlite_sigxfsz *sigxfsz)
{
    struct rlimit limit;

    sigxfsz->limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (sigxfsz->limited)
        dl_signal_guard_begin(&sigxfsz->guard, SIGXFSZ);
}

void sqlite_sigxfsz_restore(struct sqlite_sigxfsz *sigxfsz)
{
    if (sigxfsz->limited)
        dl_signal_guard_end(&sigxfsz->guard);
    sigxfsz->limited = false;
}
