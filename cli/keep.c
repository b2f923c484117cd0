/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <time.h>

#define NS_PER_MS    INT64_C(1000000)
#define NS_PER_S     INT64_C(1000000000)
#define KEEP_MAX_MS  (INT64_C(7) * 86400000)
#define READING_MOST (NS_PER_MS / 10)
#define READINGS     20

int keep_check(const struct keep *keep, const struct cli *cli, struct dlock_options *options,
               size_t names)
{
    options->keep_ms = keep->period_ms > 0 ? keep->period_ms : keep->keep_ms;
    if (keep->keep_ms > 0 && keep->period_ms > 0)
        return cli_args_usage(cli, "--keep and --once-per exclude each other");
    if (keep->always && options->keep_ms == 0)
        return cli_args_usage(cli, "--keep-always is for --keep and --once-per");
    if (names > 1 && (options->limit > 1 || options->keep_ms > 0))
        return cli_args_usage(cli, "--limit, --keep and --once-per are for one name");
    return -1;
}

int64_t keep_ms_since(const struct keep *keep, int64_t since_ns, const struct keep_clocks *clocks)
{
    int64_t period_ns = keep->period_ms * NS_PER_MS;
    int64_t began_ns, end_ns, ms;

    if (period_ns == 0)
        return keep->keep_ms;
    /* Up to a millisecond too early, since_ns must not count for the period before. */
    began_ns = clocks->wall_ns - (clocks->before_ns - since_ns) + NS_PER_MS - 1;
    end_ns = (began_ns / period_ns + 1) * period_ns;
    ms = (clocks->after_ns - since_ns + end_ns - clocks->wall_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms < KEEP_MAX_MS ? ms : KEEP_MAX_MS;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Once more if the thread lost the processor meanwhile: the name would be kept longer. */
void keep_clocks_read(struct keep_clocks *clocks)
{
    for (int i = 0; i < READINGS; i++) {
        clocks->before_ns = clock_ns(CLOCK_BOOTTIME);
        clocks->wall_ns = clock_ns(CLOCK_REALTIME);
        clocks->after_ns = clock_ns(CLOCK_BOOTTIME);
        if (clocks->after_ns - clocks->before_ns <= READING_MOST)
            return;
    }
}

bool keep_apply(const struct keep *keep, struct dlock_handle *lock, bool succeeded)
{
    int64_t since_ns = dlock_since_ms(lock) * NS_PER_MS;
    struct keep_clocks clocks;

    if ((keep->keep_ms == 0 && keep->period_ms == 0) || since_ns == 0 || !keep->started ||
        !(succeeded || keep->always))
        return false;
    keep_clocks_read(&clocks);
    return dlock_keep_name(lock, keep_ms_since(keep, since_ns, &clocks), NULL) == DLOCK_OK;
}
