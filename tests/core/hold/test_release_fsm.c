/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/release_fsm.c */
/* Is an unlock repeated when it should be, and does it end as C4 and C8 say? */
#include "hold/release_fsm.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)

static struct dl_release_fsm release;

static void start(bool session, bool again)
{
    dl_release_fsm_start(&release, 1000 * MS, session, again);
    cr_assert_eq(release.step, DL_RELEASE_SEND);
}

static void answered(int64_t now_ms, enum dlock_status status)
{
    dl_release_fsm_answered(&release, now_ms * MS, status);
}

static void ended(enum dlock_status status)
{
    cr_assert_eq(release.step, DL_RELEASE_DONE);
    cr_assert_eq(release.result, status);
}

static void sent_again(int64_t now_ms)
{
    cr_assert_eq(release.step, DL_RELEASE_PAUSE);
    dl_release_fsm_paused(&release, now_ms * MS);
    cr_assert_eq(release.step, DL_RELEASE_SEND);
}

Test(release, what_the_store_says_is_the_answer)
{
    static const enum dlock_status definite[] = {DLOCK_OK, DLOCK_LOST, DLOCK_AUTH, DLOCK_PROTOCOL,
                                                 DLOCK_INTERNAL};

    for (size_t i = 0; i < sizeof definite / sizeof definite[0]; i++) {
        start(false, false);
        answered(1, definite[i]);
        ended(definite[i]);
    }
}

Test(release, C4_gone_is_ok_after_an_unknown_outcome)
{
    start(false, false);
    answered(100, DLOCK_UNKNOWN);
    sent_again(110);
    answered(111, DLOCK_LOST);
    ended(DLOCK_OK);
}

/* Without it, the store's "not held" is the answer. */
Test(release, TET_3_gone_is_ok_where_the_plugin_may_have_released_it_meanwhile)
{
    static const enum dlock_status failures[] = {DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM};

    for (size_t i = 0; i < 4; i++) {
        start(false, false);
        release.tethered = i < 2;
        answered(100, failures[i % 2]);
        sent_again(110);
        answered(111, DLOCK_LOST);
        ended(i < 2 ? DLOCK_OK : DLOCK_LOST);
    }
    start(false, false);
    release.tethered = true;
    answered(100, DLOCK_LOST);
    ended(DLOCK_LOST);
    start(false, false);
    release.tethered = true;
    answered(995, DLOCK_UNAVAILABLE);
    ended(DLOCK_UNAVAILABLE);
}

Test(release, C4_gone_is_ok_for_an_unlock_that_is_repeated)
{
    start(false, true);
    answered(1, DLOCK_LOST);
    ended(DLOCK_OK);
}

Test(release, gone_is_lost_where_nothing_was_executed)
{
    start(false, false);
    answered(100, DLOCK_UNAVAILABLE);
    sent_again(110);
    answered(111, DLOCK_LOST);
    ended(DLOCK_LOST);
}

/* A refusal of the repetition says nothing of the unlock before it. */
Test(release, C4_a_refusal_after_an_unknown_outcome_is_unknown)
{
    static const enum dlock_status refusals[] = {DLOCK_AUTH, DLOCK_CONFIG, DLOCK_PROTOCOL,
                                                 DLOCK_NOMEM};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        start(false, false);
        answered(100, DLOCK_UNKNOWN);
        sent_again(110);
        answered(111, refusals[i]);
        ended(DLOCK_UNKNOWN);
    }
}

Test(release, C4_what_was_unknown_once_stays_unknown)
{
    start(false, false);
    answered(100, DLOCK_UNKNOWN);
    sent_again(110);
    answered(995, DLOCK_UNAVAILABLE);
    ended(DLOCK_UNKNOWN);
    start(false, false);
    answered(100, DLOCK_UNKNOWN);
    sent_again(110);
    dl_release_fsm_no_session(&release, DLOCK_UNAVAILABLE);
    ended(DLOCK_UNKNOWN);
}

Test(release, C8_no_pause_goes_past_the_deadline)
{
    start(false, false);
    answered(989, DLOCK_NO_QUORUM);
    cr_assert_eq(release.step, DL_RELEASE_PAUSE);
    start(false, false);
    answered(990, DLOCK_NO_QUORUM);
    ended(DLOCK_NO_QUORUM);
}

Test(release, C8_a_pause_that_took_longer_is_the_end)
{
    start(false, false);
    answered(100, DLOCK_UNAVAILABLE);
    cr_assert_eq(release.step, DL_RELEASE_PAUSE);
    dl_release_fsm_paused(&release, 1000 * MS);
    ended(DLOCK_UNAVAILABLE);
}

Test(release, a_session_that_failed_is_not_used_again)
{
    start(true, false);
    answered(1, DLOCK_UNKNOWN);
    ended(DLOCK_UNKNOWN);
    start(true, false);
    answered(1, DLOCK_UNAVAILABLE);
    ended(DLOCK_UNAVAILABLE);
}

Test(release, without_a_session_there_is_nothing_to_try)
{
    start(false, false);
    dl_release_fsm_no_session(&release, DLOCK_AUTH);
    ended(DLOCK_AUTH);
}
