/* SPDX-License-Identifier: MIT */
#include "strike.h"

#include <string.h>

#define NAME        "job"
#define TTL_MS      60000
#define FREE_MS     20000 /* until a server has noticed the end of a session: less than TTL_MS */
#define ROLL_MS     5000  /* ... and has taken back what that one had not finished */
#define POLL_MS     5
#define SETTLE_MOST 100

static const char *const words[] = {"trylock", "trylock (shared)", "renew", "unlock", "inspect"};

const char *dlt_what_name(enum dlt_what what)
{
    return words[what];
}

int64_t dlt_strike_slack_ms(const struct dlt_run *run)
{
    return 1000 + 10 * run->slack_ms;
}

int64_t dlt_strike_short_ms(void)
{
    return dlt_slots_number(DLT_SLOTS_DEADLINE, 150);
}

bool dlt_strike_applies(const struct dlt_subject *subject, enum dlt_what what)
{
    if (what == DLT_READ)
        return dlt_side_has(&subject->far, DLOCK_CAP_RWLOCK);
    return what != DLT_INSPECT || subject->far.plugin->ops.inspect != NULL;
}

static bool session_lives(const struct dlt_subject *subject)
{
    return dlt_side_has(&subject->direct, DLOCK_CAP_SESSION);
}

/* ---- what the store says ---- */

/* One try of the other client, which gives back what it got. */
static enum dlock_status other_try(struct dlt_subject *subject, const char *suffix)
{
    struct dlt_side *direct = &subject->direct;
    struct dlt_attempt other;
    enum dlock_status status, released = DLOCK_INTERNAL;

    dlt_attempt_begin(&other, subject->run, direct, suffix, TTL_MS);
    status = dlt_side_try(direct, &other);
    DLT_CHECK(status == DLOCK_OK || status == DLOCK_BUSY, "trylock on a good network is %s",
              dlt_said(direct, status));
    if (status == DLOCK_OK) {
        subject->fence = strcmp(suffix, NAME) == 0 ? direct->grant.fence : subject->fence;
        released = dlt_side_unlock(direct, &other);
        DLT_CHECK(released == DLOCK_OK, "unlock on a good network is %s",
                  dlt_said(direct, released));
    }
    dlt_attempt_end(&other, direct, status == DLOCK_OK);
    return status;
}

void dlt_held(struct dlt_subject *subject, const char *suffix, const char *when)
{
    DLT_CHECK(other_try(subject, suffix) == DLOCK_BUSY, "%s: nobody holds the name", when);
}

void dlt_free(struct dlt_subject *subject, const char *suffix, const char *when)
{
    int64_t patience_ms = session_lives(subject) ? FREE_MS : ROLL_MS, start_ns = dlt_now_ns();

    while (other_try(subject, suffix) == DLOCK_BUSY) {
        DLT_WITHIN(start_ns, patience_ms, "%s: somebody holds the name", when);
        dlt_sleep_ms(POLL_MS);
    }
}

/* ---- before and after the call ---- */

/* One session for all calls: the first one after the connection was cut may meet the end of that.
 */
static void settle(struct dlt_subject *subject)
{
    struct dlt_side *far = &subject->far;
    struct dlt_attempt attempt;
    enum dlock_status status = DLOCK_UNAVAILABLE, released = DLOCK_UNAVAILABLE;

    dlt_attempt_begin(&attempt, subject->run, far, "again", TTL_MS);
    for (int i = 0; i < SETTLE_MOST && status != DLOCK_OK; i++) {
        status = dlt_side_try(far, &attempt);
        if (status != DLOCK_OK)
            dlt_sleep_ms(POLL_MS);
    }
    DLT_CHECK(status == DLOCK_OK,
              "trylock, %d times on a network that is good again, is %s [FAI-2]", SETTLE_MOST,
              dlt_said(far, status));
    released = dlt_side_unlock(far, &attempt);
    DLT_CHECK(released == DLOCK_OK, "unlock, on a network that is good again, is %s",
              dlt_said(far, released));
    dlt_attempt_end(&attempt, far, true);
}

void dlt_strike_recover(struct dlt_subject *subject)
{
    struct dlt_side *far = &subject->far;
    int64_t start_ns = dlt_now_ns();
    enum dlock_status status;

    if (!dlt_side_has(far, DLOCK_CAP_CONCURRENT)) {
        dlt_side_close(far);
        DLT_WITHIN(start_ns, dlt_strike_slack_ms(subject->run), "close waits for nobody");
    }
    dlt_subject_tell(subject, "kill fin"); /* what was kept back does not come between */
    dlt_subject_tell(subject, "pass");
    far->call_ms = subject->direct.call_ms;
    status = dlt_side_open(far);
    DLT_CHECK(status == DLOCK_OK, "open on a good network is %s", dlt_said(far, status));
    if (dlt_side_has(far, DLOCK_CAP_CONCURRENT))
        settle(subject);
}

