/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/link.c plugins/zookeeper/connection.c plugins/zookeeper/exchange.c */
/* Links to servers that stop, end, or are not there. */
#include "lib/time.h"
#include "link_faults.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

TestSuite(faults, .init = set_up, .fini = tear_down);

static int64_t cpu_ms(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* One of three exchanges has to come back in time: a machine may stand still. */
static void want_at_deadline(enum zk_op op, enum dlock_status status)
{
    int64_t took = INT64_MAX, id = 0;

    for (int i = 0; i < 3 && took >= 200 + LATE_MS; i++) {
        struct zk_exchange *exchange = exchange_of(op, BASE "/x");
        const int64_t begun = now_ms();

        cr_assert_eq(run_in(&rig, exchange, &id, 200), status, "%d: %s", (int)rig.err.status,
                     rig.err.message);
        took = now_ms() - begun;
        cr_assert_geq(took, 195);
        cr_assert(strstr(rig.err.message, server.members[0].address) != NULL, "%s",
                  rig.err.message);
        zk_exchange_free(exchange);
    }
    cr_assert(dlt_took_within(took, 200 + LATE_MS), "%s", dlt_within_text());
}

Test(faults, a_stopped_server)
{
    int64_t id = 0, until_ns = 0;

    rig_open(&rig);
    make_base(&rig);
    id = state_of(&rig).session_id;
    dlt_zk_pause(&server, 0, true);
    want_at_deadline(ZK_CREATE, DLOCK_UNKNOWN);
    until_ns = state_of(&rig).until_ns;
    want_at_deadline(ZK_EXISTS, DLOCK_UNAVAILABLE);
    cr_assert_eq(state_of(&rig).until_ns, until_ns, "nobody proves anything");
    dlt_zk_pause(&server, 0, false);
    want_rc(&rig, ZK_EXISTS, BASE "/x", 0, ZOK);
    cr_assert_eq(state_of(&rig).session_id, id, "a short stop ends no session");
    dlt_sleep_ms(4 * TICK_MS); /* two answers with a tick between */
    cr_assert_gt(state_of(&rig).until_ns, until_ns);
    close_rig();
}

Test(faults, CLS_1_close_waits_for_no_server)
{
    int64_t begun = 0, id = 0;

    rig_open(&rig);
    make_base(&rig);
    dlt_zk_pause(&server, 0, true);
    for (int i = 0; i < 3; i++) {
        struct zk_exchange *exchange = exchange_of(ZK_CREATE, BASE "/x");

        cr_assert_eq(run_in(&rig, exchange, &id, 20), DLOCK_UNKNOWN);
        zk_exchange_free(exchange);
    }
    begun = now_ms();
    close_rig();
    cr_assert(dlt_took_within(now_ms() - begun, LATE_MS), "%s", dlt_within_text());
}

/* The server reads nothing, and the socket is full. */
Test(faults, CLS_1_close_with_requests_that_could_not_be_sent)
{
    static char value[900 * 1024];
    struct zk_exchange *exchange = NULL;
    int64_t begun = 0, id = 0;

    rig_open(&rig);
    dlt_zk_pause(&server, 0, true);
    exchange = zk_exchange_new(rig.link, 16);
    for (int i = 0; i < 16; i++) {
        struct zk_call *call = zk_exchange_add(exchange, ZK_CREATE, BASE "/x");

        call->data = value;
        call->data_len = sizeof value;
    }
    begun = now_ms();
    cr_assert_eq(run_in(&rig, exchange, &id, 100), DLOCK_UNKNOWN);
    cr_assert(dlt_took_within(now_ms() - begun, 100 + LATE_MS), "%s", dlt_within_text());
    zk_exchange_free(exchange);
    begun = now_ms();
    close_rig();
    cr_assert(dlt_took_within(now_ms() - begun, LATE_MS), "%s", dlt_within_text());
}

static const bool never;

static struct dlt_proxy proxy;

/* A link through a proxy. */
static enum dlock_status connect_by_proxy(int64_t ttl_ms, const char *order)
{
    rig_config(&rig);
    rig.config.ttl_ms = ttl_ms;
    rig_greet(&rig);
    cr_assert(dlt_proxy_start(&proxy, server.members[0].address, "raw", NULL), "%s", proxy.answer);
    (void)snprintf(rig.greeting.hosts, sizeof rig.greeting.hosts, "%s", proxy.address);
    cr_assert(dlt_proxy_tell(&proxy, "%s", order), "%s", proxy.answer);
    return rig_connect(&rig, 5000);
}

static void await_end_of(struct rig *other, const char *path)
{
    int rc = ZOK;

    for (int i = 0; i < 500 && rc == ZOK; i++) {
        cr_assert_eq(ask(other, ZK_EXISTS, path, 0, &rc), DLOCK_OK, "%s", other->err.message);
        dlt_sleep_ms(10);
    }
    cr_assert_eq(rc, ZNONODE);
}

Test(faults, a_session_that_the_servers_ended)
{
    struct rig other = {.link = NULL};
    struct zk_watcher *watcher = NULL;
    struct zk_exchange *exchange = NULL;
    struct zk_wait *where = NULL;
    int64_t id = 0, next = 0;

    rig_open(&other);
    make_base(&other);
    cr_assert_eq(connect_by_proxy(TTL_MS, "pass"), DLOCK_OK, "%s", rig.err.message);
    want_rc(&rig, ZK_CREATE, BASE "/x", ZOO_EPHEMERAL, ZOK);
    id = state_of(&rig).session_id;
    watcher = zk_watcher_new(rig.link);
    exchange = exchange_of(ZK_GET, BASE "/x");
    zk_exchange_call(exchange, 0)->watcher = watcher;
    next = id;
    cr_assert_eq(run_in(&rig, exchange, &next, 1000), DLOCK_OK, "%s", rig.err.message);
    zk_exchange_free(exchange);
    cr_assert(dlt_proxy_tell(&proxy, "blackhole both"), "%s", proxy.answer);
    await_end_of(&other, BASE "/x");
    cr_assert_leq(state_of(&rig).until_ns, dlt_host_now(&rig.host), "it was not too long");
    cr_assert_eq(state_of(&rig).session_id, id, "nobody has said so yet");
    cr_assert(dlt_proxy_tell(&proxy, "pass"), "%s", proxy.answer);
    cr_assert_eq(zk_watcher_await(rig.link, watcher, &where, &never, dlt_host_in(&rig.host, 5000)),
                 DLOCK_OK);
    zk_watcher_free(rig.link, watcher);
    cr_assert_neq(await_session(&rig, id, 5000), id);
    exchange = exchange_of(ZK_EXISTS, BASE "/x");
    cr_assert_eq(run_in(&rig, exchange, &id, 1000), DLOCK_LOST);
    zk_exchange_free(exchange);
    rig_close(&other);
    close_rig();
    (void)dlt_proxy_stop(&proxy);
}

Test(faults, a_server_that_comes_back_has_the_session)
{
    struct zk_watcher *watcher = NULL;
    struct zk_exchange *exchange = NULL;
    struct zk_wait *where = NULL;
    int64_t id = 0;

    rig_config(&rig);
    rig.config.ttl_ms = 15000;
    rig_greet(&rig);
    cr_assert_eq(rig_connect(&rig, 5000), DLOCK_OK, "%s", rig.err.message);
    make_base(&rig);
    want_rc(&rig, ZK_CREATE, BASE "/x", ZOO_EPHEMERAL, ZOK);
    watcher = zk_watcher_new(rig.link);
    exchange = exchange_of(ZK_GET, BASE "/x");
    zk_exchange_call(exchange, 0)->watcher = watcher;
    cr_assert_eq(run_in(&rig, exchange, &id, 1000), DLOCK_OK, "%s", rig.err.message);
    zk_exchange_free(exchange);
    dlt_zk_kill(&server, 0);
    cr_assert(await_connected(&rig, false, 2000));
    cr_assert_eq(state_of(&rig).session_id, id);
    cr_assert_eq(zk_watcher_await(rig.link, watcher, &where, &never, dlt_host_in(&rig.host, 100)),
                 DLOCK_TIMEOUT, "a lost connection is no change of the node");
    cr_assert(dlt_zk_again(&server, 0), "%s", server.why);
    cr_assert(await_connected(&rig, true, 5000));
    cr_assert_eq(state_of(&rig).session_id, id);
    want_rc(&rig, ZK_EXISTS, BASE "/x", 0, ZOK);
    cr_assert_eq(zk_watcher_await(rig.link, watcher, &where, &never, dlt_host_in(&rig.host, 100)),
                 DLOCK_TIMEOUT);
    want_rc(&rig, ZK_DELETE, BASE "/x", 0, ZOK);
    cr_assert_eq(zk_watcher_await(rig.link, watcher, &where, &never, dlt_host_in(&rig.host, 2000)),
                 DLOCK_OK);
    zk_watcher_free(rig.link, watcher);
    close_rig();
}

Test(faults, CNT_1_connections_after_the_first_one_are_counted)
{
    _Atomic unsigned *counted = rig.host.connections;

    rig_open(&rig);
    cr_assert_str_eq(dlt_host_counted(&rig.host), "0, 0, 0", "that of open is core's");
    dlt_zk_kill(&server, 0);
    cr_assert(await_connected(&rig, false, 5000));
    for (int i = 0; i < 1000 && counted[DLOCK_CONNECTION_FAILED] == 0; i++)
        dlt_sleep_ms(10);
    cr_assert_gt(counted[DLOCK_CONNECTION_FAILED], 0, "nobody listens");
    cr_assert(dlt_zk_again(&server, 0), "%s", server.why);
    cr_assert(await_connected(&rig, true, 20000));
    cr_assert_eq(counted[DLOCK_CONNECTION_MADE], 1);
    cr_assert_eq(counted[DLOCK_CONNECTION_BROKEN], 1);
    close_rig();
    cr_assert_eq(counted[DLOCK_CONNECTION_BROKEN], 1, "close breaks none");
}

static void *kill_soon(void *arg)
{
    (void)arg;
    dlt_sleep_ms(100);
    dlt_zk_kill(&server, 0);
    return NULL;
}

Test(faults, a_connection_that_breaks_ends_what_is_under_way)
{
    static const struct {
        enum zk_op op;
        enum dlock_status status;
    } cases[] = {
        {ZK_CREATE, DLOCK_UNKNOWN}, {ZK_DELETE, DLOCK_UNKNOWN}, {ZK_GET, DLOCK_UNAVAILABLE}};

    for (size_t i = 0; i < 3; i++) {
        struct zk_exchange *exchange = NULL;
        pthread_t thread;
        int64_t begun = 0, id = 0;

        if (i > 0)
            cr_assert(dlt_zk_again(&server, 0), "%s", server.why);
        rig_open(&rig);
        dlt_zk_pause(&server, 0, true);
        cr_assert_eq(pthread_create(&thread, NULL, kill_soon, NULL), 0);
        exchange = exchange_of(cases[i].op, BASE "/x");
        begun = now_ms();
        cr_assert_eq(run_in(&rig, exchange, &id, 30000), cases[i].status, "%s", rig.err.message);
        cr_assert(dlt_took_within(now_ms() - begun, 15000), "%s", dlt_within_text());
        cr_assert_neq(id, 0);
        zk_exchange_free(exchange);
        (void)pthread_join(thread, NULL);
        close_rig();
    }
}

/* The sanitizer would tell what the library leaks then. */
Test(faults, C4_nothing_is_sent_on_a_connection_that_has_ended)
{
    cr_assert_eq(connect_by_proxy(15000, "pass"), DLOCK_OK, "%s", rig.err.message);
    make_base(&rig);
    for (int i = 0; i < 20; i++) {
        struct zk_exchange *exchange = exchange_of(ZK_CREATE, BASE "/x");
        int64_t id = 0;

        zk_exchange_call(exchange, 0)->flags |= ZOO_SEQUENCE;
        cr_assert(dlt_proxy_tell(&proxy, "kill %s", i % 2 == 0 ? "rst" : "fin"), "%s",
                  proxy.answer);
        dlt_sleep_ms(5);
        cr_assert_eq(run_in(&rig, exchange, &id, 5000), DLOCK_OK, "round %d: %s", i,
                     rig.err.message);
        zk_exchange_free(exchange);
    }
    close_rig();
    (void)dlt_proxy_stop(&proxy);
}

struct ended {
    _Atomic int count;
    int rc;
};

static void on_end(struct zk_exchange *exchange, void *arg)
{
    struct ended *ended = arg;
    struct zk_exchange *next = exchange_of(ZK_EXISTS, BASE);

    ended->rc = zk_exchange_call(exchange, 0)->rc;
    zk_exchange_free(exchange);
    if (!zk_exchange_begin(next, on_end, ended)) /* the connection is lost */
        zk_exchange_free(next);
    ended->count++;
}

Test(faults, exchanges_that_nobody_waits_for_end_with_the_connection)
{
    struct ended ended = {0};

    rig_open(&rig);
    dlt_zk_pause(&server, 0, true);
    zk_link_lock(rig.link);
    for (int i = 0; i < 3; i++)
        cr_assert(zk_exchange_begin(exchange_of(ZK_CREATE, BASE "/x"), on_end, &ended));
    zk_link_unlock(rig.link);
    dlt_zk_kill(&server, 0);
    for (int i = 0; i < 1000 && ended.count < 3; i++)
        dlt_sleep_ms(1);
    cr_assert_eq(ended.count, 3);
    cr_assert_neq(ended.rc, ZOK);
    close_rig();
    cr_assert_eq(ended.count, 3);
}

Test(faults, close_ends_exchanges_that_nobody_waits_for)
{
    struct ended ended = {0};

    rig_open(&rig);
    dlt_zk_pause(&server, 0, true);
    zk_link_lock(rig.link);
    cr_assert(zk_exchange_begin(exchange_of(ZK_CREATE, BASE "/x"), on_end, &ended));
    zk_link_unlock(rig.link);
    close_rig();
    cr_assert_eq(ended.count, 1);
    cr_assert_eq(ended.rc, ZCLOSING);
}

Test(faults, nobody_answers_and_no_time_of_the_processor_is_used)
{
    int64_t used = 0;

    rig_open(&rig);
    dlt_zk_kill(&server, 0);
    cr_assert(await_connected(&rig, false, 2000));
    used = cpu_ms();
    want_at_deadline(ZK_EXISTS, DLOCK_UNAVAILABLE);
    cr_assert(strstr(rig.err.message, "Connection refused") != NULL, "%s", rig.err.message);
    dlt_sleep_ms(2000);
    cr_assert_lt(cpu_ms() - used, 60, "%ld ms", (long)(cpu_ms() - used));
    close_rig();
}

Test(faults, a_stopped_server_and_no_time_of_the_processor_is_used)
{
    const int64_t ttl_ms = 400; /* the client waits for the end of the session, and longer */
    int64_t used = 0;

    rig_config(&rig);
    rig.config.ttl_ms = ttl_ms;
    rig_greet(&rig);
    cr_assert_eq(rig_connect(&rig, 5000), DLOCK_OK, "%s", rig.err.message);
    dlt_zk_pause(&server, 0, true);
    used = cpu_ms();
    dlt_sleep_ms(3 * (ttl_ms + ZK_MARGIN_TICKS * TICK_MS));
    cr_assert_lt(cpu_ms() - used, 60, "%ld ms", (long)(cpu_ms() - used));
    close_rig();
}

Test(faults, OPN_3_a_link_that_cannot_connect)
{
    const char *const texts[] = {"Connection refused", "no answer"};

    for (int i = 0; i < 2; i++) {
        int64_t begun = 0;

        if (i == 1)
            cr_assert(dlt_zk_again(&server, 0), "%s", server.why);
        rig_config(&rig);
        rig_greet(&rig);
        if (i == 0)
            dlt_zk_kill(&server, 0);
        else
            dlt_zk_pause(&server, 0, true);
        begun = now_ms();
        cr_assert_eq(rig_connect(&rig, 300), DLOCK_UNAVAILABLE);
        cr_assert_geq(now_ms() - begun, 295);
        cr_assert(dlt_took_within(now_ms() - begun, 300 + LATE_MS), "%s", dlt_within_text());
        cr_assert(strstr(rig.err.message, texts[i]) != NULL, "%s", rig.err.message);
        begun = now_ms();
        close_rig();
        cr_assert(dlt_took_within(now_ms() - begun, LATE_MS), "%s", dlt_within_text());
    }
}

/* A server that is about to start does so now and then. */
Test(faults, a_connection_that_the_server_forgot)
{
    const int64_t begun = dl_time_now_ns(CLOCK_BOOTTIME);

    /* The library would wait for 10 s. */
    cr_assert_eq(connect_by_proxy(15000, "blackhole both conn=1"), DLOCK_OK, "%s", rig.err.message);
    cr_assert_geq(dl_time_now_ns(CLOCK_BOOTTIME) - begun, 400 * DLT_NS_PER_MS);
    close_rig();
    (void)dlt_proxy_stop(&proxy);
}
