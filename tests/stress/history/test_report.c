/* SPDX-License-Identifier: MIT */
/* Does a report say what happened, in words that mean it? */
#include "report.h"

#include <criterion/criterion.h>
#include <dlock/types.h>
#include <string.h>

static void expect_printed(struct dlt_record record, const char *want, const char *never)
{
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    cr_assert_not_null(out);
    dlt_record_print(out, &record);
    (void)fclose(out);
    cr_assert_not_null(strstr(text, want), "want \"%s\": %s", want, text);
    cr_assert(never == NULL || strstr(text, never) == NULL, "it says \"%s\": %s", never, text);
}

/* The member status has another meaning in each event: it is printed as what it means. */
Test(report, prints_what_a_status_means)
{
    expect_printed((struct dlt_record){.event = DLT_INV_LOCK, .status = 3}, " waits, renewed",
                   "CANCELED");
    expect_printed((struct dlt_record){.event = DLT_INV_LOCK}, " one attempt", "OK");
    expect_printed((struct dlt_record){.event = DLT_RET_LOCK, .status = DLOCK_CANCELED},
                   " CANCELED", NULL);
    expect_printed((struct dlt_record){.event = DLT_RET_UNLOCK, .status = DLOCK_OK}, " OK", NULL);
    expect_printed((struct dlt_record){.event = DLT_INV_RENEW, .status = 1}, " by the application",
                   "BUSY");
    expect_printed((struct dlt_record){.event = DLT_HELD_STAMP, .status = 1}, " held", "BUSY");
    expect_printed((struct dlt_record){.event = DLT_HELD_STAMP}, " not held", "OK");
    expect_printed((struct dlt_record){.event = DLT_NEMESIS_KILL}, "NEMESIS_KILL", "OK");
}

static const char *failures_of(const enum dlock_status *answers, size_t count, char text[160])
{
    struct dlt_history history = {0};

    for (size_t i = 0; i < count; i++)
        *dlt_history_add(&history) = (struct dlt_record){
            .event = DLT_RET_LOCK, .status = (uint16_t)answers[i], .attempt_id = i + 1};
    dlt_failures_text(&history, text, 160);
    dlt_history_fini(&history);
    return text;
}

/* A server that was killed is told apart from a store that lets nobody in (C13). */
Test(report, tells_of_a_store_that_failed)
{
    static const enum dlock_status dead[] = {DLOCK_OK, DLOCK_UNKNOWN, DLOCK_UNAVAILABLE,
                                             DLOCK_UNAVAILABLE};
    static const enum dlock_status alive[] = {DLOCK_OK, DLOCK_BUSY, DLOCK_TIMEOUT, DLOCK_CANCELED,
                                              DLOCK_LOST};
    char text[160];

    cr_assert_str_eq(failures_of(dead, 4, text),
                     "; the store failed in 3 of 4 calls of lock, the last time with UNAVAILABLE: "
                     "did the server run all the time?");
    cr_assert_str_eq(failures_of(alive, 5, text), "");
}
