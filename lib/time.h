/* SPDX-License-Identifier: MIT */
/* time.h - units of time, and reading a clock of the system. */
#ifndef LIB_TIME_H
#define LIB_TIME_H

#include <stdint.h>
#include <time.h>

#define DL_NS_PER_US INT64_C(1000)
#define DL_NS_PER_MS INT64_C(1000000)
#define DL_NS_PER_S  INT64_C(1000000000)

/* The time of this clock. */
int64_t dl_time_now_ns(clockid_t clock);

/* ns, which is not negative, as the system wants it. */
struct timespec dl_time_spec(int64_t ns);

#endif
