/* SPDX-License-Identifier: MIT */
#include "resp/guard.h"

#include <time.h>

int64_t resp_guard_left_ms(int64_t guard_ms, int64_t uptime_s)
{
    if (guard_ms <= 0 || uptime_s > guard_ms / 1000 + 1)
        return 0;
    if (uptime_s < 0) /* the server's clock was set back */
        uptime_s = 0;
    return guard_ms + 1000 > uptime_s * 1000 ? guard_ms + 1000 - uptime_s * 1000 : 0;
}

int64_t resp_guard_ttl_ms(int64_t guard_ms, int64_t ttl_ms)
{
    return guard_ms > 0 && ttl_ms > guard_ms ? guard_ms : ttl_ms;
}

static int64_t seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

static void rest(char *out, size_t size, int64_t left_ms, const char *option)
{
    time_t until = time(NULL) + (time_t)seconds(left_ms);
    struct tm utc;
    char clock[16] = "";

    if (gmtime_r(&until, &utc) != NULL)
        (void)strftime(clock, sizeof clock, "%H:%M:%SZ", &utc);
    (void)snprintf(out, size,
                   "a lock from before may still be in use for %lld s (until %s); see %s",
                   (long long)seconds(left_ms), clock, option);
}

void resp_guard_rest(char *out, size_t size, int64_t left_ms)
{
    rest(out, size, left_ms, "restart_guard");
}

void resp_guard_failover_text(char *out, size_t size, int64_t age_ms, int64_t left_ms)
{
    char text[RESP_GUARD_TEXT_SIZE];

    rest(text, sizeof text, left_ms, "failover_guard");
    (void)snprintf(out, size,
                   "the server became the master of the name, or was started, %lld s ago; %s",
                   (long long)(age_ms > 0 ? age_ms / 1000 : 0), text);
}

void resp_guard_text(char *out, size_t size, int64_t guard_ms, int64_t left_ms)
{
    int64_t up_ms = guard_ms + 1000 - left_ms;
    char rest[RESP_GUARD_TEXT_SIZE];

    resp_guard_rest(rest, sizeof rest, left_ms);
    (void)snprintf(out, size, "the server was started %lld s ago; %s",
                   (long long)(up_ms > 0 ? up_ms / 1000 : 0), rest);
}

enum dlock_status resp_guard_judge_ttl(const char *origin, int64_t guard_ms, int64_t ttl_ms,
                                       struct dlock_error *err)
{
    if (guard_ms <= 0 || ttl_ms <= guard_ms)
        return DLOCK_OK;
    return dlock_fail(err, origin, DLOCK_CONFIG, 0,
                      "a ttl of %g s is longer than restart_guard (%g s): after a restart the lock "
                      "could be granted again while it is held; add restart_guard=%llds to the URI "
                      "of all clients, or use a ttl of at most %g s",
                      (double)ttl_ms / 1000, (double)guard_ms / 1000, (long long)seconds(ttl_ms),
                      (double)guard_ms / 1000);
}
