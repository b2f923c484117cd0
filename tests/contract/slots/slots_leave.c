/* SPDX-License-Identifier: MIT */
/* A waiter that gives up, and hears nothing: DEQ-2, DEQ-3. */
#include "slots.h"
#include "strike.h"

#define TTL_MS 60000

static void queues(struct dlt_subject *subject, struct dlt_attempt *waiter)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    dlt_attempt_begin(waiter, subject->run, far, "job", TTL_MS);
    waiter->req.flags = DLOCK_REQ_ENQUEUE;
    status = dlt_side_try(far, waiter);
    waiter->req.flags = 0;
    DLT_CHECK(status == DLOCK_BUSY, "trylock is %s, want BUSY", dlt_said(far, status));
}

void dlt_slots_leave_without_an_answer(struct dlt_run *run)
{
    static const char *const orders[] = {"blackhole c2s", "blackhole s2c", "kill rst"};
    struct dlt_attempt holder, waiter;
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far, *direct = &subject.direct;

    dlt_subject_begin(&subject, run);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        int64_t call_ms = dlt_strike_short_ms(), start_ns, end_ns;
        enum dlock_status status;

        dlt_strike_recover(&subject);
        dlt_attempt_begin(&holder, run, direct, "job", TTL_MS);
        DLT_OK(dlt_side_try(direct, &holder));
        queues(&subject, &waiter);
        dlt_subject_tell(&subject, "%s", orders[i]);
        far->call_ms = call_ms;
        start_ns = dlt_now_ns();
        status = dlt_side_dequeue(far, &waiter);
        end_ns = dlt_now_ns();
        DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(run),
                    "dequeue, proxy: %s, with a deadline in %lld ms [DEQ-3]", orders[i],
                    (long long)call_ms);
        DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
                      (i == 2 && status == DLOCK_OK),
                  "dequeue, proxy: %s: %s, want UNKNOWN, or UNAVAILABLE if it was not sent [DEQ-3]",
                  orders[i], dlt_said(far, status));
        dlt_strike_recover(&subject);
        status = dlt_side_dequeue(far, &waiter);
        DLT_CHECK(status == DLOCK_OK, "dequeue, on a network that is good again, is %s [DEQ-3]",
                  dlt_said(far, status));
        dlt_attempt_end(&waiter, far, false);
        DLT_OK(dlt_side_unlock(direct, &holder));
        dlt_attempt_end(&holder, direct, true);
        dlt_free(&subject, "job", "who waited has left [DEQ-2]");
    }
    dlt_subject_end(&subject);
}
