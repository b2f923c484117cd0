/* SPDX-License-Identifier: MIT */
/* Tests: plugins/memory/queue.c plugins/memory/lease.c */
/* Do readers of memory:// share a name, keep writers out, and let waiting ones in? Time is virtual:
 * a watch that finds nothing ends at once. */
#include "memory_fixture.h"

#include <string.h>

static struct fixture f;
static struct dlt_request w, v, r, s, t; /* writers and readers */

static void reader_init(struct dlt_request *reader, unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(reader, &f.host, "job", owner, ttl_ms);
    reader->req.mode = DLOCK_SHARED;
}

static void set_up(void)
{
    fixture_init(&f, dlock_plugin_memory_hooked(), 0);
    dlt_request_init(&w, &f.host, "job", 'w', 10000);
    dlt_request_init(&v, &f.host, "job", 'v', 10000);
    reader_init(&r, 'r', 10000);
    reader_init(&s, 's', 10000);
    reader_init(&t, 't', 10000);
}

static void tear_down(void)
{
    struct dlt_request *all[] = {&w, &v, &r, &s, &t};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        f.ops->forget(f.self, &all[i]->req);
    fixture_close(&f);
}

TestSuite(readers, .init = set_up, .fini = tear_down);

static void expect_granted(struct dlt_request *request)
{
    cr_assert_eq(fixture_look(&f, request), DLOCK_OK);
}

static void expect_waiting(struct dlt_request *request)
{
    cr_assert_eq(fixture_look(&f, request), DLOCK_TIMEOUT);
}

static void expect_queued(struct dlt_request *request)
{
    cr_assert_eq(fixture_enqueue(&f, request), DLOCK_BUSY);
    cr_assert_eq(f.grant.flags, DLOCK_GRANT_QUEUED);
}

Test(readers, TRY_1_readers_share_and_exclude_writers)
{
    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &s), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &w), DLOCK_BUSY);
    cr_assert_eq(fixture_unlock(&f, &r), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &w), DLOCK_BUSY);
    cr_assert_eq(fixture_unlock(&f, &s), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &w), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &r), DLOCK_BUSY);
}

Test(readers, TRY_5_the_same_reader_is_let_in_again)
{
    uint64_t fence = 0;

    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    fence = f.grant.fence;
    expect_queued(&w);
    r.req.ttl_ms = 100;
    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK, "a waiting writer is not in its way");
    cr_assert_eq(f.grant.fence, fence);
    cr_assert_eq(f.grant.lease_ms, 100);
}

Test(readers, TRY_a_reader_does_not_pass_a_waiting_writer)
{
    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    expect_queued(&w);
    cr_assert_eq(fixture_try(&f, &s), DLOCK_BUSY);
    expect_queued(&s);
    cr_assert_eq(fixture_refresh(&f, &s), DLOCK_BUSY);
    expect_waiting(&s);
    cr_assert_eq(fixture_unlock(&f, &r), DLOCK_OK);
    expect_waiting(&s);
    expect_granted(&w);
}

Test(readers, TRY_readers_pass_a_writer_that_died_waiting)
{
    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    expect_queued(&w);
    dlt_host_advance(&f.host, 2000);
    expect_queued(&s);
    dlt_host_advance(&f.host, 999);
    expect_waiting(&s);
    dlt_host_advance(&f.host, 1);
    cr_assert_eq(fixture_look(&f, &s), DLOCK_BUSY, "worth a refresh");
    cr_assert_eq(fixture_try(&f, &t), DLOCK_OK);
    expect_granted(&s);
}

Test(readers, LEA_1_a_writer_that_leaves_lets_the_readers_behind_it_in)
{
    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    expect_queued(&w);
    expect_queued(&s);
    expect_queued(&t);
    cr_assert_eq(fixture_leave(&f, &w), DLOCK_OK);
    expect_granted(&s);
    expect_granted(&t);
}

