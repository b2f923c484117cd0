/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/acquire_fsm.c */
/* Is the way to a lock the right one after each answer? Virtual time; nothing sleeps. */
#include "acquire_fsm_kit.h"

#include <criterion/criterion.h>

static struct dlock_grant lease(int64_t lease_ms)
{
    return (struct dlock_grant){.lease_ms = lease_ms, .holder_ms = -1};
}

Test(attempt, C1_a_grant_counts_from_before_the_request_left)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    cr_assert_eq(a.step, DL_STEP_TRY);
    tried(&a, 1500, DLOCK_OK, lease(30000));
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.valid_until_ns, (1000 + 30000 - 3000) * MS);
}

Test(attempt, C3_a_grant_that_came_too_late_is_given_back)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    tried(&a, 1000 + 30000 - 3000 - 3000, DLOCK_OK, lease(30000));
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 30000 * MS);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_TIMEOUT);
}

Test(attempt, C3_a_waiter_tries_again_after_giving_back)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 60000);

    tried(&a, 30000, DLOCK_OK, lease(30000));
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 30001 * MS);
    cr_assert_eq(a.step, DL_STEP_TRY);
}

Test(attempt, busy_without_waiting_is_the_answer)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    tried(&a, 1001, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_BUSY);
}

Test(attempt, C13_a_waiter_looks_again_within_poll_max)
{
    struct dl_acquire_fsm a = begin(&wait_watching, -1);

    tried(&a, 1001, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_WATCH);
    cr_assert_eq(a.until_ns, 2001 * MS);
    dl_acquire_fsm_watched(&a, 2001 * MS, DLOCK_TIMEOUT, &nothing, 0);
    cr_assert_eq(a.step, DL_STEP_TRY);
}

Test(attempt, C13_a_waiter_looks_again_at_the_holders_expiry)
{
    struct dl_acquire_fsm a = begin(&wait_watching, -1);

    tried(&a, 1001, DLOCK_BUSY, (struct dlock_grant){.holder_ms = 300});
    cr_assert_eq(a.step, DL_STEP_WATCH);
    cr_assert_eq(a.until_ns, (1001 + 300 + 1) * MS);
}

Test(attempt, C13_where_nothing_notifies_the_pauses_grow)
{
    struct dl_acquire_fsm a = begin(&wait_polling, -1);
    int64_t now_ms = 1001, last = 0;

    for (int i = 0; i < 12; i++) {
        tried(&a, now_ms, DLOCK_BUSY, nothing);
        cr_assert_eq(a.step, DL_STEP_SLEEP);
        cr_assert_geq(a.until_ns - now_ms * MS, last);
        last = a.until_ns - now_ms * MS;
        now_ms = a.until_ns / MS;
        dl_acquire_fsm_slept(&a, a.until_ns);
        cr_assert_eq(a.step, DL_STEP_TRY);
    }
    cr_assert_eq(last, 1000 * MS);
}

Test(attempt, C8_the_wait_ends_at_the_deadline)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 250);

    tried(&a, 1001, DLOCK_BUSY, nothing);
    cr_assert_eq(a.until_ns, 1250 * MS);
    dl_acquire_fsm_watched(&a, 1250 * MS, DLOCK_TIMEOUT, &nothing, 0);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_TIMEOUT);
}

Test(attempt, C8_an_exchange_near_the_deadline_gets_little_more)
{
    struct dl_acquire_fsm a = begin(&wait_watching, 1);

    cr_assert_eq(a.until_ns, 1040 * MS);
    a = begin(&wait_watching, 60000);
    cr_assert_eq(a.until_ns, 3000 * MS);
}

Test(attempt, C8_waiting_for_a_session_is_part_of_the_step)
{
    struct dl_acquire_fsm near = begin(&wait_watching, 10), far = begin(&wait_watching, -1);

    cr_assert_eq(near.until_ns, 1040 * MS);
    cr_assert_eq(dl_acquire_fsm_answer_until(&near, 1030 * MS), 1040 * MS);
    cr_assert_eq(dl_acquire_fsm_answer_until(&far, 2500 * MS), 4500 * MS);
}

