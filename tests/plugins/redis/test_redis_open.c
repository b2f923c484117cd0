/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/link/connection.c plugins/redis/link/config.c plugins/resp/setup.c */
/* Tests: plugins/resp/info.c */
/* Tests: plugins/resp/config.c */
/* Is a server refused that cannot keep a lock, or that is not who it should be? (OPN, C16, C17) */
#include "probed.h"
#include "redis/link/slot.h"
#include "redis_kit.h"
#include "resp/setup.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b;

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

TestSuite(open, .fini = tear_down, .timeout = 60);

/* As a user who may see all that a server is set up like. */
static void start(const char *const *args)
{
    cr_assert(dlt_redis_start(&server, args), "%s", server.why);
    dlt_session_init(&s, "redis", server.address);
    dlt_session_trusted(&s);
}

static void refused(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "%d: %s", s.err.status, s.err.message);
    cr_assert(strstr(s.err.message, text) != NULL, "%s", s.err.message);
    cr_assert_eq(s.self, NULL);
}

Test(open, OPN_4_nothing_in_the_store_changes)
{
    char version[96];

    start(NULL);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "DBSIZE"), "0");
    cr_assert(strstr(dlt_redis_ask(&server, "INFO commandstats"), "cmdstat_eval") == NULL);
    cr_assert(strncmp(s.info.server, "Redis ", 6) == 0, "%s", s.info.server);
    (void)snprintf(version, sizeof version, "redis_version:%.64s\r\n", s.info.server + 6);
    cr_assert(strstr(dlt_redis_ask(&server, "INFO server"), version) != NULL, "%s", version);
    cr_assert_str_eq(s.info.endpoint, server.address);
}

/* Behind a proxy that hides a restart, another server may answer from any of the questions on. The
 * scripts find that out, if the identity is that of the first one. */
