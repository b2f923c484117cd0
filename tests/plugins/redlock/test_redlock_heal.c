/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/renew.c plugins/redlock/unlock.c plugins/redlock/acquire.c */
/*
 * What does a node keep that lost a lock and gets it back, or hears of a downgrade late? The slots
 * of the plugin, three real servers, the third one behind a proxy (C1, C4, REN-5).
 */
#include "proxy_client.h"
#include "redis_server.h"
#include "redlock_slots.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#define NODES  3
#define FAR    2 /* the node behind the proxy */
#define TTL_MS 60000
#define TRIES  100 /* 50 ms apart */
#define KEPT   4   /* as HUB_SPARE */

static struct dlt_redis servers[NODES];
static struct dlt_proxy proxy;
static struct dlt_session one, two; /* of one client */

static void another_open(struct dlt_session *session)
{
    *session = one;
    session->shared = &one.host;
    session->target.hosts = session->hosts;
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

static void sessions_open(void)
{
    const char *const addresses[] = {servers[0].address, servers[1].address, proxy.address};

    dlt_redlock_target(&one, addresses, NODES);
    dlt_session_option(&one, "node_timeout", "500");
    cr_assert_eq(dlt_session_open(&one), DLOCK_OK, "%s", one.err.message);
    another_open(&two);
}

static unsigned readers_of_w(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += strcmp(dlt_redis_ask(&servers[i], "EXISTS rl:{w}:r"), "1") == 0;
    return count;
}

/* Until the session is connected to all nodes, and they know its scripts: whoever does not answers
 * that it did nothing. */
static void warm_up(struct dlt_session *session)
{
    struct dlt_request reader;
    bool whole = false;

    for (int i = 0; i < TRIES && !whole; i++) {
        dlt_request(session, &reader, "w", 1, TTL_MS);
        reader.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(session, &reader), DLOCK_OK, "%s", session->err.message);
        dlt_sleep_ms(10);
        whole = readers_of_w() == NODES;
        cr_assert_eq(dlt_unlock(session, &reader), DLOCK_OK, "%s", session->err.message);
        while (readers_of_w() == NODES)
            dlt_sleep_ms(1);
    }
    cr_assert(whole);
}

static void set_up(void)
{
    for (unsigned i = 0; i < NODES; i++)
        cr_assert(dlt_redis_start(&servers[i], NULL), "%s", servers[i].why);
    cr_assert(dlt_proxy_start(&proxy, servers[FAR].address, "resp", NULL), "%s", proxy.answer);
    sessions_open();
    warm_up(&one);
    warm_up(&two);
}

static void tear_down(void)
{
    dlt_session_close(&two);
    dlt_session_close(&one);
    (void)dlt_proxy_stop(&proxy);
    for (unsigned i = 0; i < NODES; i++)
        dlt_redis_stop(&servers[i]);
}

TestSuite(redlock_heal, .init = set_up, .fini = tear_down, .timeout = 100);

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static bool is_there(unsigned node)
{
    return strcmp(dlt_redis_ask(&servers[node], "EXISTS rl:{x}"), "1") == 0;
}

/* Its key says that there are readers, and keeps whoever takes a free name by SET NX out. */
static bool is_marked(unsigned node)
{
    return strcmp(dlt_redis_ask(&servers[node], "GET rl:{x}"), "~") == 0 &&
           strcmp(dlt_redis_ask(&servers[node], "SET rl:{x} foreign NX PX 1000"), "nil") == 0;
}

static void expect_soon(bool (*is)(unsigned), unsigned node, bool want)
{
    for (int i = 0; i < TRIES && is(node) != want; i++)
        dlt_sleep_ms(50);
    cr_expect_eq(is(node), want, "node %u: %s", node, dlt_redis_ask(&servers[node], "GET rl:{x}"));
}

static void expect_all_soon(bool (*is)(unsigned), bool want)
{
    for (unsigned i = 0; i < NODES; i++)
        expect_soon(is, i, want);
}

/* Renews until the far node says so. A busy machine may answer too late [REN-4]. */
static void renew_until(struct dlt_request *request, bool (*is)(unsigned))
{
    for (int i = 0; i < TRIES && !is(FAR); i++) {
        enum dlock_status status = dlt_renew(&one, request);

        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN, "%s", one.err.message);
        dlt_sleep_ms(50);
    }
    cr_expect(is(FAR));
}

static void expect_try(struct dlt_session *session, struct dlt_request *request,
                       enum dlock_status status)
{
    cr_assert_eq(dlt_try(session, request), status, "%s", session->err.message);
    if (status != DLOCK_OK)
        session->ops->forget(session->self, &request->req);
}