Test(attempt, C4_unknown_is_repeated_with_the_same_token_and_may_succeed)
{
    struct dl_acquire_fsm a = begin(&try_once, 0);

    tried(&a, 1001, DLOCK_UNKNOWN, nothing);
    cr_assert_eq(a.step, DL_STEP_SLEEP);
    dl_acquire_fsm_slept(&a, a.until_ns);
    cr_assert_eq(a.step, DL_STEP_TRY);
    tried(&a, 1100, DLOCK_OK, lease(30000));
    cr_assert_eq(a.result, DLOCK_OK);
}

Test(attempt, C4_after_unknown_nothing_definite_comes_out)
{
    static const enum dlock_status later[] = {DLOCK_BUSY, DLOCK_UNAVAILABLE, DLOCK_UNKNOWN,
                                              DLOCK_AUTH, DLOCK_CONFIG};

    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        struct dl_acquire_fsm a = begin(&try_once, 0);

        tried(&a, 1001, DLOCK_UNKNOWN, nothing);
        dl_acquire_fsm_slept(&a, a.until_ns);
        tried(&a, 2999, later[i], nothing);
        cr_assert_eq(a.step, DL_STEP_RETURN, "%s", dlock_status_name((int)later[i]));
        dl_acquire_fsm_returned(&a, 3000 * MS);
        cr_assert_eq(a.step, DL_STEP_DONE);
        cr_assert_eq(a.result, DLOCK_UNKNOWN, "%s", dlock_status_name((int)later[i]));
    }
}

Test(attempt, C4_a_canceled_wait_cleans_up_after_unknown)
{
    struct dl_acquire_fsm a = begin(&wait_watching, -1);

    tried(&a, 1001, DLOCK_UNKNOWN, nothing);
    dl_acquire_fsm_cancel(&a, 1002 * MS, DLOCK_CANCELED);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 1003 * MS);
    cr_assert_eq(a.result, DLOCK_UNKNOWN);
}

Test(attempt, an_answer_that_cannot_be_read_is_cleaned_up_and_named)
{
    struct dl_acquire_fsm a = begin(&wait_watching, -1);

    tried(&a, 1001, DLOCK_PROTOCOL, nothing);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 1002 * MS);
    cr_assert_eq(a.result, DLOCK_PROTOCOL);
}

Test(attempt, refusals_are_final)
{
    static const enum dlock_status refusals[] = {DLOCK_AUTH, DLOCK_CONFIG, DLOCK_UNSUPPORTED,
                                                 DLOCK_INVALID, DLOCK_NOMEM};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct dl_acquire_fsm a = begin(&wait_watching, -1);

        tried(&a, 1001, refusals[i], nothing);
        cr_assert_eq(a.step, DL_STEP_DONE);
        cr_assert_eq(a.result, refusals[i]);
    }
}

/* C8: the connection that a server made us wait in may end at any time, and the deadline stands. */
Test(attempt, a_wait_in_the_server_that_breaks_off_is_begun_again)
{
    static const enum dlock_status breaks[] = {DLOCK_UNKNOWN, DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM};

    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        struct dl_acquire_fsm a = begin(&wait_native, 60000);

        tried(&a, 9000, breaks[i], nothing);
        cr_assert_eq(a.step, DL_STEP_SLEEP, "%s", dlock_status_name((int)breaks[i]));
        dl_acquire_fsm_slept(&a, 9990 * MS);
        cr_assert_eq(a.step, DL_STEP_LOCK, "%s", dlock_status_name((int)breaks[i]));
    }
}

Test(attempt, a_blocking_server_is_asked_to_block)
{
    struct dl_acquire_fsm a = begin(&wait_native, 500);

    cr_assert_eq(a.step, DL_STEP_LOCK);
    cr_assert_eq(a.until_ns, 1500 * MS);
    tried(&a, 1500, DLOCK_TIMEOUT, nothing);
    cr_assert_eq(a.result, DLOCK_TIMEOUT);
}