Test(readers, UNL_1_readers_at_the_head_are_granted_together)
{
    uint64_t fence = 0;

    cr_assert_eq(fixture_try(&f, &w), DLOCK_OK);
    expect_queued(&r);
    expect_queued(&s);
    expect_queued(&v);
    expect_queued(&t);
    cr_assert_eq(fixture_unlock(&f, &w), DLOCK_OK);
    expect_granted(&r);
    cr_assert_eq(f.grant.lease_ms, 3000);
    fence = f.grant.fence + f.grant.fence_room;
    expect_granted(&s);
    cr_assert_gt(f.grant.fence, fence);
    expect_waiting(&v);
    expect_waiting(&t);
    cr_assert_eq(fixture_unlock(&f, &s), DLOCK_OK);
    expect_waiting(&v);
    cr_assert_eq(fixture_unlock(&f, &r), DLOCK_OK);
    expect_granted(&v);
    expect_waiting(&t);
    cr_assert_eq(fixture_leave(&f, &v), DLOCK_OK);
    expect_granted(&t);
}

Test(readers, REN_a_downgrade_lets_the_waiting_readers_in)
{
    uint64_t fence = 0;

    cr_assert_eq(fixture_try(&f, &w), DLOCK_OK);
    fence = f.grant.fence;
    expect_queued(&r);
    expect_queued(&v);
    expect_queued(&s);
    cr_assert_eq(fixture_renew_with(&f, &w, DLOCK_REQ_DOWNGRADE), DLOCK_OK);
    cr_assert_eq(f.grant.fence, fence);
    cr_assert_eq(f.grant.waiters, 2);
    expect_granted(&r);
    expect_waiting(&v);
    expect_waiting(&s);
    cr_assert_eq(fixture_renew_with(&f, &w, DLOCK_REQ_DOWNGRADE), DLOCK_OK, "may be repeated");
    cr_assert_eq(fixture_leave(&f, &r), DLOCK_OK);
    cr_assert_eq(fixture_unlock(&f, &w), DLOCK_OK);
    expect_granted(&v);
}

struct heard {
    unsigned calls;
    char owners[4 * sizeof(char[2 * DLOCK_TOKEN_SIZE + 1])];
    uint32_t mode, waiters;
};

static bool hear(void *arg, const struct dlock_holder *lease)
{
    struct heard *heard = arg;

    heard->calls++;
    heard->mode = lease->mode;
    heard->waiters = lease->waiters;
    (void)strncat(heard->owners, lease->owner, sizeof heard->owners - strlen(heard->owners) - 1);
    return 0;
}

Test(readers, inspect_and_list_tell_every_reader)
{
    const char *both = "7272727272727272727272727272727273737373737373737373737373737373";
    struct heard inspected = {0}, listed = {0};
    int64_t due = r.req.deadline_ns;

    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &s), DLOCK_OK);
    expect_queued(&w);
    cr_assert_eq(f.ops->inspect(f.self, r.req.name, 3, due, hear, &inspected, &f.err), DLOCK_OK);
    cr_assert_eq(inspected.calls, 2);
    cr_assert_eq(inspected.mode, DLOCK_SHARED);
    cr_assert_eq(inspected.waiters, 1);
    cr_assert_str_eq(inspected.owners, both);
    cr_assert_eq(f.ops->list(f.self, NULL, 0, due, hear, &listed, &f.err), DLOCK_OK);
    cr_assert_eq(listed.calls, 2);
    cr_assert_str_eq(listed.owners, both);
}

Test(readers, BRK_1_ends_one_reader_or_all)
{
    int64_t due = r.req.deadline_ns;

    cr_assert_eq(fixture_try(&f, &r), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &s), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &t), DLOCK_OK);
    expect_queued(&w);
    cr_assert_eq(
        f.ops->break_lock(f.self, r.req.name, 3, "73737373737373737373737373737373", due, &f.err),
        DLOCK_OK);
    cr_assert_eq(fixture_renew(&f, &s), DLOCK_LOST);
    cr_assert_eq(fixture_renew(&f, &r), DLOCK_OK);
    expect_waiting(&w);
    cr_assert_eq(
        f.ops->break_lock(f.self, r.req.name, 3, "77777777777777777777777777777777", due, &f.err),
        DLOCK_NOT_HELD, "a waiter is no holder");
    cr_assert_eq(f.ops->break_lock(f.self, r.req.name, 3, NULL, due, &f.err), DLOCK_OK);
    cr_assert_eq(fixture_renew(&f, &r), DLOCK_LOST);
    cr_assert_eq(fixture_renew(&f, &t), DLOCK_LOST);
    expect_granted(&w);
}
