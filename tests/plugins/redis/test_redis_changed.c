/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/call/call.c */
/* Is what a client learned about its server learned again, when it changes under a client that is
 * open and idle? (C1, C16) */
#include "hiding_proxy.h"
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUARD_MS = 1000, SETTINGS_MS = 10000 };

static struct dlt_redis server, other;
static struct dlt_session s, t; /* of one who holds, and of one who is idle */
static struct dlt_request a, b;

static void session_open(struct dlt_session *session, const char *address)
{
    dlt_session_init(session, "redis", address);
    dlt_session_trusted(session);
    dlt_session_option(session, "restart_guard", "1000");
    dlt_session_option(session, "waiter_lease", "1000");
    dlt_session_option(session, "failover", "auto");
    session->call_ms = 5000;
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

static void granted_wait(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_BUSY;

    for (int i = 0; i < 400 && status != DLOCK_OK; i++) {
        status = dlt_try(session, request);
        if (status != DLOCK_OK)
            dlt_sleep_ms(20);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", session->err.message);
}

/* Each client has a guard of its own after the server's start. BUSY of the guard has a text. */
static void refused_wait(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    for (int i = 0; i < 400; i++) {
        session->err.message[0] = '\0';
        status = dlt_try(session, request);
        if (strstr(session->err.message, "restart_guard") == NULL)
            break;
        dlt_sleep_ms(20);
    }
    cr_assert_eq(status, DLOCK_BUSY, "%s", session->err.message);
}

/* s holds "job", and t has been answered BUSY, past the guard of the server's start. */
static void hold(const char *address)
{
    session_open(&s, address);
    session_open(&t, address);
    dlt_request(&s, &a, "job", 'a', GUARD_MS);
    dlt_request(&t, &b, "job", 'b', GUARD_MS);
    granted_wait(&s, &a);
    refused_wait(&t, &b);
}

static void set_up(void)
{
    static const char *const args[] = {"--repl-diskless-sync-delay", "0", NULL};

    cr_assert(dlt_redis_start(&server, args), "%s", server.why);
    cr_assert(dlt_redis_start(&other, args), "%s", other.why);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&t);
    dlt_redis_stop(&server);
    dlt_redis_stop(&other);
}

TestSuite(changed, .init = set_up, .fini = tear_down, .timeout = 120);

static void says_wait(struct dlt_redis *of, const char *what)
{
    for (int i = 0; i < 400; i++) {
        if (strstr(dlt_redis_ask(of, "INFO replication"), what) != NULL)
            return;
        dlt_sleep_ms(20);
    }
    cr_assert_fail("no %s: %s", what, dlt_redis_ask(of, "INFO replication"));
}

static void follow(struct dlt_redis *follower, const struct dlt_redis *master)
{
    (void)dlt_redis_ask(follower, "REPLICAOF 127.0.0.1 %u", master->port);
    says_wait(follower, "master_link_status:up");
}

/* C1: it took over the data of the other server, which knows nothing of the lock. */
Test(changed, C1_a_master_that_was_a_replica_for_a_moment_is_another_server)
{
    hold(server.address);
    follow(&server, &other);
    (void)dlt_redis_ask(&server, "REPLICAOF NO ONE");
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}"), "0", "it has forgotten");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "an idle client: %s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "a replica may become the master"), "%s",
                       t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE, "its holder: %s", s.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG, "a new client: %s", t.err.message);
}

/* While it is a replica a client that is open waits: the server may be a master again. */
Test(changed, C8_a_server_that_is_a_replica_is_waited_for)
{
    hold(server.address);
    (void)dlt_redis_ask(&server, "CONFIG SET replica-read-only no");
    follow(&server, &other);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "a replica (role slave)"), "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    (void)dlt_redis_ask(&server, "CONFIG SET replica-read-only yes");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_CONFIG, "a new client: %s", t.err.message);
}

/* What the server forgot when it was a replica may be another one's: a release passes nothing on.
 */
Test(changed, C1_a_release_at_another_server_passes_nothing_on)
{
    struct dlt_session unsafe;

    hold(server.address);
    cr_assert_eq(dlt_enqueue(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    follow(&other, &server);
    dlt_session_init(&unsafe, "redis", server.address);
    (void)dlt_redis_ask(&other, "REPLICAOF NO ONE");
    says_wait(&server, "connected_slaves:0");
    follow(&server, &other); /* with holder and waiter, as it was a moment ago */
    (void)dlt_redis_ask(&server, "REPLICAOF NO ONE");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}"), "0", "nobody has it");
    t.ops->forget(t.self, &b.req);
}

/* ---- a restart that nobody sees ---- */

/* C1: also for a client that asked a moment ago. */
Test(changed, C1_a_restart_that_a_proxy_hides_has_its_guard)
{
    static struct dlt_hiding_proxy proxy;
    int64_t up_ns = 0;

    cr_assert(dlt_hiding_proxy_start(&proxy, server.port));
    hold(proxy.address);
    dlt_redis_kill(&server);
    up_ns = dlt_host_now(t.shared);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "the server was started"), "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    granted_wait(&t, &b);
    cr_assert_geq(dlt_host_now(t.shared) - up_ns, GUARD_MS * DLT_NS_PER_MS);
    dlt_session_close(&s);
    dlt_session_close(&t);
    dlt_hiding_proxy_stop(&proxy);
}

