/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/plugin.c plugins/redlock/config.c */
/* Which lists of nodes are taken, which nodes have a vote, and what is said of the others? */
#include "redlock_kit.h"

#include <stdio.h>
#include <string.h>

static struct dlt_nodes nodes;

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, false);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_open, .init = set_up, .fini = tear_down, .timeout = 60);

static void refused(const char *uri, enum dlock_status status, const char *why)
{
    struct dlock_client *client = NULL;

    cr_expect_eq(dlock_client_open(uri, NULL, &client, &dlt_err), status, "%s: %s", uri,
                 dlt_err.message);
    cr_expect_not_null(strstr(dlt_err.message, why), "%s: %s", uri, dlt_err.message);
}

/* OPN-3: what core could not check. */
Test(redlock_open, lists_of_nodes_that_make_no_sense)
{
    refused("redlock:", DLOCK_INVALID, "want nodes");
    refused("redlock://h1", DLOCK_INVALID, "at least 3 nodes, as in redlock://h1,h2,h3");
    refused("redlock://h1,h2", DLOCK_INVALID, "at least 3 nodes");
    refused("redlock://h1,h2,h3,h4", DLOCK_INVALID, "3, 5, 7 or 9");
    refused("redlock://h1,h2,h1", DLOCK_INVALID, "h1:6379 is there twice");
    refused("redlock://h1,h2,H1:6379", DLOCK_INVALID, "H1:6379 is there twice");
    refused("redlock://1,2,3,4,5,6,7,8,9,10", DLOCK_INVALID, "");
    refused("redlock://h1,h2,h3/x", DLOCK_INVALID, "number of a database");
    refused("redlock://h1,h2?node=h3", DLOCK_INVALID, "node: want redis://");
    refused("redlock://h1,h2?node=redis%3A%2F%2Fu%3Asecret%2540%25zz%40h3", DLOCK_INVALID,
            "node: want redis://");
    cr_expect_null(strstr(dlt_err.message, "secret"), "C17");
    refused("redlock://h1,h2,h3?prefix=%7B", DLOCK_INVALID, "braces");
    refused("redlocks://h1,h2,h3?cert=/x", DLOCK_INVALID, "cert= and key_file= go together");
}

/* C17: who asks for certificates to be looked at is not served in the clear. */
Test(redlock_open, options_of_TLS_without_TLS)
{
    refused("redlock://h1,h2,h3?ca=/x", DLOCK_INVALID, "ca= is for TLS: redlocks://");
    refused("redlock://h1,h2,h3?cert=/x&key_file=/y", DLOCK_INVALID, "cert= is for TLS");
    refused("redlock://h1,h2,h3?key_file=/y", DLOCK_INVALID, "key_file= is for TLS");
    refused("redlock://h1,h2,h3?verify=full", DLOCK_INVALID, "verify= is for TLS");
    refused("redlock://h1,h2?verify=none&node=redis%3A%2F%2Fh3", DLOCK_INVALID, "verify= is");
    refused("redlock:?any_count=on&node=rediss%3A%2F%2F127.0.0.1%3A1&verify=none", DLOCK_NO_QUORUM,
            "127.0.0.1:1: 0 of 1 nodes");
}

Test(redlock_open, a_file_of_certificates_that_is_not_there)
{
    refused("redlocks://h1,h2,h3?ca=/no/file", DLOCK_INVALID,
            "ca=/no/file: No such file or directory");
}

/* C1: one server under two names would vote twice. */
Test(redlock_open, OPN_1_the_same_server_twice)
{
    char uri[200];

    (void)snprintf(uri, sizeof uri, "redlock://%s,%s,localhost:%u?restart_guard=0",
                   nodes.servers[0].address, nodes.servers[1].address, nodes.servers[0].port);
    refused(uri, DLOCK_CONFIG, "are the same server");
}

/* ... and so it would if it became one later. */
struct twins {
    struct dlt_redis gone;  /* its address leads nowhere when the client is opened */
    struct dlt_proxy proxy; /* and then to the first server */
    struct dlock_client *client;
    struct dlock_handle *held, *lock; /* "x", "y" */
};

