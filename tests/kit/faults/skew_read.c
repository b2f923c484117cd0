/* SPDX-License-Identifier: MIT */
/* What a program under the shim reads from its clocks. */
#include "shim_page.h"
#include "skew_shim.h"

#include <stdlib.h>
#include <sys/time.h>

#define NS_PER_S INT64_C(1000000000)

static struct dlt_skew_page *page; /* set before main, by one thread */

__attribute__((constructor(101))) static void page_open(void)
{
    const char *path = getenv("DLOCK_SKEW_FILE");

    if (path != NULL)
        page = dlt_page_map(path, sizeof *page, false);
}

int64_t skew_offset(clockid_t id)
{
    enum dlt_skew_clock clock = dlt_skew_clock_of(id);

    if (page == NULL || clock == DLT_SKEW_NONE)
        return 0;
    return atomic_load_explicit(&page->offset_ns[clock], memory_order_relaxed);
}

struct timespec skew_added(const struct timespec *at, int64_t ns)
{
    int64_t sum = at->tv_nsec + ns % NS_PER_S;
    struct timespec to = {at->tv_sec + (time_t)(ns / NS_PER_S), 0};

    to.tv_sec += (time_t)(sum / NS_PER_S);
    sum %= NS_PER_S;
    if (sum < 0) {
        sum += NS_PER_S;
        to.tv_sec--;
    }
    to.tv_nsec = (long)sum;
    return to;
}

static int clock_read(clockid_t id, struct timespec *out)
{
    SHIM_REAL(clock_gettime)
    enum dlt_skew_clock clock = dlt_skew_clock_of(id);
    int rc = call(id, out);

    if (rc != 0 || page == NULL || clock == DLT_SKEW_NONE)
        return rc;
    (void)atomic_fetch_add_explicit(&page->reads[clock], 1, memory_order_relaxed);
    *out = skew_added(out, skew_offset(id));
    return 0;
}

SHIM_EXPORT int clock_gettime(clockid_t id, struct timespec *out)
{
    return clock_read(id, out);
}

SHIM_EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec ts;

    (void)zone; /* obsolete: the C library takes no notice of it either */
    if (clock_read(CLOCK_REALTIME, &ts) != 0)
        return -1;
    out->tv_sec = ts.tv_sec;
    out->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

SHIM_EXPORT time_t time(time_t *out)
{
    struct timespec ts;

    if (clock_read(CLOCK_REALTIME_COARSE, &ts) != 0)
        return (time_t)-1;
    if (out != NULL)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

SHIM_EXPORT int timespec_get(struct timespec *out, int base)
{
    return base == TIME_UTC && clock_read(CLOCK_REALTIME, out) == 0 ? base : 0;
}