Test(attempt, C1_a_blocking_grant_counts_from_the_confirming_request)
{
    struct dl_acquire_fsm a = begin(&wait_native, -1);

    tried(&a, 90000, DLOCK_OK, (struct dlock_grant){.lease_ms = 30000, .since_ns = 89990 * MS});
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.valid_until_ns, (89990 + 30000 - 3000) * MS);
}

/* In the store's queue (design: queue and grant). */

static struct dlock_grant place(uint64_t fence)
{
    return (struct dlock_grant){
        .flags = DLOCK_GRANT_QUEUED, .fence = fence, .lease_ms = 3000, .holder_ms = -1};
}

static struct dlock_grant fenced(uint64_t fence)
{
    return (struct dlock_grant){.fence = fence, .lease_ms = 3000, .holder_ms = -1};
}

/* Queued by the TRY sent at 1000 ms, answered at 1010 ms, with the counter at 70. */
static struct dl_acquire_fsm begin_queued(int64_t timeout_ms)
{
    struct dl_acquire_fsm a = begin(&wait_queued, timeout_ms);

    tried(&a, 1010, DLOCK_BUSY, place(70));
    cr_assert_eq(a.step, DL_STEP_WATCH);
    return a;
}

static void watched(struct dl_acquire_fsm *a, int64_t now_ms, enum dlock_status status,
                    struct dlock_grant grant)
{
    dl_acquire_fsm_watched(a, now_ms * MS, status, &grant, 0);
}

Test(attempt, a_place_is_refreshed_within_a_third_of_its_lease)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    cr_assert_leq(a.until_ns, (1010 + 1000) * MS);
    watched(&a, 2010, DLOCK_TIMEOUT, nothing);
    cr_assert_eq(a.step, DL_STEP_REFRESH);
}

Test(attempt, C1_a_watched_grant_counts_from_the_last_request_answered_queued)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    watched(&a, 1500, DLOCK_OK, fenced(102));
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.valid_until_ns, (1000 + 3000 - 300) * MS);
}

Test(attempt, WAT_4_a_grant_older_than_our_place_is_dropped)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    watched(&a, 1500, DLOCK_OK, fenced(70));
    cr_assert_eq(a.step, DL_STEP_REFRESH);
}

Test(attempt, C3_a_watched_grant_with_too_little_left_is_confirmed_first)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    watched(&a, 1000 + 3000 - 300 - 200, DLOCK_OK, fenced(102));
    cr_assert_eq(a.step, DL_STEP_REFRESH);
    dl_acquire_fsm_tried(&a, 3800 * MS, 3801 * MS, DLOCK_OK,
                         &(struct dlock_grant){.lease_ms = 2900}, 0);
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.valid_until_ns, (3800 + 2900 - 290) * MS);
}

Test(attempt, a_place_that_is_gone_ends_the_token)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    watched(&a, 2010, DLOCK_TIMEOUT, nothing);
    tried(&a, 2020, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 2030 * MS);
    cr_assert_eq(a.step, DL_STEP_TRY);
}

Test(attempt, C8_after_the_deadline_no_new_token_is_tried)
{
    struct dl_acquire_fsm a = begin_queued(1100);

    watched(&a, 2010, DLOCK_TIMEOUT, nothing);
    tried(&a, 2020, DLOCK_BUSY, nothing);
    dl_acquire_fsm_returned(&a, 2100 * MS);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_TIMEOUT);
}

Test(attempt, C4_after_the_deadline_what_was_unknown_stays_unknown)
{
    struct dl_acquire_fsm a = begin_queued(1100);

    watched(&a, 2010, DLOCK_TIMEOUT, nothing);
    tried(&a, 2020, DLOCK_UNKNOWN, nothing);
    dl_acquire_fsm_slept(&a, 2040 * MS);
    tried(&a, 2050, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 2100 * MS);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_UNKNOWN);
}

Test(attempt, DEQ_2_a_waiter_that_gives_up_leaves_its_place)
{
    struct dl_acquire_fsm a = begin_queued(500);

    watched(&a, 1500, DLOCK_TIMEOUT, nothing);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 1501 * MS);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_TIMEOUT);
}

