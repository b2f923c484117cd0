/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/waiter.c */
/* While a script runs, the server serves nobody else. Does a release to a crowd of waiters stay
 * short, and is each of them granted? */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define CROWD 450
#define ONCE  200 /* GRANTS_MOST of name.lua */

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request holder, crowd[CROWD];

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, "redis", server.address);
    dlt_session_option(&s, "waiter_lease", "60000"); /* nobody asks by itself */
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &holder, "job", 'h', 60000);
}

static void tear_down(void)
{
    for (size_t i = 0; s.self != NULL && i < CROWD; i++)
        s.ops->forget(s.self, &crowd[i].req);
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

TestSuite(crowd, .init = set_up, .fini = tear_down, .timeout = 60);

static long members(const char *key)
{
    return strtol(dlt_redis_ask(&server, "ZCARD %s", key), NULL, 10);
}

/* All wait for the name, in order. */
static void gather(enum dlock_mode mode, uint32_t limit)
{
    for (size_t i = 0; i < CROWD; i++) {
        dlt_request(&s, &crowd[i], "job", 'c', 60000);
        crowd[i].req.token[0] = (unsigned char)(i / 256);
        crowd[i].req.token[1] = (unsigned char)i;
        crowd[i].req.mode = mode;
        crowd[i].req.limit = limit;
        cr_assert_eq(i == 0 ? dlt_queue_up(&s, &crowd[i]) : dlt_enqueue(&s, &crowd[i]), DLOCK_BUSY,
                     "%zu: %s", i, s.err.message);
    }
}

/* As core does: a watch that ends with BUSY is followed by a question. */
static void granted(struct dlt_request *request)
{
    enum dlock_status status = dlt_watch(&s, request, 10000);

    if (status == DLOCK_BUSY)
        status = dlt_refresh(&s, request);
    cr_assert_eq(status, DLOCK_OK, "%d: %s", status, s.err.message);
}

static void all_are_granted(void)
{
    cr_assert_eq(members("dl:{job}:r"), ONCE, "one script, and no more");
    cr_assert_eq(members("dl:{job}:q"), CROWD - ONCE);
    for (size_t i = 0; i < CROWD; i++)
        granted(&crowd[i]);
    cr_assert_eq(members("dl:{job}:r"), CROWD);
    cr_assert_eq(members("dl:{job}:q"), 0);
}

Test(crowd, of_readers_is_granted_in_several_scripts)
{
    cr_assert_eq(dlt_try(&s, &holder), DLOCK_OK);
    gather(DLOCK_SHARED, 1);
    cr_assert_eq(dlt_unlock(&s, &holder), DLOCK_OK);
    all_are_granted();
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_eq(members("dl:{job}:r"), 0);
}

/* Each has a permit of its own. */
Test(crowd, of_a_semaphore_is_granted_in_several_scripts)
{
    bool taken[CROWD] = {false};

    holder.req.limit = CROWD;
    for (int i = 0; i < CROWD; i++) {
        holder.req.token[0] = (unsigned char)(i / 256);
        holder.req.token[1] = (unsigned char)i;
        cr_assert_eq(dlt_try(&s, &holder), DLOCK_OK, "%s", s.err.message);
    }
    gather(DLOCK_EXCLUSIVE, CROWD);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_eq(members("dl:{job}:r"), ONCE);
    for (size_t i = 0; i < CROWD; i++) {
        granted(&crowd[i]);
        cr_assert_lt(s.grant.permit, CROWD);
        cr_assert_not(taken[s.grant.permit], "%u", s.grant.permit);
        taken[s.grant.permit] = true;
    }
    cr_assert_eq(members("dl:{job}:r"), CROWD);
}

/* A crowd of dead waiters is in nobody's way. */
Test(crowd, of_the_dead_is_removed)
{
    holder.req.ttl_ms = 2000;
    dlt_session_close(&s);
    dlt_session_option(&s, "waiter_lease", "1000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &holder), DLOCK_OK);
    gather(DLOCK_EXCLUSIVE, 1);
    dlt_sleep_ms(2200);
    holder.req.token[0] = 'n';
    cr_assert_eq(dlt_try(&s, &holder), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(members("dl:{job}:q"), 0);
}
