/* SPDX-License-Identifier: MIT */
#include "lib/time.h"

int64_t dl_time_now_ns(clockid_t clock)
{
    struct timespec ts = {0};

    (void)clock_gettime(clock, &ts); /* cannot fail: the clocks that we name exist */
    return ts.tv_sec * DL_NS_PER_S + ts.tv_nsec;
}

struct timespec dl_time_spec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / DL_NS_PER_S),
                             .tv_nsec = (long)(ns % DL_NS_PER_S)};
}
