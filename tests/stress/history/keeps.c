/* SPDX-License-Identifier: MIT */
/*
 * A release that was OK, and none of the attempt UNKNOWN before it, kept the name until keep_ms
 * after the acquisition began, which was during the call of lock, as the clocks of the client and
 * the store count that. A clock may run wrong by a hundredth.
 */
#include "checker.h"

#include <dlock/types.h>

#define NS_PER_MS INT64_C(1000000)
#define CLOCK_NS  1000 /* what is lost where a time of one clock is told as one of another */

static int64_t drift_ns(const struct attempt *attempt)
{
    return attempt->keep_ms * (NS_PER_MS / 100) + 2 * NS_PER_MS;
}

static int64_t keeps_until_ns(const struct attempt *attempt)
{
    return attempt->began_ns + attempt->keep_ms * NS_PER_MS;
}

void dlt_keep_acquired(struct checker *checker, struct attempt *attempt,
                       const struct dlt_record *record)
{
    attempt->began_ns = (int64_t)record->data;
    /* A program knows it in whole milliseconds (dlock_since_ms). */
    if (attempt->began_ns != 0 && (attempt->began_ns < attempt->inv_ns - NS_PER_MS - CLOCK_NS ||
                                   attempt->began_ns > record->clock_ns + CLOCK_NS))
        dlt_checker_report(checker, DLT_RULE_KEEP, attempt, NULL, record->clock_ns);
}

/* Until then nobody has to get the name, whatever becomes of the release. */
void dlt_keep_begin(struct checker *checker, struct attempt *attempt,
                    const struct dlt_record *record)
{
    attempt->keep_ms = (int64_t)record->data;
    if (attempt->keep_ms > 0)
        dlt_turn_moved(checker, attempt,
                       (attempt->began_ns != 0 ? keeps_until_ns(attempt)
                                               : record->clock_ns + attempt->keep_ms * NS_PER_MS) +
                           drift_ns(attempt));
}

/* A repeated unlock is OK, too, if the lease is gone and the time of the keep is over. */
void dlt_keep_answered(struct checker *checker, struct attempt *attempt,
                       const struct dlt_record *record)
{
    attempt->perhaps_kept |= record->status == DLOCK_UNKNOWN;
    if (record->status != DLOCK_OK || attempt->keep_ms == 0 || attempt->began_ns == 0 ||
        attempt->perhaps_kept ||
        (attempt->unlocking && record->clock_ns >= keeps_until_ns(attempt) - drift_ns(attempt)))
        return;
    attempt->keeps_until_ns = keeps_until_ns(attempt);
    checker->figures->keeps++;
}

void dlt_keep_compare(struct checker *checker, const struct segment *kept,
                      const struct segment *segment)
{
    if (!checker->options->kept || kept == NULL || kept->attempt == segment->attempt ||
        segment->start_ns >= kept->attempt->keeps_until_ns - drift_ns(kept->attempt))
        return;
    dlt_checker_report(checker, DLT_RULE_KEEP, segment->attempt, kept->attempt, segment->start_ns);
}
