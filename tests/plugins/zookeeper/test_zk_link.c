/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/link.c plugins/zookeeper/connection.c plugins/zookeeper/exchange.c */

/* Requests and sessions of a link to a server that works. */
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

TestSuite(link, .init = set_up, .fini = tear_down);

/* ---- sessions ---- */

Test(link, a_session_lasts_as_long_as_the_ttl_and_its_margin)
{
    const struct zk_session_state state = state_of(&rig);
    const int64_t now_ns = dlt_host_now(&rig.host);

    cr_assert(state.connected);
    cr_assert_neq(state.session_id, 0);
    cr_assert_eq(state.timeout_ms, TTL_MS + ZK_MARGIN_TICKS * TICK_MS);
    cr_assert_str_eq(state.server, server.members[0].address);
    cr_assert_gt(state.until_ns, now_ns);
    cr_assert_leq(state.until_ns, now_ns + state.timeout_ms * DLT_NS_PER_MS);
}

/* [liveness.h] */
Test(link, an_idle_link_keeps_until_ns_fresh)
{
    int fresh = 0;

    for (int i = 0; i < 15; i++) {
        const struct zk_session_state state = state_of(&rig);
        const int64_t left_ns = state.until_ns - dlt_host_now(&rig.host);

        cr_assert_leq(left_ns, state.timeout_ms * DLT_NS_PER_MS);
        if (left_ns > (state.timeout_ms - 3 * TICK_MS) * DLT_NS_PER_MS)
            fresh++;
        dlt_sleep_ms(TICK_MS / 2);
    }
    cr_assert_geq(fresh, 8, "%d of 15; a busy machine is late now and then", fresh);
}

/* [TET-2] Two answers that are less than a tick apart prove nothing. */
Test(link, what_the_leader_has_heard_is_a_tick_old_in_the_first_session_too)
{
    dlt_sleep_ms(3 * TICK_MS);
    for (int i = 0; i < 50; i++) {
        const int64_t now_ns = dlt_host_now(&rig.host);
        const struct zk_session_state state = state_of(&rig);

        cr_assert_leq(state.until_ns - state.timeout_ms * DLT_NS_PER_MS,
                      now_ns - TICK_MS * DLT_NS_PER_MS);
        dlt_sleep_ms(TICK_MS / 20);
    }
}

Test(link, an_ended_session_takes_its_nodes_and_another_one_begins)
{
    const int64_t old = state_of(&rig).session_id;
    int64_t id = old;
    struct zk_exchange *exchange = zk_exchange_new(rig.link, 1);

    want_rc(&rig, ZK_CREATE, BASE "/ended", ZOO_EPHEMERAL, ZOK);
    zk_link_lock(rig.link);
    zk_link_end(rig.link);
    zk_link_unlock(rig.link);
    cr_assert_neq(state_of(&rig).session_id, old);
    cr_assert(zk_exchange_add(exchange, ZK_EXISTS, BASE) != NULL);
    cr_assert_eq(run_in(&rig, exchange, &id, 1000), DLOCK_LOST, "%s", rig.err.message);
    zk_exchange_free(exchange);
    cr_assert_neq(await_session(&rig, old, 2000), old);
    want_rc(&rig, ZK_EXISTS, BASE "/ended", 0, ZNONODE);
}

/* [CLS-1 of the peer] */
Test(link, a_closed_session_is_gone_at_once)
{
    struct rig other = {.link = NULL};

    rig_open(&other);
    want_rc(&other, ZK_CREATE, BASE "/closed", ZOO_EPHEMERAL, ZOK);
    want_rc(&rig, ZK_EXISTS, BASE "/closed", 0, ZOK);
    rig_close(&other);
    dlt_sleep_ms(50);
    want_rc(&rig, ZK_EXISTS, BASE "/closed", 0, ZNONODE);
}

static void count_up(struct zk_link *link, void *arg)
{
    (void)link;
    ++*(_Atomic unsigned *)arg;
}

