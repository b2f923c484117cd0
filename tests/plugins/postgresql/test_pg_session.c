/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/session_lock.c */
/* Does strategy=session keep the clauses of plugin.h, on a server that behaves? */
#include "session_fixture.h"

/* A test with tables of its own. */
#define CASE(name, prefix)  \
    static void name(void); \
    Test(session, name)     \
    {                       \
        begin(prefix);      \
        name();             \
        end();              \
    }                       \
    static void name(void)

CASE(OPN_5_capabilities_follow_from_the_strategy, "caps_")
{
    cr_assert_eq(s.info.caps, DLOCK_CAP_RWLOCK | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE |
                                  DLOCK_CAP_SESSION | DLOCK_CAP_NATIVE_WAIT);
}

CASE(TRY_6_UNL_3_the_fence_rises_without_the_clock, "count_")
{
    uint64_t ahead = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    ahead = s.grant.fence + 1000000000000U;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_postgres_ask(&server, "UPDATE count_session SET fence = %llu",
                           (unsigned long long)ahead);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(t.grant.fence, ahead + 32);
}

/* Another name has the number that the hash gives: the next number is taken. */
CASE(TRY_7_two_names_with_one_number_are_two_locks, "same_")
{
    struct dlt_request other;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_postgres_ask(&server, "UPDATE same_session SET name = 'other'");
    dlt_request(&u, &other, "other", 'o', 60000);
    cr_assert_eq(dlt_try(&u, &other), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(
        dlt_postgres_ask(&server, "SELECT max(number) - min(number), count(*) FROM same_session"),
        "1 2");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    other.req.token[0] = 'p';
    cr_assert_eq(dlt_try(&t, &other), DLOCK_BUSY);
}

CASE(C13_a_reader_does_not_pass_a_writer_that_waits, "pass_")
{
    struct waiter writer = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct waiter reader = {.session = &u, .request = &c, .timeout_ms = 20000};

    a.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&writer);
    await_waiters("pass_", "1");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "a writer waits");
    waiter_start(&reader);
    await_waiters("pass_", "2");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&writer), DLOCK_OK, "%s", t.err.message);
    await_waiters("pass_", "1");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(waiter_join(&reader), DLOCK_OK, "%s", u.err.message);
    cr_assert_geq(reader.done_ns, writer.done_ns);
}

CASE(rows_of_dead_readers_go, "dead_")
{
    a.req.mode = b.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    dlt_session_close(&t);
    await_locks("dead_", "mode = 'ShareLock'", "1");
    (void)dlt_postgres_ask(&server,
                           "UPDATE dead_session_reader SET since = since - interval '2 days'");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM dead_session_reader"), "2",
                     "the dead reader's is gone, and no other");
    dlt_session_close(&u);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    reopen(&u);
    await_locks("dead_", "mode = 'ShareLock'", "0");
    a.req.mode = DLOCK_EXCLUSIVE;
    cr_assert_eq(dlt_try(&u, &a), DLOCK_OK, "%s", u.err.message);
    cr_assert_str_eq(dlt_postgres_ask(&server, "SELECT count(*) FROM dead_session_reader"), "0");
}

CASE(downgrade_and_break_are_unsupported_and_say_why, "brk_")
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_UNSUPPORTED);
    cr_assert(strstr(t.err.message, "pg_terminate_backend") != NULL, "%s", t.err.message);
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNSUPPORTED);
    a.req.flags = 0;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* A pooler gives the server's process of a dead reader to the next client. */
CASE(inspect_shows_a_reader_once, "reused_")
{
    struct dlt_holder holders[4];
    size_t count = 4;

    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    (void)dlt_postgres_ask(&server,
                           "INSERT INTO reused_session_reader SELECT name, 'dead', pid, since - "
                           "interval '1 hour', lease_ms FROM reused_session_reader");
    cr_assert_eq(dlt_inspect(&u, "job", holders, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].owner, "61616161616161616161616161616161");
}

CASE(inspect_counts_the_waiters, "waits_")
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("waits_", "1");
    cr_assert_eq(dlt_inspect(&u, "job", &holder, &count), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(holder.waiters, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", t.err.message);
}

CASE(LCK_2_the_server_queues_in_the_order_of_arrival, "queue_")
{
    struct waiter first = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 20000};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&first);
    await_waiters("queue_", "1");
    waiter_start(&second);
    await_waiters("queue_", "2");
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&first), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, s.grant.fence + 31);
    cr_assert_geq(t.grant.since_ns, begin_ns, "the lease does not count from before the wait");
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    await_waiters("queue_", "1");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(waiter_join(&second), DLOCK_OK, "%s", u.err.message);
    cr_assert_gt(u.grant.fence, t.grant.fence + 31);
}

CASE(INT_2_an_interrupt_ends_the_wait_at_the_server, "int_")
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("int_", "1");
    begin_ns = dlt_host_now(&s.host);
    dlt_interrupt(&t, &b);
    cr_assert_eq(waiter_join(&w), DLOCK_CANCELED, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    await_waiters("int_", "0");
    reopen(&t);
    waiter_start(&w);
    cr_assert_eq(waiter_join(&w), DLOCK_CANCELED, "sticky");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

/* The machine was suspended: its clock has gone on, and those of the kernel's waits have not. */
CASE(C8_a_suspend_in_the_middle_of_a_wait, "suspend_")
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    waiter_start(&w);
    await_waiters("suspend_", "1");
    dlt_host_advance(&s.host, 61000);
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    await_waiters("suspend_", "0");
}

/* When the name is free, counted from begin_ns. */
static int64_t free_after_ms(int64_t begin_ns)
{
    enum dlock_status status = DLOCK_BUSY;

    while (status == DLOCK_BUSY && ms_since(begin_ns) < 20000) {
        dlt_sleep_ms(5);
        status = dlt_try(&t, &b);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", t.err.message);
    return ms_since(begin_ns);
}

/* A holder that says nothing keeps the name for its lease, and not longer. */
CASE(TRY_2_the_server_ends_a_holder_that_is_silent, "silent_")
{
    const int64_t begin_ns = dlt_host_now(&s.host);
    int64_t took_ms = 0;

    a.req.ttl_ms = 700;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.lease_ms, 700);
    took_ms = free_after_ms(begin_ns);
    cr_assert_geq(took_ms, 700);
    cr_assert(dlt_took_within(took_ms, 10000), "%s", dlt_within_text());
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
}

CASE(TRY_2_REN_3_the_lease_counts_from_the_last_ping, "ping_")
{
    int64_t begin_ns = 0, took_ms = 0;

    a.req.ttl_ms = 4000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_sleep_ms(400);
    a.req.ttl_ms = 100; /* shorter than what is left */
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.lease_ms, 100);
    took_ms = free_after_ms(begin_ns);
    cr_assert_geq(took_ms, 4000, "never shortened");
    cr_assert(dlt_took_within(took_ms, 10000), "%s", dlt_within_text());
}

/* A session that holds nothing may be idle for long. */
CASE(a_session_without_a_lock_is_not_ended, "idle_")
{
    a.req.ttl_ms = 3000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_sleep_ms(4000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}
