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
