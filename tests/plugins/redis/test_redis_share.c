/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/link/pipeline.c plugins/redis/servers/pool.c */
/*
 * Threads that share connections: does each get its own answer, and nobody else's, also when some
 * give up and connections end? (C1, C4, C8, C9, FAI-2, TRY-4)
 */
#include "proxy_client.h"
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifndef DLT_SECURE /* over TLS, and looking for answers before sleeping */
#define DLT_SECURE 0
#endif

enum { THREADS = 16, ROUNDS = 200 };

static struct dlt_redis server;
static struct dlt_proxy proxy;
static struct dlt_session s, direct; /* s: one connection, through the proxy */
static struct dlt_request held;      /* "held", by direct */

static void open_with(const char *sockets)
{
    char ca[96];

    dlt_session_close(&s);
    dlt_session_init(&s, DLT_SECURE ? "rediss" : "redis", proxy.address);
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", server.directory);
    if (DLT_SECURE)
        dlt_session_option(&s, "ca", ca);
    dlt_session_option(&s, "spin", DLT_SECURE ? "1" : "0");
    dlt_session_option(&s, "sockets", sockets);
    s.call_ms = 10000;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void set_up(void)
{
    struct dlt_request warm;
    char secure[32];

    cr_assert(DLT_SECURE ? dlt_redis_start_tls(&server, "server", "no")
                         : dlt_redis_start(&server, NULL),
              "%s", server.why);
    (void)snprintf(secure, sizeof secure, "127.0.0.1:%u", server.tls_port);
    cr_assert(dlt_proxy_start(&proxy, DLT_SECURE ? secure : server.address,
                              DLT_SECURE ? "raw" : "resp", NULL),
              "%s", proxy.answer);
    cr_assert_eq(dlt_session_start(&direct, &server), DLOCK_OK);
    open_with("1");
    dlt_request(&direct, &held, "held", 'h', 60000);
    cr_assert_eq(dlt_try(&direct, &held), DLOCK_OK);
    dlt_request(&direct, &warm, "warm", 'w', 60000); /* the scripts are known */
    cr_assert_eq(dlt_try(&direct, &warm), DLOCK_OK);
    cr_assert_eq(dlt_renew(&direct, &warm), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&direct, &warm), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    (void)dlt_proxy_stop(&proxy);
    dlt_redis_stop(&server);
}

TestSuite(share, .init = set_up, .fini = tear_down, .timeout = 60);

struct caller {
    struct dlt_session view;
    struct dlt_request request;
    enum dlock_status status;
    int64_t took_ms;
    const char *wrong; /* in asker_run; NULL: nothing */
    pthread_t thread;
};

static void *caller_run(void *arg)
{
    struct caller *caller = arg;
    int64_t begin = dlt_host_now(caller->view.shared);

    caller->status = dlt_try(&caller->view, &caller->request);
    caller->took_ms = (dlt_host_now(caller->view.shared) - begin) / DLT_NS_PER_MS;
    return NULL;
}

static void caller_start(struct caller *caller, const char *name, unsigned char owner,
                         int64_t call_ms)
{
    dlt_session_join(&caller->view, &s);
    caller->view.call_ms = call_ms;
    dlt_request(&caller->view, &caller->request, name, owner, 60000);
    cr_assert_eq(pthread_create(&caller->thread, NULL, caller_run, caller), 0);
}

static enum dlock_status caller_end(struct caller *caller)
{
    (void)pthread_join(caller->thread, NULL);
    return caller->status;
}

static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static int connections(void)
{
    const char *list = dlt_redis_ask(&server, "CLIENT LIST TYPE normal");
    int count = 0;

    for (const char *at = list; (at = strstr(at, "user=" DLT_REDIS_LEAST " ")) != NULL; at++)
        count++;
    return count;
}

/* Those of the pool, beside that of `direct`. The server sees the end of one a moment later, by way
 * of the proxy. */
static void connections_become(int wanted, const char *why)
{
    for (int i = 0; i < 1000 && connections() != wanted + 1; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(connections(), wanted + 1, "%s", why);
}

/* In turns a name of its own, which it gets, and one that another client holds. What is wrong, or
 * NULL. */
static const char *round_run(struct dlt_session *view, struct dlt_request *own,
                             struct dlt_request *other, uint64_t *fence)
{
    char name[16], owner[33];
    struct dlt_holder holder;
    size_t count = 1;

    (void)snprintf(name, sizeof name, "%s", (const char *)own->req.name);
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(owner + 2 * i, 3, "%02x", own->req.token[i]);
    if (dlt_try(view, own) != DLOCK_OK || view->grant.fence <= *fence)
        return "own name";
    *fence = view->grant.fence;
    if (dlt_try(view, other) != DLOCK_BUSY)
        return "held name";
    if (dlt_inspect(view, name, &holder, &count) != DLOCK_OK || count != 1 ||
        strcmp(holder.owner, owner) != 0 || holder.fence != *fence)
        return "inspect";
    if (dlt_renew(view, own) != DLOCK_OK)
        return "renew";
    if (dlt_unlock(view, other) != DLOCK_LOST)
        return "unlock of another one's name";
    return dlt_unlock(view, own) == DLOCK_OK ? NULL : "unlock";
}

static void *asker_run(void *arg)
{
    struct caller *caller = arg;
    struct dlt_request other;
    uint64_t fence = 0;

    dlt_request(&caller->view, &other, "held", caller->request.req.token[0], 60000);
    for (int i = 0; i < ROUNDS && caller->wrong == NULL; i++)
        caller->wrong = round_run(&caller->view, &caller->request, &other, &fence);
    return NULL;
}

static void all_ask(void)
{
    static struct caller callers[THREADS];
    static char own[THREADS][16];

    for (int i = 0; i < THREADS; i++) {
        dlt_session_join(&callers[i].view, &s);
        callers[i].view.call_ms = 20000;
        (void)snprintf(own[i], sizeof own[i], "own%d", i);
        dlt_request(&callers[i].view, &callers[i].request, own[i], (unsigned char)('A' + i), 60000);
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, asker_run, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(callers[i].wrong, NULL, "%d: %s: %s", i, callers[i].wrong,
                     callers[i].view.err.message);
}

Test(share, C1_C9_each_gets_its_own_answer_on_one_connection)
{
    all_ask();
    cr_assert_eq(connections(), 1 + 1, "one, and that of `direct`");
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 1);
}

Test(share, C1_C9_each_gets_its_own_answer_on_some_connections)
{
    open_with("3");
    all_ask();
    cr_assert_leq(connections(), 3 + 1);
    cr_assert_gt(connections(), 1 + 1);
}

/* One thread has the use of one, and no more are made. */
Test(share, one_after_the_other_is_one_connection)
{
    struct dlt_request a;

    open_with("4");
    dlt_request(&s, &a, "job", 'a', 60000);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 2, "one, and that of before");
    connections_become(1, "they are used again");
}

/* What was asked before has arrived: the order is that of the calls. */
static int64_t asked(void)
{
    return dlt_proxy_count(&proxy, 0, "c2s.seen");
}

static void await_asked_since(int64_t before)
{
    for (int i = 0; i < 1000 && asked() == before; i++)
        dlt_sleep_ms(10);
    cr_assert_gt(asked(), before);
}

/* Starts it, and returns when its request is on the way. */
static void caller_ask(struct caller *caller, const char *name, unsigned char owner,
                       int64_t call_ms)
{
    int64_t before = asked();

    caller_start(caller, name, owner, call_ms);
    await_asked_since(before);
}

/* Nothing is asked on a connection with an answer to come that nobody waits for. */
static void asked_elsewhere(void)
{
    static struct caller after;

    caller_start(&after, "after", 'z', 20000);
    for (int i = 0; i < 1000 && dlt_proxy_count(&proxy, 0, "accepted") < 2; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 2);
    dlt_redis_pause(&server, false);
    cr_assert_eq(caller_end(&after), DLOCK_OK, "%s", after.view.err.message);
}

/* The one who gives up: who reads, whoever asked after that, and the last. */
static void give_up(int which)
{
    static struct caller callers[3];
    static const char *const wanted[] = {"free0", "held", "free2"};
    struct dlt_request last;

    dlt_redis_pause(&server, true);
    for (int i = 0; i < 3; i++)
        caller_ask(&callers[i], which == i ? "gone" : wanted[i], (unsigned char)('0' + i),
                   which == i ? 1000 : 20000);
    cr_assert_eq(caller_end(&callers[which]), DLOCK_UNKNOWN, "%s", callers[which].view.err.message);
    cr_assert(dlt_took_within(callers[which].took_ms, 1000 + 5000), "%s", dlt_within_text());
    asked_elsewhere();
    for (int i = 0; i < 3; i++)
        if (i != which)
            cr_assert_eq(caller_end(&callers[i]), i == 1 ? DLOCK_BUSY : DLOCK_OK, "%d: %s", i,
                         callers[i].view.err.message);
    cr_assert_eq(dlt_try(&direct, &callers[which].request), DLOCK_OK, "it was executed");
    dlt_request(&s, &last, "last", 'y', 60000); /* the new one may have gone with the old one */
    cr_assert_eq(dlt_try(&s, &last), DLOCK_OK, "%s", s.err.message);
    connections_become(1, "the old one was closed");
}

Test(share, C9_the_reader_gives_up_and_its_answer_is_nobodys)
{
    give_up(0);
}

Test(share, C9_another_one_gives_up_and_its_answer_is_nobodys)
{
    give_up(1);
}

Test(share, C9_the_last_gives_up_and_its_answer_is_nobodys)
{
    give_up(2);
}

static void *lister_run(void *arg)
{
    struct caller *caller = arg;
    struct dlt_holder holder;
    size_t count = 1;

    caller->status = dlt_list(&caller->view, "", &holder, &count);
    return NULL;
}

/* The answer to a list may be longer than any other; so may one that nobody wants any more. */
Test(share, C9_a_long_answer_that_is_given_up_is_nobodys)
{
    static char longs[120][256];
    static struct caller lister, taker;
    int64_t before = 0;

    for (int i = 0; i < 120; i++) { /* 770 bytes of key each, 100 of them in a page */
        struct dlt_request request;

        memset(longs[i], 1, 250);
        (void)snprintf(longs[i] + 250, 6, "%d", i);
        dlt_request(&s, &request, longs[i], 'q', 60000);
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    }
    dlt_redis_pause(&server, true);
    dlt_session_join(&lister.view, &s);
    lister.view.call_ms = 1000;
    before = asked();
    cr_assert_eq(pthread_create(&lister.thread, NULL, lister_run, &lister), 0);
    await_asked_since(before);
    caller_ask(&taker, "free", 't', 20000);
    cr_assert_eq(caller_end(&lister), DLOCK_UNKNOWN, "%s", lister.view.err.message);
    dlt_redis_pause(&server, false);
    cr_assert_eq(caller_end(&taker), DLOCK_OK, "%s", taker.view.err.message);
}

/* C8: each has a deadline of its own, whoever reads. */
Test(share, C8_all_give_up_in_their_own_time)
{
    static struct caller callers[8];

    dlt_redis_pause(&server, true);
    for (int i = 0; i < 8; i++)
        caller_start(&callers[i], names[i], (unsigned char)('0' + i), 700 + 100 * (i * 5 % 8));
    for (int i = 0; i < 8; i++) {
        int64_t call_ms = callers[i].view.call_ms;

        cr_assert_eq(caller_end(&callers[i]), DLOCK_UNKNOWN);
        cr_assert_geq(callers[i].took_ms, call_ms - 1, "%lld", (long long)callers[i].took_ms);
        cr_assert(dlt_took_within(callers[i].took_ms, call_ms + 5000), "%s", dlt_within_text());
    }
    dlt_redis_pause(&server, false);
}

/* Nobody is told yes or no who was not answered, nobody waits for the deadline, and the session
 * works. */
static void cut(const char *how)
{
    static struct caller callers[8];
    struct dlt_request after;
    int told = 0;

    dlt_redis_pause(&server, true);
    for (int i = 0; i < 8; i++)
        caller_ask(&callers[i], i % 2 == 0 ? names[i] : "held", (unsigned char)('0' + i), 20000);
    tell(how);
    dlt_redis_pause(&server, false);
    for (int i = 0; i < 8; i++) {
        enum dlock_status status = caller_end(&callers[i]);

        if (status == (i % 2 == 0 ? DLOCK_OK : DLOCK_BUSY))
            told++;
        else
            cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%s: %d: %d: %s", how,
                      i, (int)status, callers[i].view.err.message);
        cr_assert(dlt_took_within(callers[i].took_ms, 15000), "%s: %s", how, dlt_within_text());
    }
    cr_assert_lt(told, 8, "%s", how);
    tell("pass");
    dlt_request(&s, &after, how, 'z', 60000);
    cr_assert_eq(dlt_try(&s, &after), DLOCK_OK, "%s: %s", how, s.err.message);
    for (int i = 0; i < 8; i += 2)
        (void)dlt_unlock(&s, &callers[i].request);
}

