/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/plugin.c plugins/sqlite/lease.c plugins/sqlite/name.c */
/* Tests: plugins/sqlite/layout.c plugins/sqlite/lease.c */
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

#define CAPS_ALWAYS                                                                          \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_CRASH_SAFE |       \
     DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA | \
     DLOCK_CAP_NO_TTL)

Test(slots, C16_the_durable_fence_is_announced_with_sync_full_only)
{
    cr_assert_eq(s.info.caps, CAPS_ALWAYS);
    dlt_store_close(&s);
    s.target.sync = "full";
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps, CAPS_ALWAYS | DLOCK_CAP_FENCE_DURABLE);
}
