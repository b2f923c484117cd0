/* SPDX-License-Identifier: MIT */
/* The way that most hand-offs take, from one exclusive holder to the next: is it as right as the
 * long one, and short? (UNL-1, TRY-1, WAT-1) */
#include "redis_kit.h"

#include <criterion/criterion.h>
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
    dlt_request(&two, &c, "job", 'c', 60000);
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
}

static void tear_down(void)
{
    two.ops->forget(two.self, &b.req);
    two.ops->forget(two.self, &c.req);
    dlt_session_close(&one);
    dlt_session_close(&two);
    dlt_redis_stop(&server);
}

TestSuite(handoff, .init = set_up, .fini = tear_down, .timeout = 60);

/* What scripts did. */
static long commands(void)
{
    const char *at = dlt_redis_ask(&server, "INFO commandstats");
    long count = 0;

    while ((at = strstr(at, "cmdstat_")) != NULL) {
        bool script = strncmp(at, "cmdstat_info", 12) != 0 &&
                      strncmp(at, "cmdstat_config", 14) != 0 &&
                      strncmp(at, "cmdstat_eval", 12) != 0;

        at = strstr(at, "calls=") + strlen("calls=");
        count += script ? strtol(at, NULL, 10) : 0;
    }
    return count;
}

Test(handoff, WAT_1_it_takes_few_commands)
{
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "CONFIG RESETSTAT");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_leq(commands(), 11, "%s", dlt_redis_ask(&server, "INFO commandstats"));
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    (void)dlt_redis_ask(&server, "CONFIG RESETSTAT");
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_leq(commands(), 11, "%s", dlt_redis_ask(&server, "INFO commandstats"));
}

/* Nothing that is kept of a name stays for ever, whoever lost what was kept before. */
Test(handoff, TRY_6_a_counter_that_begins_anew_ends_by_itself)
{
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "DEL dl:{job}:m");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
}

/* ... and what is known lasts as long as there are any who wait. */
Test(handoff, TRY_6_the_counter_lasts_while_somebody_waits)
{
    (void)dlt_redis_ask(&server, "PEXPIRE dl:{job}:m 1000");
    cr_assert_eq(dlt_enqueue(&two, &b), DLOCK_BUSY);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
}

/* What the holder and its waiters are is told as after any other grant. */
Test(handoff, WAT_1_what_is_kept_of_the_next_holder)
{
    struct dlt_holder holder;
    size_t count = 1;

    b.req.label = "host:2:a label, with spaces";
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_enqueue(&two, &c), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&one, "job", &holder, &count), DLOCK_OK);
    cr_assert_str_eq(holder.owner, "62626262626262626262626262626262");
    cr_assert_str_eq(holder.label, "host:2:a label, with spaces");
    cr_assert_eq(holder.fence, two.grant.fence);
    cr_assert_eq(holder.waiters, 1);
    cr_assert(holder.remaining_ms > 0 && holder.remaining_ms <= 3000);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_LOST, "no more");
}

/* Who died at the head is passed over, and costs the next one nothing. */
Test(handoff, TRY_2_the_dead_are_passed_over)
{
    struct dlt_session dead;
    struct dlt_request d;

    dlt_session_init(&dead, "redis", server.address);
    dlt_session_option(&dead, "waiter_lease", "100");
    cr_assert_eq(dlt_session_open(&dead), DLOCK_OK);
    dlt_request(&dead, &d, "job", 'd', 60000);
    cr_assert_eq(dlt_enqueue(&dead, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    dlt_sleep_ms(150);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    dead.ops->forget(dead.self, &d.req);
    dlt_session_close(&dead);
}

/* T41: nothing new is written before something is taken away. */
Test(handoff, OOM_does_not_stop_it)
{
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 1");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_watch(&two, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_renew(&two, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
}

/* Contract, section 3 (d). */
Test(handoff, restart_guard_stops_it)
{
    struct dlt_session guarded;
    struct dlt_holder holder;
    size_t count = 1;

    dlt_session_init(&guarded, "redis", server.address);
    dlt_session_option(&guarded, "restart_guard", "3600000");
    cr_assert_eq(dlt_session_open(&guarded), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&guarded, &a), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&one, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 0);
    cr_assert_eq(dlt_refresh(&two, &b), DLOCK_OK, "a client without a guard may");
    dlt_session_close(&guarded);
}

/* What cannot be passed on is given back. */
Test(handoff, UNL_1_given_back_though_the_counter_is_something_else)
{
    cr_assert_eq(dlt_queue_up(&two, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "DEL dl:{job}:m");
    (void)dlt_redis_ask(&server, "SET dl:{job}:m x");
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}"), "0");
}
