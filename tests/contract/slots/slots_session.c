/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include "strike.h"

#include <string.h>

#define CALM_MS 10000
#define TTL_MS  60000
#define ROUNDS  3

/* A call that gets no answer in time; what it leaves behind arrives afterwards. */
static void leave_an_answer_behind(struct dlt_subject *subject, struct dlt_attempt *attempt)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    dlt_attempt_begin(attempt, subject->run, far, "first", TTL_MS);
    dlt_subject_tell(subject, "hold s2c +1");
    far->call_ms = dlt_strike_short_ms();
    status = dlt_side_try(far, attempt);
    DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || subject->minority,
              "trylock without an answer is %s, want UNKNOWN [TRY-4]", dlt_said(far, status));
    far->call_ms = CALM_MS;
    if (!dlt_side_has(far, DLOCK_CAP_CONCURRENT)) { /* [FAI-1] */
        dlt_attempt_end(attempt, far, false);
        dlt_side_close(far);
    }
    dlt_subject_tell(subject, "pass"); /* the late answer is on its way */
    dlt_sleep_ms(50);
    status = dlt_side_open(far);
    DLT_CHECK(status == DLOCK_OK, "open after a call without an answer is %s",
              dlt_said(far, status));
    if (attempt->memory != NULL || attempt->name.len != 0)
        dlt_attempt_end(attempt, far, false);
}

/*
 * The answer to one trylock is OK and late. Whoever reads it as the answer to the next request says
 * OK for a name that another one holds.
 */
static void late_yes(struct dlt_subject *subject)
{
    struct dlt_side *far = &subject->far, *direct = &subject->direct;
    struct dlt_attempt first, second, holder;
    enum dlock_status status;

    dlt_attempt_begin(&holder, subject->run, direct, "second", TTL_MS);
    DLT_OK(dlt_side_try(direct, &holder));
    leave_an_answer_behind(subject, &first);
    dlt_attempt_begin(&second, subject->run, far, "second", TTL_MS);
    status = dlt_side_try(far, &second);
    DLT_CHECK(
        status == DLOCK_BUSY,
        "trylock of a name that another one holds, after a call without an answer, is %s, want "
        "BUSY: a connection with a late answer was used again [FAI-1] [FAI-2]",
        dlt_said(far, status));
    dlt_attempt_end(&second, far, false);
    DLT_OK(dlt_side_unlock(direct, &holder));
    dlt_attempt_end(&holder, direct, true);
}

/* And the other way: BUSY is late, and the next name is free. */
static void late_no(struct dlt_subject *subject)
{
    struct dlt_side *far = &subject->far, *direct = &subject->direct;
    struct dlt_attempt first, second, holder;
    enum dlock_status status;

    dlt_attempt_begin(&holder, subject->run, direct, "first", TTL_MS);
    DLT_OK(dlt_side_try(direct, &holder));
    leave_an_answer_behind(subject, &first);
    DLT_OK(dlt_side_unlock(direct, &holder));
    dlt_attempt_end(&holder, direct, true);
    dlt_attempt_begin(&second, subject->run, far, "third", TTL_MS);
    status = dlt_side_try(far, &second);
    DLT_CHECK(
        status == DLOCK_OK,
        "trylock of a free name, after a call without an answer, is %s, want OK: a connection "
        "with a late answer was used again [FAI-1] [FAI-2]",
        dlt_said(far, status));
    dlt_held(subject, "third", "after OK");
    status = dlt_side_unlock(far, &second);
    DLT_CHECK(status == DLOCK_OK, "unlock is %s", dlt_said(far, status));
    dlt_attempt_end(&second, far, true);
}

void dlt_slots_late_answer_is_nobodys(struct dlt_run *run)
{
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    for (int i = 0; i < ROUNDS; i++) {
        struct dlt_run round = *run;

        /* New names: those of the round before may be held by an attempt in doubt. */
        (void)snprintf(round.prefix, sizeof round.prefix, "%.30s%d-", run->prefix, i);
        subject.run = &round;
        dlt_strike_recover(&subject);
        dlt_strike_warm_up(&subject);
        late_no(&subject);
        dlt_strike_recover(&subject);
        dlt_strike_warm_up(&subject);
        late_yes(&subject);
        subject.run = run;
    }
    dlt_subject_end(&subject);
}

