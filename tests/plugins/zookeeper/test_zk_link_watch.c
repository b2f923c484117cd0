/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/exchange.c plugins/zookeeper/connection.c */
/* Watchers of a link to a server that works. */
#include "connection.h"
#include "link_fixture.h"

#include <pthread.h>

static struct rig rig;

static void set_up(void)
{
    cr_assert(dlt_zk_borrow(&server), "%s", server.why);
    rig_open(&rig);
    make_base(&rig);
}

static void tear_down(void)
{
    rig_close(&rig);
    dlt_zk_stop(&server);
}

TestSuite(watcher, .init = set_up, .fini = tear_down);

static struct zk_watcher *watch_on(struct rig *on, enum zk_op op, const char *path, int rc)
{
    struct zk_watcher *watcher = zk_watcher_new(on->link);
    struct zk_exchange *exchange = zk_exchange_new(on->link, 1);
    struct zk_call *call = zk_exchange_add(exchange, op, path);
    int64_t id = 0;

    call->watcher = watcher;
    cr_assert_eq(run_in(on, exchange, &id, 2000), DLOCK_OK, "%s", on->err.message);
    cr_assert_eq(call->rc, rc);
    zk_exchange_free(exchange);
    return watcher;
}

static struct zk_watcher *watch(enum zk_op op, const char *path, int rc)
{
    return watch_on(&rig, op, path, rc);
}

static enum dlock_status await_for(struct zk_watcher *watcher, int64_t ms)
{
    static const bool interrupted;
    struct zk_wait *where = NULL;

    return zk_watcher_await(rig.link, watcher, &where, &interrupted, dlt_host_in(&rig.host, ms));
}

static void *delete_soon(void *path)
{
    int rc = 0;
    struct rig other = {.link = NULL};

    rig_open(&other);
    dlt_sleep_ms(50);
    (void)ask(&other, ZK_DELETE, path, 0, &rc);
    rig_close(&other);
    return NULL;
}

Test(watcher, a_watcher_hears_of_the_end_of_its_node)
{
    static char path[] = BASE "/watched";
    static const enum zk_op ops[] = {ZK_EXISTS, ZK_GET};

    for (size_t i = 0; i < 2; i++) {
        struct zk_watcher *watcher = NULL;
        pthread_t thread;
        int64_t begun_ns = 0;

        want_rc(&rig, ZK_CREATE, path, ZOO_EPHEMERAL, ZOK);
        watcher = watch(ops[i], path, ZOK);
        cr_assert_eq(await_for(watcher, 30), DLOCK_TIMEOUT);
        cr_assert_eq(pthread_create(&thread, NULL, delete_soon, path), 0);
        begun_ns = dlt_host_now(&rig.host);
        cr_assert_eq(await_for(watcher, 5000), DLOCK_OK);
        cr_assert_geq(dlt_host_now(&rig.host) - begun_ns, 40 * DLT_NS_PER_MS);
        cr_assert_eq(await_for(watcher, 5000), DLOCK_OK, "it has fired");
        zk_watcher_free(rig.link, watcher);
        (void)pthread_join(thread, NULL);
    }
}

Test(watcher, a_watcher_of_a_node_that_is_not_there)
{
    struct zk_watcher *get = watch(ZK_GET, BASE "/absent", ZNONODE);
    struct zk_watcher *exists = watch(ZK_EXISTS, BASE "/absent", ZNONODE);

    want_rc(&rig, ZK_CREATE, BASE "/absent", ZOO_EPHEMERAL, ZOK);
    cr_assert_eq(await_for(exists, 1000), DLOCK_OK);
    cr_assert_eq(await_for(get, 20), DLOCK_TIMEOUT);
    zk_watcher_free(rig.link, get);
    zk_watcher_free(rig.link, exists);
}

Test(watcher, watchers_that_nobody_needs_any_more)
{
    want_rc(&rig, ZK_CREATE, BASE "/many", ZOO_EPHEMERAL, ZOK);
    for (int i = 0; i < 200; i++)
        zk_watcher_free(rig.link, watch(ZK_GET, BASE "/many", ZOK));
    want_rc(&rig, ZK_DELETE, BASE "/many", 0, ZOK);
    for (int i = 0; i < 50; i++)
        zk_watcher_free(rig.link, zk_watcher_new(rig.link));
    want_rc(&rig, ZK_EXISTS, BASE, 0, ZOK);
}

