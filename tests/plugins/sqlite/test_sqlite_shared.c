/* SPDX-License-Identifier: MIT */
/* Readers: many at once, never beside a writer, each with a lease of its own; and the step from
 * writer to reader. Without a queue. */
#include "store_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static char directory[64], path[64];
static struct dlt_store s, t;
static struct dlt_request writer, other, reader, second;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_request(&s, &writer, "job", 'w', 60000);
    dlt_store_request(&s, &other, "job", 'o', 60000);
    dlt_store_request(&s, &reader, "job", 'r', 60000);
    dlt_store_request(&s, &second, "job", 's', 60000);
    reader.req.mode = second.req.mode = DLOCK_SHARED;
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(shared, .init = set_up, .fini = tear_down, .timeout = 60);

Test(shared, TRY_1_readers_together_and_no_writer)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK, "%s", s.err.message);
    cr_assert_gt(s.grant.lease_ms, 59000);
    cr_assert_leq(s.grant.lease_ms, 60000);
    cr_assert_eq(dlt_store_try(&t, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 59000);
    cr_assert_leq(s.grant.holder_ms, 60000);
    cr_assert_eq(dlt_store_unlock(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_BUSY, "one is left");
    cr_assert_eq(dlt_store_unlock(&t, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
}

Test(shared, TRY_1_no_reader_beside_a_writer)
{
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_BUSY);
    cr_assert_gt(t.grant.holder_ms, 59000);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_BUSY, "the second look is another path");
    cr_assert_eq(dlt_store_unlock(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_OK);
}

Test(shared, TRY_1_a_reader_is_no_writer)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    reader.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_BUSY);
}

Test(shared, TRY_2_each_reader_has_a_lease_of_its_own)
{
    int64_t start = 0;

    second.req.ttl_ms = 300;
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    start = dlt_host_now(&s.host);
    cr_assert_eq(dlt_store_try(&s, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &reader), DLOCK_OK);
    while (dlt_store_try(&t, &writer) == DLOCK_BUSY) {
        cr_assert_leq(t.grant.holder_ms, 300);
        dlt_sleep_ms(1);
    }
    cr_assert_eq(t.grant.waiters, 0, "it was granted: %s", t.err.message);
    cr_assert_geq(dlt_host_now(&t.host) - start, 300 * DLT_NS_PER_MS);
    cr_assert_eq(dlt_store_renew(&s, &second), DLOCK_LOST);
    cr_assert_eq(dlt_store_unlock(&s, &second), DLOCK_LOST);
    cr_assert_eq(dlt_store_renew(&t, &writer), DLOCK_OK, "the writer is left alone");
}

Test(shared, TRY_5_again_with_the_same_token_never_shortens)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    fence = s.grant.fence;
    reader.req.ttl_ms = 1000;
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(s.grant.fence, fence);
    cr_assert_eq(s.grant.lease_ms, 1000, "never more than the ttl that was asked for");
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 50000);
    reader.req.ttl_ms = 120000;
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_gt(s.grant.lease_ms, 110000);
}

Test(shared, TRY_6_the_fence_rises_over_readers_and_writers)
{
    struct dlt_request *const turns[] = {&reader, &writer, &second, &reader, &other};
    uint64_t last = 0;

    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        cr_assert_eq(dlt_store_try(&s, turns[i]), DLOCK_OK);
        cr_assert_gt(s.grant.fence, last);
        cr_assert_eq(s.grant.fence_room, 31);
        last = s.grant.fence + s.grant.fence_room;
        cr_assert_eq(dlt_store_unlock(&s, turns[i]), DLOCK_OK);
    }
}

Test(shared, TRY_6_two_readers_have_different_fences)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    fence = s.grant.fence + s.grant.fence_room;
    cr_assert_eq(dlt_store_try(&s, &second), DLOCK_OK);
    cr_assert_gt(s.grant.fence, fence);
}

Test(shared, REN_1_renewals_of_both_kinds_in_one_call)
{
    struct dlt_request away;
    struct dlock_lease_op ops[3] = {{.req = &reader.req}, {.req = &away.req}, {.req = &second.req}};

    dlt_store_request(&s, &away, "other", 'a', 60000);
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &away), DLOCK_OK);
    reader.req.ttl_ms = 90000;
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 1000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_gt(ops[0].grant.lease_ms, 80000);
    cr_assert_eq(ops[1].status, DLOCK_OK);
    cr_assert_eq(ops[2].status, DLOCK_LOST);
}

