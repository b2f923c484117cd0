/* SPDX-License-Identifier: MIT */
/* Tests: plugins/memory/queue.c */
/* Does the queue of memory:// grant to whom it must, and to nobody else? Time is virtual: a watch
 * that finds nothing ends at once. */
#include "memory_fixture.h"

static struct fixture f;
static struct dlt_request a, b, c, d;

static void set_up(void)
{
    fixture_init(&f, dlock_plugin_memory_hooked(), 0);
    dlt_request_init(&a, &f.host, "job", 'a', 10000);
    dlt_request_init(&b, &f.host, "job", 'b', 10000);
    dlt_request_init(&c, &f.host, "job", 'c', 10000);
    dlt_request_init(&d, &f.host, "job", 'd', 10000);
}

static void tear_down(void)
{
    f.ops->forget(f.self, &b.req);
    f.ops->forget(f.self, &c.req);
    f.ops->forget(f.self, &d.req);
    fixture_close(&f);
}

TestSuite(queue, .init = set_up, .fini = tear_down);

static void expect_queued(struct dlt_request *r)
{
    cr_assert_eq(fixture_enqueue(&f, r), DLOCK_BUSY);
    cr_assert_eq(f.grant.flags, DLOCK_GRANT_QUEUED);
}

/* a holds, and b and c wait in this order. */
static void line_up(void)
{
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    expect_queued(&b);
    expect_queued(&c);
}

static void expect_granted(struct dlt_request *r)
{
    cr_assert_eq(fixture_look(&f, r), DLOCK_OK);
}

static void expect_waiting(struct dlt_request *r)
{
    cr_assert_eq(fixture_look(&f, r), DLOCK_TIMEOUT);
}

/* A refresh that found no place. */
static void expect_over(struct dlt_request *r)
{
    cr_assert_eq(fixture_refresh(&f, r), DLOCK_BUSY);
    cr_assert_eq(f.grant.flags, 0);
}

Test(queue, WAT_2_a_grant_before_the_answer_is_not_missed)
{
    struct memory_fault lost = {.kind = MEMORY_LOST_REPLY};

    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(memory_hooks_fault("x", MEMORY_TRYLOCK, &lost), 0);
    cr_assert_eq(fixture_enqueue(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    expect_granted(&b);
}

Test(queue, TRY_1_a_grant_excludes)
{
    line_up();
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 2999);
    cr_assert_eq(fixture_try(&f, &d), DLOCK_BUSY);
    cr_assert_eq(f.grant.holder_ms, 1);
    cr_assert_eq(fixture_renew(&f, &b), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 10000);
}

Test(queue, TRY_5_a_granted_token_is_let_in_and_nothing_is_shortened)
{
    uint64_t fence = 0;

    line_up();
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 1000);
    b.req.ttl_ms = 100;
    cr_assert_eq(fixture_refresh(&f, &b), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 100, "never more than the ttl that was asked for");
    fence = f.grant.fence;
    b.req.ttl_ms = 10000;
    cr_assert_eq(fixture_enqueue(&f, &b), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 10000);
    cr_assert_eq(f.grant.fence, fence);
    b.req.ttl_ms = 100;
    cr_assert_eq(fixture_renew(&f, &b), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 100);
    dlt_host_advance(&f.host, 9999);
    cr_assert_eq(fixture_try(&f, &d), DLOCK_BUSY);
}

/* [TRY-2], C4: a waiter that dies at the grant costs the others its ttl, if that is shorter. */
Test(queue, TRY_2_a_grant_lasts_no_longer_than_the_ttl)
{
    b.req.ttl_ms = 500;
    line_up();
    dlt_host_advance(&f.host, 1000);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    expect_granted(&b);
    cr_assert_eq(f.grant.lease_ms, 500);
    dlt_host_advance(&f.host, 499);
    cr_assert_eq(fixture_refresh(&f, &c), DLOCK_BUSY);
    cr_assert_eq(f.grant.holder_ms, 1);
    dlt_host_advance(&f.host, 1);
    cr_assert_eq(fixture_refresh(&f, &c), DLOCK_OK);
}

Test(queue, TRY_a_place_ends_at_its_time_and_not_before)
{
    line_up();
    f.host.now_ns += 3000 * DLT_NS_PER_MS - 1;
    expect_waiting(&b);
    f.host.now_ns += 1;
    cr_assert_eq(fixture_look(&f, &b), DLOCK_BUSY, "worth a refresh, which will say so");
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &d), DLOCK_OK);
}

Test(queue, TRY_nothing_shortens_a_place)
{
    struct fixture g = f;

    line_up();
    fixture_waiter_lease_ms = 500;
    cr_assert_eq(fixture_open(&g), DLOCK_OK);
    dlt_host_advance(&f.host, 1000);
    cr_assert_eq(fixture_refresh(&g, &b), DLOCK_BUSY);
    cr_assert_eq(g.grant.lease_ms, 2000);
    dlt_host_advance(&f.host, 1999);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    expect_granted(&b);
    cr_assert_eq(f.grant.lease_ms, 500);
    fixture_close(&g);
}

Test(queue, TRY_the_waiter_lease_is_an_option)
{
    fixture_close(&f);
    fixture_waiter_lease_ms = 700;
    cr_assert_eq(fixture_open(&f), DLOCK_OK);
    line_up();
    cr_assert_eq(f.grant.lease_ms, 700);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    expect_granted(&b);
    cr_assert_eq(f.grant.lease_ms, 700);
    dlt_host_advance(&f.host, 699);
    cr_assert_eq(fixture_try(&f, &d), DLOCK_BUSY);
    cr_assert_eq(f.grant.holder_ms, 1);
}

Test(queue, TRY_the_head_that_asks_gets_its_ttl)
{
    a.req.ttl_ms = 500;
    line_up();
    dlt_host_advance(&f.host, 500);
    cr_assert_eq(fixture_look(&f, &b), DLOCK_BUSY, "the holder is gone: worth a refresh");
    expect_waiting(&c);
    cr_assert_eq(fixture_refresh(&f, &b), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 10000);
}

Test(queue, REN_2_whoever_finds_a_lease_expired_passes_it_on)
{
    a.req.ttl_ms = 500;
    line_up();
    dlt_host_advance(&f.host, 500);
    cr_assert_eq(fixture_renew(&f, &a), DLOCK_LOST);
    expect_granted(&b);
}

Test(queue, DEQ_1_leave_of_a_granted_token_passes_it_on)
{
    line_up();
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_OK);
    expect_granted(&c);
    expect_over(&b);
}

Test(queue, WAT_4_a_grant_that_ran_out_is_not_delivered)
{
    line_up();
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 2000);
    cr_assert_eq(fixture_refresh(&f, &c), DLOCK_BUSY);
    dlt_host_advance(&f.host, 1000);
    cr_assert_eq(fixture_look(&f, &b), DLOCK_BUSY);
    cr_assert_eq(fixture_refresh(&f, &c), DLOCK_OK);
    expect_over(&b);
    expect_queued(&b);
    expect_waiting(&b);
}

Test(queue, INT_2_a_grant_before_the_interrupt_is_told)
{
    line_up();
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    f.ops->interrupt(f.self, &b.req);
    expect_granted(&b);
}

Test(queue, INT_2_a_grant_after_the_interrupt_is_not)
{
    line_up();
    f.ops->interrupt(f.self, &b.req);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    f.ops->interrupt(f.self, &b.req);
    cr_assert_eq(fixture_look(&f, &b), DLOCK_CANCELED);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_OK);
    expect_granted(&c);
}