/* The server, or something between, closed the connection that lay idle. */
void dlt_slots_closed_while_idle(struct dlt_run *run)
{
    static const char *const hows[] = {"kill fin", "kill rst"};
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;

    dlt_subject_begin(&subject, run);
    for (int i = 0; i < 2; i++) {
        struct dlt_attempt attempt;
        enum dlock_status status;

        dlt_strike_recover(&subject);
        dlt_strike_warm_up(&subject);
        dlt_attempt_begin(&attempt, run, far, "idle", TTL_MS);
        dlt_subject_tell(&subject, "%s", hows[i]);
        dlt_sleep_ms(50);
        status = dlt_side_try(far, &attempt);
        DLT_CHECK(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "trylock on a connection that was closed is %s, want UNAVAILABLE",
                  dlt_said(far, status));
        if (status == DLOCK_OK) {
            dlt_held(&subject, "idle", "after OK");
            status = dlt_side_unlock(far, &attempt);
            DLT_CHECK(status == DLOCK_OK, "unlock is %s", dlt_said(far, status));
        }
        dlt_attempt_end(&attempt, far, status == DLOCK_OK);
        dlt_free(&subject, "idle", "the request cannot have arrived");
    }
    dlt_subject_end(&subject);
}

static void open_under(struct dlt_subject *subject, const char *order)
{
    struct dlt_side *far = &subject->far;
    int64_t call_ms = dlt_strike_short_ms(), start_ns, end_ns;
    enum dlock_status status;

    dlt_side_close(far);
    dlt_subject_tell(subject, "pass");
    dlt_subject_tell(subject, "kill fin");
    dlt_subject_tell(subject, "%s", order);
    far->call_ms = call_ms;
    start_ns = dlt_now_ns();
    status = dlt_side_open(far);
    end_ns = dlt_now_ns();
    DLT_CHECK(status == DLOCK_UNAVAILABLE || status == DLOCK_OK,
              "open, proxy: %s: %s, want UNAVAILABLE [OPN-3]", order, dlt_said(far, status));
    DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(subject->run),
                "open, proxy: %s, with a deadline in %lld ms", order, (long long)call_ms);
    dlt_subject_tell(subject, "accept on");
}

void dlt_slots_open_and_no_answer(struct dlt_run *run)
{
    static const char *const orders[] = {"accept refuse",  "accept hang",   "blackhole c2s",
                                         "blackhole s2c",  "cut s2c 1 fin", "cut s2c 1 hang",
                                         "cut s2c 20 rst", "cut c2s 5 rst", "slice s2c 1 1000"};
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        open_under(&subject, orders[i]);
    dlt_strike_recover(&subject);
    dlt_subject_end(&subject);
}

/* UNAVAILABLE says that a renewal was not sent. Was the lease extended nevertheless? */
void dlt_slots_renewal_in_doubt(struct dlt_run *run)
{
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;
    struct dlt_attempt attempt;
    enum dlock_status status;
    int64_t start_ns, short_ms;

    dlt_subject_begin(&subject, run);
    if (dlt_side_has(far, DLOCK_CAP_SESSION) || dlt_side_has(far, DLOCK_CAP_TETHERED))
        dlt_skip("leases live in sessions");
    dlt_attempt_begin(&attempt, run, far, "job", 2000);
    short_ms = attempt.req.ttl_ms;
    status = dlt_side_try(far, &attempt);
    DLT_CHECK(status == DLOCK_OK, "trylock is %s", dlt_said(far, status));
    start_ns = dlt_now_ns();
    attempt.req.ttl_ms = far->info.ttl_most_ms > 0 && far->info.ttl_most_ms < TTL_MS
                             ? far->info.ttl_most_ms
                             : TTL_MS;
    dlt_subject_tell(&subject, "blackhole s2c");
    far->call_ms = dlt_strike_short_ms();
    status = dlt_side_renew(far, &attempt);
    DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
                  (subject.minority && status == DLOCK_OK),
              "renew without an answer is %s, want UNKNOWN [REN-4]", dlt_said(far, status));
    if (status == DLOCK_UNAVAILABLE) {
        int64_t end_ms = short_ms + short_ms / 20 + 1500 + run->grid_ms + run->slack_ms;

        while (dlt_ms_since(start_ns) < (double)end_ms)
            dlt_sleep_ms(100);
        dlt_free(&subject, "job", "renew was UNAVAILABLE, which says that it was not sent [REN-4]");
    }
    dlt_strike_recover(&subject);
    (void)dlt_side_unlock(far, &attempt);
    dlt_attempt_end(&attempt, far, true);
    dlt_free(&subject, "job", "after unlock");
    dlt_subject_end(&subject);
}

#define WAKES_MOST 50 /* for no reason, which is allowed now and then [WAT-3] */

/* As core does: BUSY of watch is worth a try, and then a further wait. Returns what ended it: of
 * watch or of that try. */
static enum dlock_status wait_on(struct dlt_side *far, struct dlt_attempt *waiter, int64_t call_ms)
{
    int64_t start_ns = dlt_now_ns(), left_ms = call_ms;
    enum dlock_status status = DLOCK_BUSY;