Test(attempt, DEQ_2_a_cancelled_waiter_leaves_its_place)
{
    struct dl_acquire_fsm a = begin_queued(-1);

    dl_acquire_fsm_cancel(&a, 1500 * MS, DLOCK_CANCELED);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 1501 * MS);
    cr_assert_eq(a.result, DLOCK_CANCELED);
}

Test(attempt, C4_a_refresh_without_an_answer_is_repeated_with_the_same_place)
{
    struct dl_acquire_fsm a = begin_queued(60000);

    watched(&a, 2010, DLOCK_TIMEOUT, nothing);
    tried(&a, 2020, DLOCK_UNKNOWN, nothing);
    cr_assert_eq(a.step, DL_STEP_SLEEP);
    dl_acquire_fsm_slept(&a, a.until_ns);
    cr_assert_eq(a.step, DL_STEP_REFRESH);
    cr_assert_eq(a.entry_base_ns, 1000 * MS);
}

Test(attempt, C4_a_refresh_that_was_repeated_leaves_nothing_unknown)
{
    struct dl_acquire_fsm a = begin_queued(60000);

    watched(&a, 2000, DLOCK_TIMEOUT, nothing);
    cr_assert_eq(a.step, DL_STEP_REFRESH);
    tried(&a, 2100, DLOCK_UNKNOWN, nothing);
    cr_assert(a.uncertain);
    dl_acquire_fsm_slept(&a, 2200 * MS);
    tried(&a, 2210, DLOCK_BUSY, place(70));
    cr_assert_not(a.uncertain, "a hand-off is possible again");
    dl_acquire_fsm_cancel(&a, 3000 * MS, DLOCK_CANCELED);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 3001 * MS);
    cr_assert_eq(a.result, DLOCK_CANCELED);
}

Test(attempt, C4_a_late_arrival_stays_unknown)
{
    struct dl_acquire_fsm a = begin(&wait_queued, 60000);

    tried(&a, 1010, DLOCK_UNKNOWN, nothing);
    dl_acquire_fsm_slept(&a, 1100 * MS);
    tried(&a, 1110, DLOCK_BUSY, place(70));
    dl_acquire_fsm_cancel(&a, 3000 * MS, DLOCK_CANCELED);
    dl_acquire_fsm_returned(&a, 3001 * MS);
    cr_assert_eq(a.result, DLOCK_UNKNOWN);
}

Test(attempt, a_waiter_behind_others_does_not_wake_when_the_holder_may_be_dead)
{
    struct dl_acquire_fsm a = begin(&wait_queued, -1);
    struct dlock_grant behind = place(70);

    behind.holder_ms = 100;
    behind.queue_position = 3;
    tried(&a, 1010, DLOCK_BUSY, behind);
    cr_assert_gt(a.until_ns, 1200 * MS);
}

Test(attempt, a_store_that_does_not_queue_is_watched)
{
    struct dl_acquire_fsm a = begin(&wait_queued, -1);

    tried(&a, 1010, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_WATCH);
    watched(&a, 1100, DLOCK_BUSY, nothing);
    cr_assert_eq(a.step, DL_STEP_TRY);
}

Test(attempt, C3_a_lease_handed_on_too_late_is_given_back)
{
    struct dl_acquire_fsm a = begin(&wait_queued, 60000);

    dl_acquire_fsm_holds(&a, 2000 * MS, 2200 * MS, 3000);
    cr_assert_eq(a.step, DL_STEP_RETURN);
    dl_acquire_fsm_returned(&a, 2001 * MS);
    cr_assert_eq(a.step, DL_STEP_TRY);
}

Test(attempt, a_lease_handed_on_in_time_is_the_answer)
{
    struct dl_acquire_fsm a = begin_queued(60000);

    dl_acquire_fsm_holds(&a, 2000 * MS, 9000 * MS, 8000);
    cr_assert_eq(a.step, DL_STEP_DONE);
    cr_assert_eq(a.result, DLOCK_OK);
    cr_assert_eq(a.valid_until_ns, 9000 * MS);
}
