/* SPDX-License-Identifier: MIT */
/* Tests: cli/keep.c */
/* C22: until when is a name kept that was acquired at a given moment? */
#include "keep.h"

#include <criterion/criterion.h>
#include <inttypes.h>

#define MS     INT64_C(1000000)
#define S      (1000 * MS)
#define PERIOD (60 * S)
#define BOOT   (1234567 * S + 891 * MS) /* the clock of leases at the wall clock's START */
#define START  (PERIOD * 29000000)      /* of a period */

static const struct keep minute = {.period_ms = PERIOD / MS};

/* How long a name is kept that was acquired at this wall time, if the clocks are read so much
 * later, and the reading takes `reading` nanoseconds, half of it before the wall clock is read. */
static int64_t kept_ms(int64_t wall, int64_t later, int64_t reading)
{
    int64_t since = BOOT + wall - START;
    struct keep_clocks clocks = {
        .before_ns = since + later,
        .wall_ns = wall + later + reading / 2,
        .after_ns = since + later + reading,
    };

    return keep_ms_since(&minute, since / MS * MS, &clocks); /* as dlock_since_ms says it */
}

/* Never free before the end of the period, and soon after it. */
static void want_until(int64_t end, int64_t wall, int64_t later, int64_t reading)
{
    int64_t until = wall + kept_ms(wall, later, reading) * MS;

    cr_assert(until >= end && until <= end + 2 * MS + reading,
              "acquired at %" PRId64 ", clocks read %" PRId64 " ns later: free %" PRId64
              " ns after the end of the period",
              wall - START, later, until - end);
}

Test(keep, C22_the_end_of_the_period_does_not_depend_on_when_the_clocks_are_read)
{
    static const int64_t at[] = {0, 1, 999999, 20 * S + 1, PERIOD - MS, PERIOD - 1};
    static const int64_t later[] = {0, 1, 300000, 20 * MS + 7, 59 * S, 3 * PERIOD};

    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        for (size_t j = 0; j < sizeof later / sizeof later[0]; j++)
            want_until(START + PERIOD, START + at[i], later[j], 0);
}

/* It is never counted to a period before its own. */
Test(keep, C22_a_reading_that_is_interrupted_keeps_longer_and_not_shorter)
{
    want_until(START + PERIOD, START, 0, 8 * MS);
    want_until(START + PERIOD, START + 1, 5 * S, 40 * MS);
    want_until(START + PERIOD, START + PERIOD - S, 5 * S, 40 * MS);
    want_until(START + 2 * PERIOD, START + PERIOD - 1, 0, 8 * MS);
}

Test(keep, keep_counts_from_the_acquisition_and_seven_days_are_the_most)
{
    static const struct keep week = {.period_ms = INT64_C(7) * 86400000};
    static const struct keep hour = {.keep_ms = 3600000};
    struct keep_clocks clocks = {.before_ns = 5 * S, .wall_ns = START, .after_ns = 6 * S};
    int64_t weeks = START / (week.period_ms * MS);

    cr_assert_eq(keep_ms_since(&hour, 2 * S, &clocks), 3600000);
    clocks.wall_ns = weeks * week.period_ms * MS;
    cr_assert_eq(keep_ms_since(&week, 5 * S, &clocks), week.period_ms);
}
