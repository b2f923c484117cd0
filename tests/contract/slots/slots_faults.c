/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include "strike.h"

#define CALM_MS 10000
#define MOST    20000 /* bytes of a call: no store needs more */

static int64_t step(void)
{
    return dlt_slots_number(DLT_SLOTS_STEP, 23);
}

/* Every call that the store has, under one order. */
static void each(struct dlt_run *run, int64_t call_ms, const char *order, bool late, bool answered)
{
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    answered = answered || subject.minority; /* the others answer */
    for (int what = 0; what < DLT_WHATS; what++) {
        enum dlock_status status;

        if (!dlt_strike_applies(&subject, (enum dlt_what)what))
            continue;
        status = dlt_strike(&subject, (enum dlt_what)what, call_ms, order, late);
        DLT_CHECK((status == DLOCK_OK) == answered,
                  answered ? "%s, proxy: %s: %s, want OK: enough answers come before the deadline"
                           : "%s, proxy: %s: %s, and there was no answer",
                  dlt_what_name((enum dlt_what)what), order, dlt_said(&subject.far, status));
    }
    dlt_subject_end(&subject);
}

/* At each step of what goes in that direction, until all of it has passed. how NULL: nothing goes
 * from its n-th message on, for each n: an answer of each exchange is the last one. */
static void each_place(struct dlt_run *run, int64_t call_ms, const char *direction, const char *how)
{
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    for (int what = 0; what < DLT_WHATS; what++) {
        bool answered = !dlt_strike_applies(&subject, (enum dlt_what)what);
        char order[48];

        for (int64_t at = 1; !answered; at += how != NULL ? step() : 1) {
            if (how != NULL)
                (void)snprintf(order, sizeof order, "cut %s %lld %s", direction, (long long)at,
                               how);
            else
                (void)snprintf(order, sizeof order, "hold %s +%lld", direction, (long long)at);
            answered = dlt_strike(&subject, (enum dlt_what)what, call_ms, order, false) == DLOCK_OK;
            DLT_CHECK(answered || at < MOST, "%s does not pass with %lld bytes, or messages",
                      dlt_what_name((enum dlt_what)what), (long long)at);
        }
    }
    dlt_subject_end(&subject);
}

void dlt_slots_request_swallowed(struct dlt_run *run)
{
    each(run, dlt_strike_short_ms(), "blackhole c2s", false, false);
}

void dlt_slots_answer_swallowed(struct dlt_run *run)
{
    each(run, dlt_strike_short_ms(), "blackhole s2c", false, false);
}

void dlt_slots_request_cut(struct dlt_run *run)
{
    each_place(run, CALM_MS, "c2s", "rst");
}

void dlt_slots_answer_cut(struct dlt_run *run)
{
    each_place(run, CALM_MS, "s2c", "fin");
}

void dlt_slots_half_an_answer(struct dlt_run *run)
{
    each_place(run, 4 * dlt_strike_short_ms(), "s2c", "hang");
}

void dlt_slots_answers_end(struct dlt_run *run)
{
    each_place(run, 4 * dlt_strike_short_ms(), "s2c", NULL);
}

/* It comes when the caller has gone. */
void dlt_slots_answer_late(struct dlt_run *run)
{
    each(run, dlt_strike_short_ms(), "hold s2c +1", true, false);
}

/* The store executes it when the caller has gone. */
void dlt_slots_request_late(struct dlt_run *run)
{
    each(run, dlt_strike_short_ms(), "hold c2s +1", true, false);
}

void dlt_slots_answer_dribbles(struct dlt_run *run)
{
    each(run, dlt_strike_short_ms(), "slice s2c 1 1000", false, false);
}

void dlt_slots_slow_network(struct dlt_run *run)
{
    each(run, CALM_MS, "delay both 30", false, true);
    each(run, CALM_MS, "slice s2c 1 0", false, true);
}

/* Core does not ask again: the plugin removes what the unlock may have left, as soon as it can. */
void dlt_slots_unlock_finished_later(struct dlt_run *run)
{
    static const char *const orders[] = {"blackhole c2s", "blackhole s2c", "cut c2s 5 rst"};
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;

    dlt_subject_begin(&subject, run);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct dlt_attempt attempt;
        enum dlock_status status;

        dlt_strike_recover(&subject);
        dlt_strike_warm_up(&subject);
        dlt_attempt_begin(&attempt, run, far, "job", 60000);
        DLT_OK(dlt_side_try(far, &attempt));
        dlt_subject_tell(&subject, "%s", orders[i]);
        far->call_ms = dlt_strike_short_ms();
        status = dlt_side_unlock(far, &attempt);
        DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "unlock, proxy: %s, is %s, want UNKNOWN [UNL-2]", orders[i],
                  dlt_said(far, status));
        dlt_strike_recover(&subject);
        dlt_free(&subject, "job", "the store answers again, and core calls nothing [TET-3]");
        status = dlt_side_unlock(far, &attempt);
        DLT_CHECK(status == DLOCK_LOST, "unlock, repeated afterwards, is %s, want LOST [TET-3]",
                  dlt_said(far, status));
        dlt_attempt_end(&attempt, far, true);
    }
    dlt_subject_end(&subject);
}