void dlt_strike_warm_up(struct dlt_subject *subject)
{
    struct dlt_side *far = &subject->far;
    struct dlt_attempt warm;
    enum dlock_status status;

    for (int i = 0; i < 2; i++) {
        dlt_attempt_begin(&warm, subject->run, far, "warm", TTL_MS);
        status = dlt_side_try(far, &warm);
        DLT_CHECK(status == DLOCK_OK, "trylock, on a network that is good again, is %s",
                  dlt_said(far, status));
        subject->lease_ms = far->grant.lease_ms;
        status = dlt_side_renew(far, &warm);
        DLT_CHECK(status == DLOCK_OK, "renew, on a network that is good again, is %s",
                  dlt_said(far, status));
        status = dlt_side_unlock(far, &warm);
        DLT_CHECK(status == DLOCK_OK, "unlock, on a network that is good again, is %s",
                  dlt_said(far, status));
        dlt_attempt_end(&warm, far, true);
    }
}

static void ready(struct dlt_subject *subject, enum dlt_what what, struct dlt_attempt *attempt)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    dlt_strike_recover(subject);
    dlt_strike_warm_up(subject);
    dlt_attempt_begin(attempt, subject->run, far, NAME, TTL_MS);
    attempt->req.mode = what == DLT_READ ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    if (what != DLT_RENEW && what != DLT_UNLOCK)
        return;
    status = dlt_side_try(far, attempt);
    DLT_CHECK(status == DLOCK_OK, "trylock of a free name is %s", dlt_said(far, status));
}

static enum dlock_status call(struct dlt_side *far, enum dlt_what what, struct dlt_attempt *attempt)
{
    int64_t remaining_ms = -1;

    if (what == DLT_RENEW)
        return dlt_side_renew(far, attempt);
    if (what == DLT_UNLOCK)
        return dlt_side_unlock(far, attempt);
    if (what == DLT_INSPECT)
        return dlt_side_inspect(far, attempt, &remaining_ms);
    return dlt_side_try(far, attempt);
}

/* ---- is it the truth? ---- */

/* Gives the lease back after recovery; LOST is as good where it may be gone. */
static void give_back(struct dlt_subject *subject, struct dlt_attempt *attempt, bool maybe_gone,
                      const char *fault)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status = dlt_side_unlock(far, attempt);

    DLT_CHECK(status == DLOCK_OK || (maybe_gone && status == DLOCK_LOST),
              "%s: unlock afterwards is %s, want OK%s [UNL-1] [UNL-2]", fault,
              dlt_said(far, status), maybe_gone ? " or LOST" : "");
}

/* An OK that is made of half an answer has half a number in it. */
static void check_grant(const struct dlt_subject *subject, const struct dlt_attempt *attempt,
                        const char *fault)
{
    const struct dlock_grant *grant = &subject->far.grant;
    bool fenced =
        dlt_side_has(&subject->far, DLOCK_CAP_FENCE) && attempt->req.mode == DLOCK_EXCLUSIVE;

    DLT_CHECK(grant->lease_ms > subject->lease_ms / 2 && grant->lease_ms <= attempt->req.ttl_ms,
              "%s: trylock is OK, with a lease of %lld ms; on a good network it is %lld ms", fault,
              (long long)grant->lease_ms, (long long)subject->lease_ms);
    DLT_CHECK(!fenced || grant->fence > subject->fence,
              "%s: trylock is OK, with the fence %llu after %llu [TRY-6]", fault,
              (unsigned long long)grant->fence, (unsigned long long)subject->fence);
}

static void check_taken(struct dlt_subject *subject, struct dlt_attempt *attempt,
                        enum dlock_status said, const char *fault)
{
    struct dlt_side *far = &subject->far;
    enum dlock_status status;

    DLT_CHECK(said == DLOCK_OK || said == DLOCK_UNKNOWN || said == DLOCK_UNAVAILABLE,
              "%s: trylock of a free name is %s, want UNKNOWN, or UNAVAILABLE if it was certainly "
              "not executed [TRY-4]",
              fault, dlt_said(far, said));
    if (said == DLOCK_OK) {
        check_grant(subject, attempt, fault);
        dlt_held(subject, NAME, fault);
    }
    if (session_lives(subject)) { /* [SES-2] */
        dlt_attempt_end(attempt, far, false);
        dlt_side_close(far);
        dlt_subject_tell(subject, "kill fin");
    } else if (said == DLOCK_UNAVAILABLE) {
        dlt_attempt_end(attempt, far, false);
        dlt_strike_recover(subject);
    } else {
        dlt_strike_recover(subject);
        status = dlt_side_try(far, attempt);
        DLT_CHECK(status == DLOCK_OK,
                  "%s: trylock with the same token, after %s, is %s, want OK: the name is free or "
                  "its own [TRY-5]",
                  fault, dlock_status_name((int)said), dlt_said(far, status));
        dlt_held(subject, NAME, "after the same token took it again");
        give_back(subject, attempt, false, fault);
        dlt_attempt_end(attempt, far, true);
    }
    dlt_free(subject, NAME,
             said == DLOCK_UNAVAILABLE
                 ? "trylock was UNAVAILABLE, which says that it was not executed [TRY-4]"
                 : "after unlock, or the end of the session");
}

