/* SPDX-License-Identifier: MIT */
/* Does the checker know whose data were shown? */
#include "made.h"

/* The last attempt publishes: INV_LOCK, RET_LOCK. */
static void publishes(uint64_t data)
{
    history.records[history.count - 2].data = data;
}

static void seen(int64_t began_ms, int64_t ms, uint64_t data, uint64_t fence)
{
    add(ms, 9, DLT_SEEN, 0, 0, began_ms, fence);
    history.records[history.count - 1].data = data;
}

/* 1 and 2 publish 11 and 12, 3 nothing. */
static void three_publish(void)
{
    locks(0, 1, 1000, 5);
    publishes(11);
    unlocks(100, 1, DLOCK_OK);
    locks(110, 2, 1000, 7);
    publishes(12);
    unlocks(200, 2, DLOCK_OK);
    locks(210, 3, 1000, 9);
    unlocks(300, 3, DLOCK_OK);
}

Test(seen, C24_each_holder_with_its_data)
{
    three_publish();
    seen(10, 20, 11, 5);
    seen(90, 150, 11, 5); /* 1 or 2 */
    seen(90, 150, 12, 7);
    seen(105, 109, 12, 7); /* granted, and not answered yet */
    seen(220, 230, 0, 9);
    expect_clean();
}

Test(seen, C24_data_of_the_holder_before)
{
    three_publish();
    seen(120, 130, 11, 7);
    expect(DLT_RULE_DATA, 1);
}

/* The call lasted longer than the claim: the fence tells. */
Test(seen, C24_data_that_do_not_belong_to_the_fence)
{
    three_publish();
    seen(105, 250, 11, 7);
    seen(105, 250, 0, 7);
    seen(105, 250, 12, 9);
    expect(DLT_RULE_DATA, 3);
}

/* Of a store without fences. */
Test(seen, C24_data_at_a_time)
{
    three_publish();
    seen(10, 20, 11, 0);
    seen(120, 130, 0, 0);
    seen(220, 230, 12, 0);
    expect(DLT_RULE_DATA, 2);
}

Test(seen, C24_data_of_permits_and_readers)
{
    locks(0, 1, 1000, 5);
    permit(2, 0);
    publishes(11);
    locks(10, 2, 1000, 6);
    permit(2, 1);
    publishes(12);
    seen(20, 30, 11, 5);
    seen(20, 30, 12, 6);
    seen(20, 30, 12, 5);
    unlocks(100, 1, DLOCK_OK);
    unlocks(100, 2, DLOCK_OK);
    locks(110, 3, 1000, 7);
    history.records[history.count - 2].mode = DLOCK_SHARED;
    shared();
    publishes(13);
    seen(120, 130, 14, 7); /* readers may have one fence */
    shared();
    unlocks(200, 3, DLOCK_OK);
    expect(DLT_RULE_DATA, 1);
}
