/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/subscriber.c plugins/redis/link/pipeline.c plugins/net/stream.c */
/* Is what happened said plainly when the network or the server fails? (C4, C8, C9, TRY-4) */
#include "proxy_client.h"
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of a call that is to end without an answer; others have to be answered in this time, too. */
#define SHORT_MS 800

static struct dlt_redis server;
static struct dlt_proxy proxy;
static struct dlt_session s, direct; /* through the proxy, and not */
static struct dlt_request a, b;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert(dlt_proxy_start(&proxy, server.address, "resp", NULL), "%s", proxy.answer);
    dlt_session_init(&s, "redis", proxy.address);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_start(&direct, &server), DLOCK_OK);
    s.call_ms = SHORT_MS;
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
    /* The scripts are known: an exchange is one frame each way. */
    cr_assert_eq(dlt_try(&direct, &b), DLOCK_OK);
    cr_assert_eq(dlt_renew(&direct, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&direct, &b), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    (void)dlt_proxy_stop(&proxy);
    dlt_redis_stop(&server);
}

TestSuite(faults, .init = set_up, .fini = tear_down, .timeout = 60);

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

/* The proxy, which was told to end all connections, has done so. */
static void links_end(void)
{
    for (int i = 0; i < 1000 && dlt_proxy_count(&proxy, 0, "open") > 0; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "open"), 0);
    dlt_sleep_ms(20);
}

static int64_t elapsed_ms(int64_t since_ns)
{
    return (dlt_host_now(&direct.host) - since_ns) / DLT_NS_PER_MS;
}

#define WITHIN(since_ns, ms) \
    cr_assert(dlt_host_within(&direct.host, (since_ns), (ms) + 2000), "%s", dlt_within_text())

/* What becomes of the next answer, on a connection that is there. */
static void next_answer(const char *how)
{
    size_t none = 0;

    cr_assert_eq(dlt_inspect(&s, "job", NULL, &none), DLOCK_OK, "%s", s.err.message);
    tell(how);
}

#define UNKNOWN_IF(how, call)                                                         \
    do {                                                                              \
        next_answer(how);                                                             \
        cr_assert_eq((call), DLOCK_UNKNOWN, "%s: %s: %s", #call, how, s.err.message); \
        if (*(how) == 'h')                                                            \
            tell("deliver");                                                          \
    } while (0)

/* DEQ-3, and what only looks: without an answer nobody knows, and a late one is nobody's. */
static void every_question(const char *how)
{
    size_t none = 0;

    cr_assert_eq(dlt_try(&direct, &b), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &a), DLOCK_BUSY);
    UNKNOWN_IF(how, dlt_leave(&s, &a));
    cr_assert_eq(dlt_leave(&s, &a), DLOCK_OK, "it was executed: %s", s.err.message);
    cr_assert_eq(strtol(dlt_redis_ask(&server, "ZCARD dl:{job}:q"), NULL, 10), 0);
    UNKNOWN_IF(how, dlt_inspect(&s, "job", NULL, &none));
    UNKNOWN_IF(how, dlt_list(&s, "", NULL, &none));
    UNKNOWN_IF(how, dlt_break(&s, "job", NULL));
    cr_assert_eq(dlt_renew(&direct, &b), DLOCK_LOST, "it was executed");
    UNKNOWN_IF(how, dlt_enqueue(&s, &a));
    cr_assert_eq(dlt_enqueue(&s, &a), DLOCK_OK, "the same token holds it");
    UNKNOWN_IF(how, dlt_refresh(&s, &a));
    UNKNOWN_IF(how, dlt_renew(&s, &a));
    UNKNOWN_IF(how, dlt_unlock(&s, &a));
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

Test(faults, TRY_4_C9_a_lost_or_late_answer_to_any_other_question_is_unknown)
{
    every_question("drop s2c +1");
    every_question("hold s2c +1");
}

/* The connection was closed while nothing was asked: another one is made, and if there is none to
 * be had, it was certainly not executed. */
Test(faults, FAI_2_TRY_4_CNT_1_a_connection_that_ended_before_is_replaced)
{
    static const char *const ends[] = {"kill fin", "kill rst"};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_host_counted(&s.host), "0, 0, 0", "that of open is core's");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        tell(ends[i]);
        links_end();
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_str_eq(dlt_host_counted(&s.host), "1, 0, 1");
        tell("accept refuse");
        tell(ends[i]);
        links_end();
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE);
        cr_assert_eq(dlt_try(&s, &b), DLOCK_UNAVAILABLE, "%s", s.err.message);
        tell("accept on");
        cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
        cr_assert_str_eq(dlt_host_counted(&s.host), "1, 3, 1");
    }
}

