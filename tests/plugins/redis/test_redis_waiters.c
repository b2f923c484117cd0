/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/inspect.c */
/* Does list_waiters show each live waiter of a name once, in the order of the queue? (C13) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define MANY 450 /* more than two pages */

static struct dlt_redis server;
static struct dlt_session s, t;
static struct dlt_request a, b, c;
static struct dlt_queued waiters[MANY + 10];
static size_t count;

/* Entries of t last for half a second, those of s longer than any test. */
static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    cr_assert_eq(dlt_session_start(&t, &server), DLOCK_OK);
    dlt_session_close(&s);
    dlt_session_close(&t);
    dlt_session_option(&s, "waiter_lease", "60000");
    dlt_session_option(&t, "waiter_lease", "500");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
    dlt_request(&s, &c, "job", 'c', 60000);
}

static void tear_down(void)
{
    struct dlt_request *all[] = {&a, &b, &c};

    for (size_t i = 0; i < 3; i++)
        if (s.self != NULL)
            s.ops->forget(s.self, &all[i]->req);
    dlt_session_close(&s);
    dlt_session_close(&t);
    dlt_redis_stop(&server);
}

TestSuite(waiters, .init = set_up, .fini = tear_down, .timeout = 120);

static void shown(size_t want)
{
    count = sizeof waiters / sizeof waiters[0];
    cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, want, "%zu waiters, want %zu", count, want);
}

Test(waiters, in_order_with_mode_and_label)
{
    shown(0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    shown(0);
    b.req.label = "web1:4242:a label with spaces";
    c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY);
    shown(2);
    cr_assert_str_eq(waiters[0].owner, "62626262626262626262626262626262");
    cr_assert_str_eq(waiters[0].label, "web1:4242:a label with spaces");
    cr_assert_eq(waiters[0].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(waiters[0].position, 0);
    cr_assert_str_eq(waiters[1].owner, "63636363636363636363636363636363");
    cr_assert_eq(waiters[1].mode, DLOCK_SHARED);
    cr_assert_eq(waiters[1].position, 1);
    cr_assert_eq(dlt_leave(&s, &b), DLOCK_OK);
    shown(1);
    cr_assert_eq(waiters[0].position, 0);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK); /* granted to c */
    shown(0);
}

/* dlock 0.2 counted: such a number, and one that lies ahead of the server's clock, tells no time.
 */
Test(waiters, know_since_when_they_are_queued)
{
    static const char entry[] = "62626262626262626262626262626262";

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    dlt_sleep_ms(200);
    cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY, "a refresh");
    shown(2);
    cr_assert_geq(waiters[0].waited_ms, waiters[1].waited_ms + 199);
    cr_assert_geq(waiters[1].waited_ms, 0);
    (void)dlt_redis_ask(&server, "ZADD dl:{job}:q XX 7 %s", entry);
    shown(2);
    cr_assert_eq(waiters[0].waited_ms, -1);
    cr_assert_geq(waiters[1].waited_ms, 0);
    (void)dlt_redis_ask(&server, "ZADD dl:{job}:q XX 8000000000000000 %s", entry);
    shown(2);
    cr_assert_geq(waiters[0].waited_ms, 0);
    cr_assert_eq(waiters[1].waited_ms, -1);
}

/* After a client of 0.2, and after a step of the clock, a new waiter is the last one all the same.
 */
Test(waiters, go_behind_those_that_another_release_numbered)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "ZADD dl:{job}:q XX 8000000000000000 %s",
                        "62626262626262626262626262626262");
    (void)dlt_redis_ask(&server, "HSET dl:{job}:w n 8000000000000000");
    cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY);
    shown(2);
    cr_assert_str_eq(waiters[1].owner, "63636363636363636363636363636363");
}

Test(waiters, of_a_semaphore)
{
    a.req.limit = b.req.limit = c.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY);
    shown(1);
    cr_assert_eq(waiters[0].mode, DLOCK_EXCLUSIVE);
}

Test(waiters, whose_entry_has_ended_are_not_shown)
{
    struct dlt_request dead;

    dlt_request(&t, &dead, "job", 'd', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&t, &dead), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    dlt_sleep_ms(600);
    shown(1);
    cr_assert_str_eq(waiters[0].owner, "62626262626262626262626262626262");
    cr_assert_eq(waiters[0].position, 0);
    t.ops->forget(t.self, &dead.req);
}

static void many_queue_up(struct dlt_request *request)
{
    for (int i = 0; i < MANY; i++) {
        dlt_request(&s, request, "job", 'w', 60000);
        request->req.token[0] = (unsigned char)(i / 256);
        request->req.token[1] = (unsigned char)i;
        cr_assert_eq(dlt_enqueue(&s, request), DLOCK_BUSY, "%s", s.err.message);
        s.ops->forget(s.self, &request->req);
    }
}

Test(waiters, more_than_one_answer_has)
{
    struct dlt_request waiter;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    many_queue_up(&waiter);
    shown(MANY);
    for (size_t i = 0; i < count; i++) {
        char begin[24];

        (void)snprintf(begin, sizeof begin, "%04zx", i);
        cr_assert_eq(strncmp(waiters[i].owner, begin, 4), 0, "%zu is %s", i, waiters[i].owner);
        cr_assert_eq(waiters[i].position, i);
    }
    count = 1; /* the callback wants no more */
    cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
}

/* Clients with key=raw queue up like the others. */
Test(waiters, with_a_raw_key)
{
    struct dlt_session raw = {.call_ms = 0};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    dlt_session_init(&raw, "redis", s.address);
    dlt_session_trusted(&raw);
    dlt_session_option(&raw, "restart_guard", "0");
    dlt_session_option(&raw, "key", "raw");
    cr_assert_eq(dlt_session_open(&raw), DLOCK_OK, "%s", raw.err.message);
    count = 4;
    cr_assert_eq(dlt_list_waiters(&raw, "job", waiters, &count), DLOCK_OK, "%s", raw.err.message);
    cr_assert_eq(count, 1);
    dlt_session_close(&raw);
}

Test(waiters, CONFIG_a_key_that_is_something_else)
{
    (void)dlt_redis_ask(&server, "LPUSH dl:{job}:q 1");
    count = 4;
    cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "dl:{job}"), "%s", s.err.message);
    cr_assert_eq(count, 0);
}
