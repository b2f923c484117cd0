/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/waiter.c plugins/net/waiters.c */
/* Do all attempts of a client ask again when its subscription ends? (C19, ANY-2) */
#include "redis_kit.h"

#include <criterion/criterion.h>
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

Test(any, ANY_2_the_end_of_the_subscription_is_told_to_all)
{
    queue_up();
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
    WANT(10000, DLOCK_OK, 1u << 7 | 1u << 8);
}
