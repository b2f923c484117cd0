/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/connect.c plugins/etcd/endpoints.c plugins/etcd/connect.c
 * plugins/etcd/exchange.c */
/* Members that hang, end, have no leader, forget, or belong to another cluster; connections that
 * are cut before, in and after a request. */
#include "endpoint_fixture.h"
#include "proxy_client.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dlt_etcd server, other;
static struct dlt_proxy proxy;

static void tear_down(void)
{
    e_close();
    (void)dlt_proxy_stop(&proxy);
    dlt_etcd_stop(&server);
    dlt_etcd_stop(&other);
}

TestSuite(endpoints, .fini = tear_down, .timeout = 90);

static unsigned first; /* the member that is asked first */

/* first is a follower, or of one member. */
static void start(unsigned count)
{
    int leader = -1;

    cr_assert(dlt_etcd_start_cluster(&server, count, NULL), "%s", server.why);
    leader = dlt_etcd_leader_wait(&server);
    cr_assert_geq(leader, 0);
    first = ((unsigned)leader + 1) % count;
    e_target("etcd", server.members[first].address,
             count > 1 ? server.members[(first + 1) % count].address : NULL,
             server.members[(first + 2) % count].address);
}

/* On a busy machine `first` may have no leader for a moment, and another one is taken. */
static void open_first(void)
{
    const char *address = server.members[first].address;

    for (int i = 0; i < 20; i++) {
        if (e_open() == DLOCK_OK && strcmp(e.endpoints.member.endpoint, address) == 0)
            return;
        dlt_sleep_ms(100);
    }
    cr_assert_str_eq(e.endpoints.member.endpoint, address, "%s", e.s.err.message);
}

static void connect_behind_proxy(void)
{
    start(1);
    cr_assert(dlt_proxy_start(&proxy, server.members[0].address, "raw", NULL), "%s", proxy.answer);
    e_target("etcd", proxy.address, NULL, NULL);
    cr_assert_eq(e_connect(), DLOCK_OK, "%s", e.s.err.message);
}

static void start_behind_proxy(void)
{
    struct etcd_member member;

    connect_behind_proxy();
    etcd_endpoints_opened(&e.endpoints, &member);
}

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static bool is_there(const char *key)
{
    return dlt_etcd_ask(&server, "get --keys-only %s", key)[0] != '\0';
}

/* ---- members ---- */

Test(endpoints, C8_a_member_that_hangs_leaves_time_for_the_next_one)
{
    int64_t begin_ns = 0;

    start(1);
    cr_assert(dlt_etcd_start(&other, NULL), "%s", other.why);
    dlt_etcd_pause(&other, 0, true);
    e_target("etcd", other.members[0].address, server.members[0].address, NULL);
    begin_ns = dlt_host_now(&e.s.host);
    e.s.call_ms = 1000;
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_str_eq(e.endpoints.member.endpoint, server.members[0].address);
    cr_assert_geq(dlt_host_now(&e.s.host) - begin_ns, 490 * DLT_NS_PER_MS);
    e_close();
    e.hosts[1] = NULL;
    e.s.call_ms = 300;
    e_want_open(DLOCK_UNAVAILABLE, "no answer in time");
}

