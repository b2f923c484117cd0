/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/waiter.c plugins/net/waiters.c */
/* Does one thread hear of the grants of all attempts of a client? (C19, ANY, INT-4) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session one, two; /* of two clients */
static struct dlt_request a, b, c;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&one, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&two, &server), DLOCK_OK);
    dlt_request(&one, &a, "job", 'a', 60000);
    dlt_request(&two, &b, "job", 'b', 60000);
    dlt_request(&two, &c, "other", 'c', 60000);
    b.req.waiter = 7;
    c.req.waiter = 8;
}

static void tear_down(void)
{
    struct dlt_request *all[] = {&b, &c};

    for (size_t i = 0; i < 2; i++)
        if (two.self != NULL)
            two.ops->forget(two.self, &all[i]->req);
    dlt_session_close(&one);
    dlt_session_close(&two);
    dlt_redis_stop(&server);
}

TestSuite(any, .init = set_up, .fini = tear_down, .timeout = 60);

/* As dlt_watch, for all. Returns the numbers as bits; 0: *status is not OK. */
static unsigned wait_any(int64_t ms, enum dlock_status *status)
{
    uint32_t numbers[4];
    size_t count = 4;
    unsigned bits = 0;
    int64_t deadline_ns = dlt_host_in(two.shared, ms);

    *status = two.ops->wait_any(two.self, numbers, &count, deadline_ns, &two.err);
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
static void queue_up(void)
{
    dlt_request(&one, &a, "other", 'o', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    dlt_request(&one, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    WANT(10000, DLOCK_OK, 1u << 7 | 1u << 8); /* the subscription begins: both ask again */
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_refresh(&two, &c), DLOCK_BUSY);
    WANT(50, DLOCK_TIMEOUT, 0);
}

Test(any, ANY_1_the_one_that_was_granted_is_told)
{
    queue_up();
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    WANT(10000, DLOCK_OK, 1u << 7);
    WANT(20, DLOCK_TIMEOUT, 0);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK, "%s", two.err.message);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
}

Test(any, ANY_1_what_is_there_is_told_after_the_deadline_too)
{
    queue_up();
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    for (int i = 0; i < 1000; i++) {
        enum dlock_status status = DLOCK_INTERNAL;

        if (wait_any(-1, &status) == 1u << 7)
            return;
        cr_assert_eq(status, DLOCK_TIMEOUT);
        dlt_sleep_ms(10);
    }
    cr_assert_fail("the grant was not told in 10 s");
}

Test(any, ANY_2_what_came_before_the_next_request_is_void)
{
    queue_up();
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    dlt_sleep_ms(300);
    cr_assert_eq(dlt_refresh(&two, &c), DLOCK_BUSY); /* reads the message of the other one */
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK);
    WANT(20, DLOCK_TIMEOUT, 0);
}

Test(any, a_forgotten_attempt_is_not_reported)
{
    queue_up();
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    dlt_sleep_ms(300);
    cr_assert_eq(dlt_refresh(&two, &c), DLOCK_BUSY); /* reads the message of the other one */
    two.ops->forget(two.self, &b.req);
    WANT(20, DLOCK_TIMEOUT, 0);
}

Test(any, an_attempt_without_a_queue_entry_is_polled)
{
    dlt_request(&one, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&two, &b), DLOCK_BUSY);
    cr_assert_neq(two.grant.flags & DLOCK_GRANT_UNREPORTED, 0);
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_eq(two.grant.flags & DLOCK_GRANT_UNREPORTED, 0);
}

Test(any, ANY_2_the_end_of_the_subscription_is_told_to_all)
{
    queue_up();
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
    WANT(10000, DLOCK_OK, 1u << 7 | 1u << 8);
}

Test(any, INT_4_an_interrupt_ends_the_next_one_once)
{
    queue_up();
    two.ops->interrupt(two.self, NULL);
    WANT(10000, DLOCK_CANCELED, 0);
    WANT(20, DLOCK_TIMEOUT, 0);
}

static void *interrupt_main(void *arg)
{
    (void)arg;
    dlt_sleep_ms(100);
    two.ops->interrupt(two.self, NULL);
    return NULL;
}

Test(any, INT_4_an_interrupt_ends_the_one_that_runs)
{
    pthread_t thread;

    queue_up();
    cr_assert_eq(pthread_create(&thread, NULL, interrupt_main, NULL), 0);
    WANT(20000, DLOCK_CANCELED, 0);
    (void)pthread_join(thread, NULL);
}

/* A client has a thread in watch and a thread in wait_any. The leader reads for both. */
Test(any, a_thread_that_watches_and_one_for_all_hear_their_own)
{
    struct dlt_session beside;
    struct dlt_request d, e;

    queue_up();
    dlt_session_join(&beside, &two);
    dlt_request(&beside, &d, "third", 'd', 60000);
    dlt_request(&one, &e, "third", 'e', 60000);
    cr_assert_eq(dlt_try(&one, &e), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&beside, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &e), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&beside, &d, 10000), DLOCK_OK, "%s", beside.err.message);
    WANT(10000, DLOCK_OK, 1u << 7);
    two.ops->forget(two.self, &d.req);
}