Test(link, turns_come_each_half_tick)
{
    const int64_t begun = dlt_host_now(&rig.host);
    _Atomic unsigned counter = 0;

    zk_link_on_beat(rig.link, count_up, &counter);
    while (counter < 12)
        dlt_sleep_ms(5);
    cr_assert(dlt_host_within(&rig.host, begun, 10 * TICK_MS), "%s", dlt_within_text());
    cr_assert_geq(dlt_host_now(&rig.host) - begun, 5 * TICK_MS * DLT_NS_PER_MS);
    zk_link_on_beat(rig.link, NULL, NULL);
}

/* ---- exchanges ---- */

Test(link, create_and_children_in_one_exchange)
{
    struct zk_exchange *exchange = zk_exchange_new(rig.link, 2);
    struct zk_call *create = zk_exchange_add_child(exchange, ZK_CREATE, BASE, "n-");
    struct zk_call *children = zk_exchange_add(exchange, ZK_CHILDREN, BASE);
    bool found = false;
    int64_t id = 0;

    create->flags = ZOO_EPHEMERAL_SEQUENTIAL;
    create->data = "label";
    create->data_len = 5;
    cr_assert_eq(run_in(&rig, exchange, &id, 2000), DLOCK_OK, "%s", rig.err.message);
    cr_assert_eq(id, state_of(&rig).session_id);
    cr_assert(create->done && create->rc == ZOK && children->done && children->rc == ZOK);
    cr_assert_eq(strlen(create->text), strlen(BASE "/n-") + 10, "%s", create->text);
    cr_assert_eq(create->text_len, strlen(create->text));
    cr_assert_gt(create->stat.czxid, 0);
    cr_assert_eq(create->stat.ephemeralOwner, id);
    for (int32_t i = 0; i < children->children.count; i++)
        found |= strcmp(children->children.data[i], create->text + strlen(BASE "/")) == 0;
    cr_assert(found, "the children come after the create");
    cr_assert_eq(zk_exchange_call(exchange, 1), children);
    cr_assert_eq(zk_exchange_call(exchange, 2), NULL);
    zk_exchange_free(exchange);
}

Test(link, values_and_their_lengths)
{
    static const char *const values[] = {"", "x", "a longer one"};

    for (size_t i = 0; i < 3; i++) {
        struct zk_exchange *exchange = zk_exchange_new(rig.link, 3);
        struct zk_call *create = zk_exchange_add(exchange, ZK_CREATE, BASE "/value");
        struct zk_call *get = zk_exchange_add(exchange, ZK_GET, BASE "/value");
        struct zk_call *remove = zk_exchange_add(exchange, ZK_DELETE, BASE "/value");
        int64_t id = 0;

        create->flags = ZOO_EPHEMERAL;
        create->data = values[i];
        create->data_len = strlen(values[i]);
        cr_assert_eq(run_in(&rig, exchange, &id, 2000), DLOCK_OK, "%s", rig.err.message);
        cr_assert_eq(get->rc, ZOK);
        cr_assert_str_eq(get->text, values[i]);
        cr_assert_eq(get->text_len, strlen(values[i]));
        cr_assert_eq(get->stat.ephemeralOwner, id);
        cr_assert_eq(remove->rc, ZOK);
        zk_exchange_free(exchange);
    }
}

Test(link, errors_of_the_server_are_answers)
{
    want_rc(&rig, ZK_CREATE, BASE "/none/x", ZOO_EPHEMERAL, ZNONODE);
    want_rc(&rig, ZK_DELETE, BASE "/none", 0, ZNONODE);
    want_rc(&rig, ZK_CHILDREN, BASE "/none", 0, ZNONODE);
    want_rc(&rig, ZK_EXISTS, BASE "/none", 0, ZNONODE);
    want_rc(&rig, ZK_GET, BASE "/none", 0, ZNONODE);
    want_rc(&rig, ZK_CREATE, BASE, ZOO_PERSISTENT, ZNODEEXISTS);
    want_rc(&rig, ZK_SYNC, "/", 0, ZOK);
    want_rc(&rig, ZK_CREATE, BASE "/container", ZOO_CONTAINER, ZOK);
    want_rc(&rig, ZK_DELETE, BASE "/container", 0, ZOK);
    want_rc(&rig, ZK_EXISTS, "no/path", 0, ZBADARGUMENTS);
}