Test(watcher, the_end_of_a_session_is_an_event)
{
    struct zk_watcher *watcher = NULL;

    want_rc(&rig, ZK_CREATE, BASE "/over", ZOO_EPHEMERAL, ZOK);
    watcher = watch(ZK_GET, BASE "/over", ZOK);
    zk_link_lock(rig.link);
    zk_link_end(rig.link);
    zk_link_unlock(rig.link);
    cr_assert_eq(await_for(watcher, 1000), DLOCK_OK);
    zk_watcher_free(rig.link, watcher);
}

struct interrupted {
    struct zk_wait *where;
    bool sticky;
};

static void *interrupt_soon(void *arg)
{
    struct interrupted *interrupted = arg;

    dlt_sleep_ms(50);
    zk_link_lock(rig.link);
    interrupted->sticky = true;
    if (interrupted->where != NULL)
        zk_watcher_interrupt(interrupted->where);
    zk_link_unlock(rig.link);
    return NULL;
}

/* [INT-2] */
Test(watcher, a_wait_is_interrupted)
{
    struct interrupted interrupted = {.where = NULL};
    struct zk_watcher *watcher = NULL;
    pthread_t thread;

    want_rc(&rig, ZK_CREATE, BASE "/long", ZOO_EPHEMERAL, ZOK);
    watcher = watch(ZK_GET, BASE "/long", ZOK);
    cr_assert_eq(pthread_create(&thread, NULL, interrupt_soon, &interrupted), 0);
    for (int i = 0; i < 2; i++) { /* the second one does not begin to wait */
        const int64_t begun_ns = dlt_host_now(&rig.host);

        cr_assert_eq(zk_watcher_await(rig.link, watcher, &interrupted.where, &interrupted.sticky,
                                      dlt_host_in(&rig.host, 5000)),
                     DLOCK_CANCELED);
        cr_assert(dlt_host_within(&rig.host, begun_ns, 3000), "%s", dlt_within_text());
        cr_assert_eq(interrupted.where, NULL);
    }
    (void)pthread_join(thread, NULL);
    zk_watcher_free(rig.link, watcher);
}

static void *hang_up_soon(void *arg)
{
    struct zk_link *link = arg;

    dlt_sleep_ms(100);
    zk_connection_lock(link);
    zk_connection_hang_up(link);
    zk_connection_unlock(link);
    return NULL;
}

/* [TET-1] A thread that waits reads for all, and finds the end of the connection: the thread of the
 * link, which sleeps until the next beat, is to connect again at once. */
Test(watcher, a_connection_that_ends_while_a_waiter_leads)
{
    struct rig slow = {.link = NULL};
    struct zk_wait *where = NULL;
    struct zk_watcher *watcher = NULL;
    const bool interrupted = false;
    int64_t begun_ns = 0;
    pthread_t thread;

    want_rc(&rig, ZK_CREATE, BASE "/kept", ZOO_EPHEMERAL, ZOK);
    rig_config(&slow);
    rig_greet(&slow);
    cr_assert_eq(zk_link_open(&slow.link, &slow.config, &slow.greeting, 20 * TICK_MS,
                              &slow.host.table, dlt_host_in(&slow.host, 3000), &slow.err),
                 DLOCK_OK);
    watcher = watch_on(&slow, ZK_GET, BASE "/kept", ZOK);
    cr_assert_eq(pthread_create(&thread, NULL, hang_up_soon, slow.link), 0);
    (void)zk_watcher_await(slow.link, watcher, &where, &interrupted, dlt_host_in(&slow.host, 150));
    (void)pthread_join(thread, NULL);
    begun_ns = dlt_host_now(&slow.host);
    cr_assert(await_connected(&slow, true, 5000));
    cr_assert(dlt_host_within(&slow.host, begun_ns, 1000), "%s", dlt_within_text());
    zk_watcher_free(slow.link, watcher);
    rig_close(&slow);
}
