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

Test(shared, TRY_1_a_reader_is_no_writer)
{
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    reader.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_BUSY);
}

Test(shared, TRY_6_two_readers_have_different_fences)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    fence = s.grant.fence + s.grant.fence_room;
    cr_assert_eq(dlt_store_try(&s, &second), DLOCK_OK);
    cr_assert_gt(s.grant.fence, fence);
}