static void twins_make(struct twins *twins)
{
    char uri[300];

    cr_assert(dlt_redis_start(&twins->gone, NULL), "%s", twins->gone.why);
    dlt_redis_kill(&twins->gone);
    (void)snprintf(uri, sizeof uri, "redlock://%s,%s,%s?restart_guard=0&ttl=20s",
                   nodes.servers[0].address, nodes.servers[1].address, twins->gone.address);
    OK(dlock_client_open(uri, NULL, &twins->client, &dlt_err));
    OK(dlock_new(twins->client, "x", 1, NULL, &twins->held, &dlt_err));
    OK(dlock_new(twins->client, "y", 1, NULL, &twins->lock, &dlt_err));
    OK(dlock_trylock(twins->held, &dlt_err));
    cr_assert(dlt_proxy_start(&twins->proxy, nodes.servers[0].address, "resp",
                              &(struct dlt_proxy_options){.address = twins->gone.address}),
              "%s", twins->proxy.answer);
    for (int64_t end_ms = dlt_now_ms() + 10000;
         dlt_proxy_count(&twins->proxy, 0, "s2c.seen") < 1;) {
        cr_assert_lt(dlt_now_ms(), end_ms, "the third address is used");
        OK(dlock_timedlock(twins->lock, 5000, &dlt_err));
        OK(dlock_unlock(twins->lock, &dlt_err));
        dlt_sleep_ms(20);
    }
    dlt_sleep_ms(100); /* what it said has arrived */
}

static void twins_end(struct twins *twins)
{
    dlock_free(twins->lock);
    dlock_free(twins->held);
    dlock_client_close(twins->client);
    (void)dlt_proxy_stop(&twins->proxy);
    dlt_redis_stop(&twins->gone);
}

/* The line of the third says why it has no vote. */
Test(redlock_open, C1_a_server_reached_by_two_addresses_grants_once)
{
    struct twins twins = {0};

    twins_make(&twins);
    dlt_redis_kill(&nodes.servers[1]);
    cr_expect_neq(dlock_trylock(twins.lock, &dlt_err), DLOCK_OK, "one server is no majority of 3");
    cr_expect_eq(dlt_lines_with("the same server as"), 4u, "%s", dlt_err.nodes[2].message);
    twins_end(&twins);
}

Test(redlock_open, REN_2_a_server_reached_by_two_addresses_renews_once)
{
    struct twins twins = {0};

    twins_make(&twins);
    (void)dlt_redis_ask(&nodes.servers[1], "DEL rl:{x}");
    cr_expect_neq(dlock_renew(twins.held, 0, &dlt_err), DLOCK_OK, "one server is no majority of 3");
    cr_expect_eq(dlt_lines_with("the same server as"), 4u, "%s", dlt_err.nodes[2].message);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 1u);
    twins_end(&twins);
}

/* OPN-6, and a line for each node. */
Test(redlock_open, OPN_6_too_few_nodes)
{
    char uri[200];

    (void)snprintf(uri, sizeof uri, "redlock://%s,127.0.0.1:1,127.0.0.1:2?restart_guard=0",
                   nodes.servers[0].address);
    refused(uri, DLOCK_NO_QUORUM, "1 of 3 nodes");
    cr_assert_eq(dlt_err.node_count, 3u);
    cr_expect_str_eq(dlt_err.nodes[0].node, nodes.servers[0].address);
    cr_expect_eq(dlt_err.nodes[0].status, DLOCK_OK);
    cr_expect_str_eq(dlt_err.nodes[1].node, "127.0.0.1:1");
    cr_expect_eq(dlt_lines_with("refused"), 6u, "%s", dlt_err.nodes[1].message);
}

/* OPN-1: a node that cannot keep a lock has no vote; a majority of the others will do. */
Test(redlock_open, OPN_1_a_node_that_evicts_has_no_vote)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    char uri[400];

    (void)dlt_redis_ask(&nodes.servers[2], "CONFIG SET maxmemory-policy allkeys-lru");
    (void)dlt_redis_ask(&nodes.servers[2], "CONFIG SET maxmemory 100mb");
    client = dlt_nodes_client(&nodes, NULL, false);
    lock = dlt_lock(client, "x", false);
    OK(dlock_trylock(lock, &dlt_err));
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 2u); /* both, or it would not be OK */
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
    for (unsigned i = 0; i < 2; i++) {
        (void)dlt_redis_ask(&nodes.servers[i], "CONFIG SET maxmemory-policy allkeys-lru");
        (void)dlt_redis_ask(&nodes.servers[i], "CONFIG SET maxmemory 100mb");
    }
    dlt_nodes_uri(&nodes, NULL, false, uri, sizeof uri);
    refused(uri, DLOCK_CONFIG, "0 of 3 nodes");
    cr_expect_eq(dlt_lines_with("noeviction"), 7u, "%s", dlt_err.nodes[0].message);
}

