/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <dlock/types.h>
#include <inttypes.h>

#define LINES_MOST 60

static bool near_to(const struct dlt_record *r, const struct dlt_violation *v, int64_t window_ns)
{
    return r->clock_ns >= v->clock_ns - window_ns && r->clock_ns <= v->clock_ns + window_ns;
}

static bool concerns(const struct dlt_record *r, const struct dlt_violation *v, int64_t window_ns)
{
    if (r->event >= DLT_NEMESIS_STOP)
        return near_to(r, v, window_ns) &&
               (r->name_id == v->name_id || r->name_id == DLT_ALL_NAMES || v->attempt_id == 0);
    if (v->attempt_id == 0 || r->event == DLT_SEEN)
        return r->clock_ns == v->clock_ns;
    if (r->event >= DLT_HELD_STAMP && !near_to(r, v, window_ns / 20)) /* there are so many */
        return false;
    return r->attempt_id == v->attempt_id || (v->other_id != 0 && r->attempt_id == v->other_id);
}

void dlt_report_violation(FILE *out, const struct dlt_history *history,
                          const struct dlt_violation *violation, int64_t window_ns)
{
    unsigned lines = 0;

    (void)fprintf(out,
                  "# %s: %s: name %" PRId32 " attempt %" PRIx64 " other %" PRIx64 " at %" PRId64
                  ".%09" PRId64 "\n",
                  dlt_rule_name(violation->rule), dlt_rule_text(violation->rule),
                  (int32_t)violation->name_id, violation->attempt_id, violation->other_id,
                  violation->clock_ns / 1000000000, violation->clock_ns % 1000000000);
    for (size_t i = 0; i < history->count && lines < LINES_MOST; i++)
        if (concerns(&history->records[i], violation, window_ns)) {
            (void)fputs("#   ", out);
            dlt_record_print(out, &history->records[i]);
            lines++;
        }
    if (lines == LINES_MOST)
        (void)fputs("#   ...\n", out);
}

void dlt_report_figures(FILE *out, const struct dlt_check_figures *figures)
{
    (void)fprintf(out,
                  "# locks %" PRIu64 ", acquired %" PRIu64 ", renewals %" PRIu64
                  ", unlocks %" PRIu64 ", unknown %" PRIu64 ", lost %" PRIu64 ", faults %" PRIu64
                  ", writes %" PRIu64 " accepted %" PRIu64 " rejected, kept %" PRIu64
                  ", shown %" PRIu64 " (%" PRIu64 " with data), violations %" PRIu64,
                  figures->locks, figures->acquired, figures->renewals, figures->unlocks,
                  figures->unknown, figures->lost, figures->faults, figures->accepted,
                  figures->rejected, figures->keeps, figures->seen, figures->seen_data,
                  figures->total);
    if (figures->smallest_gap_ns != INT64_MAX)
        (void)fprintf(out, ", smallest gap %" PRId64 " ns", figures->smallest_gap_ns);
    (void)fputc('\n', out);
}

static bool says_failure(unsigned status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM ||
           status == DLOCK_AUTH || status == DLOCK_CONFIG || status == DLOCK_PROTOCOL;
}

void dlt_failures_text(const struct dlt_history *history, char *text, size_t size)
{
    size_t calls = 0, failed = 0;
    unsigned last = 0;

    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *r = &history->records[i];

        calls += r->event == DLT_RET_LOCK;
        if (r->event == DLT_RET_LOCK && says_failure(r->status)) {
            failed++;
            last = r->status;
        }
    }
    text[0] = '\0';
    if (failed > 0)
        (void)snprintf(text, size,
                       "; the store failed in %zu of %zu calls of lock, the last time with %s: "
                       "did the server run all the time?",
                       failed, calls, dlock_status_name((int)last));
}