Test(link, a_exchange_of_many)
{
    struct zk_exchange *exchange = zk_exchange_new(rig.link, ZK_EXCHANGE_MOST);
    int64_t id = 0;

    for (size_t i = 0; i < ZK_EXCHANGE_MOST; i++)
        cr_assert(zk_exchange_add(exchange, i % 2 == 0 ? ZK_EXISTS : ZK_SYNC, BASE) != NULL);
    cr_assert_eq(zk_exchange_add(exchange, ZK_SYNC, BASE), NULL, "one more than `most`");
    cr_assert_eq(run_in(&rig, exchange, &id, 2000), DLOCK_OK, "%s", rig.err.message);
    for (size_t i = 0; i < ZK_EXCHANGE_MOST; i++)
        cr_assert_eq(zk_exchange_call(exchange, i)->rc, ZOK);
    zk_exchange_free(exchange);
}

Test(link, a_exchange_without_time_sends_nothing)
{
    struct zk_exchange *exchange = zk_exchange_new(rig.link, 1);
    int64_t id = 0;

    zk_exchange_add(exchange, ZK_CREATE, BASE "/late")->flags = ZOO_EPHEMERAL;
    cr_assert_eq(run_in(&rig, exchange, &id, 0), DLOCK_UNAVAILABLE);
    cr_assert_eq(id, 0);
    zk_exchange_free(exchange);
    want_rc(&rig, ZK_EXISTS, BASE "/late", 0, ZNONODE);
}

/* More than the socket takes at once: the rest is sent when there is room. */
Test(link, large_values)
{
    static char value[900 * 1024];
    struct zk_exchange *exchange = NULL;
    int64_t id = 0;

    rig_close(&rig); /* a busy server needs longer than the session of the other tests lasts */
    rig.config.ttl_ms = 3000;
    cr_assert_eq(rig_connect(&rig, 5000), DLOCK_OK, "%s", rig.err.message);
    exchange = zk_exchange_new(rig.link, 24);
    memset(value, 'v', sizeof value);
    for (size_t i = 0; i < 24; i += 3) {
        struct zk_call *create = zk_exchange_add(exchange, ZK_CREATE, BASE "/large");

        create->flags = ZOO_EPHEMERAL;
        create->data = value;
        create->data_len = sizeof value;
        (void)zk_exchange_add(exchange, ZK_GET, BASE "/large");
        (void)zk_exchange_add(exchange, ZK_DELETE, BASE "/large");
    }
    cr_assert_eq(run_in(&rig, exchange, &id, 10000), DLOCK_OK, "%s", rig.err.message);
    for (size_t i = 0; i < 24; i++)
        cr_assert_eq(zk_exchange_call(exchange, i)->rc, ZOK);
    cr_assert_eq(zk_exchange_call(exchange, 1)->text_len, sizeof value);
    zk_exchange_free(exchange);
}

static void *turns_of_a_thread(void *arg)
{
    const int64_t me = (int64_t)(intptr_t)arg;
    struct dlock_error err = DLOCK_ERROR_INIT;
    char path[64];

    (void)snprintf(path, sizeof path, BASE "/thread%d", (int)me);
    for (int i = 0; i < 100; i++) {
        struct zk_exchange *exchange = zk_exchange_new(rig.link, 2);
        struct zk_call *first = zk_exchange_add(exchange, ZK_CREATE, path);
        struct zk_call *second = zk_exchange_add(exchange, ZK_DELETE, path);
        int64_t id = 0;
        bool good = false;

        first->flags = ZOO_EPHEMERAL;
        good = zk_exchange_run(exchange, &id, dlt_host_in(&rig.host, 5000), &err) == DLOCK_OK &&
               first->rc == ZOK && second->rc == ZOK;
        zk_exchange_free(exchange);
        if (!good)
            return arg;
    }
    return NULL;
}

