/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/config.c */
/* URIs: what they mean, and which are refused before a server is asked. */
#include "config.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct dlock_plugin no_plugin;
static struct dlt_session s;
static struct zk_config config;
static const char *hosts[ZK_SERVERS_MAX + 2];

static void set_up(void)
{
    dlt_session_target(&s, &no_plugin, "zk", "h1");
    memset(hosts, 0, sizeof hosts);
    hosts[0] = "h1";
    s.target.hosts = hosts;
    s.target.path = "";
}

TestSuite(config, .init = set_up);

static enum dlock_status take(void)
{
    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    return zk_config_init(&config, &s.target, &s.err);
}

static void want_ok(void)
{
    cr_assert_eq(take(), DLOCK_OK, "%s", s.err.message);
}

static void want_invalid(const char *text)
{
    cr_assert_eq(take(), DLOCK_INVALID, "want \"%s\"", text);
    cr_assert(strstr(s.err.message, text) != NULL, "\"%s\" has no \"%s\"", s.err.message, text);
    cr_assert(strstr(s.err.message, "secret") == NULL, "C17");
    cr_assert_str_eq(s.err.origin, "zookeeper");
}

Test(config, defaults)
{
    want_ok();
    cr_assert_eq(config.target, &s.target);
    cr_assert_eq(config.count, 1);
    cr_assert_str_eq(config.servers[0].host, "h1");
    cr_assert_eq(config.servers[0].port, 2181);
    cr_assert_str_eq(config.base, "/dlock");
    cr_assert_eq(config.base_len, 6);
    cr_assert_eq(config.recipe, ZK_CURATOR_RW);
    cr_assert(!config.raw && config.user == NULL && !config.creator_acl);
    cr_assert_eq(config.ttl_ms, 30000);
    cr_assert_eq(config.tick_ms, 0);
}

Test(config, several_servers)
{
    hosts[1] = "h2:4000";
    hosts[2] = "[::1]:5000";
    want_ok();
    cr_assert_eq(config.count, 3);
    cr_assert_eq(config.servers[1].port, 4000);
    cr_assert_str_eq(config.servers[2].host, "::1");
}

Test(config, OPN_3_servers_that_are_refused)
{
    static const char *const bad[] = {"h:0", "h:65536", "h:x", "[::1", ""};
    static const char *const many[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hosts[1] = bad[i];
        want_invalid("not one that can be looked up");
    }
    hosts[1] = "H1:2181";
    want_invalid("'H1:2181' is there twice");
    hosts[1] = "h1:2182";
    want_ok();
    memcpy(hosts, many, sizeof many);
    want_invalid("more than 9 hosts");
    hosts[9] = NULL;
    want_ok();
    cr_assert_eq(config.count, 9);
    hosts[0] = NULL;
    want_invalid("want a host, as in zk://");
}

Test(config, the_path_is_the_node_of_all_names)
{
    static const char *const paths[][2] = {{"", "/dlock"},
                                           {"/", ""},
                                           {"/a", "/a"},
                                           {"/a/", "/a"},
                                           {"/a/b", "/a/b"},
                                           {"/a b/~c!", "/a b/~c!"},
                                           {"/.a/..b/c./...", "/.a/..b/c./..."},
                                           {"/zookeepers", "/zookeepers"},
                                           {"/a/zookeeper", "/a/zookeeper"}};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        s.target.path = paths[i][0];
        want_ok();
        cr_assert_str_eq(config.base, paths[i][1], "%s", paths[i][0]);
        cr_assert_eq(config.base_len, strlen(paths[i][1]));
    }
}

Test(config, OPN_3_paths_that_are_refused)
{
    static const char *const bad[][2] = {{"/zookeeper", "belongs to the servers"},
                                         {"/zookeeper/", "belongs to the servers"},
                                         {"/zookeeper/quota", "belongs to the servers"},
                                         {"//", "empty element"},
                                         {"/a//b", "empty element"},
                                         {"/a//", "empty element"},
                                         {"//a", "empty element"},
                                         {"/.", "'.' or '..'"},
                                         {"/a/..", "'.' or '..'"},
                                         {"/a/./b", "'.' or '..'"},
                                         {"/../a", "'.' or '..'"},
                                         {"/a\nb", "printable ASCII"},
                                         {"/a\x7f", "printable ASCII"},
                                         {"/\xc3\xa9", "printable ASCII"}};
    char path[ZK_BASE_MAX + 2];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.target.path = bad[i][0];
        want_invalid(bad[i][1]);
    }
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[ZK_BASE_MAX + 1] = '\0';
    s.target.path = path;
    want_invalid("has 257 bytes");
    path[ZK_BASE_MAX] = '\0';
    want_ok();
    cr_assert_eq(config.base_len, ZK_BASE_MAX);
}

Test(config, users)
{
    s.target.user = "u";
    s.target.password = "secret";
    want_ok();
    cr_assert_str_eq(config.user, "u");
    cr_assert(config.creator_acl, "a user's nodes are the user's");
    dlt_session_option(&s, "acl", "open");
    want_ok();
    cr_assert(!config.creator_acl);
    dlt_session_option(&s, "acl", "creator");
    want_ok();
    cr_assert(config.creator_acl);
    s.target.user = "u:v";
    want_invalid("colon");
    s.target.user = "";
    want_invalid("name of the user");
    s.target.user = NULL;
    want_invalid("a password is for a user");
    s.target.password = NULL;
    want_invalid("acl=creator needs a user");
    dlt_session_option(&s, "acl", "open");
    want_ok();
    s.target.user = "u";
    want_invalid("no password");
}

Test(config, options)
{
    dlt_session_option(&s, "recipe", "curator");
    dlt_session_option(&s, "key", "raw");
    dlt_session_option(&s, "tick", "250");
    dlt_session_option(&s, "ttl", "5000");
    want_ok();
    cr_assert_eq(config.recipe, ZK_CURATOR);
    cr_assert(config.raw);
    cr_assert_eq(config.tick_ms, 250);
    cr_assert_eq(config.ttl_ms, 5000);
    dlt_session_option(&s, "recipe", "kazoo");
    dlt_session_option(&s, "key", "name");
    want_ok();
    cr_assert_eq(config.recipe, ZK_KAZOO);
    cr_assert(!config.raw);
    dlt_session_option(&s, "recipe", "curator-rw");
    want_ok();
    cr_assert_eq(config.recipe, ZK_CURATOR_RW);
}
