/* SPDX-License-Identifier: MIT */
/* Who gives up waiting: LEA-1 to LEA-3. */
#include "calls.h"
#include "slots.h"
#include "strike.h"

void dlt_slots_leave_the_queue(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    DLT_SAYS(b, dlt_party_dequeue(b), DLOCK_OK, "an unknown token [LEA-2]");
    dlt_tries(a, DLOCK_OK, "of a free name");
    dlt_party_line_up(b);
    dlt_party_line_up(c);
    for (int i = 0; i < 2; i++)
        DLT_SAYS(b, dlt_party_dequeue(b), DLOCK_OK, "it may be repeated [LEA-3]");
    dlt_renews(a, DLOCK_OK, "by the holder");
    dlt_unlocks(a, DLOCK_OK, "by the holder");
    DLT_SAYS(c, dlt_party_wait(c, DLT_TOLD_MS), DLOCK_OK, "who was before it has left [LEA-2]");

    dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
    dlt_party_line_up(a);
    dlt_party_line_up(b);
    dlt_unlocks(c, DLOCK_OK, "by the holder"); /* to a, which does not know */
    DLT_SAYS(a, dlt_party_dequeue(a), DLOCK_OK, "it was granted meanwhile [LEA-1]");
    DLT_SAYS(b, dlt_party_wait(b, DLT_TOLD_MS), DLOCK_OK,
             "who was granted before has left [LEA-1]");
    dlt_renews(a, DLOCK_LOST, "after it has left");
    DLT_SAYS(b, dlt_party_dequeue(b), DLOCK_OK, "a holder [LEA-2]");
    dlt_party_anew(c, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
    dlt_tries(c, DLOCK_OK, "after the holder has left");
    dlt_unlocks(c, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 3);
}

static void queues(struct dlt_subject *subject, struct dlt_attempt *waiter)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    dlt_attempt_begin(waiter, subject->run, far, "job", DLT_PARTY_TTL_MS);
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
        dlt_attempt_begin(&holder, run, direct, "job", DLT_PARTY_TTL_MS);
        DLT_OK(dlt_side_try(direct, &holder));
        queues(&subject, &waiter);
        dlt_subject_tell(&subject, "%s", orders[i]);
        far->call_ms = call_ms;
        start_ns = dlt_now_ns();
        status = dlt_side_dequeue(far, &waiter);
        end_ns = dlt_now_ns();
        DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(run),
                    "dequeue, proxy: %s, with a deadline in %lld ms [LEA-3]", orders[i],
                    (long long)call_ms);
        DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
                      (i == 2 && status == DLOCK_OK),
                  "dequeue, proxy: %s: %s, want UNKNOWN, or UNAVAILABLE if it was not sent [LEA-3]",
                  orders[i], dlt_said(far, status));
        dlt_strike_recover(&subject);
        status = dlt_side_dequeue(far, &waiter);
        DLT_CHECK(status == DLOCK_OK, "dequeue, on a network that is good again, is %s [LEA-3]",
                  dlt_said(far, status));
        dlt_attempt_end(&waiter, far, false);
        DLT_OK(dlt_side_unlock(direct, &holder));
        dlt_attempt_end(&holder, direct, true);
        dlt_free(&subject, "job", "who waited has left [LEA-2]");
    }
    dlt_subject_end(&subject);
}