Test(share, TRY_4_FAI_2_the_end_of_a_connection_is_the_end_of_all_questions_on_it)
{
    static const char *const ways[] = {"kill fin", "kill rst", "cut s2c 30 fin", "cut s2c 70 rst",
                                       "cut s2c 3 fin"};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cut(ways[i]);
}

Test(share, FAI_2_CLIENT_KILL_while_many_ask)
{
    static struct caller callers[8];
    struct dlt_request after;

    open_with("2");
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 8; i++)
            caller_start(&callers[i], i % 2 == 0 ? names[i] : "held", (unsigned char)('0' + i),
                         20000);
        dlt_sleep_ms(100);
        (void)dlt_redis_ask(&server, "CLIENT KILL TYPE normal SKIPME yes");
        for (int i = 0; i < 8; i++) {
            enum dlock_status status = caller_end(&callers[i]);

            cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ||
                          status == (i % 2 == 0 ? DLOCK_OK : DLOCK_BUSY),
                      "%d", (int)status);
        }
        for (int i = 0; i < 8; i += 2)
            (void)dlt_unlock(&s, &callers[i].request);
    }
    dlt_request(&s, &after, "after", 'z', 60000);
    cr_assert_eq(dlt_try(&s, &after), DLOCK_OK, "%s", s.err.message);
}