/* A writer's attempt by the other session. */
static void expect_writer(enum dlock_status status)
{
    struct dlt_request writer;

    dlt_request(&two, &writer, "x", 9, TTL_MS);
    expect_try(&two, &writer, status);
    if (status == DLOCK_OK)
        cr_expect_eq(dlt_unlock(&two, &writer), DLOCK_OK, "%s", two.err.message);
}

static void take(struct dlt_request *request, enum dlock_mode mode)
{
    dlt_request(&one, request, "x", 1, TTL_MS);
    request->req.mode = mode;
    expect_try(&one, request, DLOCK_OK);
    for (int i = 0; i < TRIES && !(is_there(0) && is_there(1) && is_there(FAR)); i++) {
        cr_assert_eq(dlt_renew(&one, request), DLOCK_OK, "%s", one.err.message);
        dlt_sleep_ms(20);
    }
    expect_all_soon(is_there, true);
}

static void downgrade(struct dlt_request *request)
{
    request->req.mode = DLOCK_SHARED;
    request->req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew(&one, request), DLOCK_OK, "%s", one.err.message);
    request->req.flags = 0;
}

/* ---- putting back ---- */

/* A majority renewed it, but the validity that it had was over by then: somebody else may have the
 * minority by now, and a majority soon. */
Test(redlock_heal, REN_5_nothing_is_put_back_once_the_lease_was_over)
{
    struct dlt_request request;
    struct dlock_lease_op op = {.req = &request.req, .status = DLOCK_INTERNAL};
    struct dlt_holder holder;
    size_t count = 1;

    take(&request, DLOCK_EXCLUSIVE);
    (void)dlt_redis_ask(&servers[FAR], "DEL rl:{x}");
    (void)dlt_due(&one, &request, -1);
    cr_assert_eq(dlt_renew_many(one.ops, one.self, &op, 1, dlt_host_in(&one.host, 5000), &one.err),
                 DLOCK_OK);
    cr_expect_eq(op.status, DLOCK_OK, "%s", one.err.message);
    cr_expect_eq(dlt_inspect(&one, "x", &holder, &count), DLOCK_OK); /* behind what was sent */
    cr_expect_not(is_there(FAR));
    renew_until(&request, is_there);
    cr_expect_eq(dlt_unlock(&one, &request), DLOCK_OK);
}

/* What puts it back reaches the node when the lock has been given back, by another connection:
 * the session that sent it takes it away when it is used again. */
Test(redlock_heal, C4_what_puts_it_back_comes_after_the_unlock)
{
    struct dlt_request request, next;

    take(&request, DLOCK_EXCLUSIVE);
    (void)dlt_redis_ask(&servers[FAR], "DEL rl:{x}");
    tell("hold c2s +1 match=HEAL");
    for (int i = 0; i < TRIES && dlt_proxy_count(&proxy, 0, "c2s.held") != 1; i++)
        cr_assert_eq(dlt_renew(&one, &request), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(dlt_unlock(&two, &request), DLOCK_OK, "%s", two.err.message);
    expect_all_soon(is_there, false);
    tell("deliver");
    expect_soon(is_there, FAR, true);
    for (int i = 0; i < TRIES && is_there(FAR); i++) {
        dlt_request(&one, &next, "y", 2, TTL_MS);
        expect_try(&one, &next, DLOCK_OK);
        cr_expect_eq(dlt_unlock(&one, &next), DLOCK_OK);
        dlt_sleep_ms(50);
    }
    cr_expect_not(is_there(FAR));
}

/* What was sent on `two` is executed and answered by all nodes: who looks waits for all of them. */
static void settle(void)
{
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_inspect(&two, "y", &holder, &count), DLOCK_OK, "%s", two.err.message);
}

/* The token of 16 bytes `owner` has the lock there, as a writer. */
static bool is_held_by(unsigned node, unsigned char owner)
{
    char value[2 * DLOCK_TOKEN_SIZE + sizeof " "] = "";

    for (size_t i = 0; i < DLOCK_TOKEN_SIZE; i++)
        (void)snprintf(value + 2 * i, 4, "%02x ", owner);
    return strncmp(dlt_redis_ask(&servers[node], "GET rl:{x}"), value, strlen(value)) == 0;
}

static void expect_held_near(unsigned char owner, bool want)
{
    for (unsigned i = 0; i < FAR; i++) {
        for (int j = 0; j < TRIES && is_held_by(i, owner) != want; j++)
            dlt_sleep_ms(50);
        cr_expect_eq(is_held_by(i, owner), want, "node %u: %s", i,
                     dlt_redis_ask(&servers[i], "GET rl:{x}"));
    }
}

/* A waiter that is forgotten gives up a place, which may have run out, and never the lock: another
 * handle may have adopted it. The far node hears of nothing: the lock is the majority of the other
 * two, and each look needs both. */