    for (int i = 0; status == DLOCK_BUSY && left_ms > 0; i++) {
        DLT_CHECK(i < WAKES_MOST, "watch returned BUSY %d times in %.0f ms, for no reason [WAT-3]",
                  i, dlt_ms_since(start_ns));
        if (i > 0) {
            far->call_ms = left_ms;
            waiter->req.flags = dlt_side_has(far, DLOCK_CAP_QUEUE) ? DLOCK_REQ_REFRESH : 0;
            status = dlt_side_try(far, waiter);
            waiter->req.flags = 0;
        }
        left_ms = call_ms - (int64_t)dlt_ms_since(start_ns);
        if (status == DLOCK_BUSY && left_ms > 0)
            status = dlt_side_wait(far, waiter, left_ms);
        left_ms = call_ms - (int64_t)dlt_ms_since(start_ns);
    }
    return status;
}

/* A wait is under way, with all that it needs. */
static void wait_begin(struct dlt_subject *subject, struct dlt_attempt *waiter)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    dlt_attempt_begin(waiter, subject->run, far, "job", TTL_MS);
    waiter->req.flags = dlt_side_has(far, DLOCK_CAP_QUEUE) ? DLOCK_REQ_ENQUEUE : 0;
    status = dlt_side_try(far, waiter);
    DLT_CHECK(status == DLOCK_BUSY, "trylock is %s, want BUSY", dlt_said(far, status));
    waiter->req.flags = 0;
    if (dlt_side_has(far, DLOCK_CAP_NATIVE_WAIT))
        return;
    status = wait_on(far, waiter, 1500); /* a server that writes for others is slow */
    DLT_CHECK(status == DLOCK_TIMEOUT || status == DLOCK_BUSY,
              "watch on a good network is %s, want TIMEOUT [WAT-1]", dlt_said(far, status));
}

/* It is given up on a network that is good again. */
static void wait_end(struct dlt_subject *subject, struct dlt_attempt *waiter)
{
    struct dlt_side *far = &subject->far;

    if (dlt_side_has(far, DLOCK_CAP_SESSION)) {
        dlt_attempt_end(waiter, far, false);
        dlt_side_close(far);
        dlt_subject_tell(subject, "kill fin");
        return;
    }
    dlt_strike_recover(subject);
    if (dlt_side_has(far, DLOCK_CAP_QUEUE)) {
        enum dlock_status status = dlt_side_dequeue(far, waiter);

        DLT_CHECK(status == DLOCK_OK, "dequeue on a good network is %s [DEQ-2]",
                  dlt_said(far, status));
    }
    dlt_attempt_end(waiter, far, false);
}

static void wait_under(struct dlt_subject *subject, const char *order)
{
    struct dlt_side *far = &subject->far, *direct = &subject->direct;
    bool native = dlt_side_has(far, DLOCK_CAP_NATIVE_WAIT);
    int64_t call_ms = dlt_strike_short_ms(), start_ns, end_ns;
    struct dlt_attempt holder, waiter;
    enum dlock_status status;

    dlt_strike_recover(subject);
    dlt_attempt_begin(&holder, subject->run, direct, "job", TTL_MS);
    DLT_OK(dlt_side_try(direct, &holder));
    wait_begin(subject, &waiter);
    dlt_subject_tell(subject, "%s", order);
    start_ns = dlt_now_ns();
    status = wait_on(far, &waiter, call_ms);
    end_ns = dlt_now_ns();
    DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(subject->run),
                "the wait, proxy: %s, with a deadline in %lld ms", order, (long long)call_ms);
    DLT_CHECK(status == DLOCK_TIMEOUT || status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN ||
                  (!native && status == DLOCK_BUSY),
              "the wait, proxy: %s: %s, want TIMEOUT or UNAVAILABLE [WAT-1] [LCK-1]", order,
              dlt_said(far, status));
    wait_end(subject, &waiter);
    DLT_OK(dlt_side_unlock(direct, &holder));
    dlt_attempt_end(&holder, direct, true);
    dlt_free(subject, "job", "a wait that has ended takes nothing [LCK-1]");
}

void dlt_slots_wait_without_an_answer(struct dlt_run *run)
{
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    if (!dlt_side_has(&subject.far, DLOCK_CAP_NATIVE_WAIT) &&
        !dlt_side_has(&subject.far, DLOCK_CAP_WATCH))
        dlt_skip("no WATCH and no NATIVE_WAIT");
    wait_under(&subject, "blackhole c2s");
    wait_under(&subject, "blackhole s2c");
    wait_under(&subject, "kill rst");
    dlt_subject_end(&subject);
}
