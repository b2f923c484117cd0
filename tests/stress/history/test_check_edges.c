/* SPDX-License-Identifier: MIT */
/* Does the checker see what is neither the first, the plain nor the last thing that happens: claims
 * within claims, calls besides lock, processes that stood still or are gone? */
#include "made.h"

Test(check_edges, C1_a_short_claim_does_not_hide_the_long_one_around_it)
{
    locks(0, 1, 1000, 0);
    shared();
    locks(10, 2, 1000, 0);
    shared();
    unlocks(20, 2, DLOCK_OK);
    locks(50, 3, 1000, 7);
    unlocks(60, 3, DLOCK_OK);
    unlocks(100, 1, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);

    locks(0, 1, 1000, 5);
    locks(10, 2, 1000, 6);
    unlocks(20, 2, DLOCK_OK);
    locks(50, 3, 1000, 7);
    unlocks(60, 3, DLOCK_OK);
    unlocks(100, 1, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 2);
}

/* The renewer's renewals are not in the records of an application. */
Test(check_edges, C1_a_stamp_makes_the_claim_longer)
{
    locks(0, 1, 1000, 5);
    add(900, 1, DLT_HELD_STAMP, 1, 1, 1900, 0);
    locks(1100, 2, 2100, 6);
    unlocks(1200, 2, DLOCK_OK);
    unlocks(1300, 1, DLOCK_OK);
    expect(DLT_RULE_OVERLAP, 1);
}

Test(check_edges, C1_a_claim_ends_with_its_lease_and_not_with_the_news_of_that)
{
    locks(0, 1, 1000, 5);
    add(900, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    locks(1000, 2, 2000, 6);
    add(1004, 1, DLT_LOST, 1, 0, 0, 0);
    unlocks(1005, 1, DLOCK_LOST);
    unlocks(1100, 2, DLOCK_OK);
    expect_clean();
}

Test(check_edges, C4_unknown_needs_a_reason_in_every_call)
{
    locks(0, 1, 1000, 5);
    unlocks(100, 1, DLOCK_UNKNOWN);
    expect(DLT_RULE_UNEXPLAINED, 1);

    locks(0, 1, 1000, 5);
    add(100, 1, DLT_INV_RENEW, 1, 0, 0, 0);
    add(101, 1, DLT_RET_RENEW, 1, DLOCK_UNKNOWN, 0, 0);
    unlocks(200, 1, DLOCK_OK);
    expect(DLT_RULE_UNEXPLAINED, 1);
}

Test(check_edges, C7_a_stop_takes_no_lease_away)
{
    locks(0, 1, 1000, 5);
    add(100, 1, DLT_NEMESIS_STOP, 0, 0, 0, 0);
    add(200, 1, DLT_NEMESIS_CONT, 0, 0, 0, 0);
    unlocks(500, 1, DLOCK_LOST);
    expect(DLT_RULE_TAKEN, 1);
}

Test(check_edges, C8_an_unlock_that_came_back_late)
{
    locks(0, 1, 1000, 5);
    add(100, 1, DLT_INV_UNLOCK, 1, 0, 200, 0);
    add(205, 1, DLT_RET_UNLOCK, 1, DLOCK_OK, 0, 0);
    locks(300, 2, 1300, 6);
    add(400, 2, DLT_INV_UNLOCK, 2, 0, 500, 0);
    add(506, 2, DLT_RET_UNLOCK, 2, DLOCK_OK, 0, 0);
    expect(DLT_RULE_DEADLINE, 1);
}

Test(check_edges, C13_a_lease_that_is_held_no_more_is_in_nobodys_way)
{
    locks(0, 1, 2000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(100, 1, DLT_INV_UNLOCK, 1, 0, 0, 0);
    add(700, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1700, 6);
    add(710, 1, DLT_RET_UNLOCK, 1, DLOCK_OK, 0, 0);
    unlocks(720, 2, DLOCK_OK);
    expect(DLT_RULE_STALLED, 1);
}

/* Also if it bears a later time than the death. */
Test(check_edges, what_a_killed_process_wrote_does_not_count)
{
    locks(0, 1, 1000, 5);
    add(100, 1, DLT_NEMESIS_KILL, 0, 0, 0, 0);
    add(101, 1, DLT_HELD_STAMP, 1, 1, 1900, 0);
    add(101, 1, DLT_LOST, 1, 0, 0, 0);
    locks(200, 2, 1200, 6);
    unlocks(300, 2, DLOCK_OK);
    expect_clean();
}

/* Process 2 has a place for name 1 when an exchange of process pid for name 2 fails. */
static void pass_by_after_a_fault(int32_t pid)
{
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    add(30, pid, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    history.records[history.count - 1].name_id = 2;
    unlocks(100, 1, DLOCK_OK);
    add(101, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    unlocks(110, 3, DLOCK_OK);
    add(112, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    unlocks(120, 2, DLOCK_OK);
}

/* C19: an operation may not hear of the grant to its place while exchanges of its process last. */
Test(check_edges, C13_a_fault_in_the_process_of_a_place_may_cost_the_place)
{
    pass_by_after_a_fault(2);
    expect_clean();
    pass_by_after_a_fault(3);
    expect(DLT_RULE_OVERTAKEN, 1);
    pass_by_after_a_fault(0);
    expect(DLT_RULE_OVERTAKEN, 1);
}

/* Process 2 was told at 40 of its place, for which it asked some ms before; a fault came at 30. */
static void pass_by_after_an_answer(uint16_t age_ms)
{
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    add(30, 0, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    add(40, 2, DLT_QUEUED, 2, age_ms, 930, 0);
    unlocks(100, 1, DLOCK_OK);
    add(101, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    unlocks(110, 3, DLOCK_OK);
    add(112, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    unlocks(120, 2, DLOCK_OK);
}

Test(check_edges, C13_an_old_answer_about_a_place_says_nothing_of_a_fault_since)
{
    pass_by_after_an_answer(15);
    expect_clean();
    pass_by_after_an_answer(5);
    expect(DLT_RULE_OVERTAKEN, 1);
}

/* The place of 2 was a grant that it never heard of, before that of 3. */
Test(check_edges, C13_a_permit_passes_no_place_that_was_lost)
{
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    add(30, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 7);
    add(40, 2, DLT_LEFT, 2, 0, 0, 0);
    add(41, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(50, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 8);
    history.records[history.count - 1].permit = 1;
    unlocks(60, 2, DLOCK_OK);
    unlocks(70, 3, DLOCK_OK);
    for (size_t i = 0; i < history.count; i++)
        history.records[i].limit = 2;
    expect_clean();
}

/* Where a handle may have what the history does not show. */
Test(check_edges, an_order_that_is_not_looked_at)
{
    struct dlt_check_options options = strict;
    struct dlt_check_figures figures;

    options.unordered = true;
    locks(0, 1, 1000, 5);
    add(10, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(11, 2, DLT_QUEUED, 2, 0, 900, 0);
    add(20, 3, DLT_INV_LOCK, 3, DLT_CALL_WAITS, 0, 0);
    unlocks(100, 1, DLOCK_OK);
    add(101, 3, DLT_RET_LOCK, 3, DLOCK_OK, 1000, 6);
    unlocks(110, 3, DLOCK_OK);
    add(112, 2, DLT_RET_LOCK, 2, DLOCK_OK, 1000, 7);
    unlocks(120, 2, DLOCK_OK);
    dlt_history_sort(&history);
    cr_assert_eq(dlt_check(&history, &options, &figures), 0);
    cr_assert_eq(figures.total, 0);
    dlt_history_fini(&history);
}