Test(endpoints, C9_a_member_that_hangs_is_left)
{
    start(3);
    open_first();
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_str_eq(e.endpoints.member.endpoint, server.members[first].address);
    dlt_etcd_pause(&server, first, true);
    e.s.call_ms = 500;
    cr_assert_eq(e_put("locks/b"), DLOCK_UNKNOWN, "%d: %s", (int)e.s.err.status, e.s.err.message);
    cr_assert(strstr(e.s.err.message, "no answer in time") != NULL, "%s", e.s.err.message);
    e.s.call_ms = 10000;
    cr_assert_eq(e_put("locks/c"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_str_neq(e.endpoints.member.endpoint, server.members[first].address);
}

/* A queue entry of 3 s, which is refreshed each second, stays. */
Test(endpoints, C13_a_question_to_a_member_that_hangs_goes_to_another_one_in_time)
{
    int64_t begin_ns = 0;

    start(3);
    open_first();
    cr_assert_eq(e_get("locks/a", NULL), DLOCK_OK, "%s", e.s.err.message);
    dlt_etcd_pause(&server, first, true);
    e.s.call_ms = 2000;
    begin_ns = dlt_host_now(&e.s.host);
    cr_assert_eq(e_get("locks/a", NULL), DLOCK_OK, "%s", e.s.err.message);
    cr_assert(dlt_host_within(&e.s.host, begin_ns, 1900), "%s", dlt_within_text());
    cr_assert_str_neq(e.endpoints.member.endpoint, server.members[first].address);
}

Test(endpoints, TRY_4_a_member_that_ended_is_replaced_by_another_one)
{
    size_t found = 0;

    start(3);
    open_first();
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    dlt_etcd_kill(&server, first);
    e.s.call_ms = 10000;
    cr_assert_eq(e_put("locks/b"), DLOCK_OK, "not sent, and sent to another one: %s",
                 e.s.err.message);
    cr_assert_eq(e_get("locks/b", &found), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(found, 1);
}

/* The others elect a new leader soon: they say so, and core asks again. The member that hangs does
 * not take all the time. */
Test(endpoints, C8_a_leader_that_hangs)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    int64_t begin_ns = 0;

    start(3);
    e_target("etcd", server.members[(first + 2) % 3].address, /* the leader */
             server.members[(first + 1) % 3].address, server.members[first].address);
    first = (first + 2) % 3;
    open_first();
    begin_ns = dlt_host_now(&e.s.host);
    dlt_etcd_pause(&server, first, true);
    e.s.call_ms = 300;
    cr_assert_eq(e_put("locks/a"), DLOCK_UNKNOWN);
    e.s.call_ms = 3000;
    for (int i = 0; i < 10 && status == DLOCK_UNAVAILABLE; i++)
        status = e_put("locks/b");
    cr_assert_eq(status, DLOCK_OK, "%s", e.s.err.message);
    cr_assert(dlt_host_within(&e.s.host, begin_ns, 10000), "%s", dlt_within_text());
}

/* The answer comes at once, not after the seconds that etcd would wait for a leader. */
Test(endpoints, TRY_4_a_member_without_a_leader_executes_nothing)
{
    enum dlock_status status = DLOCK_OK;
    int64_t begin_ns = 0;

    start(3);
    e.hosts[1] = NULL;
    open_first();
    dlt_etcd_kill(&server, (first + 1) % 3);
    dlt_etcd_kill(&server, (first + 2) % 3);
    for (int i = 0; i < 50 && status != DLOCK_UNAVAILABLE; i++) {
        e.s.call_ms = 1000;
        status = e_put("locks/a");
        cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%d: %s", (int)status,
                  e.s.err.message);
    }
    cr_assert_eq(status, DLOCK_UNAVAILABLE);
    e.s.call_ms = 5000;
    begin_ns = dlt_host_now(&e.s.host);
    cr_assert_eq(e_put("locks/b"), DLOCK_UNAVAILABLE, "%s", e.s.err.message);
    cr_assert(strstr(e.s.err.message, "no leader") != NULL, "%s", e.s.err.message);
    cr_assert(dlt_host_within(&e.s.host, begin_ns, 2000), "%s", dlt_within_text());
    cr_assert(dlt_etcd_again(&server, (first + 1) % 3), "%s", server.why);
    for (int i = 0; i < 50 && status != DLOCK_OK; i++)
        status = e_put("locks/c");
    cr_assert_eq(status, DLOCK_OK, "%s", e.s.err.message);
    cr_assert(!is_there("locks/b"));
}

/* The first one may come back: it is waited for. */
Test(endpoints, OPN_1_a_member_of_another_cluster_serves_nothing)
{
    start(1);
    cr_assert(dlt_etcd_start(&other, NULL), "%s", other.why);
    e_target("etcd", server.members[0].address, other.members[0].address, NULL);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    dlt_etcd_kill(&server, 0);
    cr_assert_eq(e_put("locks/a"), DLOCK_UNAVAILABLE, "%s", e.s.err.message);
    cr_assert(strstr(e.s.err.message, "another cluster") != NULL, "%s", e.s.err.message);
    cr_assert(strstr(e.s.err.message, other.members[0].address) != NULL, "%s", e.s.err.message);
    cr_assert(dlt_etcd_again(&server, 0), "%s", server.why);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
}

/* A server of another kind where a member should be, before or behind the one that is down. */
Test(endpoints, C8_a_member_that_is_wrong_for_good_ends_no_wait)
{
    start(1);
    cr_assert(dlt_etcd_start_tls(&other, "server", false, NULL), "%s", other.why);
    for (int i = 0; i < 2; i++) {
        const char *right = server.members[0].address, *wrong = other.members[0].address;

        e_target("etcds", i == 0 ? wrong : "127.0.0.1:1", i == 0 ? "127.0.0.1:1" : wrong, NULL);
        e_want_open(DLOCK_UNAVAILABLE, "127.0.0.1:1: connect: Connection refused");
        e_want_open(DLOCK_UNAVAILABLE, wrong);
        e_target("etcds", wrong, NULL, NULL);
        e_want_open(DLOCK_AUTH, wrong);
        e_target("etcd", right, NULL, NULL);
        e_want_open(DLOCK_OK, "");
    }
}

Test(endpoints, a_store_that_lost_its_data_is_logged_once)
{
    start(1);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    for (int i = 0; i < 2; i++) {
        dlt_etcd_kill(&server, 0);
        cr_assert(dlt_etcd_again(&server, 0), "%s", server.why);
        cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
        cr_assert_eq(e.s.host.logs, 0, "%s", e.s.host.logged);
    }
    for (int i = 0; i < 2; i++) {
        dlt_etcd_kill(&server, 0);
        dlt_etcd_forget(&server, 0);
        cr_assert(dlt_etcd_again(&server, 0), "%s", server.why);
        cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
        cr_assert_eq(e.s.host.logs, 1);
        cr_assert(strstr(e.s.host.logged, "lost data") != NULL, "%s", e.s.host.logged);
    }
}

/* ---- connections ---- */

Test(endpoints, TRY_4_a_connection_that_was_closed_before_the_request)
{
    start_behind_proxy();
    for (int i = 0; i < 2; i++) {
        tell(i == 0 ? "kill fin" : "kill rst");
        dlt_sleep_ms(50);
        cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    }
    tell("accept refuse");
    tell("kill rst");
    dlt_sleep_ms(50);
    cr_assert_eq(e_put("locks/b"), DLOCK_UNAVAILABLE, "%s", e.s.err.message);
    tell("accept on");
    cr_assert_eq(e_put("locks/c"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert(!is_there("locks/b"));
}

/* And the next one is refused. */
static void break_connection(void)
{
    tell("accept refuse");
    tell("kill rst");
    for (int i = 0; i < 1000 && dlt_proxy_count(&proxy, 0, "open") > 0; i++)
        dlt_sleep_ms(10);
    dlt_sleep_ms(20);
}

Test(endpoints, CNT_1_connections_after_the_first_one_are_counted)
{
    start_behind_proxy();
    cr_assert_eq(e_put("/locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_str_eq(dlt_host_counted(&e.s.host), "0, 0, 0", "that of open is core's");
    break_connection();
    cr_assert_eq(e_put("/locks/a"), DLOCK_UNAVAILABLE);
    cr_assert_str_eq(dlt_host_counted(&e.s.host), "0, 1, 1");
    tell("accept on");
    cr_assert_eq(e_put("/locks/a"), DLOCK_OK, "%s", e.s.err.message);
    e_close();
    cr_assert_str_eq(dlt_host_counted(&e.s.host), "1, 0, 0", "close breaks none");
}

/* `open` asks more than one question, and connects anew if the connection breaks between them. */
Test(endpoints, CNT_1_connections_of_open_are_not_counted)
{
    struct etcd_member member;

    connect_behind_proxy();
    break_connection();
    cr_assert_eq(e_put("/locks/a"), DLOCK_UNAVAILABLE);
    tell("accept on");
    cr_assert_eq(e_put("/locks/a"), DLOCK_OK, "%s", e.s.err.message);
    etcd_endpoints_opened(&e.endpoints, &member);
    cr_assert_str_eq(dlt_host_counted(&e.s.host), "0, 0, 0");
}

/* UNAVAILABLE: the bytes before the cut were none of the request. */
Test(endpoints, TRY_4_a_connection_that_is_cut_in_the_request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    start_behind_proxy();
    tell("cut c2s 10 rst");
    status = e_put("locks/a");
    cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%d: %s", (int)status,
              e.s.err.message);
    tell("pass");
    cr_assert_eq(e_put("locks/b"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert(!is_there("locks/a"));
}

Test(endpoints, TRY_4_a_connection_that_is_cut_before_the_answer)
{
    start_behind_proxy();
    tell("cut s2c 0 rst");
    cr_assert_eq(e_put("locks/a"), DLOCK_UNKNOWN, "%s", e.s.err.message);
    tell("pass");
    cr_assert_eq(e_put("locks/b"), DLOCK_OK, "%s", e.s.err.message);
    tell("cut s2c 0 rst");
    cr_assert_eq(e_get("locks/a", NULL), DLOCK_UNAVAILABLE, "a read is never in doubt: %s",
                 e.s.err.message);
}

Test(endpoints, TRY_4_C9_no_answer_in_time)
{
    start_behind_proxy();
    tell("blackhole s2c");
    e.s.call_ms = 300;
    cr_assert_eq(e_put("locks/a"), DLOCK_UNKNOWN, "%s", e.s.err.message);
    tell("pass");
    e.s.call_ms = 5000;
    cr_assert_eq(e_put("locks/b"), DLOCK_OK, "a new connection: %s", e.s.err.message);
    cr_assert(is_there("locks/a"));
}

static void *put_some(void *key)
{
    for (int i = 0; i < 20; i++) {
        struct dlock_error err = DLOCK_ERROR_INIT;
        struct etcd_rpc rpc, *pointer = &rpc;
        enum dlock_status status = DLOCK_INTERNAL;

        e_put_add(&rpc, key);
        status = etcd_exchange(&e.endpoints, &pointer, 1, true, e_deadline(), NULL, &err);
        etcd_rpc_fini(&rpc);
        if (status != DLOCK_OK)
            return key;
    }
    return NULL;
}

Test(endpoints, threads_share_a_connection)
{
    pthread_t threads[8];
    char keys[8][16];

    start_behind_proxy();
    tell("kill rst");
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "locks/%zu", i);
        cr_assert_eq(pthread_create(&threads[i], NULL, put_some, keys[i]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        void *failed = NULL;

        (void)pthread_join(threads[i], &failed);
        cr_assert_null(failed);
    }
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 2);
}

Test(endpoints, CLS_1_a_child_closes_without_a_word)
{
    int status = 0;
    pid_t pid = 0;

    start_behind_proxy();
    pid = fork();
    if (pid == 0) {
        etcd_endpoints_after_fork(&e.endpoints);
        memset(&e.endpoints, 0, sizeof e.endpoints);
        _exit(e_open() != DLOCK_OK || e_put("locks/child") != DLOCK_OK);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(e_put("locks/parent"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 2);
}
