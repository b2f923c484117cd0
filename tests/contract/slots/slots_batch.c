/* SPDX-License-Identifier: MIT */
/* A batch while the network fails: does each element say what is true of it? (BAT-1 to BAT-3) */
#include "many.h"
#include "slots.h"
#include "strike.h"

#define CALM_MS 10000
#define TTL_MS  60000
#define MOST    20000 /* bytes of a batch */
#define PLACES  5     /* steps of the other cases between two places of a cut */

static const char *const suffixes[] = {"m0", "m1", "m2", "m3"};
static struct dlt_many many;

/* Attempts on a network that is good; unlocks: that hold their names. */
static void ready(struct dlt_subject *subject, bool unlocks)
{
    dlt_strike_recover(subject);
    dlt_strike_warm_up(subject);
    dlt_many_begin(&many, subject->run, &subject->far, sizeof suffixes / sizeof suffixes[0], "m",
                   false);
    if (!unlocks)
        return;
    dlt_many_try(&many, &subject->far);
    dlt_many_are(&many, DLOCK_OK, "trylock_batch of free names");
}

/* While the network is as it was: what is certain. */
static void certain_check(struct dlt_subject *subject, enum dlock_status said, size_t i,
                          bool unlocks, const char *fault)
{
    bool held = said == (unlocks ? DLOCK_UNAVAILABLE : DLOCK_OK);

    DLT_CHECK(said == DLOCK_OK || said == DLOCK_UNKNOWN || said == DLOCK_UNAVAILABLE,
              "%s: %s is %s, want UNKNOWN, or UNAVAILABLE if it was certainly not sent [BAT-2]",
              fault, suffixes[i], dlock_status_name((int)said));
    if (said == DLOCK_UNKNOWN)
        return;
    if (held)
        dlt_held(subject, suffixes[i], fault);
    else
        dlt_free(subject, suffixes[i], fault);
}

/* After recovery: a trylock without an answer is taken again by its token; all names end free. */
static void end(struct dlt_subject *subject, struct dlt_attempt *attempt, enum dlock_status said,
                size_t i, bool unlocks, const char *fault)
{
    struct dlt_side *far = &subject->far;
    bool gone = unlocks && said == DLOCK_UNKNOWN;
    enum dlock_status status = DLOCK_OK;

    if (!unlocks && said == DLOCK_UNAVAILABLE) {
        dlt_attempt_end(attempt, far, false);
        return;
    }
    if (!unlocks)
        status = dlt_side_try(far, attempt);
    DLT_CHECK(status == DLOCK_OK, "%s: trylock of %s with the same token is %s [TRY-5]", fault,
              suffixes[i], dlt_said(far, status));
    if (!unlocks || said != DLOCK_OK)
        status = dlt_side_unlock(far, attempt);
    DLT_CHECK(status == DLOCK_OK || (gone && status == DLOCK_LOST), "%s: unlock of %s is %s", fault,
              suffixes[i], dlt_said(far, status));
    dlt_attempt_end(attempt, far, true);
    dlt_free(subject, suffixes[i], "after unlock");
}

/* true: all elements were answered. */
static bool strike(struct dlt_subject *subject, bool unlocks, int64_t call_ms, const char *order)
{
    bool answered = true;
    char fault[160];
    int64_t start_ns, end_ns;

    ready(subject, unlocks);
    (void)snprintf(fault, sizeof fault, "%s, proxy: %s", unlocks ? "unlock_batch" : "trylock_batch",
                   order);
    dlt_subject_tell(subject, "%s", order);
    subject->far.call_ms = call_ms;
    start_ns = dlt_now_ns();
    (unlocks ? dlt_many_unlock : dlt_many_try)(&many, &subject->far);
    end_ns = dlt_now_ns();
    DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(subject->run),
                "%s, with deadlines in %lld ms [BAT-3]", fault, (long long)call_ms);
    for (size_t i = 0; i < many.n; i++) {
        certain_check(subject, many.elements[i].status, i, unlocks, fault);
        answered = answered && many.elements[i].status == DLOCK_OK;
    }
    dlt_strike_recover(subject);
    for (size_t i = 0; i < many.n; i++)
        end(subject, &many.attempts[i], many.elements[i].status, i, unlocks, fault);
    return answered;
}

static void begin(struct dlt_subject *subject, struct dlt_run *run)
{
    dlt_subject_begin(subject, run);
    if (!dlt_many_applies(&subject->far)) {
        dlt_subject_end(subject);
        dlt_skip("no trylock_batch");
    }
}

void dlt_slots_batch_unanswered(struct dlt_run *run)
{
    static const char *const orders[] = {"blackhole c2s", "blackhole s2c", "hold s2c +2"};
    struct dlt_subject subject;

    begin(&subject, run);
    for (int unlocks = 0; unlocks < 2; unlocks++)
        for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
            (void)strike(&subject, unlocks != 0, dlt_strike_short_ms(), orders[i]);
    dlt_subject_end(&subject);
}

static void each_place(struct dlt_subject *subject, bool unlocks, const char *direction,
                       const char *how)
{
    int64_t step = PLACES * dlt_slots_number(DLT_SLOTS_STEP, 23);
    bool answered = false;
    char order[48];

    for (int64_t at = 1; !answered; at += step) {
        DLT_CHECK(at < MOST, "a batch does not pass with %lld bytes", (long long)at);
        (void)snprintf(order, sizeof order, "cut %s %lld %s", direction, (long long)at, how);
        answered = strike(subject, unlocks, CALM_MS, order);
    }
}

void dlt_slots_batch_cut(struct dlt_run *run)
{
    struct dlt_subject subject;

    begin(&subject, run);
    for (int unlocks = 0; unlocks < 2; unlocks++) {
        each_place(&subject, unlocks != 0, "c2s", "rst");
        each_place(&subject, unlocks != 0, "s2c", "fin");
    }
    dlt_subject_end(&subject);
}