static void check_renewed(struct dlt_subject *subject, struct dlt_attempt *attempt,
                          enum dlock_status said, const char *fault)
{
    struct dlt_side *far = &subject->far;
    bool session = session_lives(subject);
    enum dlock_status status;

    DLT_CHECK(said == DLOCK_OK || said == DLOCK_UNKNOWN || said == DLOCK_UNAVAILABLE ||
                  (session && said == DLOCK_LOST),
              "%s: renew of a lease that lasts is %s, want UNKNOWN, or UNAVAILABLE if it was not "
              "sent [REN-4]",
              fault, dlt_said(far, said));
    if (session) {
        dlt_attempt_end(attempt, far, false);
        dlt_side_close(far);
        dlt_subject_tell(subject, "kill fin");
    } else {
        dlt_held(subject, NAME, "a renewal ends no lease [REN-3]");
        dlt_strike_recover(subject);
        status = dlt_side_renew(far, attempt);
        DLT_CHECK(status == DLOCK_OK, "%s: renew afterwards is %s, want OK", fault,
                  dlt_said(far, status));
        give_back(subject, attempt, false, fault);
        dlt_attempt_end(attempt, far, true);
    }
    dlt_free(subject, NAME, "after unlock, or the end of the session");
}

static void check_released(struct dlt_subject *subject, struct dlt_attempt *attempt,
                           enum dlock_status said, const char *fault)
{
    bool session = session_lives(subject);

    DLT_CHECK(
        said == DLOCK_OK || said == DLOCK_UNKNOWN || said == DLOCK_UNAVAILABLE ||
            (session && said == DLOCK_LOST),
        "%s: unlock by the holder is %s, want UNKNOWN, or UNAVAILABLE if it was certainly not "
        "executed [UNL-2]",
        fault, dlt_said(&subject->far, said));
    if (said == DLOCK_UNAVAILABLE && !session)
        dlt_held(subject, NAME,
                 "unlock was UNAVAILABLE, which says that it was not executed [UNL-2]");
    if (said != DLOCK_OK && !session) {
        dlt_strike_recover(subject);
        give_back(subject, attempt, said == DLOCK_UNKNOWN, fault);
    }
    dlt_attempt_end(attempt, &subject->far, true);
    if (session) {
        dlt_side_close(&subject->far);
        dlt_subject_tell(subject, "kill fin");
    }
    dlt_free(subject, NAME, "after unlock");
}

static void check_seen(struct dlt_subject *subject, struct dlt_attempt *attempt,
                       enum dlock_status said, const char *fault)
{
    DLT_CHECK(said == DLOCK_OK || said == DLOCK_UNAVAILABLE || said == DLOCK_UNKNOWN,
              "%s: inspect is %s, want OK or UNAVAILABLE", fault, dlt_said(&subject->far, said));
    dlt_attempt_end(attempt, &subject->far, true); /* it never began */
}

enum dlock_status dlt_strike(struct dlt_subject *subject, enum dlt_what what, int64_t call_ms,
                             const char *order, bool late)
{
    struct dlt_side *far = &subject->far;
    struct dlt_attempt attempt;
    enum dlock_status said;
    char fault[160];
    int64_t start_ns, end_ns;

    ready(subject, what, &attempt);
    (void)snprintf(fault, sizeof fault, "%s, proxy: %s", words[what], order);
    dlt_subject_tell(subject, "%s", order);
    far->call_ms = call_ms;
    start_ns = dlt_now_ns();
    said = call(far, what, &attempt);
    end_ns = dlt_now_ns();
    DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(subject->run),
                "%s, with a deadline in %lld ms", fault, (long long)call_ms);
    if (late) {
        dlt_subject_tell(subject, "deliver");
        dlt_sleep_ms(100);
    }
    if (what == DLT_RENEW)
        check_renewed(subject, &attempt, said, fault);
    else if (what == DLT_UNLOCK)
        check_released(subject, &attempt, said, fault);
    else if (what == DLT_INSPECT)
        check_seen(subject, &attempt, said, fault);
    else
        check_taken(subject, &attempt, said, fault);
    return said;
}