/* A user, a password and a database for each node; OPN-3, C17. */
Test(redlock_open, nodes_with_credentials_of_their_own)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    char uri[600];

    (void)dlt_redis_ask(&nodes.servers[1], "ACL SETUSER ann on >p@ss ~* &* +@all");
    (void)dlt_redis_ask(&nodes.servers[2], "ACL SETUSER bob on >word ~* &* +@all");
    (void)snprintf(
        uri, sizeof uri,
        "redlock://%s?restart_guard=0&node=redis%%3A%%2F%%2Fann%%3Ap%%2540ss%%40127.0.0.1%%3A%u"
        "&node=redis%%3A%%2F%%2Fbob%%3Aword%%40127.0.0.1%%3A%u%%2F2",
        nodes.servers[0].address, nodes.servers[1].port, nodes.servers[2].port);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    cr_expect_null(strstr(dlock_client_uri(client), "word"), "%s", dlock_client_uri(client));
    lock = dlt_lock(client, "x", false);
    OK(dlock_trylock(lock, &dlt_err));
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 2, 1000), "the third is in database 2");
    cr_expect_not_null(strstr(dlt_redis_ask(&nodes.servers[2], "INFO keyspace"), "db2"));
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

Test(redlock_open, wrong_passwords_are_AUTH_and_not_shown)
{
    char uri[400];

    (void)snprintf(uri, sizeof uri, "redlock://eve:hunter2@%s,%s,%s", nodes.servers[0].address,
                   nodes.servers[1].address, nodes.servers[2].address);
    refused(uri, DLOCK_AUTH, "0 of 3 nodes");
    for (unsigned i = 0; i < dlt_err.node_count; i++)
        cr_expect_null(strstr(dlt_err.nodes[i].message, "hunter2"));
}

/* CRASH_SAFE: a node that may have forgotten has no vote until every lock of before has run out,
 * and says for how long; locks that could outlive that are refused. */
Test(redlock_open, CRASH_SAFE_nodes_that_were_just_started_have_no_vote)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, "restart_guard=3s&ttl=2s", false);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 3001};
    struct dlock_handle *lock = dlt_lock(client, "x", true), *long_lived = NULL;

    cr_expect(dlock_client_caps(client) & DLOCK_CAP_CRASH_SAFE);
    OK(dlock_new(client, "z", 1, &options, &long_lived, &dlt_err));
    STATUS(dlock_trylock(long_lived, &dlt_err), DLOCK_CONFIG);
    STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    cr_expect_eq(dlt_lines_with("restart_guard is 3 s; no vote for "), 7u, "%s",
                 dlt_err.nodes[0].message);
    cr_expect_eq(dlt_nodes_holding(&nodes, "x"), 0u);
    dlt_sleep_ms(5500);
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert(dlt_nodes_all_hold(&nodes, "x", lock));
    /* One forgets: it gives nothing to others, but takes back what a majority holds. */
    dlt_redis_kill(&nodes.servers[0]);
    cr_assert(dlt_redis_again(&nodes.servers[0]));
    cr_expect(dlt_nodes_hold_soon(&nodes, "x", 3, 5000));
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_free(long_lived);
    dlock_client_close(client);

    client = dlt_nodes_client(&nodes, "restart_guard=0", false);
    cr_expect_eq(dlock_client_caps(client) & DLOCK_CAP_CRASH_SAFE, 0u);
    dlock_client_close(client);
}