/* A connection that cannot be had is done without: those there are, are shared. */
Test(share, a_further_connection_that_is_refused_is_done_without)
{
    static struct caller callers[6];

    open_with("4");
    tell("accept refuse");
    dlt_redis_pause(&server, true);
    for (int i = 0; i < 6; i++) {
        caller_start(&callers[i], names[i], (unsigned char)('0' + i), 10000);
    }
    dlt_sleep_ms(50);
    dlt_redis_pause(&server, false);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(caller_end(&callers[i]), DLOCK_OK, "%s", callers[i].view.err.message);
    connections_become(1, "no other was to be had");
}

/* ... and one that does not come leaves time enough to ask on another one. */
static void connections_hang(const char *how)
{
    static struct caller callers[3];

    open_with("4");
    tell(how);
    dlt_redis_pause(&server, true);
    for (int i = 0; i < 3; i++)
        caller_start(&callers[i], names[i], (unsigned char)('0' + i), 20000);
    dlt_sleep_ms(50);
    dlt_redis_pause(&server, false);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(caller_end(&callers[i]), DLOCK_OK, "%s", callers[i].view.err.message);
        cr_assert(dlt_took_within(callers[i].took_ms, 4000), "not a quarter of 20 s: %s",
                  dlt_within_text());
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(dlt_unlock(&s, &callers[i].request), DLOCK_OK, "%s", s.err.message);
    connections_become(1, "the one there was is still there");
    tell("accept on");
}

Test(share, C8_a_further_connection_that_hangs_is_done_without)
{
    connections_hang("accept hang");
    connections_hang("accept pause");
}

/* TRY-4: what has no time left is not sent, and costs nobody the connection. */
Test(share, C8_a_question_without_time_is_not_sent)
{
    struct dlt_request a;

    dlt_request(&s, &a, "job", 'a', 60000);
    s.call_ms = 0;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_eq(dlt_redis_ask(&server, "EXISTS dl:{job}")[0], '0');
    s.call_ms = 10000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    connections_become(1, "");
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 1, "the same connection");
}

/* T34: the network is gone without a word. One question finds it out; those that idle go with it.
 */
Test(share, C8_C9_a_dead_link_is_found_once)
{
    struct dlt_request a;
    int64_t begin = 0;

    open_with("3");
    all_ask();
    cr_assert_gt(connections(), 1 + 1);
    tell("blackhole s2c");
    s.call_ms = 300;
    dlt_request(&s, &a, "after", 'z', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    tell("pass");
    s.call_ms = 5000;
    begin = dlt_host_now(&s.host);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert(dlt_host_within(&s.host, begin, 4000), "%s", dlt_within_text());
    connections_become(1, "the others were not kept");
}
