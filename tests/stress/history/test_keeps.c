/* SPDX-License-Identifier: MIT */
/* Is a grant of what is kept noticed (C22), and only that? */
#include "made.h"

/* The acquisition began at ms. */
static void began(int64_t ms)
{
    history.records[history.count - 1].data = (uint64_t)(ms * MS);
}

/* The release keeps until keep_ms after that. */
static void keeps(int64_t ms, uint64_t attempt, int64_t keep_ms, unsigned status)
{
    unlocks(ms, attempt, status);
    history.records[history.count - 2].data = (uint64_t)keep_ms;
}

/* Attempt 1 is held from 10 to 30, and kept for keep_ms from 10 on. */
static void one_keeps(int64_t keep_ms, unsigned status)
{
    locks(10, 1, 200, 1);
    began(10);
    keeps(30, 1, keep_ms, status);
}

Test(keeps, C22_a_name_that_is_kept)
{
    one_keeps(100, DLOCK_OK);
    locks(105, 2, 300, 2);
    unlocks(110, 2, DLOCK_OK);
    expect(DLT_RULE_KEEP, 1);
}

/* A hundredth and 2 ms are what clocks may cost. */
Test(keeps, the_end_of_it)
{
    one_keeps(100, DLOCK_OK);
    locks(106, 2, 300, 2); /* granted at 107 */
    unlocks(110, 2, DLOCK_OK);
    expect_clean();
}

Test(keeps, each_grant_of_it)
{
    one_keeps(100, DLOCK_OK);
    locks(40, 2, 300, 2);
    unlocks(50, 2, DLOCK_OK);
    locks(60, 3, 300, 3);
    unlocks(70, 3, DLOCK_OK);
    locks(120, 4, 300, 4);
    unlocks(130, 4, DLOCK_OK);
    expect(DLT_RULE_KEEP, 2);
}

Test(keeps, a_reader_is_somebody)
{
    one_keeps(100, DLOCK_OK);
    locks(40, 2, 300, 0);
    shared();
    unlocks(50, 2, DLOCK_OK);
    expect(DLT_RULE_KEEP, 1);
}

Test(keeps, C22_a_permit_that_is_kept)
{
    locks(10, 1, 200, 1);
    began(10);
    permit(2, 1);
    keeps(30, 1, 100, DLOCK_OK);
    locks(40, 2, 300, 2);
    permit(2, 0); /* the other one */
    unlocks(45, 2, DLOCK_OK);
    locks(50, 3, 300, 3);
    permit(2, 1);
    unlocks(60, 3, DLOCK_OK);
    expect(DLT_RULE_KEEP, 1);
}

Test(keeps, another_name_is_free)
{
    one_keeps(100, DLOCK_OK);
    locks(40, 2, 300, 2);
    history.records[history.count - 2].name_id = 1;
    history.records[history.count - 1].name_id = 1;
    expect_clean();
}

/* Lost, never executed, or nobody knows. */
Test(keeps, what_was_not_released)
{
    static const unsigned statuses[] = {DLOCK_UNKNOWN, DLOCK_UNAVAILABLE};

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        add(30, 0, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
        one_keeps(400, statuses[i]);
        locks(201, 2, 600, 2);
        unlocks(210, 2, DLOCK_OK);
        expect_clean();
    }
}

/* The second unlock of one that was UNKNOWN is OK if the lease is gone, also by its end. */
Test(keeps, repeated)
{
    one_keeps(400, DLOCK_UNKNOWN);
    add(30, 0, DLT_NEMESIS_FAULT, 0, 0, 0, 0);
    keeps(40, 1, 400, DLOCK_OK);
    locks(201, 2, 600, 2);
    unlocks(210, 2, DLOCK_OK);
    expect_clean();
    one_keeps(400, DLOCK_UNAVAILABLE);
    keeps(40, 1, 400, DLOCK_OK);
    locks(201, 2, 600, 2);
    unlocks(210, 2, DLOCK_OK);
    expect(DLT_RULE_KEEP, 1);
}

Test(keeps, repeated_when_it_is_over)
{
    one_keeps(400, DLOCK_UNAVAILABLE);
    locks(201, 2, 600, 2);
    unlocks(210, 2, DLOCK_OK);
    keeps(405, 1, 400, DLOCK_OK);
    expect_clean();
}

Test(keeps, counted_from_another_moment)
{
    locks(10, 1, 200, 1);
    began(8);
    unlocks(30, 1, DLOCK_OK);
    expect(DLT_RULE_KEEP, 1);
}

/* Whoever waits for it is not kept waiting. */
Test(keeps, no_stall)
{
    one_keeps(800, DLOCK_OK);
    add(31, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(1300, 2, DLT_RET_LOCK, 2, DLOCK_OK, 2000, 2);
    unlocks(1310, 2, DLOCK_OK);
    expect_clean();
    one_keeps(800, DLOCK_OK);
    add(31, 2, DLT_INV_LOCK, 2, DLT_CALL_WAITS, 0, 0);
    add(1330, 2, DLT_RET_LOCK, 2, DLOCK_OK, 2000, 2);
    unlocks(1340, 2, DLOCK_OK);
    expect(DLT_RULE_STALLED, 1);
}
