/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_watch.c plugins/postgresql/row_listener.c plugins/net/waiters.c */
/* Does one thread hear of the grants of all attempts of a client? (C19, ANY, INT-4) */
#include "pgbouncer_server.h"
#include "wait_fixture.h"

static struct dlt_pgbouncer bouncer;
static struct dlt_request o; /* of `one`, for the second name */

static void set_up(void)
{
    cr_assert(dlt_postgres_start(&server, log_settings), "%s", server.why);
    open_at(server.address);
    dlt_request(&also, &c, "other", 'c', 60000);
    dlt_request(&one, &o, "other", 'o', 60000);
    b.req.waiter = 7;
    c.req.waiter = 8;
}

static void tear_down(void)
{
    close_all();
    dlt_pgbouncer_stop(&bouncer);
    dlt_postgres_stop(&server);
}

TestSuite(pg_any, .init = set_up, .fini = tear_down, .timeout = 120);

/* As watch, for all. Returns the numbers as bits; 0: *status is not OK. */
static unsigned wait_any(int64_t ms, enum dlock_status *status)
{
    uint32_t numbers[4];
    size_t count = 4;
    unsigned bits = 0;

    two.err = (struct dlock_error)DLOCK_ERROR_INIT;
    *status = two.ops->wait_any(two.self, numbers, &count, dlt_host_in(two.shared, ms), &two.err);
    for (size_t i = 0; *status == DLOCK_OK && i < count; i++)
        bits |= 1u << numbers[i];
    return bits;
}

#define WANT(ms, want_status, want_bits)                                                \
    do {                                                                                \
        enum dlock_status status_ = DLOCK_INTERNAL;                                     \
        unsigned bits_ = wait_any(ms, &status_);                                        \
        cr_assert_eq(status_, want_status, "%d: %s", (int)status_, two.err.message);    \
        cr_assert_eq(bits_, (unsigned)(want_bits), "attempts with the bits %x", bits_); \
    } while (0)

/* Both wait in the queue, and messages arrive. */
static void both_wait(void)
{
    cr_assert_eq(dlt_try(&one, &o), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&two, &b);
    queue(&also, &c);
    WANT(20000, DLOCK_OK, 1u << 7 | 1u << 8); /* the client listens now: both ask again */
    cr_assert_eq(refresh(&two, &b), DLOCK_BUSY);
    cr_assert_eq(two.grant.flags & DLOCK_GRANT_UNREPORTED, 0);
    cr_assert_eq(refresh(&also, &c), DLOCK_BUSY);
    WANT(50, DLOCK_TIMEOUT, 0);
}

Test(pg_any, ANY_2_the_end_of_the_connection_is_told_to_all)
{
    both_wait();
    (void)dlt_postgres_ask(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                    " WHERE query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()");
    WANT(20000, DLOCK_OK, 1u << 7 | 1u << 8);
}

static void *interrupt_main(void *arg)
{
    (void)arg;
    dlt_sleep_ms(100);
    two.ops->interrupt(two.self, NULL);
    return NULL;
}

/* A connection that an interrupt has ended says nothing of the names: nobody has to ask again. */
Test(pg_any, ANY_1_an_interrupted_connection_wakes_nobody)
{
    pthread_t thread;

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&two, &b);
    dlt_postgres_pause(&server, true);
    cr_assert_eq(pthread_create(&thread, NULL, interrupt_main, NULL), 0);
    WANT(60000, DLOCK_CANCELED, 0);
    (void)pthread_join(thread, NULL);
    WANT(-1, DLOCK_TIMEOUT, 0);
    dlt_postgres_pause(&server, false);
}

static void *unlock_main(void *arg)
{
    dlt_sleep_ms(200);
    return dlt_unlock(arg, &o) == DLOCK_OK ? NULL : arg;
}

/* The client that unlocks is that of the waiter: no message comes, and the leader is told. */
Test(pg_any, ANY_1_a_grant_by_a_thread_of_the_same_client)
{
    struct dlt_session near;
    pthread_t thread;
    void *failed = NULL;

    both_wait();
    cr_assert_eq(dlt_unlock(&one, &o), DLOCK_OK);
    WANT(20000, DLOCK_OK, 1u << 8);
    cr_assert_eq(refresh(&also, &c), DLOCK_OK, "%s", also.err.message);
    cr_assert_eq(dlt_unlock(&also, &c), DLOCK_OK);
    join(&near, &two);
    dlt_request(&near, &o, "other", 'p', 60000);
    cr_assert_eq(dlt_try(&near, &o), DLOCK_OK, "%s", near.err.message);
    dlt_request(&also, &c, "other", 'q', 60000);
    c.req.waiter = 9;
    queue(&also, &c);
    cr_assert_eq(pthread_create(&thread, NULL, unlock_main, &near), 0);
    WANT(20000, DLOCK_OK, 1u << 9);
    (void)pthread_join(thread, &failed);
    cr_assert_null(failed);
    dlt_session_close(&near);
}

/* Nothing can be heard behind such a pooler: once that is known, core polls. */
Test(pg_any, ANY_4_behind_a_pooler_of_transactions_attempts_are_left_to_core)
{
    static char where[32];

    close_all();
    cr_assert(dlt_pgbouncer_start(&bouncer, &server, "transaction", NULL), "%s", bouncer.why);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", bouncer.port);
    open_at(where);
    b.req.waiter = 7;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&two, &b);
    WANT(20000, DLOCK_OK, 1u << 7); /* the test of the pooler is over */
    cr_assert_eq(refresh(&two, &b), DLOCK_BUSY);
    cr_assert_neq(two.grant.flags & DLOCK_GRANT_UNREPORTED, 0);
    WANT(50, DLOCK_TIMEOUT, 0);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(refresh(&two, &b), DLOCK_OK, "%s", two.err.message);
}
