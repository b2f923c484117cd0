/* SPDX-License-Identifier: MIT */
/* made.h - hand-made histories for the tests of the checker, in milliseconds. */
#ifndef DLT_MADE_H
#define DLT_MADE_H

#include "check.h"

#include <criterion/criterion.h>
#include <dlock/types.h>

#define MS INT64_C(1000000)

static const struct dlt_check_options strict = {.slack_ns = 5 * MS,
                                                .stall_ns = 500 * MS,
                                                .renewed = true,
                                                .explained = true,
                                                .complete = true,
                                                .told = true,
                                                .kept = true,
                                                .handoff = 2,
                                                .local_fifo = true};

static struct dlt_history history;

static inline void add(int64_t ms, int32_t pid, unsigned event, uint64_t attempt, unsigned status,
                       int64_t until_ms, uint64_t fence)
{
    struct dlt_record *r = dlt_history_add(&history);

    cr_assert_not_null(r);
    *r = (struct dlt_record){.seq = history.count,
                             .clock_ns = ms * MS,
                             .pid = pid,
                             .event = (uint8_t)event,
                             .attempt_id = attempt,
                             .status = (uint16_t)status,
                             .until_ns = until_ms * MS,
                             .fence = fence};
}

/* The last record is one of a reader. */
static inline void shared(void)
{
    history.records[history.count - 1].mode = DLOCK_SHARED;
}

/* The last attempt is one of a semaphore: INV_LOCK, RET_LOCK. */
static inline void permit(uint32_t limit, uint32_t number)
{
    history.records[history.count - 2].limit = limit;
    history.records[history.count - 1].permit = number;
}

/* pid is the attempt's number; it waits, is kept, and got until_ms. */
static inline void locks(int64_t ms, uint64_t attempt, int64_t until_ms, uint64_t fence)
{
    add(ms, (int32_t)attempt, DLT_INV_LOCK, attempt, DLT_CALL_WAITS | DLT_CALL_KEPT, 0, 0);
    add(ms + 1, (int32_t)attempt, DLT_RET_LOCK, attempt, DLOCK_OK, until_ms, fence);
}

static inline void unlocks(int64_t ms, uint64_t attempt, unsigned status)
{
    add(ms, (int32_t)attempt, DLT_INV_UNLOCK, attempt, 0, 0, 0);
    add(ms + 1, (int32_t)attempt, DLT_RET_UNLOCK, attempt, status, 0, 0);
}

/* Only that rule is broken, that often. */
static inline void expect(enum dlt_rule rule, uint64_t count)
{
    struct dlt_check_figures figures;

    dlt_history_sort(&history);
    cr_assert_eq(dlt_check(&history, &strict, &figures), 0);
    for (unsigned i = 0; i < DLT_RULE_COUNT; i++)
        cr_assert_eq(figures.violations[i], i == (unsigned)rule ? count : 0, "%s: %lu",
                     dlt_rule_name((enum dlt_rule)i), (unsigned long)figures.violations[i]);
    dlt_history_fini(&history);
}

static inline void expect_clean(void)
{
    expect(DLT_RULE_COUNT, 0);
}

#endif
