/* SPDX-License-Identifier: MIT */
/* What happens when the server's wall clock steps, which it must not (failures T21, T22)? Exclusion
 * is not promised then; that the fences rise is. */
#include "redis_kit.h"
#include "skew.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static char file[] = "/tmp/dlock-skew.XXXXXX";
static struct dlt_skew skew;
static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b;

static void set_up(void)
{
    int fd = mkstemp(file);

    cr_assert_geq(fd, 0);
    (void)close(fd);
    cr_assert(dlt_skew_open(&skew, file));
    cr_assert(dlt_skew_preload(file));
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(unsetenv("LD_PRELOAD"), 0);
    cr_assert_gt(dlt_skew_reads(&skew, CLOCK_REALTIME), 0, "the server is not under the shim");
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 2000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
    dlt_skew_close(&skew);
    (void)unlink(file);
}

TestSuite(clock, .init = set_up, .fini = tear_down, .timeout = 60);

static void a_step_forward(uint32_t mode)
{
    uint64_t last = 0;

    a.req.mode = mode;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    dlt_skew_step(&skew, CLOCK_REALTIME, 3600 * NS_PER_S);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK, "the lease ended an hour early");
    cr_assert_gt(s.grant.fence, last);
    last = s.grant.fence + s.grant.fence_room;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "and the holder is told at its next renewal");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    dlt_skew_step(&skew, CLOCK_REALTIME, -7200 * NS_PER_S);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    a.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_gt(s.grant.fence, last, "C6, with the clock two hours back");
}

Test(clock, C6_a_step_forward_ends_the_lease_of_a_writer)
{
    a_step_forward(DLOCK_EXCLUSIVE);
}

Test(clock, C6_a_step_forward_ends_the_lease_of_a_reader)
{
    a_step_forward(DLOCK_SHARED);
}

Test(clock, a_step_back_keeps_dead_holders_and_break_helps)
{
    a.req.ttl_ms = 1000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_skew_step(&skew, CLOCK_REALTIME, -3600 * NS_PER_S);
    dlt_sleep_ms(1200);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 3000 * 1000);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.lease_ms, 1000, "no more than was asked for, whatever the store counts");
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
}

/* A place is lost by a step forward; a new one is to be had. */
Test(clock, a_step_forward_ends_places)
{
    b.req.ttl_ms = INT64_C(86400000);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &a), DLOCK_BUSY);
    dlt_skew_step(&skew, CLOCK_REALTIME, 3600 * NS_PER_S);
    cr_assert_eq(dlt_refresh(&s, &a), DLOCK_BUSY);
    cr_assert_eq(s.grant.flags & DLOCK_GRANT_QUEUED, 0);
    cr_assert_eq(dlt_leave(&s, &a), DLOCK_OK);
    a.req.token[0] = 'n';
    cr_assert_eq(dlt_enqueue(&s, &a), DLOCK_BUSY);
    cr_assert_neq(s.grant.flags & DLOCK_GRANT_QUEUED, 0);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_watch(&s, &a, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}