/* C6: never a made-up number. */
Test(redlock_open, C6_without_fence_in_the_URI_there_are_no_numbers)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .fence = DLOCK_ON};
    struct dlock_handle *lock = NULL;

    cr_expect_eq(dlock_client_caps(client) & DLOCK_CAP_FENCE, 0u);
    STATUS(dlock_new(client, "x", 1, &options, &lock, &dlt_err), DLOCK_UNSUPPORTED);
    lock = dlt_lock(client, "x", false);
    OK(dlock_trylock(lock, &dlt_err));
    cr_expect_eq(dlock_fence(lock), 0u);
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

/* C16: nothing is promised that a full node may break. */
Test(redlock_open, C16_nodes_that_may_evict_are_not_CRASH_SAFE)
{
    struct dlock_client *client =
        dlt_nodes_client(&nodes, "restart_guard=60s&unsafe_eviction=on", false);

    cr_expect_eq(dlock_client_caps(client) & DLOCK_CAP_CRASH_SAFE, 0u);
    dlock_client_close(client);
}

struct seen_owner {
    char text[300];
    unsigned count;
};

static bool keep_owner(void *arg, const struct dlock_holder *info)
{
    struct seen_owner *seen = arg;

    (void)snprintf(seen->text, sizeof seen->text, "%s", info->owner);
    seen->count++;
    return 0;
}

/* Another program's lock is broken by what inspect shows of it. */
Test(redlock_open, break_takes_the_owner_that_inspect_shows)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct seen_owner seen = {.count = 0};
    char owner[201];

    memset(owner, 'q', 200);
    owner[200] = '\0';
    for (unsigned i = 0; i < 3; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "SET rl:{x} %s PX 60000", owner);
    OK(dlock_client_inspect(client, "x", 1, keep_owner, &seen, &dlt_err));
    cr_assert_eq(seen.count, 1u);
    cr_expect_str_eq(seen.text, owner);
    owner[150] = '\0';
    STATUS(dlock_client_break(client, "x", 1, owner, &dlt_err), DLOCK_NOT_HELD);
    OK(dlock_client_break(client, "x", 1, seen.text, &dlt_err));
    for (unsigned i = 0; i < 3; i++)
        cr_expect_str_eq(dlt_redis_ask(&nodes.servers[i], "EXISTS rl:{x}"), "0", "node %u", i);
    dlock_client_close(client);
}

struct listed {
    char text[300];
};

static bool keep_line(void *arg, const struct dlock_holder *info)
{
    struct listed *listed = arg;
    size_t used = strlen(listed->text);

    (void)snprintf(listed->text + used, sizeof listed->text - used, "%.*s=%.3s %.7s;",
                   (int)info->name_len, (const char *)info->name, info->owner, info->label);
    return 0;
}

/* C12: what is no lock is neither free nor held nor broken, and is in nobody's way. */
Test(redlock_open, a_key_that_is_something_else)
{
    struct dlock_client *client = dlt_nodes_client(&nodes, NULL, false);
    struct dlock_handle *lock = dlt_lock(client, "job", false);
    struct listed listed = {.text = ""};

    for (unsigned i = 0; i < 3; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "LPUSH rl:{x} 1");
    (void)dlt_redis_ask(&nodes.servers[0], "LPUSH rl:{one} 1");
    OK(dlock_trylock(lock, &dlt_err));
    OK(dlock_client_list(client, "", 0, keep_line, &listed, &dlt_err));
    cr_expect_not_null(strstr(listed.text, "x=- no lock;"), "%s", listed.text);
    cr_expect_not_null(strstr(listed.text, "job="), "%s", listed.text);
    cr_expect_null(strstr(listed.text, "one="), "two nodes are enough for it: %s", listed.text);
    STATUS(dlock_client_inspect(client, "x", 1, keep_line, &listed, &dlt_err), DLOCK_CONFIG);
    cr_expect_not_null(strstr(dlt_err.message, "rl:{x}"), "%s", dlt_err.message);
    STATUS(dlock_client_break(client, "x", 1, NULL, &dlt_err), DLOCK_CONFIG);
    cr_expect_not_null(strstr(dlt_err.message, "rl:{x}"), "%s", dlt_err.message);
    OK(dlock_client_inspect(client, "one", 3, keep_line, &listed, &dlt_err));
    cr_expect_eq(dlt_lines_with("something else"), 1u, "%s", dlt_err.nodes[0].message);
    STATUS(dlock_client_break(client, "one", 3, NULL, &dlt_err), DLOCK_NOT_HELD);
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}