/* Failures T40: the server forgets its scripts at any time. */
Test(faults, NOSCRIPT_is_not_seen)
{
    size_t none = 0;

    s.call_ms = 2000;
    for (int i = 0; i < 30; i++) {
        (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
        none = 0;
        cr_assert_eq(dlt_inspect(&s, "job", NULL, &none), DLOCK_OK);
        (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
}

Test(faults, NOSCRIPT_is_answered_by_one_more_round_trip_and_its_loss_is_unknown)
{
    (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
    tell("drop s2c +2");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_try(&direct, &b), DLOCK_BUSY);
}

/* A server that cannot save refuses every write. */
Test(faults, MISCONF_is_unavailable)
{
    char path[96];

    dlt_session_close(&direct);
    dlt_redis_stop(&server);
    cr_assert(dlt_redis_start(
        &server, (const char *[]){"--dbfilename", "occupied", "--save", "3600 1", NULL}));
    dlt_session_close(&s);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)snprintf(path, sizeof path, "mkdir %s/occupied", server.directory);
    cr_assert_eq(system(path), 0);
    (void)dlt_redis_ask(&server, "BGSAVE");
    for (int i = 0; i < 500 && strstr(dlt_redis_ask(&server, "INFO persistence"),
                                      "rdb_last_bgsave_status:err") == NULL;
         i++)
        dlt_sleep_ms(10);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "MISCONF") != NULL, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    b.req.name = (const unsigned char *)"other";
    b.req.name_len = 5;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_UNAVAILABLE);
}

/* A master that became a replica while we were connected. */
Test(faults, READONLY_takes_no_lock_and_ends_none)
{
    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "REPLICAOF 127.0.0.1 1");
    b.req.name = (const unsigned char *)"other";
    b.req.name_len = 5;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    dlt_session_close(&s);
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG);
    cr_assert(strstr(s.err.message, "replica") != NULL, "%s", s.err.message);
    (void)dlt_redis_ask(&server, "REPLICAOF NO ONE");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
}

/* No proxy has to pass the end of the connection on. */
Test(faults, a_server_that_was_killed_has_forgotten)
{
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    dlt_redis_kill(&server);
    cr_assert_eq(dlt_renew(&direct, &a), DLOCK_UNAVAILABLE, "%s", direct.err.message);
    dlt_session_close(&direct);
    cr_assert_eq(dlt_session_open(&direct), DLOCK_UNAVAILABLE);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    cr_assert_eq(dlt_session_open(&direct), DLOCK_OK);
    cr_assert_eq(dlt_renew(&direct, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&direct, &a), DLOCK_LOST);
}

/* Failures T47, T48: with appendfsync always it has not. */
Test(faults, CRASH_SAFE_a_durable_server_that_was_killed_remembers)
{
    uint64_t fence = 0;

    dlt_session_close(&s);
    dlt_session_close(&direct);
    dlt_redis_stop(&server);
    cr_assert(dlt_redis_start(
        &server, (const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL}));
    dlt_session_init(&direct, "redis", server.address);
    dlt_session_trusted(&direct); /* with CONFIG GET */
    cr_assert_eq(dlt_session_open(&direct), DLOCK_OK);
    cr_assert_eq(direct.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE),
                 DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE);
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    fence = direct.grant.fence + direct.grant.fence_room;
    dlt_redis_kill(&server);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    dlt_session_close(&direct);
    cr_assert_eq(dlt_session_open(&direct), DLOCK_OK);
    cr_assert_eq(dlt_try(&direct, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&direct, &b), DLOCK_OK);
    cr_assert_gt(direct.grant.fence, fence);
}