Test(redlock_heal, C5_who_forgets_a_place_leaves_the_lock)
{
    struct dlt_request holder, request;

    take(&holder, DLOCK_EXCLUSIVE);
    dlt_request(&two, &request, "x", 2, TTL_MS);
    cr_assert_eq(dlt_try(&two, &request), DLOCK_BUSY, "%s", two.err.message);
    (void)two.ops->watch(two.self, dlt_due(&two, &request, 200), &two.grant, &two.err);
    cr_assert_eq(dlt_unlock(&one, &holder), DLOCK_OK, "%s", one.err.message);
    expect_held_near(1, false);
    tell("blackhole c2s");
    expect_try(&two, &request, DLOCK_OK);
    expect_held_near(2, true);
    for (unsigned i = 0; i < FAR; i++)
        (void)dlt_redis_ask(&servers[i], "DEL rl:{x}:q rl:{x}:w");
    two.ops->forget(two.self, &request.req);
    settle();
    expect_held_near(2, true);
}

/* ---- what is refused ---- */

static void allow_scripts(unsigned node, bool allowed)
{
    (void)dlt_redis_ask(&servers[node], "ACL SETUSER default %s@scripting", allowed ? "+" : "-");
}

/* One node grants a lock, another one does so too late, and neither takes it back when it is told:
 * it may be the token's, and so it is not said to be somebody else's. */
Test(redlock_heal, TRY_3_an_undo_that_is_refused_has_undone_nothing)
{
    struct dlt_request request;

    (void)dlt_redis_ask(&servers[0], "SET rl:{x} foreign PX 60000");
    allow_scripts(1, false);
    allow_scripts(FAR, false);
    tell("delay s2c 1000");
    dlt_request(&one, &request, "x", 1, TTL_MS);
    expect_try(&one, &request, DLOCK_UNKNOWN);
    tell("pass");
    cr_expect(is_there(1) && is_there(FAR));
    allow_scripts(1, true);
    allow_scripts(FAR, true);
    for (int i = 0; i < TRIES && (is_there(1) || is_there(FAR)); i++) {
        dlt_request(&one, &request, "y", 2, TTL_MS);
        expect_try(&one, &request, DLOCK_OK);
        cr_expect_eq(dlt_unlock(&one, &request), DLOCK_OK, "%s", one.err.message);
        dlt_sleep_ms(50);
    }
    cr_expect_not(is_there(1) || is_there(FAR));
}

/* Those who sleep give their connections away; four are kept for all of them. */
static struct sleeper {
    pthread_t thread;
    struct dlt_session session;
    struct dlt_request request;
} sleepers[KEPT];

static void *sleep_for_it(void *arg)
{
    struct sleeper *sleeper = arg;

    (void)sleeper->session.ops->watch(sleeper->session.self,
                                      dlt_due(&sleeper->session, &sleeper->request, 60000),
                                      &sleeper->session.grant, &sleeper->session.err);
    return NULL;
}

static void sleepers_start(void)
{
    char asleep[8] = "";

    for (int i = 0; i < KEPT; i++)
        another_open(&sleepers[i].session); /* before there are any to be had */
    for (int i = 0; i < KEPT; i++) {
        struct sleeper *sleeper = &sleepers[i];

        dlt_request(&sleeper->session, &sleeper->request, "x", (unsigned char)(10 + i), TTL_MS);
        cr_assert_eq(dlt_try(&sleeper->session, &sleeper->request), DLOCK_BUSY);
        cr_assert_eq(pthread_create(&sleeper->thread, NULL, sleep_for_it, sleeper), 0);
        (void)snprintf(asleep, sizeof asleep, "%d", i + 1);
        for (int j = 0; j < TRIES && strcmp(dlt_redis_ask(&servers[0], "ZCARD rl:{x}:q"), asleep);
             j++)
            dlt_sleep_ms(50);
    }
    dlt_sleep_ms(100); /* what they do after they have taken a place */
}

static void sleepers_stop(void)
{
    for (int i = 0; i < KEPT; i++) {
        struct sleeper *sleeper = &sleepers[i];

        sleeper->session.ops->interrupt(sleeper->session.self, &sleeper->request.req);
        (void)pthread_join(sleeper->thread, NULL);
        sleeper->session.ops->forget(sleeper->session.self, &sleeper->request.req);
        dlt_session_close(&sleeper->session);
    }
}

/* What a node refused is told by the session that is used next, whichever it is. */
Test(redlock_heal, UNL_1_another_session_tells_a_node_what_it_refused)
{
    struct dlt_request request;

    take(&request, DLOCK_EXCLUSIVE);
    allow_scripts(FAR, false);
    cr_assert_eq(dlt_unlock(&two, &request), DLOCK_OK, "%s", two.err.message);
    settle();
    cr_expect(is_there(FAR));
    allow_scripts(FAR, true);
    for (int i = 0; i < TRIES && is_there(FAR); i++) {
        struct dlt_holder holder;
        size_t count = 1;

        cr_assert_eq(dlt_inspect(&one, "y", &holder, &count), DLOCK_OK, "%s", one.err.message);
        dlt_sleep_ms(50);
    }
    cr_expect_not(is_there(FAR));
}