Test(shared, UNL_1_only_the_reader_itself)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &second), DLOCK_LOST);
    cr_assert_eq(dlt_store_unlock(&s, &writer), DLOCK_LOST);
    cr_assert_eq(dlt_store_renew(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &reader), DLOCK_LOST);
}

Test(shared, BRK_1_one_reader_or_all)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_break(&t, "job", "77777777777777777777777777777777"), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_store_break(&t, "job", "no token"), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_store_break(&t, "job", "72727272727272727272727272727272"), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &reader), DLOCK_LOST);
    cr_assert_eq(dlt_store_renew(&s, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_break(&t, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &reader), DLOCK_LOST);
    cr_assert_eq(dlt_store_renew(&s, &second), DLOCK_LOST);
    cr_assert_eq(dlt_store_break(&t, "job", NULL), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_store_try(&t, &writer), DLOCK_OK);
}

Test(shared, inspect_and_list_show_every_reader)
{
    struct dlt_holder holders[4];
    struct dlt_request away;
    size_t count = 4;

    dlt_store_request(&s, &away, "a", 'a', 60000);
    cr_assert_eq(dlt_store_try(&s, &away), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &second), DLOCK_OK);
    cr_assert_eq(dlt_store_inspect(&t, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < 2; i++) {
        cr_assert_str_eq(holders[i].name, "job");
        cr_assert_eq(holders[i].mode, DLOCK_SHARED);
        cr_assert_str_eq(holders[i].label, "host:1:test");
        cr_assert_gt(holders[i].remaining_ms, 50000);
        cr_assert_gt(holders[i].fence, 0);
        cr_assert_eq(holders[i].waiters, 0);
    }
    cr_assert_str_neq(holders[0].owner, holders[1].owner);
    count = 4;
    cr_assert_eq(dlt_store_list(&t, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 3);
    cr_assert_str_eq(holders[0].name, "a");
    cr_assert_eq(holders[0].mode, DLOCK_EXCLUSIVE);
    count = 4;
    cr_assert_eq(dlt_store_list(&t, "j", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
}

Test(shared, WAT_1_the_last_reader_to_go_wakes_a_writer)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &writer), DLOCK_BUSY);
    cr_assert_eq(dlt_store_watch(&t, &writer, 30), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_store_unlock(&s, &reader), DLOCK_OK);
    cr_assert_eq(dlt_store_watch(&t, &writer, 30000), DLOCK_BUSY);
}

/* ---- downgrade ---- */

Test(shared, downgrade_lets_readers_in_and_writers_not)
{
    struct dlt_holder holders[2];
    uint64_t fence = 0;
    size_t count = 2;

    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
    fence = s.grant.fence;
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.fence, fence);
    cr_assert_gt(s.grant.lease_ms, 59000);
    cr_assert_eq(dlt_store_inspect(&t, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(holders[0].mode, DLOCK_SHARED);
    cr_assert_eq(holders[0].fence, fence);
    cr_assert_str_eq(holders[0].label, "host:1:test");
    cr_assert_eq(dlt_store_try(&t, &other), DLOCK_BUSY);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_OK);
    cr_assert_gt(t.grant.fence, fence);
}

Test(shared, downgrade_repeated_after_a_lost_answer_is_OK)
{
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &writer), DLOCK_OK, "whatever the request calls its mode");
    writer.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_renew(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &other), DLOCK_OK);
}

Test(shared, REN_2_REN_3_downgrade_never_creates_and_never_shortens)
{
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_downgrade(&s, &other), DLOCK_LOST);
    writer.req.ttl_ms = 1000;
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_OK);
    cr_assert_eq(s.grant.lease_ms, 1000, "never more than the ttl that was asked for");
    cr_assert_eq(dlt_store_try(&s, &other), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 50000);
    cr_assert_eq(dlt_store_unlock(&s, &writer), DLOCK_OK, "as the exclusive request that it was");
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_LOST);
}

Test(shared, WAT_1_a_downgrade_wakes_a_reader)
{
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_BUSY);
    cr_assert_eq(dlt_store_downgrade(&s, &writer), DLOCK_OK);
    cr_assert_eq(dlt_store_watch(&t, &reader, 30000), DLOCK_BUSY);
    cr_assert_eq(dlt_store_try(&t, &reader), DLOCK_OK);
}