/* Failures T31: the connection of waiters is lost, and cannot be had again for a while. */
Test(faults, waiters_ask_while_nobody_can_tell_them)
{
    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &b), DLOCK_BUSY);
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
    tell("accept refuse");
    cr_assert_eq(dlt_watch(&s, &b, 2000), DLOCK_BUSY, "worth a try");
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&s, &b, 200), DLOCK_TIMEOUT, "and the session is as good as before");
    cr_assert_eq(s.host.logs, 1, "said once");
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&s, &b, 20), DLOCK_TIMEOUT, "and not tried again at once");
    cr_assert_eq(dlt_unlock(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
}

/* WAT-3: a server, or something between, that ends each subscription is not asked for one all the
 * time. */
Test(faults, WAT_3_a_subscription_that_never_lasts)
{
    int64_t begin = 0;
    int rounds = 0;

    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &b), DLOCK_BUSY);
    begin = dlt_host_now(&direct.host);
    while (elapsed_ms(begin) < 1500 && rounds < 100) {
        enum dlock_status status = DLOCK_INTERNAL;

        (void)dlt_redis_ask(&server, "CLIENT KILL TYPE pubsub");
        status = dlt_watch(&s, &b, 500);
        cr_assert(status == DLOCK_BUSY || status == DLOCK_TIMEOUT, "%d", (int)status);
        cr_assert_eq(dlt_refresh(&s, &b), DLOCK_BUSY);
        rounds++;
    }
    cr_assert_lt(rounds, 30);
}

static void *watch_run(void *arg)
{
    *(enum dlock_status *)arg = dlt_watch(&s, &b, 20000);
    return NULL;
}

Test(faults, INT_1_a_watch_that_is_still_connecting_is_interrupted)
{
    static const char *const ways[] = {"accept pause", "accept hang"};

    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        enum dlock_status status = DLOCK_INTERNAL;
        pthread_t thread;
        int64_t begin = 0;

        dlt_request(&s, &b, "job", (unsigned char)('b' + i), 60000);
        cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
        b.req.op_timeout_ms = 20000;
        tell(ways[i]);
        cr_assert_eq(pthread_create(&thread, NULL, watch_run, &status), 0);
        dlt_sleep_ms(200);
        begin = dlt_host_now(&direct.host);
        s.ops->interrupt(s.self, &b.req);
        (void)pthread_join(thread, NULL);
        cr_assert_eq(status, DLOCK_CANCELED, "%d", (int)status);
        cr_assert(dlt_took_within(elapsed_ms(begin), 8000), "%s: %s", ways[i], dlt_within_text());
        tell("accept on");
        cr_assert_eq(dlt_leave(&s, &b), DLOCK_OK);
        cr_assert_eq(s.host.logs, 0, "nothing failed");
        dlt_session_close(&s); /* and the connection that is being made */
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    }
}

/* A black hole for grants alone: whoever waits finds out by asking. */
Test(faults, WAT_1_a_lost_grant_is_found_by_asking)
{
    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &b), DLOCK_BUSY);
    tell("drop s2c +1 match=message");
    cr_assert_eq(dlt_unlock(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&s, &b, 100), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_OK);
}

/* C13: a connection that is cut in silence, and whose end still acknowledges, tells nothing: it is
 * noticed and made anew. */
Test(faults, C13_a_subscription_that_died_in_silence_is_noticed)
{
    enum dlock_status status = DLOCK_INTERNAL;

    s.call_ms = 2000;
    cr_assert_eq(dlt_try(&direct, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(&s, &b), DLOCK_BUSY);
    tell("blackhole both");
    status = dlt_watch(&s, &b, 30000);
    cr_assert_eq(status, DLOCK_BUSY, "%d: the connection was not found dead", (int)status);
}
