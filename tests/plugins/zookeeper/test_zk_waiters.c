/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c plugins/zookeeper/slot.c */
/* What a session that ends, and an attempt that is forgotten, leave in the queue. */
#include "name_kit.h"

static struct dlt_request d, e;

static void open_queue(const char *test)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', DLT_ZK_TTL_MS);
    dlt_request(&s, &e, "job", 'e', DLT_ZK_TTL_MS);
}

static void close_queue(void)
{
    forget(&s, &d);
    forget(&s, &e);
    close_all();
}

Test(waiters, DEQ_3_an_entry_ends_with_its_session_and_the_dead_are_passed_over)
{
    open_queue("dead");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b); /* dies */
    queue(&u, &c);
    expire(&t);
    cr_assert_eq(refresh(&u, &c), DLOCK_BUSY);
    cr_assert_eq(u.grant.queue_position, 0);
    cr_assert_eq(refresh(&t, &b), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "the dead one before it is passed over");
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(nodes_count("job", ""), 0);
    close_queue();
}

Test(waiters, FGT_1_what_is_forgotten_goes_by_itself)
{
    open_queue("forgotten");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    forget(&t, &b);
    nodes_left("job", HEX_OF_B, 0);
    forget(&s, &a);
    nodes_left("job", "", 0);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    leftovers_gone(&s);
    leftovers_gone(&t);
    close_queue();
}