Test(open, C1_the_identity_of_a_server_is_asked_for_first)
{
    static const char first[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
    const struct resp_config config = {.asks_past = true};
    struct resp_setup setup;
    struct resp_info info;

    cr_assert(resp_setup_begin(&setup, &config, false, &info));
    cr_assert_gt(setup.len, sizeof first);
    cr_expect_arr_eq(setup.bytes, first, sizeof first - 1, "%.60s", setup.bytes);
    resp_setup_end(&setup);
}

Test(open, OPN_1_a_server_that_evicts)
{
    start((const char *[]){"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru",
                           "--appendonly", "yes", "--appendfsync", "always", NULL});
    refused(DLOCK_CONFIG, "volatile-lru");
    dlt_session_option(&s, "unsafe_eviction", "1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(s.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE), 0);
}

Test(open, OPN_1_a_policy_without_a_limit_evicts_nothing)
{
    start((const char *[]){"--maxmemory-policy", "allkeys-lru", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
}

Test(open, OPN_1_a_replica_and_a_node_of_a_cluster)
{
    start((const char *[]){"--replicaof", "127.0.0.1 1", NULL});
    refused(DLOCK_CONFIG, "replica");
    dlt_redis_stop(&server);
    start((const char *[]){"--cluster-enabled", "yes", NULL});
    refused(DLOCK_CONFIG, "cluster");
}

/* Each second slot, one by one: 8,192 ranges. */
static void slots_give(void)
{
    static char words[REDIS_SLOTS / 2 + 2][16] = {"CLUSTER", "ADDSLOTS"};
    static const char *argv[REDIS_SLOTS / 2 + 2];
    redisContext *context = redisConnectUnix(server.socket);
    redisReply *reply = NULL;
    unsigned count = 0;

    for (; count < REDIS_SLOTS / 2 + 2; count++) {
        if (count >= 2)
            (void)snprintf(words[count], sizeof words[0], "%u", 2 * (count - 2));
        argv[count] = words[count];
    }
    reply = redisCommandArgv(context, (int)count, argv, NULL);
    cr_assert_not_null(reply);
    cr_assert_str_eq(reply->str, "OK");
    freeReplyObject(reply);
    redisFree(context);
}

/* As a server has them to which slots were moved one by one. */
Test(open, OPN_1_a_cluster_with_thousands_of_ranges_of_slots)
{
    enum dlock_status status = DLOCK_INTERNAL;

    start((const char *[]){"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
                           NULL});
    slots_give();
    s.target.scheme = "redis+cluster";
    dlt_session_option(&s, "failover", "unsafe");
    s.call_ms = 5000;
    for (int i = 0; i < 100 && status != DLOCK_OK; i++) { /* the cluster needs a moment */
        dlt_session_close(&s);
        status = dlt_session_open(&s);
        dlt_sleep_ms(50);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", s.err.message);
}

/* A wait for it would never end. Root may open each socket, and is somebody else here. */
Test(open, OPN_3_a_unix_socket_that_the_user_may_not_open_is_AUTH)
{
    bool is_root = geteuid() == 0;

    start(NULL);
    dlt_session_init(&s, "redis+unix", server.socket);
    cr_assert_eq(chmod(server.socket, 0700), 0);
    cr_assert(is_root ? seteuid(65534) == 0 : chmod(server.socket, 0) == 0);
    (void)dlt_session_open(&s);
    cr_assert(!is_root || seteuid(0) == 0);
    cr_assert_eq(s.err.status, DLOCK_AUTH, "%s", s.err.message);
    cr_assert(strstr(s.err.message, server.socket) != NULL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "Permission denied") != NULL, "%s", s.err.message);
}

/* A script that stopped half-way would leave what nobody can give back. */
Test(open, OPN_1_a_server_without_a_command_of_the_scripts)
{
    static const char *const names[] = {"EVALSHA", "EVAL", "TIME", "HSET", "ZRANGEBYSCORE"};
    char text[64];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        start((const char *[]){"--rename-command", names[i], "", NULL});
        (void)snprintf(text, sizeof text, "the server has no command %s:", names[i]);
        refused(DLOCK_CONFIG, text);
        dlt_session_init(&s, "redis", server.address);
        refused(DLOCK_CONFIG, text); /* a user who may do no more than locks need */
        tear_down();
    }
    start((const char *[]){"--rename-command", "PUBLISH", "", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "waiters ask: %s", s.err.message);
}

/* ... and if the user may not look for commands. */
Test(open, TRY_4_a_script_that_the_server_does_not_run_is_CONFIG)
{
    start((const char *[]){"--rename-command", "EVALSHA", "", "--user", "u", "on", "nopass", "~*",
                           "&*", "+@all", "-command", NULL});
    s.target.user = "u";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "secret_name", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "EVALSHA") != NULL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "secret_name") == NULL, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_CONFIG, "%s", s.err.message);
}

Test(open, OPN_2_C16_durability_is_announced_when_it_is_there)
{
    static const char *const half[] = {"everysec", "no"};

    for (size_t i = 0; i < 2; i++) {
        start((const char *[]){"--appendonly", "yes", "--appendfsync", half[i], NULL});
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        cr_assert_eq(s.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE), 0);
        tear_down();
    }
    start((const char *[]){"--appendonly", "yes", "--appendfsync", "always", "--user", "u", "on",
                           "nopass", "~*", "&*", "+@all", "-config", NULL});
    s.target.user = "u";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE), 0,
                 "not to be known is not to be had");
}

/* INVALID: what a newcomer writes is answered by what was meant. */
Test(open, INVALID_says_what_was_meant)
{
    dlt_session_init(&s, "redis", "h1");
    s.hosts[1] = "h2";
    refused(DLOCK_INVALID, "for several independent servers: redlock://");
    dlt_session_init(&s, "redis", "h");
    s.target.path = "/abc";
    refused(DLOCK_INVALID, "'abc' is not a database number");
}

