/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/plugin.c plugins/sqlite/lease.c plugins/sqlite/name.c */
/* Tests: plugins/sqlite/statements.c plugins/sqlite/renew.c */
/* Does one session keep the clauses of plugin.h? */
#include "store_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static char directory[64], path[64];
static struct dlt_store s;
static struct dlt_request a, b;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(slots, .init = set_up, .fini = tear_down);

Test(slots, TRY_1_one_of_two)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.lease_ms, 59000);
    cr_assert_leq(s.grant.lease_ms, 60000);
    cr_assert_eq(s.grant.fence_room, 31);
    cr_assert_eq(s.grant.waiters, 0);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

Test(slots, TRY_3_busy_says_how_long_and_leaves_err)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 59000);
    cr_assert_leq(s.grant.holder_ms, 60000);
    cr_assert_eq(s.err.message[0], '\0');
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "the second look is another path");
    cr_assert_gt(s.grant.holder_ms, 59000);
}

Test(slots, TRY_2_the_lease_ends_by_itself_and_not_before)
{
    int64_t taken = dlt_host_now(&s.host);

    a.req.ttl_ms = 150;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    while (dlt_store_try(&s, &b) == DLOCK_BUSY)
        dlt_sleep_ms(1);
    cr_assert_gt(s.grant.fence, 0, "%s", s.err.message);
    cr_assert_geq(dlt_host_now(&s.host) - taken, 150 * DLT_NS_PER_MS);
    cr_assert(dlt_host_within(&s.host, taken, 5000), "%s", dlt_within_text());
}

Test(slots, TRY_5_again_with_the_same_token_never_shortens)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    a.req.ttl_ms = 1000;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.fence, fence);
    cr_assert_eq(s.grant.lease_ms, 1000, "never more than the ttl that was asked for");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 50000);
    a.req.ttl_ms = 120000;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.lease_ms, 110000);
}

Test(slots, TRY_6_the_fence_rises)
{
    uint64_t last = 0;

    for (int i = 0; i < 50; i++) {
        struct dlt_request *r = i % 2 == 0 ? &a : &b;

        cr_assert_eq(dlt_store_try(&s, r), DLOCK_OK);
        cr_assert_gt(s.grant.fence, last);
        last = s.grant.fence + s.grant.fence_room;
        cr_assert_eq(dlt_store_unlock(&s, r), DLOCK_OK);
    }
}

Test(slots, TRY_6_UNL_3_the_fence_rises_across_close_and_expiry)
{
    uint64_t last = 0;

    a.req.ttl_ms = 1;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    last = s.grant.fence;
    dlt_sleep_ms(2);
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, last);
}

Test(slots, TRY_7_names_are_bytes)
{
    static const unsigned char nul[] = {'j', 'o', 'b', 0, 'x'};
    static const unsigned char other_nul[] = {'j', 'o', 'b', 0, 'y'};
    static const unsigned char high[] = {0xff, 0xfe, 0x80};
    unsigned char longest[255];

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    b.req.name = nul;
    b.req.name_len = sizeof nul;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    b.req.token[0] = 1;
    b.req.name = other_nul;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    b.req.name = (const unsigned char *)"JOB";
    b.req.name_len = 3;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    b.req.name = high;
    b.req.name_len = sizeof high;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    memset(longest, '%', sizeof longest);
    b.req.name = longest;
    b.req.name_len = sizeof longest;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    b.req.token[0] = 2;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

Test(slots, REN_2_REN_3_renew)
{
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_LOST, "never creates");
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &b), DLOCK_LOST);
    a.req.ttl_ms = 1000;
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.lease_ms, 1000, "never more than the ttl that was asked for");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 50000, "never shortens");
    a.req.ttl_ms = 90000;
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.lease_ms, 80000);
}

Test(slots, REN_2_what_ran_out_is_lost_though_nobody_took_it)
{
    a.req.ttl_ms = 20;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    dlt_sleep_ms(25);
    a.req.ttl_ms = 60000;
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
}

Test(slots, REN_1_each_has_a_status_of_its_own)
{
    struct dlt_request c;
    struct dlock_lease_op ops[3] = {{.req = &a.req}, {.req = &b.req}, {.req = &c.req}};

    dlt_store_request(&s, &c, "other", 'c', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_OK);
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 1000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_LOST);
    cr_assert_eq(ops[2].status, DLOCK_OK);
    cr_assert_gt(ops[2].grant.lease_ms, 59000);
}

Test(slots, UNL_1_only_the_holder)
{
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &b), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
}

Test(slots, BRK_1_break)
{
    cr_assert_eq(dlt_store_break(&s, "job", NULL), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_break(&s, "job", "62626262626262626262626262626262"), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_store_break(&s, "job", "61616161616161616161616161616161"), DLOCK_OK);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_store_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &b), DLOCK_LOST);
}

Test(slots, inspect_shows_the_holder)
{
    struct dlt_holder holder;
    uint64_t fence = 0;
    size_t count = 1;

    cr_assert_eq(dlt_store_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 0);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    dlt_sleep_ms(20);
    count = 1;
    cr_assert_eq(dlt_store_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.name, "job");
    cr_assert_str_eq(holder.owner, "61616161616161616161616161616161");
    cr_assert_str_eq(holder.label, "host:1:test");
    cr_assert_eq(holder.fence, fence);
    cr_assert_eq(holder.waiters, 0);
    cr_assert_eq(holder.mode, DLOCK_EXCLUSIVE);
    cr_assert_geq(holder.held_ms, 20);
    cr_assert_lt(holder.held_ms, 10000);
    cr_assert_gt(holder.remaining_ms, 50000);
    cr_assert_leq(holder.remaining_ms, 59980);
}

Test(slots, list_shows_live_holders_by_prefix)
{
    static const char *const names[] = {"a", "b1", "b2", "b\xff", "c"};
    struct dlt_holder holders[8];
    struct dlt_request r[5];
    size_t count = 8;

    for (size_t i = 0; i < 5; i++) {
        dlt_store_request(&s, &r[i], names[i], 'r', i == 2 ? 1 : 60000);
        cr_assert_eq(dlt_store_try(&s, &r[i]), DLOCK_OK);
    }
    dlt_sleep_ms(3);
    cr_assert_eq(dlt_store_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 4, "b2 has run out");
    count = 8;
    cr_assert_eq(dlt_store_list(&s, "b", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(holders[0].name, "b1");
    cr_assert_str_eq(holders[1].name, "b\xff");
    count = 1;
    cr_assert_eq(dlt_store_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1, "the callback stops it");
}

#define CAPS_ALWAYS                                                                    \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_CRASH_SAFE | \
     DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA)

Test(slots, C16_the_durable_fence_is_announced_with_sync_full_only)
{
    cr_assert_eq(s.info.caps, CAPS_ALWAYS);
    dlt_store_close(&s);
    s.target.sync = "full";
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps, CAPS_ALWAYS | DLOCK_CAP_FENCE_DURABLE);
}