/* Who goes to sleep with something left to tell a node keeps the connections, also if enough are
 * kept already, and tells it later. */
Test(redlock_heal, UNL_1_what_is_owed_is_not_lost_by_waiting)
{
    struct dlt_request holder, request, waiter;

    take(&holder, DLOCK_EXCLUSIVE);
    sleepers_start();
    dlt_request(&two, &request, "v", 3, TTL_MS);
    expect_try(&two, &request, DLOCK_OK);
    for (int i = 0; i < TRIES && strcmp(dlt_redis_ask(&servers[FAR], "EXISTS rl:{v}"), "1"); i++) {
        cr_assert_eq(dlt_renew(&two, &request), DLOCK_OK, "%s", two.err.message);
        dlt_sleep_ms(20);
    }
    allow_scripts(FAR, false);
    cr_assert_eq(dlt_unlock(&two, &request), DLOCK_OK, "%s", two.err.message);
    dlt_request(&two, &waiter, "x", 4, TTL_MS);
    cr_assert_eq(dlt_try(&two, &waiter), DLOCK_BUSY, "%s", two.err.message);
    (void)two.ops->watch(two.self, dlt_due(&two, &waiter, 200), &two.grant, &two.err);
    cr_expect_str_eq(dlt_redis_ask(&servers[FAR], "EXISTS rl:{v}"), "1");
    allow_scripts(FAR, true);
    for (int i = 0; i < TRIES && strcmp(dlt_redis_ask(&servers[FAR], "EXISTS rl:{v}"), "0"); i++) {
        settle();
        dlt_sleep_ms(50);
    }
    cr_expect_str_eq(dlt_redis_ask(&servers[FAR], "EXISTS rl:{v}"), "0");
    two.ops->forget(two.self, &waiter.req);
    sleepers_stop();
    cr_expect_eq(dlt_unlock(&one, &holder), DLOCK_OK, "%s", one.err.message);
}

/* ---- readers, and writers who take what looks free ---- */

Test(redlock_heal, C1_a_reader_that_was_put_back_keeps_writers_out)
{
    struct dlt_request reader;

    take(&reader, DLOCK_SHARED);
    expect_all_soon(is_marked, true);
    (void)dlt_redis_ask(&servers[FAR], "FLUSHALL");
    renew_until(&reader, is_marked);
    expect_writer(DLOCK_BUSY);
    cr_expect_eq(dlt_unlock(&one, &reader), DLOCK_OK);
    expect_all_soon(is_there, false);
    expect_writer(DLOCK_OK);
}

/* Also when the one that was a writer has gone, and a reader is left. */
Test(redlock_heal, C1_after_a_downgrade_the_name_is_not_free)
{
    struct dlt_request holder, reader;

    take(&holder, DLOCK_EXCLUSIVE);
    downgrade(&holder);
    expect_all_soon(is_marked, true);
    expect_writer(DLOCK_BUSY);
    dlt_request(&two, &reader, "x", 3, TTL_MS);
    reader.req.mode = DLOCK_SHARED;
    expect_try(&two, &reader, DLOCK_OK);
    cr_expect_eq(dlt_unlock(&one, &holder), DLOCK_OK);
    cr_expect_geq(is_marked(0) + is_marked(1) + is_marked(FAR),
                  2); /* one may not know the reader */
    expect_writer(DLOCK_BUSY);
    cr_expect_eq(dlt_unlock(&two, &reader), DLOCK_OK);
    expect_all_soon(is_there, false);
    expect_writer(DLOCK_OK);
}

/* One node does not hear of it: there the writer holds the name until the next renewal. */
Test(redlock_heal, C1_after_a_downgrade_on_a_majority_the_name_is_free_nowhere)
{
    struct dlt_request holder, reader;

    take(&holder, DLOCK_EXCLUSIVE);
    tell("blackhole c2s");
    downgrade(&holder);
    cr_expect(is_marked(0));
    cr_expect(is_marked(1));
    cr_expect(is_there(FAR));
    cr_expect_not(is_marked(FAR));
    expect_writer(DLOCK_BUSY);
    dlt_request(&two, &reader, "x", 3, TTL_MS);
    reader.req.mode = DLOCK_SHARED;
    expect_try(&two, &reader, DLOCK_OK);
    tell("pass");
    renew_until(&holder, is_marked);
    cr_expect_eq(dlt_unlock(&one, &holder), DLOCK_OK);
    cr_expect_eq(dlt_unlock(&two, &reader), DLOCK_OK);
    expect_all_soon(is_there, false);
    expect_writer(DLOCK_OK);
}