/* ---- durability ---- */

/* C16: of a client that keeps its connection. */
Test(changed, C16_durability_that_a_setting_ends_is_gone)
{
    dlt_redis_stop(&server);
    cr_assert(dlt_redis_start(
        &server, (const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL}));
    hold(server.address);
    cr_assert_neq(s.info.caps & DLOCK_CAP_FENCE_DURABLE, 0u);
    (void)dlt_redis_ask(&server, "CONFIG SET appendonly no");
    dlt_host_advance(&s.host, SETTINGS_MS);
    granted_wait(&s, &a);
    cr_assert_eq(s.host.caps & DLOCK_CAP_FENCE_DURABLE, 0u);
    cr_assert_neq(s.host.caps & DLOCK_CAP_CRASH_SAFE, 0u, "the guard stays");
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 100mb");
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory-policy allkeys-lru");
    dlt_host_advance(&s.host, SETTINGS_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG, "it throws locks away: %s", s.err.message);
}

static long count_of(const char *command, const char *what)
{
    const char *at = strstr(dlt_redis_ask(&server, "INFO commandstats"), command);

    at = at != NULL ? strstr(at, what) : NULL;
    return at != NULL ? strtol(at + strlen(what), NULL, 10) : 0;
}

/* An administrator who looks at what was refused sees no client that tries for ever. */
Test(changed, SEC_settings_that_the_user_may_not_read_are_asked_for_once)
{
    long refused = 0, asked = 0;

    dlt_session_init(&s, "redis", server.address);
    dlt_session_option(&s, "restart_guard", "0");
    dlt_session_option(&s, "failover", "auto");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    refused = count_of("cmdstat_config|get:", "rejected_calls=");
    asked = count_of("cmdstat_info:", "calls=");
    cr_assert_gt(refused, 0);
    dlt_host_advance(&s.host, SETTINGS_MS);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_gt(count_of("cmdstat_info:", "calls="), asked + 3, "it looked again");
    cr_assert_eq(count_of("cmdstat_config|get:", "rejected_calls="), refused);
}

/* C1: a server that writes everything down may not have done so before it started, and may not read
 * it when it starts. */
Test(changed, C1_a_durable_server_has_a_guard_and_bounds_the_ttl)
{
    dlt_redis_stop(&server);
    cr_assert(dlt_redis_start(
        &server, (const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL}));
    hold(server.address);
    (void)dlt_redis_ask(&server, "CONFIG SET appendonly no");
    dlt_redis_kill(&server);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    (void)dlt_redis_ask(&server, "FLUSHALL"); /* as the file lacks what came after the setting */
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_neq(t.info.caps & DLOCK_CAP_FENCE_DURABLE, 0u);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    dlt_request(&t, &b, "job", 'b', GUARD_MS + 1);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "%s", t.err.message);
}

/* ---- what follows the server ---- */

/* C1: nothing ends this master when the replica becomes one. C8: that may pass. */
Test(changed, C1_a_replica_that_attaches_ends_grants_until_it_has_gone)
{
    hold(server.address);
    follow(&other, &server);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "min-replicas-to-write 1 (now 0)"), "%s",
                       t.err.message);
    (void)dlt_redis_ask(&other, "REPLICAOF NO ONE");
    says_wait(&server, "connected_slaves:0");
    granted_wait(&t, &b);
}

/* As redis-cli --rdb does: it says no port, and cannot become a master. */
static int backup_start(struct dlt_redis *of)
{
    int fd = dlt_hiding_proxy_dial(of->port);

    cr_assert_eq(send(fd, "SYNC\r\n", 6, MSG_NOSIGNAL), 6);
    says_wait(of, "connected_slaves:1");
    says_wait(of, ",port=0,");
    return fd;
}

Test(changed, C8_a_backup_is_no_replica)
{
    int fd = -1;

    hold(server.address);
    fd = backup_start(&server);
    granted_wait(&s, &a);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    dlt_session_close(&t);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "a new client: %s", t.err.message);
    (void)close(fd);
}

/* The file has the replication id of the start before, as if the server had been promoted. */
Test(changed, C8_a_restart_after_a_backup_is_no_promotion)
{
    int fd = backup_start(&server);

    says_wait(&server, "state=online");
    (void)close(fd);
    cr_assert_str_eq(dlt_redis_ask(&server, "SAVE"), "OK");
    dlt_redis_kill(&server);
    cr_assert(dlt_redis_again(&server), "%s", server.why);
    cr_assert_null(strstr(dlt_redis_ask(&server, "INFO replication"), "master_replid2:0000"));
    hold(server.address);
}