/* What was announced is looked at again on each connection, and said once if it is gone: in the
 * log, and to core. */
Test(open, C16_durability_that_is_gone_is_said)
{
    const uint32_t durable = DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE;

    start((const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL});
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    for (int i = 0; i < 3; i++) {
        (void)dlt_redis_ask(&server, "CLIENT KILL TYPE normal SKIPME yes");
        dlt_sleep_ms(50);
        (void)dlt_try(&s, &a); /* the end may be seen too late */
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(s.host.logs, i == 0 ? 0 : 1, "%d", i);
        cr_assert_eq(s.host.caps & durable, i == 0 ? durable : 0, "%d", i);
        (void)dlt_redis_ask(&server, "CONFIG SET appendfsync everysec");
    }
}

Test(open, probe_says_what_it_found_and_what_it_costs)
{
    struct dlt_probed probed;

    start(NULL);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_probed_read(&probed, &s), DLOCK_OK, "%s", s.err.message);
    dlt_probed_has(&probed, "|role=master|");
    dlt_probed_has(&probed, "|maxmemory-policy=noeviction|");
    cr_assert_eq(probed.clears, DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(&s.host, 2000), &s.info, NULL, NULL, &s.err),
                 DLOCK_CONFIG, "it was changed under us");
}

Test(open, OPN_3_AUTH_and_no_password_in_any_message)
{
    start((const char *[]){"--requirepass", "hunter2", NULL});
    refused(DLOCK_AUTH, "NOAUTH");
    s.target.password = "s3cr3t";
    refused(DLOCK_AUTH, "WRONGPASS");
    cr_assert(strstr(s.err.message, "s3cr3t") == NULL);
    s.target.user = "nobody";
    refused(DLOCK_AUTH, "WRONGPASS");
    s.target.user = NULL;
    s.target.password = "hunter2";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
}

Test(open, AUTH_a_password_that_is_changed_while_we_are_connected)
{
    start((const char *[]){"--user", "u", "on", ">one", "~*", "&*", "+@all", NULL});
    s.target.user = "u";
    s.target.password = "one";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "ACL SETUSER u resetpass >two");
    (void)dlt_redis_ask(&server, "CLIENT KILL USER u");
    dlt_sleep_ms(20);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_AUTH, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_AUTH, "%s", s.err.message);
    dlt_session_close(&s);
    refused(DLOCK_AUTH, "WRONGPASS");
    s.target.password = "two";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
}

