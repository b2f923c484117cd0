/* SPDX-License-Identifier: MIT */
/* Does the checker see each kind of violation, and none where there is none? Hand-made histories.
 */
#include "made.h"

Test(check, an_orderly_history_is_clean)
{
    locks(0, 1, 1000, 5);
    add(100, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 1000, 0);
    add(110, 2, DLT_QUEUED, 2, 0, 400, 0);
    add(333, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(334, 1, DLT_RET_RENEW, 1, DLOCK_OK, 1333, 0);
    add(340, 1, DLT_HELD_STAMP, 1, 1, 0, 0);
    unlocks(350, 1, DLOCK_OK);
    add(352, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1352, 6);
    unlocks(400, 2, DLOCK_OK);
    expect_clean();
}

Test(check, an_empty_history_is_clean)
{
    expect_clean();
}

Test(check, C1_overlap)
{
    locks(0, 1, 1000, 5);
    locks(500, 2, 1500, 6);
    unlocks(600, 1, DLOCK_OK);
    unlocks(700, 2, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check, C1_overlap_through_a_renewal)
{
    locks(0, 1, 1000, 5);
    add(900, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(901, 1, DLT_RET_RENEW, 1, DLOCK_OK, 1900, 0);
    locks(1100, 2, 2100, 6);
    unlocks(1200, 1, DLOCK_OK);
    unlocks(1300, 2, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check, C1_readers_overlap_freely_but_not_with_a_writer)
{
    locks(0, 1, 1000, 0);
    shared();
    locks(10, 2, 1000, 0);
    shared();
    locks(20, 3, 1000, 7);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    unlocks(100, 3, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check, C21_permits_that_differ)
{
    locks(0, 1, 1000, 5);
    permit(3, 0);
    locks(10, 2, 1000, 6);
    permit(3, 2);
    locks(20, 3, 1000, 7);
    permit(3, 1);
    unlocks(100, 2, DLOCK_OK);
    locks(110, 4, 1000, 9);
    permit(3, 2);
    unlocks(200, 1, DLOCK_OK);
    unlocks(200, 3, DLOCK_OK);
    unlocks(200, 4, DLOCK_OK);
    expect_clean();
}

Test(check, C21_a_fence_of_another_permit)
{
    locks(0, 1, 1000, 6);
    permit(2, 0);
    locks(10, 2, 1000, 6);
    permit(2, 1);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    expect(DLT_RULE_FENCE, 1);
}

/* The answers may come in another order than the grants. */
Test(check, C21_fences_of_two_permits_in_any_order)
{
    locks(0, 1, 1000, 6);
    permit(2, 0);
    locks(10, 2, 1000, 5);
    permit(2, 1);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    expect_clean();
}

Test(check, C21_a_fence_that_does_not_rise_along_a_permit)
{
    locks(0, 1, 1000, 6);
    permit(2, 0);
    unlocks(100, 1, DLOCK_OK);
    locks(110, 3, 1000, 4);
    permit(2, 0);
    unlocks(200, 3, DLOCK_OK);
    expect(DLT_RULE_FENCE, 1);
}

Test(check, C21_a_permit_twice)
{
    locks(0, 1, 1000, 5);
    permit(2, 1);
    locks(10, 2, 1000, 6);
    permit(2, 1);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    expect(DLT_RULE_PERMIT, 1);
}

Test(check, C21_a_permit_beyond_the_limit)
{
    locks(0, 1, 1000, 5);
    permit(2, 2);
    unlocks(100, 1, DLOCK_OK);
    expect(DLT_RULE_PERMIT, 1);
}

Test(check, C21_a_lock_beside_a_permit)
{
    locks(0, 1, 1000, 5);
    permit(2, 0);
    locks(10, 2, 1000, 6);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check, C1_a_claim_ends_with_its_process)
{
    locks(0, 1, 1000, 5);
    add(100, 1, DLT_NEMESIS_KILL, 0, 0, 0, 0);
    locks(200, 2, 1200, 6);
    unlocks(300, 2, DLOCK_OK);
    expect_clean();
}

Test(check, C1_downgrade_lets_readers_in_at_its_call_and_not_before)
{
    locks(0, 1, 1000, 5);
    add(100, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    shared();
    locks(101, 2, 1000, 0);
    shared();
    add(105, 1, DLT_RET_RENEW, 1, DLOCK_OK, 1100, 0);
    unlocks(200, 1, DLOCK_OK);
    unlocks(210, 2, DLOCK_OK);
    expect_clean();

    locks(0, 1, 1000, 5);
    locks(90, 2, 1000, 0);
    shared();
    add(100, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    shared();
    add(105, 1, DLT_RET_RENEW, 1, DLOCK_OK, 1100, 0);
    unlocks(200, 1, DLOCK_OK);
    unlocks(210, 2, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check, C6_a_fence_that_does_not_rise)
{
    locks(0, 1, 1000, 5);
    unlocks(10, 1, DLOCK_OK);
    locks(20, 2, 1000, 5);
    unlocks(30, 2, DLOCK_OK);
    expect(DLT_RULE_FENCE, 1);
}

Test(check, C6_a_write_that_the_resource_should_have_refused)
{
    add(0, 1, DLT_WRITE_ACCEPT, 1, 0, 0, 6);
    add(1, 1, DLT_WRITE_REJECT, 1, 0, 0, 5);
    add(2, 1, DLT_WRITE_ACCEPT, 1, 0, 0, 5);
    expect(DLT_RULE_WRITE, 1);
}

Test(check, C3_ok_for_a_lease_that_had_run_out)
{
    add(0, 1, DLT_INV_LOCK, 1, DLT_CALL_WAITS, 0, 0);
    add(50, 1, DLT_RET_LOCK, 1, DLOCK_OK, 40, 5);
    add(51, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(52, 1, DLOCK_LOST);
    expect(DLT_RULE_EXPIRED_GRANT, 1);
}

Test(check, C2_held_after_the_end)
{
    locks(0, 1, 1000, 5);
    add(999, 1, DLT_HELD_STAMP, 1, 1, 0, 0);
    add(1001, 1, DLT_HELD_STAMP, 1, 1, 0, 0);
    add(1002, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1002, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1003, 1, DLOCK_LOST);
    history.records[4].clock_ns = 950 * MS;
    expect(DLT_RULE_STAMP, 1);
}

/* The end that is known is of whole milliseconds: the true one is up to one later. */
Test(check, C2_held_in_the_last_millisecond)
{
    locks(0, 1, 1000, 5);
    add(950, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1000, 1, DLT_HELD_STAMP, 1, 1, 0, 0);
    add(1001, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1002, 1, DLOCK_LOST);
    history.records[3].clock_ns += MS - 1;
    expect_clean();
}

Test(check, C5_held_after_the_news_of_the_loss)
{
    locks(0, 1, 1000, 5);
    add(950, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1000, 1, DLT_LOST, 1, 0, 0, 0);
    add(1001, 1, DLT_HELD_STAMP, 1, 1, 2000, 0);
    unlocks(1002, 1, DLOCK_LOST);
    expect(DLT_RULE_STAMP, 1);
}

Test(check, C5_revived)
{
    locks(0, 1, 1000, 5);
    add(999, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1000, 1, DLT_LOST, 1, 0, 0, 0);
    add(1001, 1, DLT_RET_RENEW, 1, DLOCK_OK, 2000, 0);
    unlocks(1002, 1, DLOCK_LOST);
    expect(DLT_RULE_REVIVED, 1);
}

Test(check, C5_told_twice)
{
    locks(0, 1, 1000, 5);
    add(999, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1000, 1, DLT_LOST, 1, 0, 0, 0);
    add(1001, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1002, 1, DLOCK_LOST);
    expect(DLT_RULE_LOST_TWICE, 1);
}

Test(check, C5_told_late_or_never)
{
    locks(0, 1, 1000, 5);
    add(999, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1050, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1051, 1, DLOCK_LOST);
    expect(DLT_RULE_LOST_UNTOLD, 1);

    locks(0, 1, 1000, 5);
    unlocks(1050, 1, DLOCK_LOST);
    expect(DLT_RULE_LOST_UNTOLD, 1);

    locks(0, 1, 1000, 5);
    add(1050, 2, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    expect(DLT_RULE_LOST_UNTOLD, 1);
}

Test(check, C5_a_process_that_stood_still_is_told_when_it_goes_on)
{
    locks(0, 1, 1000, 5);
    add(500, 1, DLT_NEMESIS_STOP, 0, 0, 0, 0);
    add(1500, 1, DLT_NEMESIS_CONT, 0, 0, 0, 0);
    add(1501, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1502, 1, DLOCK_LOST);
    expect_clean();
}

Test(check, C5_unlock_after_a_loss_must_say_so)
{
    locks(0, 1, 1000, 5);
    add(999, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(1000, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1002, 1, DLOCK_OK);
    expect(DLT_RULE_LOST_UNLOCK, 1);
}

Test(check, C8_a_call_that_came_back_late)
{
    add(0, 1, DLT_INV_LOCK, 1, DLT_CALL_WAITS, 100, 0);
    add(105, 1, DLT_RET_LOCK, 1, DLOCK_TIMEOUT, 0, 0);
    add(200, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 300, 0);
    add(306, 2, DLT_RET_LOCK, 2, DLOCK_TIMEOUT, 0, 0);
    expect(DLT_RULE_DEADLINE, 1);
}

Test(check, a_call_that_never_came_back)
{
    add(0, 1, DLT_INV_LOCK, 1, 0, 0, 0);
    add(1, 2, DLT_INV_LOCK, 2, 0, 0, 0);
    add(2, 2, DLT_NEMESIS_KILL, 0, 0, 0, 0);
    expect(DLT_RULE_NO_RETURN, 1);
}

Test(check, C7_told_not_yours_while_the_lease_ran)
{
    locks(0, 1, 1000, 5);
    unlocks(500, 1, DLOCK_LOST);
    expect(DLT_RULE_TAKEN, 1);

    locks(0, 1, 1000, 5);
    add(500, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(501, 1, DLT_RET_RENEW, 1, DLOCK_LOST, 0, 0);
    unlocks(1001, 1, DLOCK_LOST);
    expect(DLT_RULE_TAKEN, 1);
}

Test(check, C14_a_lease_that_nobody_tried_to_renew_to_its_end)
{
    locks(0, 1, 1000, 5);
    add(400, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(401, 1, DLT_RET_RENEW, 1, DLOCK_UNAVAILABLE, 0, 0);
    add(1000, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1001, 1, DLOCK_LOST);
    expect(DLT_RULE_RENEWAL, 1);
}

/* A call of the application that lasts too long is no excuse. */
Test(check, C14_a_renewal_of_the_application_is_not_all_that_is_tried)
{
    locks(0, 1, 1000, 5);
    add(300, 1, DLT_INV_RENEW, 1, 1, 0, 0);
    history.records[history.count - 1].tid = 9;
    add(310, 1, DLT_RET_RENEW, 1, DLOCK_UNAVAILABLE, 0, 0); /* of the renewer */
    add(1001, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1010, 1, DLOCK_LOST);
    expect(DLT_RULE_RENEWAL, 1);

    locks(0, 1, 1000, 5);
    add(600, 1, DLT_INV_RENEW, 1, 1, 0, 0);
    history.records[history.count - 1].tid = 9;
    add(1001, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1010, 1, DLOCK_LOST);
    expect_clean();
}

Test(check, C4_unknown_needs_a_reason)
{
    add(1, 1, DLT_INV_LOCK, 1, 0, 0, 0);
    add(50, 1, DLT_RET_LOCK, 1, DLOCK_UNKNOWN, 0, 0);
    expect(DLT_RULE_UNEXPLAINED, 1);

    add(1, 1, DLT_INV_LOCK, 1, 0, 0, 0);
    add(10, 0, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    add(50, 1, DLT_RET_LOCK, 1, DLOCK_UNKNOWN, 0, 0);
    add(60, 2, DLT_INV_LOCK, 2, 0, 0, 0);
    add(61, 2, DLT_NEMESIS_STOP, 0, 0, 0, 0);
    add(80, 2, DLT_NEMESIS_CONT, 0, 0, 0, 0);
    add(90, 2, DLT_RET_LOCK, 2, DLOCK_UNKNOWN, 0, 0);
    expect_clean();
}

Test(check, C13_overtaken_by_one_who_came_after_the_place_was_confirmed)
{
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(101, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    unlocks(110, 3, DLOCK_OK);
    add(112, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    unlocks(120, 2, DLOCK_OK);
    expect(DLT_RULE_OVERTAKEN, 1);
}

Test(check, C13_a_place_that_ran_out_or_was_given_up_protects_nobody)
{
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 90, 0);
    add(12, 4, DLT_INV_LOCK, 4, DLT_CALL_WAITS, 0, 0);
    add(13, 4, DLT_QUEUED, 4, 0, 900, 0);
    add(14, 4, DLT_LEFT, 4, 0, 0, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(101, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    unlocks(110, 3, DLOCK_OK);
    add(112, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    add(112, 4, DLT_RET_LOCK, 4, DLOCK_CANCELED, 0, 0);
    unlocks(120, 2, DLOCK_OK);
    expect_clean();
}

/* limit 2; 1 holds permit 0, 2 has a place, and 3 comes later. */
static void permit_passes(uint64_t fence_of_2, uint64_t fence_of_3)
{
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(102, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, fence_of_3);
    history.records[history.count - 1].permit = 1;
    add(103, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, fence_of_2);
    unlocks(110, 3, DLOCK_OK);
    unlocks(120, 2, DLOCK_OK);
    for (size_t i = 0; i < history.count; i++)
        history.records[i].limit = 2;
}

Test(check, C13_a_permit_that_passes_a_waiter)
{
    permit_passes(8, 7);
    expect(DLT_RULE_OVERTAKEN, 1);
}

Test(check, C13_a_permit_whose_answer_comes_before_that_of_an_earlier_one)
{
    permit_passes(7, 8);
    expect_clean();
}

Test(check, C13_overtaken_within_a_process)
{
    add(10, 7, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(20, 7, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    add(21, 7, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    add(30, 7, DLT_INV_UNLOCK, 3, 0, 0, 0);
    add(31, 7, DLT_RET_UNLOCK, 3, DLOCK_OK, 0, 0);
    add(32, 7, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    add(33, 7, DLT_INV_UNLOCK, 2, 0, 0, 0);
    add(34, 7, DLT_RET_UNLOCK, 2, DLOCK_OK, 0, 0);
    expect(DLT_RULE_OVERTAKEN, 1);
}

/* Who gave up lets others in before his call has returned. */
Test(check, C13_who_stepped_out_of_the_line_is_not_overtaken)
{
    add(10, 7, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(20, 7, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    add(21, 7, DLT_LEFT, 2, 1, 0, 0);
    add(22, 7, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    add(23, 7, DLT_RET_LOCK, 2, DLOCK_TIMEOUT, 0, 0);
    add(30, 7, DLT_INV_UNLOCK, 3, 0, 0, 0);
    add(31, 7, DLT_RET_UNLOCK, 3, DLOCK_OK, 0, 0);
    expect_clean();
}

/* Process 1 takes the lock `times` in a row; process 2 has a place in the store. */
static void pass_by(unsigned times)
{
    add(0, 1, DLT_INV_LOCK, 1, DLT_CALL_WAITS, 0, 0);
    add(1, 1, DLT_RET_LOCK, 1, DLOCK_OK, 2000, 1);
    add(2, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(3, 2, DLT_QUEUED, 2, 0, 1900, 0);
    add(4, 1, DLT_INV_UNLOCK, 1, 0, 0, 0);
    add(5, 1, DLT_RET_UNLOCK, 1, DLOCK_OK, 0, 0);
    for (unsigned i = 0; i < times; i++) {
        add(10 * i + 10, 1, DLT_INV_LOCK, 10 + i, DLT_CALL_WAITS, 0, 0);
        add(10 * i + 11, 1, DLT_RET_LOCK, 10 + i, DLOCK_OK, 2000, 2 + i);
        add(10 * i + 12, 1, DLT_INV_UNLOCK, 10 + i, 0, 0, 0);
        add(10 * i + 13, 1, DLT_RET_UNLOCK, 10 + i, DLOCK_OK, 0, 0);
    }
    add(100, 2, DLT_RET_LOCK, 2, DLOCK_OK, 2000, 50);
    unlocks(110, 2, DLOCK_OK);
}

Test(check, C13_handoffs_pass_by_a_place_for_a_while)
{
    pass_by(2);
    expect_clean();
    pass_by(4);
    expect(DLT_RULE_OVERTAKEN, 2);
}

Test(check, C13_nobody_gets_what_is_free)
{
    locks(0, 1, 2000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(700, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1700, 6);
    unlocks(710, 2, DLOCK_OK);
    expect(DLT_RULE_STALLED, 1);
}

static int64_t asked_ns[3];

static bool machine_was_slow(int64_t begin_ns, int64_t end_ns, int64_t most_ns)
{
    asked_ns[0] = begin_ns;
    asked_ns[1] = end_ns;
    asked_ns[2] = most_ns;
    return false;
}

/* Of upper bounds alone. */
Test(check, C5_C8_C13_a_slow_machine_excuses_what_is_late)
{
    struct dlt_check_options options = strict;
    struct dlt_check_figures figures;

    options.is_late = machine_was_slow;
    locks(0, 1, 2000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 1000, 0);
    unlocks(100, 1, DLOCK_OK);
    add(1600, 2, DLT_RET_LOCK, 2, DLOCK_OK, 2600, 6);
    unlocks(3000, 2, DLOCK_LOST);
    cr_assert_eq(dlt_check(&history, &options, &figures), 0);
    cr_assert_eq(figures.total, 0);
    cr_assert_eq(asked_ns[0], 2600 * MS);
    cr_assert_eq(asked_ns[1], 3000 * MS);
    cr_assert_eq(asked_ns[2], strict.slack_ns);
    options.is_late = NULL;
    cr_assert_eq(dlt_check(&history, &options, &figures), 0);
    cr_assert_eq(figures.violations[DLT_RULE_STALLED], 1);
    cr_assert_eq(figures.violations[DLT_RULE_DEADLINE], 1);
    cr_assert_eq(figures.violations[DLT_RULE_LOST_UNTOLD], 1);
    dlt_history_fini(&history);
}

Test(check, C13_what_a_fault_explains_is_not_a_stall)
{
    locks(0, 1, 2000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(400, 0, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    add(700, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1700, 6);
    unlocks(710, 2, DLOCK_OK);
    expect_clean();
}

Test(check, records_out_of_nowhere)
{
    add(0, 1, DLT_RET_LOCK, 9, DLOCK_OK, 1000, 5);
    expect(DLT_RULE_RECORDS, 1);
}
