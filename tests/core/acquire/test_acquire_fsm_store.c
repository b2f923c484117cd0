/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/acquire_fsm.c */
/* C8, C13: is a store that fails waited for, and no longer than the caller wants? Virtual time. */
#include "acquire_fsm_kit.h"

#include <criterion/criterion.h>

/* What a store answers that fails all the time, from 1000 ms on; when the attempt ended. */
static int64_t fail_until_done(struct dl_acquire_fsm *attempt, enum dlock_status status,
                               int64_t answer_ms)
{
    int64_t now_ms = 1000;

    while (attempt->step != DL_STEP_DONE && now_ms < 100000) {
        if (attempt->step == DL_STEP_RETURN)
            dl_acquire_fsm_returned(attempt, now_ms * MS);
        else if (attempt->step == DL_STEP_SLEEP)
            dl_acquire_fsm_slept(attempt, (now_ms = attempt->until_ns / MS) * MS);
        else
            tried(attempt, now_ms += answer_ms, status, nothing);
    }
    return now_ms;
}

Test(attempt_store, C8_the_deadline_alone_ends_a_wait_for_a_store_that_fails)
{
    static const enum dlock_status failures[] = {DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM, DLOCK_UNKNOWN};

    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct dl_acquire_fsm a = begin(&wait_watching, 10000);
        int64_t end_ms = fail_until_done(&a, failures[i], 1);

        cr_assert_eq(a.result, failures[i], "it says which it was");
        cr_assert_geq(end_ms, 11000 - 60, "%lld", (long long)end_ms);
        cr_assert_leq(end_ms, 11000);
    }
}

Test(attempt_store, C8_one_attempt_is_given_op_timeout)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    cr_assert_leq(fail_until_done(&a, DLOCK_UNAVAILABLE, 1), 3000);
    cr_assert_eq(a.result, DLOCK_UNAVAILABLE);
}

Test(attempt_store, C13_a_store_that_cannot_be_reached_is_waited_for)
{
    struct dl_acquire_fsm a = begin(&wait_watching, -1);
    int64_t now_ms = 1001;

    for (int i = 0; i < 100; i++) {
        cr_assert_eq(a.step, DL_STEP_TRY);
        dl_acquire_fsm_no_session(&a, now_ms * MS, DLOCK_UNAVAILABLE, 0);
        cr_assert_eq(a.step, DL_STEP_SLEEP);
        now_ms = a.until_ns / MS;
        dl_acquire_fsm_slept(&a, a.until_ns);
    }
    cr_assert_gt(now_ms, 60000);
}

Test(attempt_store, C8_one_attempt_at_a_store_that_cannot_be_reached_is_told_at_once)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    dl_acquire_fsm_no_session(&a, 1001 * MS, DLOCK_UNAVAILABLE, 0);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_UNAVAILABLE);
}

Test(attempt_store, C8_a_store_that_held_us_up_and_went_away_is_told_as_gone)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 1000);

    tried(&a, 1001, DLOCK_BUSY, nothing);
    dl_acquire_fsm_watched(&a, 1002 * MS, DLOCK_BUSY, &nothing, 0);
    (void)fail_until_done(&a, DLOCK_UNAVAILABLE, 1);
    cr_assert_eq(a.result, DLOCK_UNAVAILABLE);
}

Test(attempt_store, C8_connections_that_are_all_in_use_do_not_hide_that_the_store_fails)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 1000);

    tried(&a, 1001, DLOCK_UNAVAILABLE, nothing);
    dl_acquire_fsm_slept(&a, a.until_ns);
    dl_acquire_fsm_no_session(&a, 2000 * MS, DLOCK_BUSY, 0);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_UNAVAILABLE);
}

/* Those behind us are told how the store fails: not at all any more. */
Test(attempt_store, C8_a_grant_ends_a_row_of_failures)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 10000);

    tried(&a, 1001, DLOCK_UNAVAILABLE, nothing);
    dl_acquire_fsm_slept(&a, a.until_ns);
    cr_assert_eq(a.failures, 1);
    tried(&a, 1100, DLOCK_OK, (struct dlock_grant){.lease_ms = 30000});
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.failures, 0);
}

/* open=lazy: what the store can do is known with the first session. */
Test(attempt_store, C13_a_client_that_has_reached_no_store_connects_first)
{
    struct dl_acquire_fsm_rules unknown = {
        .margin = 10, .op_timeout_ns = 2000 * MS, .poll_max_ns = 1000 * MS, .wait = true};
    struct dl_acquire_fsm a = begin(&unknown, -1);

    cr_assert_eq(a.step, DL_STEP_CONNECT);
    cr_assert_eq(a.until_ns, 3000 * MS);
    dl_acquire_fsm_no_session(&a, 1001 * MS, DLOCK_UNAVAILABLE, 0);
    cr_assert_eq(a.step, DL_STEP_SLEEP);
    dl_acquire_fsm_slept(&a, a.until_ns);
    cr_assert_eq(a.step, DL_STEP_CONNECT);
    dl_acquire_fsm_connected(&a, 1100 * MS, &wait_native);
    cr_assert_eq(a.step, DL_STEP_LOCK);
}