/* The user u gives back what b waits for, in a client of another user. */
static void pass_on_as_u(struct dlt_session *other)
{
    s.target.user = "u";
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_session_start(other, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_queue_up(other, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* debian12.md's trap: a channel that may not be used must not break an unlock half-way. */
Test(open, a_user_without_channels_waits_by_asking)
{
    struct dlt_session other;

    start((const char *[]){"--user", "u", "on", "nopass", "~*", "resetchannels", "+@all", NULL});
    pass_on_as_u(&other);
    cr_assert_eq(dlt_watch(&other, &b, 50), DLOCK_TIMEOUT, "u may not tell it");
    cr_assert_eq(s.host.logs, 1, "and is told that");
    cr_assert_eq(dlt_refresh(&other, &b), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&s, &a, 50), DLOCK_TIMEOUT, "u may not listen");
    cr_assert_eq(s.host.logs, 2, "and is told why");
    cr_assert_eq(dlt_unlock(&other, &b), DLOCK_OK);
    cr_assert_eq(dlt_refresh(&s, &a), DLOCK_OK);
    dlt_session_close(&other);
}

/* PUBLISH is not permitted: who waits is granted the name untold. */
Test(open, a_user_who_may_tell_nobody_gives_back_and_passes_on)
{
    struct dlt_session other;
    struct dlt_holder holder;
    size_t count = 1;

    start((const char *[]){"--user", "u", "on", "nopass", "~*", "&*", "+@all", "-publish", NULL});
    pass_on_as_u(&other);
    cr_assert_eq(dlt_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.owner, "62626262626262626262626262626262");
    cr_assert_eq(dlt_watch(&other, &b, 50), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_refresh(&other, &b), DLOCK_OK);
    dlt_session_close(&other);
}

Test(open, UNAVAILABLE_nobody_there)
{
    start(NULL);
    dlt_redis_kill(&server);
    refused(DLOCK_UNAVAILABLE, "refused");
    dlt_session_init(&s, "redis", "no-such-host.invalid:1");
    refused(DLOCK_UNAVAILABLE, "looking up the host");
    dlt_session_init(&s, "redis+unix", "/nonexistent/redis.sock");
    refused(DLOCK_UNAVAILABLE, "No such file");
}

Test(open, UNAVAILABLE_when_the_server_is_full_and_works_again)
{
    struct dlt_session others[8] = {0};
    enum dlock_status status = DLOCK_OK;
    size_t count = 0;

    start((const char *[]){"--maxclients", "4", NULL});
    while (count < 8 && status == DLOCK_OK) {
        dlt_session_init(&others[count], "redis", server.address);
        status = dlt_session_open(&others[count++]);
    }
    cr_assert_eq(status, DLOCK_UNAVAILABLE, "%s", others[count - 1].err.message);
    for (size_t i = 0; i < count; i++)
        dlt_session_close(&others[i]);
    while (dlt_session_open(&s) == DLOCK_UNAVAILABLE)
        dlt_sleep_ms(10);
    cr_assert_neq(s.self, NULL, "%s", s.err.message);
}

Test(open, INVALID_what_core_could_not_check)
{
    static const struct {
        const char *scheme, *host, *path, *option, *value;
    } bad[] = {
        {"redis", NULL, "", NULL, NULL},
        {"redis", "h", "/x", NULL, NULL},
        {"redis", "h", "/1/2", NULL, NULL},
        {"redis", "h", "/1", "db", "1"},
        {"redis", "h", "", "restart_guard", "1000"}, /* below waiter_lease */
        {"redis", "h", "", "prefix", "a{b"},
        {"rediss", "127.0.0.1:1", "", "cert", "/x"},
        {"rediss", "127.0.0.1:1", "", "ca", "/nonexistent/ca.pem"},
        {"redis+unix", "h", "/run/s", NULL, NULL},
        {"redis+unix", NULL, "relative", NULL, NULL},
        {"redis+unix", NULL,
         "/a-path-that-is-longer-than-a-hundred-and-seven-bytes-which-is-what-the-kernel-takes-for-"
         "a-"
         "socket-and-no-more-than-that",
         NULL, NULL},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dlt_session_init(&s, bad[i].scheme, "");
        s.hosts[0] = bad[i].host;
        s.target.path = bad[i].path;
        if (bad[i].option != NULL)
            dlt_session_option(&s, bad[i].option, bad[i].value);
        cr_assert_eq(dlt_session_open(&s), DLOCK_INVALID, "%zu: %s", i, s.err.message);
    }
}

/* ---- TLS ---- */

/* C17: who asks for a certificate to be looked at is not served in the clear. */
Test(open, INVALID_options_of_TLS_without_TLS)
{
    static const char *const options[] = {"ca", "cert", "key_file", "verify", "sni"};
    static const struct {
        const char *scheme, *where, *meant;
    } plain[] = {{"redis", "h", "rediss://"},
                 {"valkey", "h", "valkeys://"},
                 {"redis+unix", "/run/s", "a unix socket"}};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++) {
            dlt_session_init(&s, plain[k].scheme, plain[k].where);
            dlt_session_option(&s, options[i], "full");
            refused(DLOCK_INVALID, plain[k].meant);
            cr_assert_eq(strncmp(s.err.message, options[i], strlen(options[i])), 0, "%s",
                         s.err.message);
        }
    }
}