Test(link, threads_share_the_link)
{
    pthread_t threads[8];

    for (intptr_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, turns_of_a_thread, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *failed = NULL;

        (void)pthread_join(threads[i], &failed);
        cr_assert_eq(failed, NULL, "thread %d", i);
    }
}

/* ---- exchanges without a waiting thread ---- */

struct ended {
    _Atomic int count;
    int rc;
};

static void on_end(struct zk_exchange *exchange, void *arg)
{
    struct ended *ended = arg;

    ended->rc = zk_exchange_call(exchange, 0)->rc;
    zk_exchange_free(exchange);
    ended->count++;
}

static bool begin(struct ended *ended, enum zk_op op, const char *path)
{
    struct zk_exchange *exchange = zk_exchange_new(rig.link, 1);
    bool begun = false;

    cr_assert(zk_exchange_add(exchange, op, path) != NULL);
    zk_link_lock(rig.link);
    begun = zk_exchange_begin(exchange, on_end, ended);
    zk_link_unlock(rig.link);
    if (!begun)
        zk_exchange_free(exchange);
    return begun;
}

static bool await_count(const struct ended *ended, int count, int64_t ms)
{
    for (int64_t i = 0; i < ms && ended->count < count; i++)
        dlt_sleep_ms(1);
    return ended->count == count;
}

Test(link, exchanges_that_nobody_waits_for)
{
    struct ended ended = {0};

    for (int i = 1; i <= 20; i++) {
        cr_assert(begin(&ended, ZK_EXISTS, BASE));
        cr_assert(await_count(&ended, i, 90), "the thread of the link reads at once");
        cr_assert_eq(ended.rc, ZOK);
    }
}

Test(link, a_exchange_that_cannot_be_sent_is_not_begun)
{
    struct ended ended = {0};

    cr_assert(!begin(&ended, ZK_EXISTS, "no/path"));
    zk_link_lock(rig.link);
    zk_link_end(rig.link);
    zk_link_unlock(rig.link);
    cr_assert(!begin(&ended, ZK_EXISTS, BASE) || ended.count <= 1);
    dlt_sleep_ms(50);
    cr_assert_leq(ended.count, 1);
}

/* ---- users ---- */

static const struct dlock_target with_password = {.password = "p", .read_secret = dlt_read_secret};

Test(link, nodes_of_a_user_are_for_the_user)
{
    struct rig user = {.link = NULL};
    int rc = ZNODEEXISTS;

    rig_config(&user);
    user.target = with_password;
    user.config.user = "u";
    user.config.creator_acl = true;
    user.config.ttl_ms = 4000; /* outlasts a busy machine */
    rig_greet(&user);
    cr_assert_eq(rig_connect(&user, 3000), DLOCK_OK, "%s", user.err.message);
    want_rc(&user, ZK_CREATE, BASE "/own", ZOO_EPHEMERAL, ZOK);
    want_rc(&user, ZK_GET, BASE "/own", 0, ZOK);
    want_rc(&rig, ZK_GET, BASE "/own", 0, ZNOAUTH);
    zk_link_lock(user.link);
    zk_link_end(user.link); /* the next session logs in, too */
    zk_link_unlock(user.link);
    for (int polls = 0; polls < 1000 && rc == ZNODEEXISTS; polls++) { /* the first one ends */
        dlt_sleep_ms(5);
        cr_assert_eq(ask(&user, ZK_CREATE, BASE "/own", ZOO_EPHEMERAL, &rc), DLOCK_OK, "%s",
                     user.err.message);
    }
    cr_assert_eq(rc, ZOK, "%s", zerror(rc));
    want_rc(&rig, ZK_GET, BASE "/own", 0, ZNOAUTH);
    rig_close(&user);
}

Test(link, a_user_without_a_password)
{
    struct rig user = {.link = NULL};

    rig_config(&user);
    user.target = with_password;
    user.target.password = NULL;
    user.config.user = "u";
    rig_greet(&user);
    cr_assert_eq(rig_connect(&user, 3000), DLOCK_AUTH);
    cr_assert(strstr(user.err.message, "password") != NULL, "%s", user.err.message);
    rig_close(&user);
}
