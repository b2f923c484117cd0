/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/admin.c */
/*
 * A look at holders is two exchanges. Is a holder that goes between them reported as one that
 * nobody knows anything of? (C20, C24.) The linker puts our zk_exchange_run before that of the
 * plugin.
 */
#include "admin_fixture.h"
#include "exchange.h"

#define MOST 8

enum dlock_status __real_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err);
enum dlock_status __wrap_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err);

static struct dlt_holder holders[MOST];
static struct dlt_queued waiters[MOST];
static size_t count;
static void (*between)(void); /* before each exchange that reads nodes */
static int times;             /* so often */

enum dlock_status __wrap_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err)
{
    const enum zk_op op = zk_exchange_call(exchange, 0)->op;

    if ((op == ZK_EXISTS || op == ZK_GET) && times > 0) {
        times--;
        between();
    }
    return __real_zk_exchange_run(exchange, id, deadline_ns, err);
}

static void before_each_read(int n, void (*act)(void))
{
    between = act;
    times = n;
}

TestSuite(look, .fini = tear_down, .timeout = 170);

static void begin_held(const char *name)
{
    begin_open(name);
    a.req.label = "first";
    c.req.label = "second";
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void second_waits(void)
{
    c.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&t, &c), DLOCK_BUSY);
}

static void first_goes(void)
{
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void inspect(size_t want)
{
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, want, "%zu holders", count);
}

static void expect_second(void)
{
    cr_assert_str_eq(holders[0].owner, "63636363636363636363636363636363");
    cr_assert_str_eq(holders[0].label, "second");
    cr_assert_gt(holders[0].fence, 0);
}

Test(look, C20_the_holder_after_one_that_has_gone_is_told)
{
    begin_held("next");
    second_waits();
    before_each_read(1, first_goes);
    inspect(1);
    expect_second();
}

Test(look, C20_a_list_tells_the_holder_after_one_that_has_gone)
{
    begin_held("list");
    second_waits();
    (void)foreign("other", "_c_1b2a3c4d-0000-4000-8000-000000000003-__WRIT__", "label");
    before_each_read(1, first_goes);
    count = MOST;
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, 2);
    if (strcmp(holders[0].name, "job") != 0)
        holders[0] = holders[1];
    cr_assert_str_eq(holders[0].name, "job");
    expect_second();
}

Test(look, C20_nobody_after_one_that_has_gone)
{
    begin_held("nobody");
    before_each_read(1, first_goes);
    inspect(0);
}

Test(look, C20_a_reader_that_has_gone_is_none_of_the_readers)
{
    begin_open("readers");
    a.req.mode = b.req.mode = DLOCK_SHARED;
    b.req.label = "stays";
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    before_each_read(1, first_goes);
    inspect(1);
    cr_assert_str_eq(holders[0].label, "stays");
}

static void another_goes_and_comes(void)
{
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    a.req.label = "again";
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(look, C20_holders_that_come_and_go_during_each_look)
{
    begin_held("busy");
    before_each_read(10, another_goes_and_comes);
    inspect(1);
    cr_assert_str_eq(holders[0].label, "again");
    cr_assert_eq(times, 0);
}

Test(look, UNAVAILABLE_when_no_look_is_fast_enough_by_the_deadline)
{
    begin_held("fast");
    t.call_ms = 300;
    before_each_read(1000000, another_goes_and_comes);
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_UNAVAILABLE);
    cr_assert_eq(count, 0);
}

static void third_goes(void)
{
    cr_assert_eq(dlt_dequeue(&s, &b), DLOCK_OK, "%s", s.err.message);
}

Test(look, a_waiter_that_has_gone_is_not_shown)
{
    begin_held("waiters");
    second_waits();
    b.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    before_each_read(1, third_goes);
    count = MOST;
    cr_assert_eq(dlt_list_waiters(&t, "job", waiters, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(waiters[0].label, "second");
}
