/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/call/call.c plugins/redis/lease_batch.c plugins/redis/lease.c */
/* Tests: plugins/redis/link/pipeline.c */
/* Does each element of a batch get its own answer, also when the exchange is cut? (C19, BAT-1 to
 * BAT-4)
 */
#include "batch_kit.h"
#include "proxy_client.h"

static struct dlt_redis server;
static struct dlt_proxy proxy; /* s is behind it */
static struct dlt_session direct;

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert(dlt_proxy_start(&proxy, server.address, "resp", NULL), "%s", proxy.answer);
    cr_assert_eq(dlt_session_start(&direct, &server), DLOCK_OK);
    dlt_session_init(&s, "redis", proxy.address);
    dlt_session_option(&s, "sockets", "1");
    s.call_ms = 10000;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    (void)dlt_proxy_stop(&proxy);
    dlt_redis_stop(&server);
}

TestSuite(batch, .init = set_up, .fini = tear_down, .timeout = 60);

/* A server that has lost its scripts is asked once more for all, and not once for each. Each way
 * takes so long that there is no time for the latter. */
Test(batch, BAT_1_scripts_that_are_gone_cost_one_exchange)
{
    enum { SOME = 60, DELAY_MS = 150, MOST_MS = 9000 }; /* 60 exchanges last for twice the time */

    batch_make(SOME, 20000);
    try_all(SOME);
    unlock_all(SOME);
    for (int i = 0; i < 2; i++) {
        cr_assert_str_eq(dlt_redis_ask(&server, "SCRIPT FLUSH"), "OK");
        cr_assert(dlt_proxy_tell(&proxy, "delay both %d", DELAY_MS), "%s", proxy.answer);
        batch_make(SOME, MOST_MS);
        if (i == 0)
            try_all(SOME);
        else
            unlock_all(SOME);
        tell("pass");
        each_is(0, SOME, DLOCK_OK);
    }
}

/* The scripts are known, and the connection has just been checked. */
static void warm_up(void)
{
    batch_make(MANY, 10000);
    try_all(MANY);
    unlock_all(MANY);
    each_is(0, MANY, DLOCK_OK);
}

/* Tries `n` names while the proxy obeys the order. Once a second the connection checks its server
 * first; if that was this time, nothing was sent, and it is done again. */
static void try_under(const char *order, size_t n, int64_t timeout_ms, int64_t last_ms)
{
    for (int i = 0; i < 100; i++) {
        warm_up();
        tell(order);
        batch_make(n, timeout_ms);
        (void)dlt_due(&s, &requests[n - 1], last_ms);
        try_all(n);
        if (elements[0].status != DLOCK_UNAVAILABLE)
            return;
        each_is(0, n, DLOCK_UNAVAILABLE);
        tell("pass");
    }
    cr_assert_fail("never sent");
}

/* There is no time for a second exchange: the next batch asks for each name alone, and if it was
 * quick, the one after it does not.
 */
Test(batch, BAT_1_a_slow_server_is_asked_once)
{
    static const long scripts[] = {MANY, 1};

    warm_up();
    cr_assert_eq(dlt_try(&s, &requests[0]), DLOCK_OK); /* this script is known, too */
    cr_assert_eq(dlt_unlock(&s, &requests[0]), DLOCK_OK);
    tell("delay both 300"); /* and as much again if the connection is checked first */
    batch_make(MANY, 1500);
    try_all(MANY);
    tell("pass");
    unlock_all(MANY);
    for (size_t k = 0; k < sizeof scripts / sizeof scripts[0]; k++) {
        scripts_reset(&server);
        batch_make(MANY, 10000);
        try_all(MANY);
        each_is(0, MANY, DLOCK_OK);
        cr_assert_eq(scripts_run(&server), scripts[k], "%zu: %ld", k, scripts_run(&server));
        unlock_all(MANY);
    }
}

/* All left without waiting for the first answer. Nobody knows what became of them, and a later
 * batch finds its own leases.
 */
Test(batch, BAT_2_without_an_answer_all_are_unknown)
{
    try_under("blackhole s2c", MANY, 300, 300);
    each_is(0, MANY, DLOCK_UNKNOWN);
    tell("pass");
    batch_make(MANY, 10000);
    try_all(MANY);
    each_is(0, MANY, DLOCK_OK); /* the same tokens [TRY-5] */
    unlock_all(MANY);
    each_is(0, MANY, DLOCK_OK);
}

/* The connection ends after some of the answers: of the two scripts for names that are alike. */
Test(batch, BAT_2_those_that_were_answered_have_their_answers)
{
    enum { SOME = 60, OF_ONE_SCRIPT = 32 };

    try_under("cut s2c 800 rst", SOME, 10000, 10000);
    each_is(0, OF_ONE_SCRIPT, DLOCK_OK);
    each_is(OF_ONE_SCRIPT, SOME, DLOCK_UNKNOWN);
    tell("pass");
    batch_make(SOME, 10000);
    unlock_all(SOME);
    each_is(0, SOME, DLOCK_OK); /* all had been executed */
}

/* No connection: nothing was sent. */
Test(batch, BAT_2_what_was_not_sent_is_unavailable)
{
    warm_up();
    tell("accept refuse");
    tell("kill rst");
    batch_make(MANY, 1000);
    try_all(MANY);
    each_is(0, MANY, DLOCK_UNAVAILABLE);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_neq(errors[i].message[0], '\0');
    tell("accept on");
}

/* The call ends by the last deadline. */
Test(batch, BAT_3_the_last_deadline_ends_the_call)
{
    int64_t begin_ns, took_ms;

    warm_up();
    begin_ns = dlt_host_now(s.shared);
    try_under("blackhole s2c", 2, 300, 340);
    took_ms = (dlt_host_now(s.shared) - begin_ns) / DLT_NS_PER_MS;
    each_is(0, 2, DLOCK_UNKNOWN);
    cr_assert_geq(took_ms, 340);
    tell("pass");
}
