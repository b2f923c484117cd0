/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include "strike.h"

#include <string.h>

#define LONG_MS 60000

static void want(const struct dlt_side *side, enum dlock_status got, enum dlock_status wanted,
                 const char *what)
{
    DLT_CHECK(got == wanted, "%s is %s, want %s", what, dlt_said(side, got),
              dlock_status_name((int)wanted));
}

/* A second session of the same client may get any call for the lease. */
static void from_another_session(struct dlt_subject *subject, struct dlt_attempt *attempt)
{
    struct dlt_side *far = &subject->far;

    if (dlt_side_has(far, DLOCK_CAP_SESSION) || dlt_side_has(far, DLOCK_CAP_CONCURRENT))
        return;
    dlt_side_close(far);
    want(far, dlt_side_open(far), DLOCK_OK, "open");
    want(far, dlt_side_try(far, attempt), DLOCK_OK,
         "trylock with the token that holds the name, in another session [TRY-5]");
}

void dlt_slots_same_token(struct dlt_run *run)
{
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;
    struct dlt_attempt mine;
    int64_t ttl_ms, lease_ms, start_ns;

    dlt_subject_begin(&subject, run);
    dlt_attempt_begin(&mine, run, far, "job", 3000 + run->slack_ms);
    ttl_ms = mine.req.ttl_ms;
    want(far, dlt_side_try(far, &mine), DLOCK_OK, "trylock of a free name");
    start_ns = dlt_now_ns();
    lease_ms = far->grant.lease_ms;
    DLT_CHECK(lease_ms > 0 && lease_ms <= ttl_ms, "lease_ms is %lld, want 1 to %lld, the ttl",
              (long long)lease_ms, (long long)ttl_ms);
    want(far, dlt_side_try(far, &mine), DLOCK_OK,
         "trylock with the token that holds the name [TRY-5]");
    from_another_session(&subject, &mine);
    dlt_held(&subject, "job", "after trylock with the same token");

    /* A repetition with a shorter ttl does not shorten the lease. */
    mine.req.ttl_ms = far->info.ttl_least_ms > 200 ? far->info.ttl_least_ms : 200;
    if (mine.req.ttl_ms < ttl_ms / 2 && !dlt_side_has(far, DLOCK_CAP_SESSION)) {
        want(far, dlt_side_try(far, &mine), DLOCK_OK, "trylock with the same token");
        while (dlt_ms_since(start_ns) < (double)(lease_ms - 500)) {
            dlt_held(&subject, "job",
                     "a shorter ttl of the same token shortened the lease [TRY-5]");
            dlt_sleep_ms(100);
        }
    }
    mine.req.ttl_ms = ttl_ms;
    (void)dlt_side_unlock(far, &mine); /* LOST, if this machine took longer than the lease */
    dlt_free(&subject, "job", "after unlock");
    dlt_attempt_end(&mine, far, true);
    dlt_subject_end(&subject);
}

/* The lease has run out in the store, and the name is free. */
static void let_it_end(struct dlt_subject *subject, struct dlt_attempt *attempt)
{
    struct dlt_side *direct = &subject->direct, *far = &subject->far;
    struct dlt_attempt other;
    int64_t start_ns = dlt_now_ns(), ttl_ms = attempt->req.ttl_ms;
    int64_t most_ms = ttl_ms + ttl_ms / 20 + 6000 + subject->run->grid_ms;
    enum dlock_status status = DLOCK_BUSY;

    dlt_attempt_begin(&other, subject->run, direct, "job", LONG_MS);
    while (status == DLOCK_BUSY) {
        DLT_WITHIN(start_ns, most_ms, "the lease of %lld ms has not ended [TRY-2]",
                   (long long)ttl_ms);
        dlt_sleep_ms(20);
        status = dlt_side_try(direct, &other);
    }
    want(direct, status, DLOCK_OK, "trylock after the lease of another one");
    want(far, dlt_side_renew(far, attempt), DLOCK_LOST,
         "renew by the holder before, of a name that another one holds [REN-2]");
    want(direct, dlt_side_unlock(direct, &other), DLOCK_OK, "unlock");
    dlt_attempt_end(&other, direct, true);
}

void dlt_slots_renew_makes_nothing(struct dlt_run *run)
{
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;
    struct dlt_attempt mine;

    dlt_subject_begin(&subject, run);
    dlt_attempt_begin(&mine, run, far, "job", LONG_MS);
    want(far, dlt_side_renew(far, &mine), DLOCK_LOST,
         "renew of a token that never held the name [REN-2]");
    dlt_free(&subject, "job", "renew by a token that never held it [REN-2]");
    if (!dlt_side_has(far, DLOCK_CAP_SESSION)) {
        want(far, dlt_side_try(far, &mine), DLOCK_OK, "trylock");
        want(far, dlt_side_unlock(far, &mine), DLOCK_OK, "unlock");
        want(far, dlt_side_renew(far, &mine), DLOCK_LOST,
             "renew of what was unlocked, with the name free [REN-2]");
        dlt_free(&subject, "job", "renew of what was unlocked [REN-2]");
    }
    if (!dlt_side_has(far, DLOCK_CAP_SESSION) && !dlt_side_has(far, DLOCK_CAP_TETHERED)) {
        dlt_attempt_end(&mine, far, true);
        dlt_attempt_begin(&mine, run, far, "job", 400);
        want(far, dlt_side_try(far, &mine), DLOCK_OK, "trylock");
        let_it_end(&subject, &mine);
        want(far, dlt_side_renew(far, &mine), DLOCK_LOST,
             "renew of a lease that ran out, with the name free [REN-2]");
        dlt_free(&subject, "job", "renew of a lease that ran out [REN-2]");
    }
    dlt_attempt_end(&mine, far, false);
    dlt_subject_end(&subject);
}
